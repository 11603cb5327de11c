// Weights whose rows lie in fours: making them, and products with few rows of x.
#include "cpu/repacked_kernels.h"

#include "cpu/isa/fetch.h"

#if defined(__ARM_FEATURE_DOTPROD)
#include "cpu/isa/repacked_neon.h"
#define HEARTH_FOURS
#elif defined(__AVX2__)
#include "cpu/isa/repacked_x86.h"
#define HEARTH_FOURS
#endif

namespace hearth::cpu::HEARTH_ISA {

#if defined(HEARTH_FOURS)
namespace {

// ---- making them

// Words of 32 bits of four rows in turns.
template <typename Byte>
HEARTH_INLINE void store_quad(Byte (*to)[16], const u8x16 (&rows)[4]) {
#if defined(__aarch64__)
  const uint32x4x4_t words{{std::bit_cast<uint32x4_t>(rows[0]), std::bit_cast<uint32x4_t>(rows[1]),
                            std::bit_cast<uint32x4_t>(rows[2]), std::bit_cast<uint32x4_t>(rows[3])}};
  vst4q_u32(reinterpret_cast<std::uint32_t*>(to), words);
#else
  for (int j = 0; j < 4; ++j)
    for (int r = 0; r < 4; ++r)
      std::memcpy(to[j] + 4 * r, reinterpret_cast<const char*>(&rows[r]) + 4 * j, 4);
#endif
}

HEARTH_INLINE void repack_block(const Q4_0* const (&from)[4], Q4_0x4& to) {
  u8x16 rows[4];
  for (int r = 0; r < 4; ++r) {
    to.d[r] = from[r]->d;
    rows[r] = load_bytes(from[r]->q);
  }
  store_quad(to.q, rows);
}

HEARTH_INLINE void repack_block(const Q8_0* const (&from)[4], Q8_0x4& to) {
  for (int half = 0; half < 2; ++half) {
    u8x16 rows[4];
    for (int r = 0; r < 4; ++r) {
      to.d[r] = from[r]->d;
      rows[r] = load_bytes(from[r]->q + 16 * half);
    }
    store_quad(to.q + 4 * half, rows);
  }
}

HEARTH_INLINE void repack_block(const Q4_K* const (&from)[4], Q4_Kx4& to) {
  for (int r = 0; r < 4; ++r) {
    to.d[r] = from[r]->d;
    to.dmin[r] = from[r]->dmin;
    for (int s = 0; s < 8; ++s) {
      const SubNumbers sub = sub_numbers(*from[r], s);
      to.scale[s][r] = static_cast<std::uint8_t>(sub.scale);
      to.offset[s / 4][r][s % 4] = static_cast<std::uint8_t>(sub.offset);
    }
  }
  // The halves of a byte are of two sub-blocks; here they are of one.
  for (int s = 0; s < 8; s += 2) {
    u8x16 even[4], odd[4];
    for (int r = 0; r < 4; ++r) {
      const u8x16 first = load_bytes(from[r]->q + 16 * s), second = load_bytes(from[r]->q + 16 * s + 16);
      even[r] = (first & 15) | second << 4;
      odd[r] = first >> 4 | (second & 0xf0);
    }
    store_quad(to.q[s], even);
    store_quad(to.q[s + 1], odd);
  }
}

HEARTH_INLINE void repack_block(const Q6_K* const (&from)[4], Q6_Kx4& to) {
  for (int r = 0; r < 4; ++r) {
    to.d[r] = from[r]->d;
    for (int s = 0; s < 16; ++s) to.scale[s][r] = from[r]->scale[s];
    for (int piece = 0; piece < 8; ++piece) {
      const Piece numbers = unpack(*from[r], piece);
      for (int half = 0; half < 2; ++half) {
        const int s = 2 * piece + half;
        const auto q = std::bit_cast<u8x16>(numbers.q[half] + static_cast<std::int8_t>(32));
        struct {
          std::uint64_t eight[2];
        } low = std::bit_cast<decltype(low)>(q & 15);
        struct {
          std::uint32_t four[4];
        } high = std::bit_cast<decltype(high)>(q >> 4);
        const std::uint64_t halves = low.eight[0] | low.eight[1] << 4;
        const std::uint32_t pairs = high.four[0] | high.four[1] << 2 | high.four[2] << 4 | high.four[3] << 6;
        for (int j = 0; j < 2; ++j)
          std::memcpy(to.low[s][j] + 4 * r, reinterpret_cast<const char*>(&halves) + 4 * j, 4);
        std::memcpy(to.high[s] + 4 * r, &pairs, 4);
      }
    }
  }
}

// The part of a matrix that is a panel: of four rows, `blocks` from `quad`'s on.
template <typename Quad>
struct Panel {
  static constexpr std::int64_t elements = 32 * pieces<Quad>;  // of a block
  Quad* data;
  std::int64_t blocks;

