// Products on the matrix unit of sm_90, which four waves (128 threads) drive together: it reads tiles from
// shared memory by itself, and a copy engine brings them there.
//
// A block is three groups of four waves. Two groups multiply, each 64 rows of a tile of 128, compute the
// expression behind the product on the registers they have it in, and leave the results in slots of shared
// memory. In the third, one thread brings operands, and one for each of the others stores their results and
// brings what the expression reads of tensors that lie like the result: into the same slots, while the tile
// is multiplied. All of that the copy engine does by itself. The last wave of that group has time for work
// that has nothing to do with the product. `full` barriers say that a stage of the operands has arrived,
// `empty` ones that it has been read; `ready`, that a group may use its slots and has its inputs in them,
// `done`, that results are there.
//
// Tiles lie as the copy engine leaves them with its 128-byte swizzle: an operand along K as rows of 64
// elements, one along rows as slabs of 64 rows, a line of them for each k.
#pragma once

#include "gemm.h"
#include "mma_chain.h"
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

// ---- results ----

// A slot: 64 rows by WIDTH elements of 16 bits, in panels.
template <int WIDTH>
constexpr int slot_bytes = 64 * WIDTH * 2;

// A group's slots, as the lane of a wave sees them. The unit leaves 16 rows to a wave, of every eight columns
// two neighbours to a lane in each of two rows, eight apart. Four such squares of eight, below and beside
// each other, are read and written as one.
template <int WIDTH>
struct LaneSlots {
  static_assert(WIDTH % 64 == 0, "whole panels");
  u32 base, row;

  DEVICE LaneSlots(const char* slots, int thread)
      : base(warpgroup::shared_address(slots)), row(thread / 32 * 16 + thread % 16) {}
  DEVICE u32 place(int slot, int piece) const {
    const u32 at = (u32)piece % 8 + threadIdx.x % 32 / 16;
    return base + slot * slot_bytes<WIDTH> + piece / 8 * slab + row * 128 + (at ^ row % 8) * 16;
  }
  DEVICE void read(int slot, int piece, u32 (&words)[4]) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(place(slot, piece)));
  }
  DEVICE void write(int slot, int piece, const u32 (&words)[4]) const {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(place(slot, piece)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
  }
};

// The tensors behind slots. Inputs that are `stacked` are other ones for every product. Results for which
// there are too few slots take them in turns.
template <int INPUTS, int RESULTS, int SLOTS>
struct SlotMaps {
  static constexpr int inputs = INPUTS, results = RESULTS, slots = SLOTS,
                       rounds = (RESULTS + SLOTS - 1) / SLOTS;
  static_assert(INPUTS <= SLOTS && (INPUTS == 0 || rounds == 1), "inputs stay until the last result");
  const TensorMap *input[INPUTS > 0 ? INPUTS : 1], *result[RESULTS];
  u32 stacked;

  template <int WIDTH>
  DEVICE void bring(u32 slots, u64* barrier, i32 row, i32 column, i32 product) const {
    if (INPUTS == 0) return barrier_arrive(barrier);
    barrier_expect(barrier, INPUTS * slot_bytes<WIDTH>);
#pragma unroll
    for (int i = 0; i < INPUTS; ++i)
#pragma unroll
      for (int x = 0; x < WIDTH; x += 64)
        warpgroup::copy_box(slots + i * slot_bytes<WIDTH> + x / 64 * slab, input[i], barrier, column + x, row,
                            stacked >> i & 1 ? product : 0);
  }
  // Returns when the slots may be used again.
  template <int WIDTH>
  DEVICE void store(u32 memory, int round, const GemmShape& shape, i32 row, i32 column, i32 product) const {
#pragma unroll
    for (int k = 0; k < RESULTS; ++k)
#pragma unroll
      for (int x = 0; x < WIDTH; x += 64)
        if (k / SLOTS == round && row < shape.rows && column + x < shape.columns)
          warpgroup::store_box(result[k], memory + k % SLOTS * slot_bytes<WIDTH> + x / 64 * slab, column + x,
                               row, product);
    warpgroup::end_stores();
    warpgroup::wait_stores_read();
  }
};
// Results that go from registers to memory instead.
struct NoSlots {
  static constexpr int inputs = 0, results = 0, slots = 0, rounds = 1;
};

