// What a product of queries, keys and values goes on with: rope, and rows of a cache (device/step.h,
// StoredHeads).
#pragma once

#include "gemm.h"
#include "indexing.h"
#include "rope.h"

// Slots of the rows in a cache of (slots, groups, size).
template <class T>
struct HeadRows {
  const i64* slots;
  i64 slot_step;
  T* cache;
};

// T: of the caches.
template <class T>
struct StoreHeads {
  RopeTurns turns;
  HeadRows<T> keys, values;
  f32* queries;  // (heads, rows, size)
  i64 slots;     // of a cache
  u32 rows, heads, groups;
  Fault fault;

  // Cosines and sines of all rows, by a block.
  DEVICE void compute_angles(f32* cosines, f32* sines) const {
    const u32 half = (u32)turns.half;
    for (u32 i = threadIdx.x; i < rows * half; i += blockDim.x)
      turns.at((u64)(i / half), turns.turns(i % half), cosines[i], sines[i]);
  }
  // How far each of `count` pairs turns per position, from pair `first` on, by a block.
  DEVICE void compute_turns(f64* each, u32 first, u32 count) const {
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
      each[i] = turns.turns((first + i) % (u32)turns.half);
  }
};

// Where a FinishHeads has cosine and sine from: those of all rows and pairs of a head, ...
struct AnglesOfRows {
  const f32 *cosines, *sines;
  DEVICE void read(const RopeTurns& turns, i64 row, u32, u32 i, f32& cosine, f32& sine) const {
    cosine = cosines[row * (u32)turns.half + i];
    sine = sines[row * (u32)turns.half + i];
  }
};
// ... or how far each of the block's pairs turns, from pair `first` on.
struct TurnsOfPairs {
  const f64* each;
  u32 first;
  DEVICE void read(const RopeTurns& turns, i64 row, u32 at, u32, f32& cosine, f32& sine) const {
    turns.at((u64)row, each[at - first], cosine, sine);
  }
};

// Takes the place of a Finish: each pair of sums is one that the rope turns, number `at` of all. Runs lie in
// one head.
template <class T, bool INTERLEAVED, class Angles>
struct FinishHeads : StoreHeads<T> {
  using Base = StoreHeads<T>;
  using Base::groups, Base::heads, Base::keys, Base::queries, Base::rows, Base::turns, Base::values;
  static constexpr int run_bytes = 4;
  Angles angles;
  DEVICE FinishHeads(const StoreHeads<T>& given, const Angles& from) : Base(given), angles(from) {}

  DEVICE void start(u64, u32) const {}
  template <int N>
  DEVICE void operator()(i64 row, i64 at, const gemm::Pair<f32, N>& sums) const {
    const u32 half = (u32)turns.half, head = (u32)at / half, i = (u32)at - head * half;
    gemm::Pair<f32, N> turned = sums;
    if (head < heads + groups) {
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const f32 a = sums.left.element[e], b = sums.right.element[e];
        f32 cosine, sine;
        angles.read(turns, row, (u32)at + e, i + e, cosine, sine);
        turned.left.element[e] = a * cosine - b * sine;
        turned.right.element[e] = a * sine + b * cosine;
      }
    }
    if (head < heads)
      put(queries + ((i64)head * rows + row) * 2 * half, i, turned);
    else if (head < heads + groups)
      put(keys, row, head - heads, i, turned);
    else
      put(values, row, head - heads - groups, i, turned);
  }

 private:
  template <int N>
  DEVICE void put(const HeadRows<T>& to, i64 row, u32 group, u32 i, const gemm::Pair<f32, N>& pairs) const {
    const i64 index = to.slots[row * to.slot_step];
    if (index < 0) return;  // names no row
    const u64 slot = checked(index, this->slots, this->fault);
    if (slot < (u64)this->slots) put(to.cache + (slot * groups + group) * 2 * (u32)turns.half, i, pairs);
  }
  // Into a head's features, from pair i on.
  template <class S, int N>
  DEVICE void put(S* features, u32 i, const gemm::Pair<f32, N>& pairs) const {
    if constexpr (INTERLEAVED) {
      Packet<S, 2 * N> both;
#pragma unroll
      for (int e = 0; e < N; ++e) {
        both.element[2 * e] = store<S>(pairs.left.element[e]);
        both.element[2 * e + 1] = store<S>(pairs.right.element[e]);
      }
      gemm::store_run(features + 2 * i, both);
    } else {
      Packet<S, N> left, right;
#pragma unroll
      for (int e = 0; e < N; ++e) {
        left.element[e] = store<S>(pairs.left.element[e]);
        right.element[e] = store<S>(pairs.right.element[e]);
      }
      gemm::store_run(features + i, left);
      gemm::store_run(features + (u32)turns.half + i, right);
    }
  }
};
