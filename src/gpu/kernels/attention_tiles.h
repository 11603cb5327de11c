// The tiles of attention's kernels, and the two products that all of them are made of (mma_chain.h).
//
// A block has rows of its own; other rows pass by in tiles. For an engine E:
//   E::own, E::others              rows of the block's own, and of a tile that passes by
//   E::Scores, E::Sums             one value per (own, other) and per (own, feature), spread over the threads
//   each(slot, column, value)      visits those that a thread holds; slot: a number for each of its own rows
//   E::own_row(slot)               which row of the block's own that is
// MmaEngine uses the matrix unit, FmaEngine multiply-adds in f32.
#pragma once

#include "attention_arguments.h"
#include "gpu.h"

namespace attention {

// ---- from memory to tiles ----

// Rows of an operand. Each is there for row < rows.
template <class Type>
struct Rows {
  using T = Type;
  const T* data;
  i64 row_stride, feature_stride;
  int rows, features;
  DEVICE const T* at(int row) const { return data + row * row_stride; }
};
// The same rows of several heads, one head after another.
template <class Type>
struct StackedRows {
  using T = Type;
  const T* data;
  i64 head_stride, row_stride, feature_stride;
  int rows, features, per_head;
  DEVICE const T* at(int row) const {
    return data + row / per_head * head_stride + row % per_head * row_stride;
  }
};

// Eight features of a row, zero where there are none. PACKETS: rows are multiples of 16 bytes, and lie so;
// what is not there is read from the first row, so that several can be under way at once.
template <bool PACKETS, class Source>
DEVICE Packet<typename Source::T, 8> fetch(const Source& source, int row, int feature) {
  using T = typename Source::T;
  if constexpr (PACKETS) {
    const bool there = row < source.rows && feature < source.features;
    const T* const from = source.at(there ? row : 0) + (there ? feature : 0);
    constexpr int count = 2 * (int)sizeof(T);
    auto words = bit_cast<Packet<u32, count>>(*reinterpret_cast<const Packet<T, 8>*>(from));
#pragma unroll
    for (int i = 0; i < count; ++i) words.element[i] = there ? words.element[i] : 0;
    return bit_cast<Packet<T, 8>>(words);
  } else {
    Packet<T, 8> packet{};
    if (row >= source.rows) return packet;
    const T* from = source.at(row);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (feature + i < source.features) packet.element[i] = from[(feature + i) * source.feature_stride];
    return packet;
  }
}

DEVICE void put(f16* to, const Packet<f16, 8>& packet) { *reinterpret_cast<Packet<f16, 8>*>(to) = packet; }
DEVICE void put(bf16* to, const Packet<bf16, 8>& packet) { *reinterpret_cast<Packet<bf16, 8>*>(to) = packet; }
template <class T>
DEVICE void put(f32* to, const Packet<T, 8>& packet) {
  Packet<f32, 8> wide;
#pragma unroll
  for (int i = 0; i < 8; ++i) wide.element[i] = load(packet.element[i]);
  *reinterpret_cast<Packet<f32, 8>*>(to) = wide;
}

// ROWS rows from `first` on, as they are, COUNT packets of each thread at a time: fetch() has them under way,
// put() waits for them.
template <int ROWS, int FEATURES, int THREADS, int COUNT, bool PACKETS, class T>
struct RowPackets {
  static constexpr int packets = FEATURES / 8, items = ROWS * packets;
  Packet<T, 8> of[COUNT];

  template <class Source>
  DEVICE void fetch(const Source& source, int first, int item) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int at = item + i * THREADS;
      if (items % (THREADS * COUNT) == 0 || at < items)
        of[i] = attention::fetch<PACKETS>(source, first + at / packets, at % packets * 8);
    }
  }
  template <class U>
  DEVICE void put(U* tile, int stride, int item) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int at = item + i * THREADS;
      if (items % (THREADS * COUNT) == 0 || at < items)
        attention::put(tile + at / packets * stride + at % packets * 8, of[i]);
    }
  }
};
template <int ROWS, int FEATURES, int THREADS, bool PACKETS, class U, class Source>
DEVICE void load_rows(U* tile, int stride, const Source& source, int first) {
  constexpr int count = sizeof(typename Source::T) == 2 ? 4 : 2;
#pragma unroll 1
  for (int item = (int)threadIdx.x; item < ROWS * (FEATURES / 8); item += THREADS * count) {
    RowPackets<ROWS, FEATURES, THREADS, count, PACKETS, typename Source::T> packets;
    packets.fetch(source, first, item);
    packets.put(tile, stride, item);
  }
}

// ---- from sums to memory ----

// `place(row)`: where the block's own row begins; there are `rows` of them.
template <class E, bool PACKETS, class U, class Place>
DEVICE void store_rows(typename E::Sums& sums, const f32 (&factor)[E::slots], U* out, int rows, int features,
                       const Place& place) {
  U* row[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) row[s] = out + place(E::own_row(s));
  sums.each_run([&](int slot, int feature, const f32* values) {
    if (E::own_row(slot) >= rows) return;
    Packet<U, E::run> packet;
#pragma unroll
    for (int i = 0; i < E::run; ++i) packet.element[i] = store<U>(values[i] * factor[slot]);
    if constexpr (PACKETS) {
      if (feature < features) *reinterpret_cast<Packet<U, E::run>*>(row[slot] + feature) = packet;
    } else {
#pragma unroll
      for (int i = 0; i < E::run; ++i)
        if (feature + i < features) row[slot][feature + i] = packet.element[i];
    }
  });
}
// One value per own row, by one of the threads that have it.
template <class E, class F>
DEVICE void for_own_rows(int rows, const F& f) {
#pragma unroll
  for (int s = 0; s < E::slots; ++s)
    if (E::first_of_row() && E::own_row(s) < rows) f(s, E::own_row(s));
}

}  // namespace attention
