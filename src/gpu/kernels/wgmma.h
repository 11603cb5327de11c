// Products on the matrix unit of sm_90, which four waves (128 threads) drive together: it reads tiles from
// shared memory by itself, and a copy engine brings them there.
//
// A block is three groups of 128 threads. One thread of the first keeps the copy engine busy; the other two
// groups multiply: together, each 64 rows of a tile of 128, or in turns, each every other tile, so that one
// multiplies while the other stores its results. A ring of stages lies between them: `full` barriers say that
// a stage has arrived, `empty` ones that it has been read, `turns` that all stages of the tile before have
// been asked for (a barrier tells only two neighbouring rounds of the ring apart). Blocks stay for several
// tiles, so that the copies for the next one go on while results are stored.
//
// Tiles lie as the copy engine leaves them with its 128-byte swizzle: an operand along K as rows of 64
// elements, one along rows as slabs of 64 rows, a line of them for each k.
#pragma once

#include "gemm.h"
#include "warpgroup.h"

namespace wgmma {

using warpgroup::barrier_arrive;
using warpgroup::barrier_expect;
using warpgroup::barrier_init;
using warpgroup::barrier_wait;
using warpgroup::give_registers;
using warpgroup::take_registers;

constexpr int depth = 64;       // of a stage
constexpr int slab = 64 * 128;  // bytes of 64 rows and a stage of K
constexpr int threads = 3 * 128;

// ROWS rows from `row` and a stage of K from `k`.
template <int ROWS, bool ALONG_K>
DEVICE void copy_tile(char* to, const TensorMap* map, i32 row, i32 k, i32 product, u64* barrier) {
  const u32 at = warpgroup::shared_address(to);
  if constexpr (ALONG_K) {
    warpgroup::copy_box(at, map, barrier, k, row, product);
  } else {
#pragma unroll
    for (int i = 0; i < ROWS / 64; ++i)
      warpgroup::copy_box(at + i * slab, map, barrier, row + i * 64, k, product);
  }
}

// ---- the unit ----

// Where a tile lies. Fields in units of 16 bytes: address, distance of slabs, distance of groups of eight
// rows (or of k, for an operand along rows); the top bits choose the swizzle.
DEVICE u64 descriptor(const char* tile) {
  return (u64)((warpgroup::shared_address(tile) & 0x3ffff) >> 4) | (u64)(slab >> 4) << 16 |
         (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
// From one step of 16 along K to the next.
template <bool ALONG_K>
constexpr u64 descriptor_step = (ALONG_K ? 16 * 2 : 16 * 128) >> 4;

DEVICE void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
DEVICE void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define HEARTH_EIGHT(i)                                                                      \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), \
      "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define HEARTH_THIRTY_TWO(i) HEARTH_EIGHT(i), HEARTH_EIGHT(i + 8), HEARTH_EIGHT(i + 16), HEARTH_EIGHT(i + 24)
#define HEARTH_SUMS_64                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HEARTH_SUMS_96                                                                              \
  HEARTH_SUMS_64 ", "                                                                               \
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define HEARTH_SUMS_128                                                                          \
  HEARTH_SUMS_96                                                                                 \
  ", "                                                                                           \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define HEARTH_WGMMA(columns, type, names, operands, add, ...)                                               \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns \
               "k16.f32." type "." type " {" names "}, " operands:__VA_ARGS__                                \
               : "l"(a), "l"(b), "n"(ALONG_K_A ? 0 : 1), "n"(ALONG_K_B ? 0 : 1), "r"((int)adds))
#define HEARTH_WGMMA_128(type)                                                          \
  HEARTH_WGMMA("128", type, HEARTH_SUMS_64, "%64, %65, add, 1, 1, %66, %67;\n}", "%68", \
               HEARTH_THIRTY_TWO(0), HEARTH_THIRTY_TWO(32))
#define HEARTH_WGMMA_192(type)                                                           \
  HEARTH_WGMMA("192", type, HEARTH_SUMS_96, "%96, %97, add, 1, 1, %98, %99;\n}", "%100", \
               HEARTH_THIRTY_TWO(0), HEARTH_THIRTY_TWO(32), HEARTH_THIRTY_TWO(64))
#define HEARTH_WGMMA_256(type)                                                                \
  HEARTH_WGMMA("256", type, HEARTH_SUMS_128, "%128, %129, add, 1, 1, %130, %131;\n}", "%132", \
               HEARTH_THIRTY_TWO(0), HEARTH_THIRTY_TWO(32), HEARTH_THIRTY_TWO(64), HEARTH_THIRTY_TWO(96))

// sums += a * b for 64 rows, 2 * N columns and 16 of K, or sums = a * b. Asynchronous: between fence() and
// wait().
template <class T, bool ALONG_K_A, bool ALONG_K_B, int N>
DEVICE void multiply_add(f32 (&sums)[N], u64 a, u64 b, bool adds = true) {
  constexpr bool half = same_type<T, f16>;
  if constexpr (N == 128 && half)
    HEARTH_WGMMA_256("f16");
  else if constexpr (N == 128)
    HEARTH_WGMMA_256("bf16");
  else if constexpr (N == 96 && half)
    HEARTH_WGMMA_192("f16");
  else if constexpr (N == 96)
    HEARTH_WGMMA_192("bf16");
  else if constexpr (half)
    HEARTH_WGMMA_128("f16");
  else
    HEARTH_WGMMA_128("bf16");
}
#undef HEARTH_WGMMA_128
#undef HEARTH_WGMMA_192
#undef HEARTH_WGMMA_256
#undef HEARTH_WGMMA
#undef HEARTH_SUMS_64
#undef HEARTH_SUMS_96
#undef HEARTH_SUMS_128
#undef HEARTH_THIRTY_TWO
#undef HEARTH_EIGHT

// Four lanes have the columns of eight, two neighbours each. They exchange them, so that results are stored
// and operands of the expression fetched in runs of 16 bytes: four neighbours of every other eight columns,
// or all of every fourth eight.
DEVICE f32 exchanged(f32 value, int with) { return __shfl_xor_sync(~0u, value, with); }
// `sums` are this lane's parts of two eights, four apart; it gets the first half of the one or the other
// half.
DEVICE Packet<f32, 4> half_eight(const f32* sums, int lane) {
  const bool odd = lane & 1;
  Packet<f32, 4> run;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const f32 kept = odd ? sums[4 + e] : sums[e], got = exchanged(odd ? sums[e] : sums[4 + e], 1);
    run.element[e] = odd ? got : kept;
    run.element[2 + e] = odd ? kept : got;
  }
  return run;
}
DEVICE Packet<f32, 8> whole_eight(const f32* sums, int lane) {
  const bool upper = lane & 2;
  const Packet<f32, 4> first = half_eight(sums, lane), second = half_eight(sums + 8, lane);
  Packet<f32, 8> run;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const f32 kept = upper ? second.element[e] : first.element[e],
              got = exchanged(upper ? first.element[e] : second.element[e], 2);
    run.element[e] = upper ? got : kept;
    run.element[4 + e] = upper ? kept : got;
  }
  return run;
}

