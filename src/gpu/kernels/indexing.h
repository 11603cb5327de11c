// Places given by data.
#pragma once

#include "sort.h"

// How kernels tell of an index out of range: in a word that the host looks at when it waits for the device.
// Low 16 bits: the operation + 1; above: the index.
struct Fault {
  u64* word;
  u64 operation;
};

// An index as a number in [0, size), negative ones counted from the end, or `size` after telling the host.
DEVICE u64 checked(i64 index, i64 size, const Fault& fault) {
  const i64 counted = index < 0 ? index + size : index;
  if (counted >= 0 && counted < size) return (u64)counted;
  store_for_host(fault.word, (u64)index << 16 | (fault.operation + 1));
  return (u64)size;
}

constexpr int gathers_under_way = 4;

// take, gather. out[i] = x[operand 0 + index * axis_stride], index at operand 1.
template <class Index, class Unit, class I>
DEVICE void gather_units(const Unit* x, const I* indices, Unit* out, const Nest<2>& nest, i64 axis_stride,
                         i64 size, u64 count, const Fault& fault) {
  const u64 stride = blockDim.x, step = (u64)gridDim.x * stride * gathers_under_way;
  for (u64 first = blockIdx.x * stride * gathers_under_way + threadIdx.x; first < count; first += step) {
    Unit value[gathers_under_way];
#pragma unroll
    for (int e = 0; e < gathers_under_way; ++e) {
      const u64 i = first + e * stride;
      const auto offsets = nest.at((Index)(i < count ? i : count - 1));
      const u64 index = checked((i64)indices[offsets.of[1]], size, fault);
      value[e] = index < (u64)size ? x[offsets.of[0] + (i64)index * axis_stride] : Unit{};
    }
#pragma unroll
    for (int e = 0; e < gathers_under_way; ++e)
      if (first + e * stride < count) out[first + e * stride] = value[e];
  }
}

// ---- scatter: each element of the output finds the last source element that is meant for it

template <class Count>
DEVICE void no_winners(Count* winners, u64 count) {
  for (u64 i = global_thread(); i < count; i += global_threads()) winners[i] = 0;
}

// Over the indices: operand 0 the index, 1 the line in the output, 2 the position along the axis.
template <class Index, class Count, class I>
DEVICE void find_winners(const I* indices, Count* winners, const Nest<3>& nest, i64 axis_stride, i64 size,
                         u64 count, const Fault& fault) {
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto offsets = nest.at((Index)i);
    const u64 index = checked((i64)indices[offsets.of[0]], size, fault);
    if (index < (u64)size)
      atomicMax(&winners[offsets.of[1] + (i64)index * axis_stride], (Count)(offsets.of[2] + 1));
  }
}

// Over the output: operand 0 of x, 1 the line in the source.
template <class Index, class Count, class T>
DEVICE void take_winners(const T* x, const T* source, const Count* winners, T* out, const Nest<2>& nest,
                         i64 source_stride, u64 count) {
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto offsets = nest.at((Index)i);
    const Count winner = winners[i];
    out[i] = winner > 0 ? source[offsets.of[1] + (i64)(winner - 1) * source_stride] : x[offsets.of[0]];
  }
}

constexpr u64 index_chunk = 64;

// ---- index_add, scatter_add: the indices of each line are sorted, then each element of the output adds up
// what is meant for it, in the order of the source, or of chunks of it

// Keys of indices; what is out of range comes last and is meant for no one.
template <class Index, class I>
struct IndexKeys {
  const I* indices;
  Nest<1> places;  // over lines and the axis
  u64 length;
  i64 size;
  Fault fault;
  DEVICE u64 operator()(u64 line, u64 k) const {
    return checked((i64)indices[places.at((Index)(line * length + k)).of[0]], size, fault);
  }
};

// starts[line * (size + 1) + d]: how many of the line's sorted pairs have keys below d.
template <class Pair>
DEVICE void find_starts(const Pair* sorted, u64 line_pairs, u64 length, typename Pair::Position* starts,
                        u64 size, u64 lines) {
  const u64 count = lines * (size + 1);
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const Pair* pairs = sorted + i / (size + 1) * line_pairs;
    const u64 destination = i % (size + 1);
    u64 low = 0, high = length;
    while (low < high) {
      const u64 middle = (low + high) / 2;
      if (pairs[middle].key() < destination)
        low = middle + 1;
      else
        high = middle;
    }
    starts[i] = (typename Pair::Position)low;
  }
}

