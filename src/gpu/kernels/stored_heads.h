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
};

// Takes the place of a Finish: each pair of sums is one that the rope turns, number `at` of all.
template <class T, bool INTERLEAVED>
struct FinishHeads : StoreHeads<T> {
  using Base = StoreHeads<T>;
  using Base::groups, Base::heads, Base::keys, Base::queries, Base::rows, Base::turns, Base::values;
  const f32 *cosines, *sines;
  DEVICE FinishHeads(const StoreHeads<T>& given, const f32* c, const f32* s)
      : Base(given), cosines(c), sines(s) {}

  DEVICE void start(u64, u32) const {}
  DEVICE void operator()(i64 row, i64 at, const gemm::Pair<f32, 1>& sums) const {
    const u32 half = (u32)turns.half, head = (u32)at / half, i = (u32)at - head * half;
    f32 a = sums.left.element[0], b = sums.right.element[0];
    if (head < heads + groups) {
      const f32 cosine = cosines[row * half + i], sine = sines[row * half + i];
      const f32 first = a * cosine - b * sine, second = a * sine + b * cosine;
      a = first;
      b = second;
    }
    const u32 place = INTERLEAVED ? 2 * i : i, apart = INTERLEAVED ? 1 : half;
    if (head < heads) {
      f32* const to = queries + ((i64)head * rows + row) * 2 * half + place;
      to[0] = a;
      to[apart] = b;
    } else if (head < heads + groups) {
      put(keys, row, head - heads, place, apart, a, b);
    } else {
      put(values, row, head - heads - groups, place, apart, a, b);
    }
  }

 private:
  DEVICE void put(const HeadRows<T>& to, i64 row, u32 group, u32 place, u32 apart, f32 a, f32 b) const {
    const i64 index = to.slots[row * to.slot_step];
    if (index < 0) return;  // names no row
    const u64 slot = checked(index, this->slots, this->fault);
    if (slot >= (u64)this->slots) return;
    T* const at = to.cache + (slot * groups + group) * 2 * (u32)turns.half + place;
    at[0] = store<T>(a);
    at[apart] = store<T>(b);
  }
};