// A lane's sums of PARTS times 64 rows and COLUMNS columns, as runs along a row: of `row` and of `row` + 8 of
// each part, from `column` on. With HALVES the sums of as many columns of the right half follow those of the
// left half.
template <int PARTS, int COLUMNS, bool HALVES, int RUN>
struct LaneRuns {
  static constexpr int run = RUN, unit = 2 * run, of_part = COLUMNS / unit, count = PARTS * of_part;
  static_assert(COLUMNS % (4 * run) == 0, "whole exchanges");
  const f32 (&sums)[PARTS][HALVES ? COLUMNS : COLUMNS / 2];
  i64 first_row, first_column;
  int lane;

  DEVICE i64 row(int item) const { return first_row + item / of_part * 64 + item % 2 * 8; }
  DEVICE i64 column(int item) const {
    return first_column + item % of_part / 2 * unit * 2 + (run == 8 ? lane * 8 : lane % 2 * 8 + lane / 2 * 4);
  }
  DEVICE auto values(int item) const {
    const f32* from = sums[item / of_part] + item % of_part / 2 * unit + item % 2 * 2;
    if constexpr (HALVES)
      return gemm::Pair<f32, run>{exchanged_run(from), exchanged_run(from + COLUMNS / 2)};
    else
      return exchanged_run(from);
  }
  DEVICE auto exchanged_run(const f32* from) const {
    if constexpr (run == 8)
      return whole_eight(from, lane);
    else
      return half_eight(from, lane);
  }
};