  HEARTH_INLINE Panel(const RepackedMatrix& matrix, std::int64_t first) {
    const std::int64_t left = matrix.depth - first;
    data = static_cast<Quad*>(matrix.data) + matrix.quads * (first / elements);
    blocks = (left < repacked_panel ? left : repacked_panel) / elements;
  }
  HEARTH_INLINE Quad* operator[](std::int64_t quad) const { return data + quad * blocks; }
};

template <typename Block, typename Quad>
void repack(const void* blocks, std::int64_t stride, const RepackedMatrix& matrix, std::int64_t quad) {
  const Block* from[4];
  for (int r = 0; r < 4; ++r)
    from[r] = reinterpret_cast<const Block*>(static_cast<const char*>(blocks) + r * stride);
  for (std::int64_t first = 0; first < matrix.depth; first += repacked_panel) {
    const Panel<Quad> panel(matrix, first);
    for (std::int64_t b = 0; b < panel.blocks; ++b) {
      repack_block(from, panel[quad][b]);
      for (const Block*& block : from) ++block;
    }
  }
}

template <typename Quad>
void dequantise(const RepackedMatrix& matrix, std::int64_t row, float* out) {
  for (std::int64_t first = 0; first < matrix.depth; first += repacked_panel) {
    const Panel<Quad> panel(matrix, first);
    for (std::int64_t b = 0; b < panel.blocks; ++b)
      for (int p = 0; p < pieces<Quad>; ++p, out += 32) {
        const Piece piece = unpack(panel[row / 4][b], p, static_cast<int>(row % 4));
        for (int half = 0; half < 2; ++half)
          for (int k = 0; k < 16; ++k)
            out[16 * half + k] =
                piece.scale[half] * static_cast<float>(piece.q[half][k]) - piece.offset[half];
      }
  }
}

// Fours of rows of a panel with its part of x, RUNS at a time, which lie far apart: a core reads faster from
// some long runs than from one.
template <int RUNS, int ROWS, typename Quad, typename X>
HEARTH_INLINE void multiply_runs(const Quad* weights, std::int64_t apart, std::int64_t blocks, const X* x,
                                 std::int64_t x_row, float* out, std::int64_t stride, bool adds) {
  for (std::int64_t first = 0; first < apart; ++first) {
    Sums sums[RUNS][ROWS];
#pragma GCC unroll 4
    for (int run = 0; run < RUNS; ++run)
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) sums[run][r] = no_sums();
    std::int64_t block = 0;
    if constexpr (ROWS == 1 && RUNS == ColumnsOf<Quad>::runs(1) && ColumnsOf<Quad>::woven > 0) {
      constexpr int woven = ColumnsOf<Quad>::woven;
      const Quad* at[RUNS];
      for (int run = 0; run < RUNS; ++run) at[run] = weights + (first + run * apart) * blocks;
      for (; block + woven <= blocks; block += woven) {
        add_woven(at, x + block, sums);
        for (const Quad*& run : at) run += woven;
      }
    }
    for (; block < blocks; ++block)
#pragma GCC unroll 4
      for (int run = 0; run < RUNS; ++run) {
        const Quad& quad = weights[(first + run * apart) * blocks + block];
        fetch_ahead<sizeof(Quad)>(&quad);
        add_block(quad, x + block, x_row, sums[run]);
      }
#pragma GCC unroll 4
    for (int run = 0; run < RUNS; ++run)
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r)
        store_sums(out + r * stride + 4 * (first + run * apart), sums[run][r], adds);
  }
}