// What becomes of results before they are stored: nothing, or a rope.
struct NotTurned {
  static constexpr bool turns = false;
  struct Angles {};
  template <int WIDTH>
  DEVICE Angles fetch(i64, i64, int) const {
    return {};
  }
};
template <class T, int HALF, bool INTERLEAVED>
struct Turned {
  static constexpr bool turns = true;
  // Pieces of a head that have angles of their own: all, or, where pairs are HALF apart, its first half.
  static constexpr int pieces = (INTERLEAVED ? 2 * HALF : HALF) / 8, pairs = INTERLEAVED ? 1 : 2;
  struct Angles {
    Packet<f32, pairs> cosine[pieces][2], sine[pieces][2];  // of both rows of a lane
  };
  GemmTurn turn;

  DEVICE bool inside(i64 column) const { return column >= turn.begin && column < turn.end; }
  // All heads of a row have the same angles; rows beyond the last have some, too.
  template <int WIDTH>
  DEVICE Angles fetch(i64 row, i64 column, int lane) const {
    Angles angles{};
    if (column >= turn.end || column + WIDTH <= turn.begin) return angles;
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const u32 from = (u32)(row + below * 8) % (u32)turn.time * HALF + lane % 4 * pairs;
#pragma unroll
      for (int p = 0; p < pieces; ++p) {
        angles.cosine[p][below] = gemm::load_whole<pairs>(turn.cosine + from + p * 4 * pairs);
        angles.sine[p][below] = gemm::load_whole<pairs>(turn.sine + from + p * 4 * pairs);
      }
    }
    return angles;
  }

  // Of what would have been stored.
  DEVICE static void rotate(f32& a, f32& b, f32 cosine, f32 sine) {
    const f32 x = through<T>(a), y = through<T>(b);
    a = x * cosine - y * sine;
    b = x * sine + y * cosine;
  }
  template <int WIDTH>
  DEVICE void finish(f32 (&sums)[WIDTH / 2], const Angles& angles, i64 column,
                     const LaneSlots<WIDTH>& slots) const {
    static_assert(WIDTH % (2 * HALF) == 0, "whole heads");
#pragma unroll
    for (int head = 0; head < WIDTH; head += 2 * HALF)
      if (inside(column + head))
#pragma unroll
        for (int p = 0; p < pieces; ++p)
#pragma unroll
          for (int below = 0; below < 2; ++below) {
            f32* pair = sums + head / 2 + p * 4 + below * 2;
            const auto &cosine = angles.cosine[p][below].element, &sine = angles.sine[p][below].element;
            if constexpr (INTERLEAVED) {
              rotate(pair[0], pair[1], cosine[0], sine[0]);
            } else {
              rotate(pair[0], pair[HALF / 2], cosine[0], sine[0]);
              rotate(pair[1], pair[HALF / 2 + 1], cosine[1], sine[1]);
            }
          }
#pragma unroll
    for (int piece = 0; piece < WIDTH / 8; piece += 2) {
      u32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = chain::pack(T{}, sums[piece * 4 + 2 * i], sums[piece * 4 + 2 * i + 1]);
      slots.write(0, piece, words);
    }
  }
};

// Two neighbours of the product; with HALVES those of the right half, too, whose sums follow the left ones.
template <int WIDTH, bool HALVES, int N>
DEVICE auto neighbours(const f32 (&sums)[N], int i) {
  const Packet<f32, 2> left{{sums[i], sums[i + 1]}};
  if constexpr (HALVES)
    return gemm::Pair<f32, 2>{left, {{sums[WIDTH / 2 + i], sums[WIDTH / 2 + i + 1]}}};
  else
    return left;
}

struct NobodySees {
  template <class Results>
  DEVICE void operator()(const Results&) const {}
};