// Uses COUNT things in order. What they need of memory is fetched before, BATCH by BATCH: the first ones
// before `ready()`, others while those before them are used.
template <int COUNT, int BATCH, class Fetched, class Fetch, class Ready, class Use>
DEVICE void fetched_ahead(Fetch fetch, Ready ready, Use use) {
  Fetched held[2][BATCH];
#pragma unroll
  for (int first = -BATCH; first < COUNT; first += BATCH) {
    const int next = first + BATCH, to = next / BATCH % 2;
#pragma unroll
    for (int i = 0; i < BATCH; ++i)
      if (next + i < COUNT) held[to][i] = fetch(next + i);
    if (first < 0) {
      ready();
      continue;
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i)
      if (first + i < COUNT) use(first + i, held[1 - to][i]);
  }
}

// What becomes of results before they are stored: nothing, or a rope.
struct NotTurned {
  static constexpr bool turns = false;
};
template <class T, int HALF, bool INTERLEAVED>
struct Turned {
  static constexpr bool turns = true;
  // Of a row, a lane has every fourth run of eight columns: so many of a head. Where pairs are HALF apart,
  // both of one are in runs of the same lane; the first half of them has the angles.
  static constexpr int runs = 2 * HALF / 32, with_angles = INTERLEAVED ? runs : runs / 2,
                       pairs = INTERLEAVED ? 4 : 8;
  struct Angles {
    Packet<f32, pairs> cosine, sine;
  };
  GemmTurn turn;

  // Of what would have been stored.
  DEVICE static void rotate(f32& a, f32& b, f32 cosine, f32 sine) {
    const f32 x = through<T>(a), y = through<T>(b);
    a = x * cosine - y * sine;
    b = x * sine + y * cosine;
  }

  // Angles are those of a row, for all heads that the tile has of it; rows beyond the last have some, too.
  // The result has whole runs.
  template <class Runs, class Finish, class Ready>
  DEVICE void store(const GemmShape& shape, const Finish& finish, const Runs& all, Ready ready) const {
    constexpr int heads = Runs::of_part / (2 * runs), columns = heads * 2 * HALF;
    static_assert(Runs::run == 8 && Runs::of_part % (2 * runs) == 0, "whole heads");
    const bool touched = all.first_column < turn.end && all.first_column + columns > turn.begin;
    const auto fetch = [&](int set) -> Angles {
      if (!touched) return {};
      const u32 at = (u32)all.row(first_item<Runs>(set)) % (u32)turn.time * HALF +
                     (u32)(set / 2 % with_angles * 4 + all.lane) * pairs;
      return {gemm::load_whole<pairs>(turn.cosine + at), gemm::load_whole<pairs>(turn.sine + at)};
    };
    const auto put = [&](int item, const Packet<f32, 8>& run) {
      if (all.row(item) < shape.rows && all.column(item) < shape.columns)
        finish(all.row(item), all.column(item), run);
    };
    constexpr int sets = Runs::count / Runs::of_part * 2 * with_angles;
    fetched_ahead<sets, 1, Angles>(fetch, ready, [&](int set, const Angles& angles) {
#pragma unroll
      for (int head = 0; head < heads; ++head) {
        const int item = first_item<Runs>(set) + head * 2 * runs;
        const i64 column = all.first_column + head * 2 * HALF;
        const bool inside = column >= turn.begin && column < turn.end;
        Packet<f32, 8> run = all.values(item);
        if constexpr (INTERLEAVED) {
          if (inside)
#pragma unroll
            for (int e = 0; e < pairs; ++e)
              rotate(run.element[2 * e], run.element[2 * e + 1], angles.cosine.element[e],
                     angles.sine.element[e]);
        } else {
          constexpr int other = 2 * with_angles;
          Packet<f32, 8> right = all.values(item + other);
          if (inside)
#pragma unroll
            for (int e = 0; e < pairs; ++e)
              rotate(run.element[e], right.element[e], angles.cosine.element[e], angles.sine.element[e]);
          put(item + other, right);
        }
        put(item, run);
      }
    });
  }
  // Of the first head, with the angles of this number: two rows of each part, and those of their runs that
  // have angles.
  template <class Runs>
  DEVICE static constexpr int first_item(int set) {
    constexpr int of_part = 2 * with_angles;
    return set / of_part * Runs::of_part + set % of_part;
  }
};

