// Products by warpgroups of four waves, for chips that have them: operands in shared memory in swizzled
// panels, sums in registers, and barriers in shared memory between those who load and those who multiply.
//
// A panel is rows of 128 bytes (64 elements of 16 bits); the 16-byte piece c of row r lies at place c ^ (r %
// 8). Panels begin at multiples of 1024 bytes.
#pragma once

#include "gpu.h"
#include "tensor_map_arguments.h"

namespace warpgroup {

DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }
// In a register: the compiler computes that of a variable again wherever it is used.
DEVICE u32 kept_address(const void* pointer) {
  u32 address = shared_address(pointer);
  asm("" : "+r"(address));
  return address;
}

// ---- barriers in shared memory, or their addresses ----

DEVICE void barrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
DEVICE void barrier_arrive(u64* barrier) { barrier_arrive(shared_address(barrier)); }
DEVICE void barrier_arrive_if(bool arrives, u32 barrier) {  // without a branch
  asm volatile(
      "{\n.reg .pred arrives;\nsetp.ne.b32 arrives, %0, 0;\n"
      "@arrives mbarrier.arrive.shared::cta.b64 _, [%1];\n}" ::"r"((u32)arrives),
      "r"(barrier)
      : "memory");
}
// Until the phase of this parity is over.
DEVICE void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\nbra again;\nover:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
DEVICE void barrier_wait(u64* barrier, u32 parity) { barrier_wait(shared_address(barrier), parity); }
// One arrival, and so many bytes of the copy engine.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
DEVICE void barrier_expect(u64* barrier, u32 bytes) { barrier_expect(shared_address(barrier), bytes); }
// An arrival when all copies that this thread has begun with copy_4() are done.
DEVICE void barrier_arrive_copied(u64* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
// ---- blocks of a cluster ----

DEVICE void cluster_barrier() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Where another block of the cluster has what this one has at `pointer`.
DEVICE u32 address_in_block(const void* pointer, u32 block) {
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(pointer)), "r"(block));
  return address;
}
DEVICE void store_in_block(u32 address, f32 value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
DEVICE void barrier_arrive_in_block(u32 address) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}
// For arrivals from there: what those who arrived wrote before can be read.
DEVICE void barrier_wait_for_blocks(u64* barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\nbra again;\nover:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// What this thread wrote to shared memory, barriers included, is seen by the matrix unit and the copy engine.
DEVICE void publish_to_unit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE u32 load_4(u32 shared) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared) : "memory");
  return value;
}

// ---- copies from memory that go on by themselves ----

// Four bytes, or zeros.
DEVICE void copy_4(u32 to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0)
               : "memory");
}