// Computes the expression on a lane's sums, from row `row` and column `column` on, into slots: those results
// whose turn it is. `see` is shown the results of each two pieces.
template <int WIDTH, bool HALVES, class Maps, class Finish, int N, class See = NobodySees>
DEVICE void finish_in_slots(const Finish& finish, const f32 (&sums)[N], i64 row, i64 column,
                            const LaneSlots<WIDTH>& slots, int round, const See& see = {}) {
#pragma unroll
  for (int piece = 0; piece < WIDTH / 8; piece += 2) {
    u32 inputs[Maps::slots][4], results[Maps::results][4];
#pragma unroll
    for (int i = 0; i < Maps::inputs; ++i) slots.read(i, piece, inputs[i]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      u32 from[Maps::slots], to[Maps::results];
#pragma unroll
      for (int k = 0; k < Maps::inputs; ++k) from[k] = inputs[k][i];
      finish(row + i % 2 * 8, column + (piece + i / 2) * 8,
             neighbours<WIDTH, HALVES>(sums, piece * 4 + 2 * i), from, to);
#pragma unroll
      for (int k = 0; k < Maps::results; ++k) results[k][i] = to[k];
    }
#pragma unroll
    for (int k = 0; k < Maps::results; ++k)
      if (k / Maps::slots == round) slots.write(k % Maps::slots, piece, results[k]);
    see(results);
  }
}

// ---- norms ----

struct NotNormed {
  static constexpr bool norms = false;
  struct Exchange {};
};
// Results are divided by the root of the mean of their squares in a row. Two blocks of a cluster have a row's
// columns between them, and tell each other their sums of squares.
template <class T>
struct Normed {
  static constexpr bool norms = true;
  // Of each of the two groups that multiply: what the other block's group found. That block may be a tile
  // ahead, so that every second tile has a place and a barrier of its own.
  struct Exchange {
    f32 squares[2][2][64];
    u64 arrived[2][2];
  };
  f32 epsilon;

  // Like finish_in_slots(). Results go to their slot as they are, and come back to be divided: there are no
  // registers for them beside the sums.
  template <int WIDTH, class Maps, class Finish, int N>
  DEVICE void finish(const Finish& finish, const f32 (&sums)[N], i64 row, i64 column,
                     const LaneSlots<WIDTH>& slots, Exchange& exchange, int part, int thread,
                     u32 tile) const {
    static_assert(Maps::results == 1 && Maps::rounds == 1, "one result");
    f32 squares[2] = {0, 0};  // of both rows of a lane
    finish_in_slots<WIDTH, false, Maps>(finish, sums, row, column, slots, 0, [&](const u32(&results)[1][4]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const auto pair = bit_cast<Packet<T, 2>>(results[0][i]);
#pragma unroll
        for (int e = 0; e < 2; ++e)
          squares[i % 2] = ::fmaf(load(pair.element[e]), load(pair.element[e]), squares[i % 2]);
      }
    });
    const u32 other = blockIdx.x % 2 ^ 1, turn = tile % 2;
    u64* const arrived = exchange.arrived[part] + turn;
    const int mine = thread / 32 * 16 + thread % 32 / 4;  // of the group's rows
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      squares[below] += __shfl_xor_sync(~0u, squares[below], 1);
      squares[below] += __shfl_xor_sync(~0u, squares[below], 2);
      if (thread % 4 == 0)
        warpgroup::store_in_block(
            warpgroup::address_in_block(&exchange.squares[part][turn][mine + below * 8], other),
            squares[below]);
    }
    __syncwarp();
    if (thread % 32 == 0) warpgroup::barrier_arrive_in_block(warpgroup::address_in_block(arrived, other));
    warpgroup::barrier_wait_for_blocks(arrived, tile / 2 % 2);
    f32 by[2];
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const f32 sum = squares[below] + exchange.squares[part][turn][mine + below * 8];
      by[below] = 1 / ::sqrtf(sum / (2 * WIDTH) + epsilon);
    }
#pragma unroll
    for (int piece = 0; piece < WIDTH / 8; piece += 2) {
      u32 words[4];
      slots.read(0, piece, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const auto pair = bit_cast<Packet<T, 2>>(words[i]);
        words[i] = chain::pack(T{}, load(pair.element[0]) * by[i % 2], load(pair.element[1]) * by[i % 2]);
      }
      slots.write(0, piece, words);
    }
  }
};

