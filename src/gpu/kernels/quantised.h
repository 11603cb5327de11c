// Quantised weights: dequantise, take, and products with few and with many rows.
//
// Blocks lie in planes (gpu/block_planes.h): what is read in packets of 16 bytes is aligned to them. All
// formats are seen as runs of 16 neighbours: element = scale * q - offset, q in bytes.
// A format's `zero` is the q of 0, where there is one.
#pragma once

#include "gemm.h"
#include "indexing.h"

namespace quantised {

// ---- formats ----

struct Blocks {
  const u8* data;
  u64 count;
  // Where a block's part of a plane is: its offset in a block, and its size.
  DEVICE const u8* part(u64 block, u32 before, u32 size) const {
    return data + count * before + block * size;
  }
};

struct Run {
  u32 q[4];
  f32 scale, offset;
};

DEVICE u32 word(const u8* at) { return *reinterpret_cast<const u32*>(at); }
DEVICE f32 half_at(const u8* at) { return to_f32(*reinterpret_cast<const f16*>(at)); }
DEVICE Packet<u32, 4> packet(const u8* at) { return *reinterpret_cast<const Packet<u32, 4>*>(at); }
// Four bits as the given bit of four bytes.
template <int BIT>
DEVICE u32 spread(u32 bits) {
  return ((bits & 15) * 0x00204081u & 0x01010101u) << BIT;
}

// A block of 32 is two runs that share 16 bytes.
struct Small {
  static constexpr int elements = 32;
  static DEVICE u32 first_run(u32) { return 0; }
  static constexpr u32 second_run = 1;  // after the first
};

struct q4_0 : Small {
  static constexpr bool has_offset = true;
  static constexpr int zero = 8;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const auto q = packet(blocks.part(block, 0, 16));
    const f32 d = half_at(blocks.part(block, 16, 2));
    Run result{{}, d, 8 * d};
#pragma unroll
    for (int i = 0; i < 4; ++i) result.q[i] = q.element[i] >> 4 * run & 0x0f0f0f0fu;
    return result;
  }
};
struct q4_1 : Small {
  static constexpr bool has_offset = true;
  static constexpr int zero = 0;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const auto q = packet(blocks.part(block, 0, 16));
    const u8* scales = blocks.part(block, 16, 4);
    Run result{{}, half_at(scales), -half_at(scales + 2)};
#pragma unroll
    for (int i = 0; i < 4; ++i) result.q[i] = q.element[i] >> 4 * run & 0x0f0f0f0fu;
    return result;
  }
};
struct q5_0 : Small {
  static constexpr bool has_offset = true;
  static constexpr int zero = 16;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const auto q = packet(blocks.part(block, 0, 16));
    const u32 high = word(blocks.part(block, 16, 4)) >> 16 * run;
    const f32 d = half_at(blocks.part(block, 20, 2));
    Run result{{}, d, 16 * d};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      result.q[i] = (q.element[i] >> 4 * run & 0x0f0f0f0fu) | spread<4>(high >> 4 * i);
    return result;
  }
};
struct q5_1 : Small {
  static constexpr bool has_offset = true;
  static constexpr int zero = 0;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const auto q = packet(blocks.part(block, 0, 16));
    const u32 high = word(blocks.part(block, 16, 4)) >> 16 * run;
    const u8* scales = blocks.part(block, 20, 4);
    Run result{{}, half_at(scales), -half_at(scales + 2)};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      result.q[i] = (q.element[i] >> 4 * run & 0x0f0f0f0fu) | spread<4>(high >> 4 * i);
    return result;
  }
};
struct q8_0 : Small {
  static constexpr bool has_offset = false;
  static constexpr int zero = 0;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const auto q = packet(blocks.part(block, 0, 32) + 16 * run);
    return {{q.element[0], q.element[1], q.element[2], q.element[3]}, half_at(blocks.part(block, 32, 2)), 0};
  }
};