// What describes an operand to the copy engine, to where it is read from.
DEVICE void bring_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// By the copy engine: a box of bytes of two axes, one row behind the other.
DEVICE void copy_box(u32 to, const TensorMap* map, u32 barrier, i32 x, i32 y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
// A box of three or four axes, as panels. What is outside of the operand becomes zeros.
DEVICE void copy_box(u32 to, const TensorMap* map, u32 barrier, i32 x, i32 y, i32 z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
      "%5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
DEVICE void copy_box(u32 to, const TensorMap* map, u64* barrier, i32 x, i32 y, i32 z) {
  copy_box(to, map, shared_address(barrier), x, y, z);
}
DEVICE void copy_box(u32 to, const TensorMap* map, u64* barrier, i32 x, i32 y, i32 z, i32 w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
      "%5, %6}], [%2];" ::"r"(to),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// Panels to a box of three axes; what is outside of the result is not written. Copies belong to the thread
// that begins them: it ends a set of them, and waits until all of its sets have been read.
DEVICE void store_box(const TensorMap* map, u32 from, i32 x, i32 y, i32 z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z)
      : "memory");
}
DEVICE void end_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
DEVICE void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// ---- registers ----

template <int COUNT>
DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// ---- operands ----

// Rows along K: `panel` holds 64 elements of K for each row; groups of 8 rows follow each other.
DEVICE u64 rows_operand(u32 panel) {
  return (u64)(panel >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
// Rows across K: each row of a panel is one k, with 64 columns; panels of further columns are `stride` bytes
// apart.
DEVICE u64 columns_operand(u32 panel, u32 stride) {
  return (u64)(panel >> 4 & 0x3fff) | (u64)(stride >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
constexpr u64 rows_step = 32 >> 4;       // 16 of K further, inside a panel
constexpr u64 columns_step = 2048 >> 4;  // 16 of K further

// ---- products: 64 rows by COLUMNS, 16 of K ----

DEVICE void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT>
DEVICE void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// The compiler takes these as written here, so that it moves no use of them before a wait.
template <int N>
DEVICE void settle(f32 (&sums)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int N>
DEVICE void settle(u32 (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

#define HEARTH_F8(c, d, i) \
  c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]), c(d[i + 7])
#define HEARTH_D8 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define HEARTH_D16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define HEARTH_D32                                                                                        \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define HEARTH_D64                                                                                        \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "  \
  "%42, "                                                                                                 \
  "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define HEARTH_D128                                                                                        \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "  \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "   \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "   \
  "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "   \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, " \
  "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, " \
  "%119, %120, %121, %122, %123, %124, %125, %126, %127}"
#define HEARTH_O8(c, d) HEARTH_F8(c, d, 0)
#define HEARTH_O16(c, d) HEARTH_F8(c, d, 0), HEARTH_F8(c, d, 8)
#define HEARTH_O32(c, d) HEARTH_F8(c, d, 0), HEARTH_F8(c, d, 8), HEARTH_F8(c, d, 16), HEARTH_F8(c, d, 24)
#define HEARTH_O64(c, d) \
  HEARTH_O32(c, d), HEARTH_F8(c, d, 32), HEARTH_F8(c, d, 40), HEARTH_F8(c, d, 48), HEARTH_F8(c, d, 56)
#define HEARTH_O128(c, d)                                                                               \
  HEARTH_O64(c, d), HEARTH_F8(c, d, 64), HEARTH_F8(c, d, 72), HEARTH_F8(c, d, 80), HEARTH_F8(c, d, 88), \
      HEARTH_F8(c, d, 96), HEARTH_F8(c, d, 104), HEARTH_F8(c, d, 112), HEARTH_F8(c, d, 120)

// sums = a * b and sums += a * b. Both from shared memory, rows along K.
#define HEARTH_WGMMA_SHARED_AS(name, c, keep, TYPE, ptx, N, D, O, p0, p1)                            \
  DEVICE void name(TYPE, f32(&sums)[N / 2], u64 a, u64 b) {                                          \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " keep                                      \
                 ", 0;\n"                                                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ptx "." ptx " " D ", " p0 ", " p1 \
                 ", keep, 1, 1, 0, 0;\n}"                                                            \
                 : O(c, sums)                                                                        \
                 : "l"(a), "l"(b));                                                                  \
  }
#define HEARTH_WGMMA_SHARED(TYPE, ptx, N, D, O, p0, p1)                   \
  HEARTH_WGMMA_SHARED_AS(multiply, "=f", "0", TYPE, ptx, N, D, O, p0, p1) \
  HEARTH_WGMMA_SHARED_AS(multiply_add, "+f", "1", TYPE, ptx, N, D, O, p0, p1)
HEARTH_WGMMA_SHARED(bf16, "bf16", 64, HEARTH_D32, HEARTH_O32, "%32", "%33")
HEARTH_WGMMA_SHARED(bf16, "bf16", 128, HEARTH_D64, HEARTH_O64, "%64", "%65")
HEARTH_WGMMA_SHARED(f16, "f16", 64, HEARTH_D32, HEARTH_O32, "%32", "%33")
HEARTH_WGMMA_SHARED(f16, "f16", 128, HEARTH_D64, HEARTH_O64, "%64", "%65")
#undef HEARTH_WGMMA_SHARED
#undef HEARTH_WGMMA_SHARED_AS

// The same with a from registers (as mma.sync has it). multiply_columns: b's rows are across K.
#define HEARTH_WGMMA_REGISTERS_AS(name, c, keep, across, TYPE, ptx, N, D, O, p0, p1, p2, p3, p4)      \
  DEVICE void name(TYPE, f32(&sums)[N / 2], const u32* a, u64 b) {                                    \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " keep                                       \
                 ", 0;\n"                                                                             \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." ptx "." ptx " " D ", {" p0 ", " p1 \
                 ", " p2 ", " p3 "}, " p4 ", keep, 1, 1, " across ";\n}"                              \
                 : O(c, sums)                                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                               \
  }
#define HEARTH_WGMMA_REGISTERS(TYPE, ptx, N, D, O, p0, p1, p2, p3, p4)                            \
  HEARTH_WGMMA_REGISTERS_AS(multiply, "=f", "0", "0", TYPE, ptx, N, D, O, p0, p1, p2, p3, p4)     \
  HEARTH_WGMMA_REGISTERS_AS(multiply_add, "+f", "1", "0", TYPE, ptx, N, D, O, p0, p1, p2, p3, p4) \
  HEARTH_WGMMA_REGISTERS_AS(multiply_columns, "+f", "1", "1", TYPE, ptx, N, D, O, p0, p1, p2, p3, p4)
HEARTH_WGMMA_REGISTERS(bf16, "bf16", 64, HEARTH_D32, HEARTH_O32, "%32", "%33", "%34", "%35", "%36")
HEARTH_WGMMA_REGISTERS(bf16, "bf16", 128, HEARTH_D64, HEARTH_O64, "%64", "%65", "%66", "%67", "%68")
HEARTH_WGMMA_REGISTERS(f16, "f16", 16, HEARTH_D8, HEARTH_O8, "%8", "%9", "%10", "%11", "%12")
HEARTH_WGMMA_REGISTERS(f16, "f16", 32, HEARTH_D16, HEARTH_O16, "%16", "%17", "%18", "%19", "%20")
HEARTH_WGMMA_REGISTERS(f16, "f16", 64, HEARTH_D32, HEARTH_O32, "%32", "%33", "%34", "%35", "%36")
HEARTH_WGMMA_REGISTERS(f16, "f16", 128, HEARTH_D64, HEARTH_O64, "%64", "%65", "%66", "%67", "%68")
HEARTH_WGMMA_REGISTERS(f16, "f16", 256, HEARTH_D128, HEARTH_O128, "%128", "%129", "%130", "%131", "%132")
#undef HEARTH_WGMMA_REGISTERS
#undef HEARTH_WGMMA_REGISTERS_AS

}  // namespace warpgroup