// Results without slots. Four lanes have the columns of eight, two neighbours each: they exchange them for
// runs of four.
DEVICE Packet<f32, 4> exchanged(const f32* sums, int lane) {
  const bool odd = lane & 1;
  Packet<f32, 4> run;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const f32 kept = odd ? sums[4 + e] : sums[e];
    const f32 got = __shfl_xor_sync(~0u, odd ? sums[e] : sums[4 + e], 1);
    run.element[e] = odd ? got : kept;
    run.element[2 + e] = odd ? kept : got;
  }
  return run;
}
template <int WIDTH, bool HALVES, class Finish, int N>
DEVICE void finish_in_memory(const GemmShape& shape, const Finish& finish, const f32 (&sums)[N], i64 row,
                             i64 column, int lane) {
#pragma unroll
  for (int item = 0; item < WIDTH / 8; ++item) {
    const f32* from = sums + item / 2 * 8 + item % 2 * 2;  // of two eights
    const i64 to_row = row + item % 2 * 8, to = column + item / 2 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
    const Packet<f32, 4> run = exchanged(from, lane);
    if constexpr (HALVES)
      gemm::finish_run(shape, finish, to_row, to, gemm::Pair<f32, 4>{run, exchanged(from + WIDTH / 2, lane)});
    else
      gemm::finish_run(shape, finish, to_row, to, run);
  }
}

// ---- a block's work ----

constexpr int threads = 3 * 128;

// What the wave does that no product needs.
struct NothingBeside {
  static constexpr bool any = false;
  DEVICE void operator()() const {}
};