// Stores a lane's results after `ready()`. `inside`: all of them are inside of the result.
template <bool HALVES, class Runs, class Finish, class Turn, class Ready>
DEVICE void store_runs(const GemmShape& shape, const Finish& finish, const Turn& turn, const Runs& all,
                       bool inside, Ready ready) {
  using Inputs = typename Finish::template Inputs<Runs::run>;
  if constexpr (Turn::turns) {
    turn.store(shape, finish, all, ready);
  } else if (!inside || (HALVES && __is_empty(Inputs))) {
    // Halves that wait for nothing go one by one: several at once would need more registers than there are.
    ready();
#pragma unroll
    for (int item = 0; item < Runs::count; ++item)
      gemm::finish_run(shape, finish, all.row(item), all.column(item), all.values(item));
  } else {
    constexpr int batch = sizeof(Inputs) <= 16 ? 4 : 2;
    fetched_ahead<Runs::count, batch, Inputs>(
        [&](int item) { return finish.template fetch<Runs::run>(all.row(item), all.column(item)); }, ready,
        [&](int item, const Inputs& inputs) {
          finish(all.row(item), all.column(item), all.values(item), inputs);
        });
  }
}

// ---- a block's work ----

struct Ring {
  int stage = 0;
  u32 parity = 0;
  template <int STAGES>
  DEVICE void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
  template <int STAGES>
  DEVICE void skip(int count) {
    const int to = stage + count;
    stage = to % STAGES;
    parity ^= (u32)(to / STAGES) & 1;
  }
};

// Tiles of 128 rows. `memory` is STAGES * stage_bytes<COLUMNS> bytes of shared memory from a multiple of
// 1024.
template <int COLUMNS>
constexpr int stage_bytes = (128 + COLUMNS) * depth * 2;

// With HALVES half the columns of a tile are of the left half of b's rows, which are twice the columns of the
// result, and half are those of the right half that belong to them.
template <class T, int COLUMNS, int STAGES, bool IN_TURNS, bool ALONG_K_A, bool ALONG_K_B, bool HALVES,
          class Finish, class Turn>
