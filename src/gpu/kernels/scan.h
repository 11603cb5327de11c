// Running sums and products along one axis.
//
// A line is cut into chunks where there are too few lines to fill the device: their totals first, then the
// totals before each chunk, then the chunks with what comes before them.
#pragma once

#include "nest.h"

// Sums of f32 are kept in f64: the error of a long running sum would show. Integers wrap around.
template <class T>
struct Running {
  using Type = u64;
  using Out = i64;
};
template <>
struct Running<f32> {
  using Type = f64;
  using Out = f32;
};
template <>
struct Running<f64> {
  using Type = f64;
  using Out = f64;
};
template <>
struct Running<f16> {
  using Type = f32;
  using Out = f16;
};
template <>
struct Running<bf16> {
  using Type = f32;
  using Out = bf16;
};

struct Plus {
  template <class A>
  static DEVICE A identity() {
    return A(0);
  }
  template <class A>
  static DEVICE A combine(A a, A b) {
    return a + b;
  }
};
struct Times {
  template <class A>
  static DEVICE A identity() {
    return A(1);
  }
  template <class A>
  static DEVICE A combine(A a, A b) {
    return a * b;
  }
};

// The combination of the values of the threads before this one, and of the whole block. The block is a whole
// number of waves.
template <class Combine, class A>
DEVICE A scan_block(A value, A& total) {
  __shared__ A of_wave[1024 / WAVE];
  A upto = value;
#pragma unroll
  for (u32 distance = 1; distance < WAVE; distance *= 2) {
    const A before = from_lane(upto, (lane() - distance) % WAVE);
    if (lane() >= distance) upto = Combine::combine(before, upto);
  }
  const A left = from_lane(upto, (lane() - 1) % WAVE);
  A before = lane() == 0 ? Combine::template identity<A>() : left;
  const u32 waves = blockDim.x / WAVE;
  if (waves == 1) {
    total = from_lane(upto, WAVE - 1);
    return before;
  }
  barrier();  // a scan before this one may still be reading
  if (lane() == WAVE - 1) of_wave[wave()] = upto;
  barrier();
  A sum = Combine::template identity<A>(), waves_before = sum;
  for (u32 w = 0; w < waves; ++w) {
    if (w == wave()) waves_before = sum;
    sum = Combine::combine(sum, of_wave[w]);
  }
  total = sum;
  return Combine::combine(waves_before, before);
}

struct Chunks {
  u64 lines, length, chunk, per_line;  // elements of a chunk, chunks of a line
};

// Elements of a line that a thread of scan_rows has at a time: 16 bytes.
template <class T>
constexpr int scan_items = 16 / sizeof(T) < 8 ? 16 / sizeof(T) : 8;

// Elements [first, first + N) of a line, those from `end` on as the identity.
template <class Combine, bool packets, int N, class T, class A>
DEVICE void load_items(const T* line, i64 step, u64 first, u64 end, A (&value)[N]) {
  if (packets && first + N <= end) {
    const auto packet = *reinterpret_cast<const Packet<T, N>*>(line + first);
#pragma unroll
    for (int n = 0; n < N; ++n) value[n] = (A)load(packet.element[n]);
    return;
  }
#pragma unroll
  for (int n = 0; n < N; ++n)
    value[n] = first + n < end ? (A)load(line[(i64)(first + n) * step]) : Combine::template identity<A>();
}