// A block of 256 is eight pairs of runs; those of a pair share 16 bytes.
struct q2_k {
  static constexpr int elements = 256;
  static constexpr bool has_offset = true;
  static constexpr int zero = 0;
  static DEVICE u32 first_run(u32 pair) { return pair / 2 * 4 + pair % 2; }
  static constexpr u32 second_run = 2;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const u8* at = blocks.part(block, 0, 80);
    const auto q = packet(at + 16 + run / 8 * 32 + run % 2 * 16);
    const u8* scales = blocks.part(block, 80, 4);
    const u32 scale = at[run];
    Run result{{}, half_at(scales) * (f32)(scale & 15), half_at(scales + 2) * (f32)(scale >> 4)};
#pragma unroll
    for (int i = 0; i < 4; ++i) result.q[i] = q.element[i] >> run / 2 % 4 * 2 & 0x03030303u;
    return result;
  }
};
struct q3_k {
  static constexpr int elements = 256;
  static constexpr bool has_offset = true;
  static constexpr int zero = 4;
  static DEVICE u32 first_run(u32 pair) { return q2_k::first_run(pair); }
  static constexpr u32 second_run = 2;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const u8* at = blocks.part(block, 0, 96);
    const auto high = packet(at + run % 2 * 16), q = packet(at + 32 + run / 8 * 32 + run % 2 * 16);
    const u8* scales = blocks.part(block, 96, 12);
    const int scale = (scales[run % 8] >> run / 8 * 4 & 15) | (scales[8 + run % 4] >> run / 4 * 2 & 3) << 4;
    const f32 d = half_at(blocks.part(block, 108, 2)) * (f32)(scale - 32);
    Run result{{}, d, 4 * d};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      result.q[i] =
          (q.element[i] >> run / 2 % 4 * 2 & 0x03030303u) | (high.element[i] >> run / 2 & 0x01010101u) << 2;
    return result;
  }
};
// The scale and offset of sub-block i, from a block's first 16 bytes.
DEVICE void sub_scale(const u8* at, u32 i, Run& run) {
  const auto head = packet(at);
  const u32 shift = i % 4 * 8;
  const u32 a = head.element[1] >> shift, b = head.element[2] >> shift, c = head.element[3] >> shift;
  const u32 scale = i < 4 ? a & 63 : (c & 15) | (a >> 6 & 3) << 4;
  const u32 offset = i < 4 ? b & 63 : (c >> 4 & 15) | (b >> 6 & 3) << 4;
  run.scale = to_f32(f16{(u16)head.element[0]}) * (f32)scale;
  run.offset = to_f32(f16{(u16)(head.element[0] >> 16)}) * (f32)offset;
}
struct q4_k {
  static constexpr int elements = 256;
  static constexpr bool has_offset = true;
  static constexpr int zero = 0;
  static DEVICE u32 first_run(u32 pair) { return pair / 2 * 4 + pair % 2; }
  static constexpr u32 second_run = 2;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const u8* at = blocks.part(block, 0, 144);
    const auto q = packet(at + 16 + run / 4 * 32 + run % 2 * 16);
    Run result;
    sub_scale(at, run / 2, result);
#pragma unroll
    for (int i = 0; i < 4; ++i) result.q[i] = q.element[i] >> run / 2 % 2 * 4 & 0x0f0f0f0fu;
    return result;
  }
};
struct q5_k {
  static constexpr int elements = 256;
  static constexpr bool has_offset = true;
  static constexpr int zero = 0;
  static DEVICE u32 first_run(u32 pair) { return q4_k::first_run(pair); }
  static constexpr u32 second_run = 2;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const u8* at = blocks.part(block, 0, 176);
    const auto high = packet(at + 16 + run % 2 * 16), q = packet(at + 48 + run / 4 * 32 + run % 2 * 16);
    Run result;
    sub_scale(at, run / 2, result);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      result.q[i] =
          (q.element[i] >> run / 2 % 2 * 4 & 0x0f0f0f0fu) | (high.element[i] >> run / 2 & 0x01010101u) << 4;
    return result;
  }
};
struct q6_k {
  static constexpr int elements = 256;
  static constexpr bool has_offset = true;
  static constexpr int zero = 32;
  static DEVICE u32 first_run(u32 pair) { return pair / 4 * 8 + pair % 4; }
  static constexpr u32 second_run = 4;
  static DEVICE Run run(const Blocks& blocks, u64 block, u32 run) {
    const u8* at = blocks.part(block, 0, 208);
    const auto low = packet(at + run / 8 * 64 + run % 4 * 16),
               high = packet(at + 128 + run / 8 * 32 + run % 2 * 16);
    const f32 d = half_at(blocks.part(block, 208, 2)) * (f32)(i32)(i8)at[192 + run];
    Run result{{}, d, 32 * d};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      result.q[i] = (low.element[i] >> run / 4 % 2 * 4 & 0x0f0f0f0fu) |
                    (high.element[i] >> run / 2 % 4 * 2 & 0x03030303u) << 4;
    return result;
  }
};