DEVICE void multiply(const GemmShape& shape, const TensorMap* map_a, const TensorMap* map_b, bool stacked_a,
                     bool stacked_b, char* memory, Finish finish, Turn turn) {
  __shared__ u64 full[STAGES], empty[STAGES], turns[2];
  static_assert(ALONG_K_B || !HALVES, "halves lie along K");
  constexpr int tile_a = 128 * depth * 2;
  constexpr int width = HALVES ? COLUMNS / 2 : COLUMNS;  // of the result
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, IN_TURNS ? 1 : 2);
    }
    for (int i = 0; i < 2; ++i) barrier_init(turns + i, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  barrier();
  const u64 jobs = gemm::job_count(shape);
  const auto steps = [&](const gemm::Job& job) {
    const i64 begin = job.split * shape.split_depth, rest = shape.depth - begin;
    return (int)(((rest < shape.split_depth ? rest : shape.split_depth) + depth - 1) / depth);
  };
  // From a lane, so that the compiler knows it to be the same in all of a wave.
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  Ring ring;
  if (group == 0) {
    give_registers<24>();
    if (threadIdx.x != 0) return;
    for (u64 index = blockIdx.x; index < jobs; index += gridDim.x) {
      const gemm::Job job = gemm::job(shape, index);
      const i32 row = (i32)job.row_tile * 128, column = (i32)job.column_tile * width;
      const i32 product_a = stacked_a ? (i32)job.product : 0, product_b = stacked_b ? (i32)job.product : 0;
      i32 k = (i32)(job.split * shape.split_depth);
      for (int step = steps(job); step > 0; --step, k += depth) {
        char* tile = memory + ring.stage * stage_bytes<COLUMNS>;
        barrier_wait(empty + ring.stage,
                     ring.parity ^ 1);  // the first time round there is nobody to wait for
        barrier_expect(full + ring.stage, stage_bytes<COLUMNS>);
        copy_tile<128, ALONG_K_A>(tile, map_a, row, k, product_a, full + ring.stage);
        copy_tile<width, ALONG_K_B>(tile + tile_a, map_b, column, k, product_b, full + ring.stage);
        if constexpr (HALVES)
          copy_tile<width, ALONG_K_B>(tile + tile_a + width * depth * 2, map_b, (i32)shape.columns + column,
                                      k, product_b, full + ring.stage);
        ring.next<STAGES>();
      }
    }
  } else {
    take_registers<240>();
    const int thread = (int)threadIdx.x % 128;
    constexpr int parts = IN_TURNS ? 2 : 1;  // of 64 rows
    const int first_part = IN_TURNS ? 0 : group - 1;
    f32 sums[parts][COLUMNS / 2];
    u32 round = 0;
    for (u64 index = blockIdx.x; index < jobs; index += gridDim.x, ++round) {
      const gemm::Job job = gemm::job(shape, index);
      if (IN_TURNS) {
        if (round % 2 != (u32)group - 1) {
          ring.skip<STAGES>(steps(job));
          continue;
        }
        if (round > 0) barrier_wait(turns + round % 2, (round - 1) / 2 % 2);
      }
      int last = -1;
#pragma unroll 1
      for (int step = steps(job); step > 0; --step) {
        const char* tile = memory + ring.stage * stage_bytes<COLUMNS>;
        const u64 a = descriptor(tile + first_part * slab), b = descriptor(tile + tile_a);
        barrier_wait(full + ring.stage, ring.parity);
        fence();
#pragma unroll
        for (int k = 0; k < depth / 16; ++k)
#pragma unroll
          for (int part = 0; part < parts; ++part)
            multiply_add<T, ALONG_K_A, ALONG_K_B>(sums[part],
                                                  a + part * (slab >> 4) + k * descriptor_step<ALONG_K_A>,
                                                  b + k * descriptor_step<ALONG_K_B>, last >= 0 || k > 0);
        commit();
        // The stage before has been read when its products are done; those of this one go on.
        wait<1>();
        if (thread == 0 && last >= 0) barrier_arrive(empty + last);
        last = ring.stage;
        ring.next<STAGES>();
      }
      if (IN_TURNS && thread == 0) barrier_arrive(turns + (round + 1) % 2);
      // A wave has 16 rows; a lane two of them, and two neighbours of every eight columns.
      const i64 row = (i64)job.row_tile * 128 + first_part * 64, column = (i64)job.column_tile * width;
      finish.start(job.product, job.split);
      using Runs = LaneRuns<parts, width, HALVES, Finish::run_bytes == 2 ? 8 : 4>;
      store_runs<HALVES>(shape, finish, turn,
                         Runs{sums, row + thread / 32 * 16 + thread % 32 / 4, column, thread % 4},
                         row + parts * 64 <= shape.rows && column + width <= shape.columns, [&] {
                           wait<0>();
                           if (thread == 0 && last >= 0) barrier_arrive(empty + last);
                         });
    }
  }
}

}  // namespace wgmma