// How far apart runs lie, in fours of rows of `bytes` each. If possible not whole pages, `near` bytes more or
// less: of three runs of Q4_Kx4, two of which lay so, a Neoverse-V1 read 49 GB/s instead of 60.
template <int RUNS>
std::int64_t run_length(std::int64_t count, std::int64_t bytes) {
  constexpr std::int64_t page = 4096, near = 384, tries = 8;
  const auto collide = [&](std::int64_t apart) {
    for (int run = 1; run < RUNS; ++run)
      if ((run * apart * bytes + near) % page < 2 * near) return true;
    return false;
  };
  const std::int64_t most = count / RUNS;
  for (std::int64_t apart = most; apart > most - tries && apart > most / 2; --apart)
    if (!collide(apart)) return apart;
  return most;
}

template <typename Quad, int ROWS>
void multiply_rows(const RepackedMatrix& matrix, std::int64_t first_quad, std::int64_t count, const void* x,
                   float* out, std::int64_t stride) {
  using X = typename ColumnsOf<Quad>::X;
  constexpr int runs = ColumnsOf<Quad>::runs(ROWS);
  const std::int64_t x_row = matrix.depth / Panel<Quad>::elements;
  for (std::int64_t first = 0; first < matrix.depth; first += repacked_panel) {
    const Panel<Quad> panel(matrix, first);
    const X* part = static_cast<const X*>(x) + first / Panel<Quad>::elements;
    const auto bytes = static_cast<std::int64_t>(sizeof(Quad)) * panel.blocks;
    std::int64_t done = 0;
    for (std::int64_t apart = run_length<runs>(count, bytes); apart > 0; apart = (count - done) / runs) {
      multiply_runs<runs, ROWS>(panel[first_quad + done], apart, panel.blocks, part, x_row, out + 4 * done,
                                stride, first > 0);
      done += apart * runs;
    }
    multiply_runs<1, ROWS>(panel[first_quad + done], count - done, panel.blocks, part, x_row, out + 4 * done,
                           stride, first > 0);
  }
}

}  // namespace

#define HEARTH_REPACK(dtype, Block, fours, Quad) repack<Block, Quad>,
#define HEARTH_DEQUANTISE(dtype, Block, fours, Quad) dequantise<Quad>,
#define HEARTH_ROUND(dtype, Block, fours, Quad) ColumnsOf<Quad>::round,
#define HEARTH_ROUNDED_BYTES(dtype, Block, fours, Quad) 8 / pieces<Quad> * sizeof(ColumnsOf<Quad>::X),
#define HEARTH_MULTIPLY_1(dtype, Block, fours, Quad) multiply_rows<Quad, 1>,
#define HEARTH_MULTIPLY_2(dtype, Block, fours, Quad) multiply_rows<Quad, 2>,
#define HEARTH_MULTIPLY_3(dtype, Block, fours, Quad) multiply_rows<Quad, 3>,
#define HEARTH_MULTIPLY_4(dtype, Block, fours, Quad) multiply_rows<Quad, 4>,
extern const RepackedKernels repacked_kernels_table = {true,
                                                       {HEARTH_REPACKED_FORMATS(HEARTH_REPACK)},
                                                       {HEARTH_REPACKED_FORMATS(HEARTH_DEQUANTISE)},
                                                       {HEARTH_REPACKED_FORMATS(HEARTH_ROUND)},
                                                       {HEARTH_REPACKED_FORMATS(HEARTH_ROUNDED_BYTES)},
                                                       {{HEARTH_REPACKED_FORMATS(HEARTH_MULTIPLY_1)},
                                                        {HEARTH_REPACKED_FORMATS(HEARTH_MULTIPLY_2)},
                                                        {HEARTH_REPACKED_FORMATS(HEARTH_MULTIPLY_3)},
                                                        {HEARTH_REPACKED_FORMATS(HEARTH_MULTIPLY_4)}},
                                                       repacked_few_rows};
#else
extern const RepackedKernels repacked_kernels_table = {};
#endif

}  // namespace hearth::cpu::HEARTH_ISA
