// Scalar loads, stores and atomics, and what controls the scalar caches.
#include <fmt/format.h>

#include "exec/semantics/atomics.h"

namespace hipemu::semantics {
namespace {

// s_load: sdst, sbase, offset (a constant, a register, or a register and offset:N). A buffer has four
// registers as sbase.
void prepare_scalar(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 3, 3);
  for (int i = 0; i < 2; ++i)
    if (instruction.operands[static_cast<std::size_t>(i)].kind != TextOperand::Kind::scalar)
      throw std::invalid_argument("scalar registers expected");
  op.destination[0].from = From::scalar;
  op.destination[0].index = instruction.operands[0].index;
  op.source[base_source].from = From::scalar;
  op.source[base_source].index = instruction.operands[1].index;
  op.source[scalar_offset_source] = optional_scalar_source(instruction, 2);
  op.offset = instruction.number("offset", 0);
  if (op.source[scalar_offset_source].from == From::constant) {
    op.offset += static_cast<int64_t>(op.source[scalar_offset_source].bits);
    op.source[scalar_offset_source] = {};
  }
  if (instruction.has("glc")) op.flags |= memory_flag::returns;
}

struct ScalarPlace {
  uint64_t address;
  uint64_t available;  // bytes in range from there
};

ScalarPlace place_of(const Wave& wave, const Operation& op, bool buffer, uint64_t alignment) {
  uint64_t offset = static_cast<uint64_t>(op.offset);
  const Source& scalar_part = op.source[scalar_offset_source];
  if (scalar_part.from == From::scalar) offset += wave.get_scalar(scalar_part.index);
  const uint32_t index = op.source[base_source].index;
  if (!buffer) return {(wave.get_scalar64(index) + offset) & ~(alignment - 1), ~0ull};
  const uint64_t words = wave.get_scalar64(index);
  const uint64_t stride = words >> 48 & 0x3fff;
  const uint64_t records = wave.get_scalar(index + 2);
  const uint64_t size = stride == 0 ? records : stride * records;
  offset &= ~(alignment - 1);
  return {((words & 0xffffffffffffull) & ~3ull) + offset, offset < size ? size - offset : 0};
}

// Makes sure that the bytes can be touched, as global memory's other accesses do.
void require(Wave& wave, const Operation& op, uint64_t address, uint32_t bytes, AccessKind kind) {
  Allocation* allocation = AllocationCache::of_this_thread().find(address, bytes);
  if (allocation == nullptr) fail_global(address, bytes, kind, -1);
  if (Statistics* counters = statistics()) {
    const auto index = static_cast<std::size_t>(Space::scalar);
    (kind == AccessKind::load ? counters->bytes_read : counters->bytes_written)[index] += bytes;
  }
  if (memory_checks(wave) != nullptr) check_scalar_access(wave, op, *allocation, address, bytes, kind);
}

template <bool Buffer, int N>
void load_scalars(Wave& wave, const Operation& op) {
  const ScalarPlace place = place_of(wave, op, Buffer, 4);
  uint32_t values[N] = {};
  const uint64_t bytes = place.available < 4 * N ? place.available & ~3ull : 4 * N;
  if (bytes > 0) {
    require(wave, op, place.address, static_cast<uint32_t>(bytes), AccessKind::load);
    std::memcpy(values, reinterpret_cast<const std::byte*>(place.address), bytes);
  }
  if (op.destination[0].index == scalar::null) return;
  if constexpr (N == 1)
    wave.set_scalar(op.destination[0].index, values[0]);
  else
    std::memcpy(&wave.scalars[op.destination[0].index], values, sizeof values);
}

template <bool Buffer, class T>
void load_small_scalar(Wave& wave, const Operation& op) {
  const ScalarPlace place = place_of(wave, op, Buffer, sizeof(T));
  T value = 0;
  if (place.available >= sizeof(T)) {
    require(wave, op, place.address, sizeof(T), AccessKind::load);
    value = load_bytes<T>(reinterpret_cast<const std::byte*>(place.address));
  }
  using Wide = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
  wave.set_scalar(op.destination[0].index, static_cast<uint32_t>(static_cast<Wide>(value)));
}

template <bool Buffer, int N>
void store_scalars(Wave& wave, const Operation& op) {
  const ScalarPlace place = place_of(wave, op, Buffer, 4);
  const uint64_t bytes = place.available < 4 * N ? place.available & ~3ull : 4 * N;
  if (bytes == 0) return;
  require(wave, op, place.address, static_cast<uint32_t>(bytes), AccessKind::store);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(reinterpret_cast<std::byte*>(place.address), &wave.scalars[op.destination[0].index], bytes);
}

template <bool Buffer, class T, class Operator>
void scalar_atomic(Wave& wave, const Operation& op) {
  const ScalarPlace place = place_of(wave, op, Buffer, sizeof(T));
  if (place.available < sizeof(T)) return;
  require(wave, op, place.address, sizeof(T), AccessKind::atomic);
  const uint32_t index = op.destination[0].index;
  T data, second = 0;
  std::memcpy(&data, &wave.scalars[index], sizeof data);
  if constexpr (std::is_same_v<Operator, AtomicCompareSwap>)
    std::memcpy(&second, &wave.scalars[index + sizeof(T) / 4], sizeof second);
  const T old = update<T, Operator>(reinterpret_cast<std::byte*>(place.address), data, second);
  if ((op.flags & memory_flag::returns) != 0) std::memcpy(&wave.scalars[index], &old, sizeof old);
}

template <bool Buffer>
void add_scalar_accesses(Rows& rows, std::string_view prefix) {
  const auto add = [&](Execute run, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      rows.push_back(custom(lasting_name(prefix, name), Unit::scalar_memory, run, run, prepare_scalar));
  };
  add(load_scalars<Buffer, 1>, {"load_dword", "load_b32"});
  add(load_scalars<Buffer, 2>, {"load_dwordx2", "load_b64"});
  add(load_scalars<Buffer, 3>, {"load_b96"});
  add(load_scalars<Buffer, 4>, {"load_dwordx4", "load_b128"});
  add(load_scalars<Buffer, 8>, {"load_dwordx8", "load_b256"});
  add(load_scalars<Buffer, 16>, {"load_dwordx16", "load_b512"});
  add(load_small_scalar<Buffer, uint8_t>, {"load_u8"});
  add(load_small_scalar<Buffer, int8_t>, {"load_i8"});
  add(load_small_scalar<Buffer, uint16_t>, {"load_u16"});
  add(load_small_scalar<Buffer, int16_t>, {"load_i16"});
  add(store_scalars<Buffer, 1>, {"store_dword"});
  add(store_scalars<Buffer, 2>, {"store_dwordx2"});
  add(store_scalars<Buffer, 4>, {"store_dwordx4"});
  add(scalar_atomic<Buffer, uint32_t, AtomicSwap>, {"atomic_swap"});
  add(scalar_atomic<Buffer, uint64_t, AtomicSwap>, {"atomic_swap_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicCompareSwap>, {"atomic_cmpswap"});
  add(scalar_atomic<Buffer, uint64_t, AtomicCompareSwap>, {"atomic_cmpswap_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicAdd>, {"atomic_add"});
  add(scalar_atomic<Buffer, uint64_t, AtomicAdd>, {"atomic_add_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicSub>, {"atomic_sub"});
  add(scalar_atomic<Buffer, uint64_t, AtomicSub>, {"atomic_sub_x2"});
  add(scalar_atomic<Buffer, int32_t, AtomicMin>, {"atomic_smin"});
  add(scalar_atomic<Buffer, int64_t, AtomicMin>, {"atomic_smin_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicMin>, {"atomic_umin"});
  add(scalar_atomic<Buffer, uint64_t, AtomicMin>, {"atomic_umin_x2"});
  add(scalar_atomic<Buffer, int32_t, AtomicMax>, {"atomic_smax"});
  add(scalar_atomic<Buffer, int64_t, AtomicMax>, {"atomic_smax_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicMax>, {"atomic_umax"});
  add(scalar_atomic<Buffer, uint64_t, AtomicMax>, {"atomic_umax_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicAnd>, {"atomic_and"});
  add(scalar_atomic<Buffer, uint64_t, AtomicAnd>, {"atomic_and_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicOr>, {"atomic_or"});
  add(scalar_atomic<Buffer, uint64_t, AtomicOr>, {"atomic_or_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicXor>, {"atomic_xor"});
  add(scalar_atomic<Buffer, uint64_t, AtomicXor>, {"atomic_xor_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicIncrement>, {"atomic_inc"});
  add(scalar_atomic<Buffer, uint64_t, AtomicIncrement>, {"atomic_inc_x2"});
  add(scalar_atomic<Buffer, uint32_t, AtomicDecrement>, {"atomic_dec"});
  add(scalar_atomic<Buffer, uint64_t, AtomicDecrement>, {"atomic_dec_x2"});
}

void ignore_operands(const Instruction&, const Chip&, Operation&) {}

// There are no caches here, but another thread of the host may have written what is read next.
void order_memory(Wave&, const Operation&) { std::atomic_thread_fence(std::memory_order_acq_rel); }
void do_nothing(Wave&, const Operation&) {}

}  // namespace

void add_scalar_memory(Rows& rows) {
  add_scalar_accesses<false>(rows, "s_");
  add_scalar_accesses<true>(rows, "s_buffer_");
}

void add_cache_control(Rows& rows) {
  for (const std::string_view name :
       {"buffer_gl0_inv", "buffer_gl1_inv", "buffer_inv", "buffer_invl2", "buffer_wbl2", "buffer_wbinvl1",
        "buffer_wbinvl1_sc", "buffer_wbinvl1_vol", "global_inv", "global_wb", "global_wbinv"})
    rows.push_back(custom(name, Unit::wait, order_memory, order_memory, ignore_operands));
  for (const std::string_view name :
       {"s_dcache_inv", "s_dcache_inv_vol", "s_dcache_wb", "s_dcache_wb_vol", "s_gl1_inv"})
    rows.push_back(custom(name, Unit::wait, order_memory, order_memory, ignore_operands));
  for (const std::string_view name :
       {"s_icache_inv", "s_dcache_discard", "s_dcache_discard_x2", "s_atc_probe", "s_atc_probe_buffer",
        "s_prefetch_data", "s_prefetch_data_pc_rel", "s_prefetch_inst", "s_prefetch_inst_pc_rel",
        "s_buffer_prefetch_data", "flat_prefetch_b8", "global_prefetch_b8", "ds_nop"})
    rows.push_back(custom(name, Unit::other, do_nothing, do_nothing, ignore_operands));
}

}  // namespace hipemu::semantics