// ---- numbers ----

// q is signed where a format has bytes of all values, and small elsewhere. Where some q stands for zero, the
// offset is a multiple of the scale; without it zeros get the right sign.
template <class Format>
DEVICE f32 number(const Run& run, int i) {
  const i32 q = (i32)(i8)(run.q[i / 4] >> i % 4 * 8) - Format::zero;
  return fmaf(run.scale, (f32)q, Format::zero ? -0.0f : -run.offset);
}

template <class Format, class T>
DEVICE void write_run(const Blocks& blocks, u64 run, T* out) {
  constexpr int runs = Format::elements / 16, length = sizeof(T) < 2 ? 16 : 16 / sizeof(T);
  const Run numbers = Format::run(blocks, run / runs, (u32)(run % runs));
#pragma unroll
  for (int i = 0; i < 16; i += length) {
    Packet<T, length> packet;
#pragma unroll
    for (int e = 0; e < length; ++e) packet.element[e] = store<T>(number<Format>(numbers, i + e));
    *reinterpret_cast<Packet<T, length>*>(out + i) = packet;
  }
}

template <class Format, class T>
DEVICE void dequantise(const Blocks& blocks, T* out) {
  const u64 runs = blocks.count * (Format::elements / 16);
  for (u64 i = global_thread(); i < runs; i += global_threads()) write_run<Format>(blocks, i, out + i * 16);
}

// `runs` of a row; `rows` of the weights, `count` to be taken.
template <class Format, class T>
DEVICE void take(const Blocks& blocks, const i64* indices, const Nest<1>& places, u64 runs, i64 rows,
                 u64 count, T* out, const Fault& fault) {
  for (u64 i = global_thread(); i < count * runs; i += global_threads()) {
    const u64 row = checked(indices[places.at(i / runs).of[0]], rows, fault);
    if (row < (u64)rows)
      write_run<Format>(blocks, row * runs + i % runs, out + i * 16);
    else
      for (int e = 0; e < 16; ++e) out[i * 16 + e] = store<T>(0.0f);
  }
}

// ---- products with few rows ----

// x is rounded to bytes, 32 neighbours with one scale. It lies as pairs of runs are read: the first runs of
// all pairs, then the second ones. A pair has one Rounding if its runs are neighbours, else each run has.
struct Rounding {
  f32 scale;  // NaN where an element is not finite
  f32 sum;    // of the run's elements, or of the pair's
};
template <class Format>
constexpr bool one_rounding = Format::second_run == 1;

struct RunPlace {
  u32 pair, half;
};
template <class Format>
DEVICE RunPlace place_of(u32 run) {
  constexpr u32 second = Format::second_run;
  return {run / (2 * second) * second + run % second, run / second % 2};
}