struct Ring {
  int stage = 0;
  u32 parity = 0;
  template <int STAGES>
  DEVICE void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

// Tiles of 128 rows. `memory`, of shared memory from a multiple of 1024 on, has STAGES stages and, of each
// group, Maps::slots slots.
template <int COLUMNS>
constexpr int stage_bytes = (128 + COLUMNS) * depth * 2;

// With HALVES half the columns of a tile are of the left half of b's rows, which are twice the columns of the
// result, and half are those of the right half that belong to them.
template <class T, int COLUMNS, int STAGES, bool ALONG_K_A, bool ALONG_K_B, bool HALVES, class Maps,
          class Finish, class Turn, class Norm, class Beside>
DEVICE void multiply(const GemmShape& shape, const TensorMap* map_a, const TensorMap* map_b, bool stacked_a,
                     bool stacked_b, char* memory, Maps maps, Finish finish, Turn turn, Norm norm,
                     Beside beside) {
  static_assert(ALONG_K_B || !HALVES, "halves lie along K");
  __shared__ u64 full[STAGES], empty[STAGES], ready[2], done[2];
  __shared__ typename Norm::Exchange exchange;
  constexpr int tile_a = 128 * depth * 2;
  constexpr int width = HALVES ? COLUMNS / 2 : COLUMNS;  // of the result
  constexpr bool has_slots = Maps::slots > 0;
  static_assert(has_slots || !Turn::turns, "turned heads are stored by way of slots");
  // Of a thread. A block has what it was launched with; those who ask for more than that wait for ever.
  constexpr int bringing_registers = Beside::any ? 56 : 40, multiplying_registers = Beside::any ? 224 : 232;
  static_assert(bringing_registers + 2 * multiplying_registers <= 3 * (65536 / threads / 8 * 8), "no more");
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, 2);
    }
    for (int i = 0; i < 2; ++i) {
      barrier_init(ready + i, 1);
      barrier_init(done + i, 4);
      if constexpr (Norm::norms)
        for (int turn = 0; turn < 2; ++turn) barrier_init(exchange.arrived[i] + turn, 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  if constexpr (Norm::norms)
    warpgroup::cluster_barrier();
  else
    barrier();
  const u64 jobs = gemm::job_count(shape);
  const auto job_at = [&](u64 index) {
    if constexpr (Norm::norms)
      return gemm::Job{0, (u32)(index / 2), (u32)(index % 2), 0};
    else
      return gemm::job(shape, index);
  };
  const auto steps = [&](const gemm::Job& job) {
    const i64 begin = job.split * shape.split_depth, rest = shape.depth - begin;
    return (int)(((rest < shape.split_depth ? rest : shape.split_depth) + depth - 1) / depth);
  };
  const auto slots_of = [&](int part) {
    return memory + STAGES * stage_bytes<COLUMNS> + part * Maps::slots * slot_bytes<width>;
  };
  // From a lane, so that the compiler knows it to be the same in all of a wave.
  const int wave = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), group = wave / 4;
  if (group == 0) {
    give_registers<bringing_registers>();
    if (wave == 3) return beside();
    if (threadIdx.x % 32 != 0) return;
    if (wave == 0) {
      Ring ring;
      for (u64 index = blockIdx.x; index < jobs; index += gridDim.x) {
        const gemm::Job job = job_at(index);
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
    } else if constexpr (has_slots) {
      const int part = wave - 1;
      const u32 slots = warpgroup::shared_address(slots_of(part));
      u32 parity = 0;
      for (u64 index = blockIdx.x; index < jobs; index += gridDim.x) {
        const gemm::Job job = job_at(index);
        const i32 row = (i32)job.row_tile * 128 + part * 64, column = (i32)job.column_tile * width;
        for (int round = 0; round < Maps::rounds; ++round, parity ^= 1) {
          maps.template bring<width>(slots, ready + part, row, column, (i32)job.product);
          barrier_wait(done + part, parity);
          maps.template store<width>(slots, round, shape, row, column, (i32)job.product);
        }
      }
    }
  } else {
    take_registers<multiplying_registers>();
    const int part = group - 1, thread = (int)threadIdx.x % 128;
    f32 sums[COLUMNS / 2];
    Ring ring;
    u32 parity = 0, tile = 0;
    for (u64 index = blockIdx.x; index < jobs; index += gridDim.x, ++tile) {
      const gemm::Job job = job_at(index);
      int last = -1;
#pragma unroll 1
      for (int step = steps(job); step > 0; --step) {
        const char* stage = memory + ring.stage * stage_bytes<COLUMNS>;
        const u64 a = descriptor(stage + part * slab), b = descriptor(stage + tile_a);
        barrier_wait(full + ring.stage, ring.parity);
        fence();
#pragma unroll
        for (int k = 0; k < depth / 16; ++k)
          multiply_add<T, ALONG_K_A, ALONG_K_B>(sums, a + k * descriptor_step<ALONG_K_A>,
                                                b + k * descriptor_step<ALONG_K_B>, last >= 0 || k > 0);
        commit();
        // The stage before has been read when its products are done; those of this one go on.
        wait<1>();
        if (thread == 0 && last >= 0) barrier_arrive(empty + last);
        last = ring.stage;
        ring.next<STAGES>();
      }
      const i64 row = (i64)job.row_tile * 128 + part * 64 + thread / 32 * 16 + thread % 32 / 4,
                column = (i64)job.column_tile * width;
      finish.start(job.product, job.split);
      const auto angles = turn.template fetch<width>(row, column, thread);
      wait<0>();
      warpgroup::settle(sums);
      if (thread == 0) barrier_arrive(empty + last);
      if constexpr (has_slots) {
        const LaneSlots<width> slots(slots_of(part), thread);
#pragma unroll
        for (int round = 0; round < Maps::rounds; ++round, parity ^= 1) {
          barrier_wait(ready + part, parity);
          if constexpr (Turn::turns)
            turn.template finish<width>(sums, angles, column, slots);
          else if constexpr (Norm::norms)
            norm.template finish<width, Maps>(finish, sums, row, column + thread % 4 * 2, slots, exchange,
                                              part, thread, tile);
          else
            finish_in_slots<width, HALVES, Maps>(finish, sums, row, column + thread % 4 * 2, slots, round);
          warpgroup::publish_to_unit();
          __syncwarp();
          if (thread % 32 == 0) barrier_arrive(done + part);
        }
      } else {
        finish_in_memory<width, HALVES>(shape, finish, sums, row, column, thread);
      }
    }
  }
}

}  // namespace wgmma