// A block per chunk, its threads side by side along the line. Nest over lines: x, out. With `totals` only the
// chunks' totals are made, without `carries` lines have one chunk. `packets`: lines are dense and aligned.
template <class Combine, class Index, bool packets, bool only_totals, class T>
DEVICE void scan_rows(const T* x, typename Running<T>::Out* out, typename Running<T>::Type* totals,
                      const Nest<2>& nest, i64 x_step, i64 out_step, const Chunks& chunks) {
  using A = typename Running<T>::Type;
  using Out = typename Running<T>::Out;
  constexpr int N = scan_items<T>;
  for (u64 job = blockIdx.x; job < chunks.lines * chunks.per_line; job += gridDim.x) {
    const u64 line = job / chunks.per_line, begin = (job - line * chunks.per_line) * chunks.chunk;
    const u64 end = begin + chunks.chunk < chunks.length ? begin + chunks.chunk : chunks.length;
    const auto offsets = nest.at((Index)line);
    const T* from = x + offsets.of[0];
    Out* to = out + offsets.of[1];
    A carry = only_totals || chunks.per_line == 1 ? Combine::template identity<A>() : totals[job];
    for (u64 tile = begin; tile < end; tile += (u64)blockDim.x * N) {
      const u64 first = tile + threadIdx.x * N;
      A value[N];
      load_items<Combine, packets, N>(from, x_step, first, end, value);
#pragma unroll
      for (int n = 1; n < N; ++n) value[n] = Combine::combine(value[n - 1], value[n]);
      A total;
      const A before = Combine::combine(carry, scan_block<Combine>(value[N - 1], total));
      carry = Combine::combine(carry, total);
      if constexpr (!only_totals) {
        if (packets && sizeof(Out) == sizeof(T) && first + N <= end) {
          Packet<Out, N> packet;
#pragma unroll
          for (int n = 0; n < N; ++n) packet.element[n] = store<Out>(Combine::combine(before, value[n]));
          *reinterpret_cast<Packet<Out, N>*>(to + first) = packet;
        } else {
#pragma unroll
          for (int n = 0; n < N; ++n)
            if (first + n < end)
              to[(i64)(first + n) * out_step] = store<Out>(Combine::combine(before, value[n]));
        }
      }
    }
    if (only_totals && threadIdx.x == 0) totals[job] = carry;
  }
}

// A thread per chunk, neighbouring threads on neighbouring lines.
template <class Combine, class Index, bool only_totals, class T>
DEVICE void scan_columns(const T* x, typename Running<T>::Out* out, typename Running<T>::Type* totals,
                         const Nest<2>& nest, i64 x_step, i64 out_step, const Chunks& chunks) {
  using A = typename Running<T>::Type;
  using Out = typename Running<T>::Out;
  constexpr int under_way = 4;
  for (u64 job = global_thread(); job < chunks.lines * chunks.per_line; job += global_threads()) {
    const u64 piece = job / chunks.lines, line = job - piece * chunks.lines, begin = piece * chunks.chunk;
    const u64 end = begin + chunks.chunk < chunks.length ? begin + chunks.chunk : chunks.length;
    const auto offsets = nest.at((Index)line);
    const T* from = x + offsets.of[0];
    Out* to = out + offsets.of[1];
    A* total = totals + line * chunks.per_line + piece;
    A sum = only_totals || chunks.per_line == 1 ? Combine::template identity<A>() : *total;
    for (u64 first = begin; first < end; first += under_way) {
      A value[under_way];
      load_items<Combine, false, under_way>(from, x_step, first, end, value);
#pragma unroll
      for (int n = 0; n < under_way; ++n) {
        sum = Combine::combine(sum, value[n]);
        if (!only_totals && first + n < end) to[(i64)(first + n) * out_step] = store<Out>(sum);
      }
    }
    if (only_totals) *total = sum;
  }
}

// From the totals of a line's chunks to what comes before each; a block per line.
template <class Combine, class A>
DEVICE void carry_totals(A* totals, u64 lines, u64 per_line) {
  for (u64 line = blockIdx.x; line < lines; line += gridDim.x) {
    A carry = Combine::template identity<A>();
    for (u64 first = 0; first < per_line; first += blockDim.x) {
      const u64 i = first + threadIdx.x;
      const A value = i < per_line ? totals[line * per_line + i] : Combine::template identity<A>();
      A total;
      const A before = Combine::combine(carry, scan_block<Combine>(value, total));
      carry = Combine::combine(carry, total);
      if (i < per_line) totals[line * per_line + i] = before;
    }
  }
}