// Rows of x, rounded by all threads from number `thread` on.
template <class Format, class T>
DEVICE void round_rows(const T* x, i64 row_stride, i64 k_stride, u32 rows, u32 depth, u8* q,
                       Rounding* roundings, u32 thread, u32 threads) {
  const u32 quads = rows * depth / 4;
  for (u32 first = thread - lane(); first < quads; first += threads) {  // whole waves: lanes ask each other
    const u32 i = first + lane();
    const bool there = i < quads;
    const u32 at = there ? i * 4 : 0, row = at / depth, k = at % depth;
    f32 value[4];
    u32 most = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      value[e] = load(x[row * row_stride + (k + e) * k_stride]);
      const u32 magnitude = bit_cast<u32>(value[e]) & 0x7fffffffu;  // NaN above infinity above numbers
      most = magnitude > most ? magnitude : most;
    }
#pragma unroll
    for (int mask = 1; mask < 8; mask *= 2) {
      const u32 other = from_lane_xor(most, mask);
      most = other > most ? other : most;
    }
    const bool finite = most < 0x7f800000u;
    const f32 largest = bit_cast<f32>(most), by = finite && largest >= 1e-30f ? 127.0f / largest : 0.0f;
    u32 bytes = 0;
    i32 sum = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const i32 rounded = finite ? (i32)rintf(value[e] * by) : 0;
      bytes |= ((u32)rounded & 255) << 8 * e;
      sum += rounded;
    }
    sum += from_lane_xor(sum, 1);
    sum += from_lane_xor(sum, 2);
    if constexpr (one_rounding<Format>) sum += from_lane_xor(sum, 4);
    if (!there) continue;
    const RunPlace place = place_of<Format>(k / 16);
    *reinterpret_cast<u32*>(q + row * depth + place.half * (depth / 2) + place.pair * 16 + k % 16) = bytes;
    const f32 scale = finite ? largest / 127.0f : bit_cast<f32>(0x7fc00000u);
    const Rounding rounding{scale, scale * (f32)sum};
    if constexpr (one_rounding<Format>) {
      if (k % 32 == 0) roundings[row * (depth / 32) + place.pair] = rounding;
    } else {
      if (k % 16 == 0) roundings[(row * 2 + place.half) * (depth / 32) + place.pair] = rounding;
    }
  }
}

constexpr int few_threads = 256;

template <int N>
struct Sums {
  f32 of[N];
};

// y(row, column) for ROWS rows (those from `rows` on count for nothing). A wave, or `parts` of them, computes
// COLUMNS neighbours, each lane every so many pairs of runs, AHEAD of them under way at a time.
template <class Format, int ROWS, int COLUMNS, int AHEAD, class T>
DEVICE void multiply_few(const Blocks& blocks, const u8* q, const Rounding* roundings, T* y, u32 rows,
                         u32 columns, u32 depth, u32 parts) {
  constexpr u32 pairs = Format::elements / 32;
  __shared__ Sums<ROWS * COLUMNS> partial[few_threads / WAVE];
  const u32 in_row = depth / 32, blocks_in_row = depth / Format::elements;
  const u32 groups = few_threads / WAVE / parts, group = wave() / parts, part = wave() % parts;
  const u32 step = parts * WAVE;
  for (u32 base = blockIdx.x * groups * COLUMNS; base < columns; base += gridDim.x * groups * COLUMNS) {
    const u32 column = base + group * COLUMNS;
    u64 first_block[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const u32 inside = column + c < columns ? column + c : columns - 1;
      first_block[c] = (u64)inside * blocks_in_row;
    }
    Sums<ROWS* COLUMNS> sums = {};
    for (u32 pair = part * WAVE + lane(); pair < in_row; pair += step * AHEAD) {
      Run held[AHEAD][COLUMNS][2];
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        const u32 p = pair + a * step < in_row ? pair + a * step : pair;
        const u32 run = Format::first_run(p % pairs);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            held[a][c][half] =
                Format::run(blocks, first_block[c] + p / pairs, run + half * Format::second_run);
      }
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        const u32 p = pair + a * step;
        if (p >= in_row) break;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          const u32 row = (u32)r < rows ? r : 0;
          Packet<u32, 4> x[2];
          Rounding rounding[2];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            x[half] = packet(q + row * depth + half * (depth / 2) + p * 16);
            rounding[half] =
                one_rounding<Format> ? roundings[row * in_row + p] : roundings[(row * 2 + half) * in_row + p];
          }
#pragma unroll
          for (int c = 0; c < COLUMNS; ++c) {
            f32& sum = sums.of[r * COLUMNS + c];
            i32 dot = 0;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const Run& w = held[a][c][half];
#pragma unroll
              for (int i = 0; i < 4; ++i) dot = dot4((i32)w.q[i], (i32)x[half].element[i], dot);
              if (one_rounding<Format> && half == 0) continue;
              sum = fmaf(w.scale * rounding[half].scale, (f32)dot, sum);
              if constexpr (Format::has_offset) sum = fmaf(-w.offset, rounding[half].sum, sum);
              dot = 0;
            }
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; ++i)
      sums.of[i] = wave_reduce(sums.of[i], [](f32 a, f32 b) { return a + b; });
    if (parts > 1) {
      if (lane() == 0) partial[wave()] = sums;
      barrier();
      if (part == 0)
        for (u32 other = 1; other < parts; ++other)
#pragma unroll
          for (int i = 0; i < ROWS * COLUMNS; ++i) sums.of[i] += partial[wave() + other].of[i];
      barrier();
    }
    if (part != 0 || lane() != 0) continue;
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c)
        if ((u32)r < rows && column + c < columns)
          y[(u64)r * columns + column + c] = store<T>(sums.of[r * COLUMNS + c]);
  }
}