// Integers wrap around; a sum of bools is whether any is true.
template <class T>
struct Sum {
  using Type = typename Stored<T>::Compute;
};
template <>
struct Sum<i8> {
  using Type = u32;
};
template <>
struct Sum<u8> {
  using Type = u32;
};
template <>
struct Sum<i16> {
  using Type = u32;
};
template <>
struct Sum<i32> {
  using Type = u32;
};
template <>
struct Sum<i64> {
  using Type = u64;
};
template <>
struct Sum<bool> {
  using Type = bool;
};

// Adds up what the sorted pairs from `first` to `end` are meant for.
template <class Index, class Pair, class T, int N, class S>
DEVICE void add_pairs(S (&sum)[N], const Packet<T, N>* line, const Pair* pairs, const Nest<1>& along,
                      u64 first, u64 end) {
  constexpr int under_way = 8;
  for (; first < end; first += under_way) {
    Packet<T, N> packet[under_way];
#pragma unroll
    for (int e = 0; e < under_way; ++e)
      if (first + e < end) packet[e] = line[along.at((Index)pairs[first + e].position()).of[0]];
#pragma unroll
    for (int e = 0; e < under_way; ++e)
      if (first + e < end)
#pragma unroll
        for (int n = 0; n < N; ++n) sum[n] = sum[n] + (S)load(packet[e].element[n]);
  }
}

// Of words that are frequent, one thread would have thousands to wait for. So the sums of pairs are made
// beforehand in chunks: sums[c] is that of the pairs from c * index_chunk on, if all are meant for one
// destination. A row of the output has `width` packets.
template <class Index, class Pair, class T, int N>
DEVICE void sum_chunks(const Packet<T, N>* source, Packet<typename Sum<T>::Type, N>* sums, const Pair* sorted,
                       const Nest<1>& along, u64 chunks, u64 width) {
  using S = typename Sum<T>::Type;
  for (u64 i = global_thread(); i < chunks * width; i += global_threads()) {
    const u64 first = i / width * index_chunk;
    if (sorted[first].key() != sorted[first + index_chunk - 1].key()) continue;
    Packet<S, N> sum{};
    add_pairs<Index>(sum.element, source + i % width, sorted, along, first, first + index_chunk);
    sums[i] = sum;
  }
}

// Sums of chunks, or none of them.
template <class S, int N>
struct ChunkSums {
  static constexpr bool there = true;
  const Packet<S, N>* sums;
  u64 width;
};
struct NoChunkSums {
  static constexpr bool there = false;
};

// Over the output, in packets: operands 0 output, 1 x (absent: zeros), 2 the line in the source, 3 the line
// among the sorted pairs, 4 the start. `along` leads from a position to the source.
template <class Index, bool with_x, class Pair, class T, int N, class Chunks>
DEVICE void add_sorted(const Packet<T, N>* x, const Packet<T, N>* source, Packet<T, N>* out,
                       const Pair* sorted, const typename Pair::Position* starts, const Nest<5>& nest,
                       const Nest<1>& along, u64 count, const Chunks& chunks) {
  using S = typename Sum<T>::Type;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto offsets = nest.at((Index)i);
    S sum[N] = {};
    if constexpr (with_x) {
      const Packet<T, N> packet = x[offsets.of[1]];
#pragma unroll
      for (int n = 0; n < N; ++n) sum[n] = (S)load(packet.element[n]);
    }
    const Packet<T, N>* line = source + offsets.of[2];
    const Pair* pairs = sorted + offsets.of[3];
    const u64 begin = starts[offsets.of[4]], end = starts[offsets.of[4] + 1];
    u64 first = begin, stop = end;
    if constexpr (Chunks::there) {
      const u64 chunk = (begin + index_chunk - 1) / index_chunk;
      if (chunk < end / index_chunk) stop = chunk * index_chunk;
    }
    // One place where pairs are added, for what chunks leave in front and behind: two would need registers
    // for both.
#pragma unroll 1
    for (;;) {
      add_pairs<Index>(sum, line, pairs, along, first, stop);
      if (stop == end) break;
      if constexpr (Chunks::there) {
        for (u64 c = stop / index_chunk; c < end / index_chunk; ++c) {
          const Packet<S, N> packet = chunks.sums[c * chunks.width + i % chunks.width];
#pragma unroll
          for (int n = 0; n < N; ++n) sum[n] = sum[n] + packet.element[n];
        }
        first = end / index_chunk * index_chunk;
      }
      stop = end;
    }
    Packet<T, N> result;
#pragma unroll
    for (int n = 0; n < N; ++n) result.element[n] = store<T>(sum[n]);
    out[offsets.of[0]] = result;
  }
}