// ---- products with many rows ----

// Rows of x as f16, each multiplied with a power of two that keeps it in range; a block per row.
template <class T>
DEVICE void halve_rows(const T* x, i64 row_stride, i64 k_stride, u32 rows, u32 depth, f16* out, f32* scales) {
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
    u32 most = 0;
    for (u32 k = threadIdx.x; k < depth; k += blockDim.x) {
      const u32 magnitude = bit_cast<u32>((f32)load(x[row * row_stride + k * k_stride])) & 0x7fffffffu;
      most = magnitude > most ? magnitude : most;
    }
    most = block_reduce(most, 0u, [](u32 a, u32 b) { return a > b ? a : b; });
    // The largest element lands in [2^8, 2^9): sums of products stay far from both ends of f16's numbers.
    const bool finite = most < 0x7f800000u;
    i32 exponent = (i32)(most >> 23) - 127 - 8;
    exponent = exponent < -100 ? -100 : exponent;
    const f32 by = bit_cast<f32>((u32)(127 - exponent) << 23);
    if (threadIdx.x == 0)
      scales[row] = finite ? bit_cast<f32>((u32)(127 + exponent) << 23) : bit_cast<f32>(0x7fc00000u);
    for (u32 k = threadIdx.x; k < depth; k += blockDim.x) {
      const f32 value = load(x[row * row_stride + k * k_stride]);
      out[(u64)row * depth + k] = to_f16(finite ? value * by : 0.0f);
    }
  }
}

// Weights as the right operand of gemm.h, fetched a run at a time.
template <class Format>
struct Weights {
  using Element = f16;
  static constexpr bool plain = false;
  Blocks blocks;
  i64 rows, depth, blocks_in_row;

  struct Row {
    u64 block;
    bool there;
  };
  DEVICE Row row(i64 index) const { return {(u64)(index * blocks_in_row), index < rows}; }
  template <int N>
  DEVICE Words<f16, N> along_k(const Row& row, i64 k) const {
    static_assert(N == 16, "a run");
    Packet<f16, N> packet = {};
    if (!row.there || k >= depth) return bit_cast<Words<f16, N>>(packet);
    const u32 at = (u32)k;
    const Run run = Format::run(blocks, row.block + at / Format::elements, at % Format::elements / 16);
#pragma unroll
    for (int i = 0; i < N; ++i) packet.element[i] = to_f16(number<Format>(run, i));
    return bit_cast<Words<f16, N>>(packet);
  }
};

template <class T>
struct Scaled {
  T* out;
  const f32* scales;
  i64 columns;
  DEVICE void start(u64, u32) {}
  template <int N>
  DEVICE void operator()(i64 row, i64 column, const Packet<f32, N>& run) const {
    Packet<T, N> values;
#pragma unroll
    for (int i = 0; i < N; ++i) values.element[i] = store<T>(run.element[i] * scales[row]);
    gemm::store_run(out + row * columns + column, values);
  }
};

}  // namespace quantised
