// Two products in a row by one wave, the result of the first being an operand of the second, in registers:
//
//   scores(own, other)  = sum over k     of mine(own, k) * theirs(other, k)
//   sums(own, feature) += sum over other of weight(scores(own, other)) * second(other, feature)
//
// Where the accumulator of a product lies as a left operand does, own rows are rows of the result. Where it
// lies as a right operand does, both products are computed transposed: own rows are columns, and `second` is
// read from a transposed copy in shared memory.
// Either way a lane holds the scores of `slots` own rows per tile of 16, its i-th one being that of row
// own(slot(i)) and column other(i); likewise for sums.
#pragma once

#include "mma.h"

namespace chain {

DEVICE u32 pack(f16, f32 low, f32 high) {
#ifdef HEARTH_NVIDIA
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return (u32)to_f16(low).bits | (u32)to_f16(high).bits << 16;
#endif
}
DEVICE u32 pack(bf16, f32 low, f32 high) {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return (u32)to_bf16(low).bits | (u32)to_bf16(high).bits << 16;
#endif
}

// run: how many scores of a lane, from a multiple of it on, are of neighbouring columns.
#if defined(HEARTH_MMA80)

constexpr bool transposes = false;
constexpr int run = 2;
constexpr int slots = 2;
DEVICE constexpr int slot(int i) { return i % 4 / 2; }
DEVICE int own(int slot) { return (int)lane() / 4 + 8 * slot; }
DEVICE int other(int i) { return mma::column(i); }

template <class T>
using Own = mma::FragmentA<T>;
template <class T>
using Other = mma::FragmentB<T>;
template <class T>
DEVICE Own<T> load_own(const T* tile, int stride) {
  return mma::load_a(tile, stride);
}
template <class T>
DEVICE Other<T> load_other(const T* tile, int stride) {
  return mma::load_b(tile, stride);
}
// `tile`: 16 features of as many others as the unit is deep.
template <class T>
DEVICE Other<T> load_second(const T* tile, int stride) {
  return mma::load_b_rows(tile, stride);
}
template <class T>
DEVICE void multiply_add(mma::Accumulator<T>& sums, const Own<T>& own, const Other<T>& other) {
  mma::multiply_add(sums, own, other);
}
template <class T>
DEVICE Own<T> operand(const mma::Accumulator<T>* weights) {
  Own<T> fragment;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    fragment.value[i] = pack(T{}, weights->element[2 * i], weights->element[2 * i + 1]);
  return fragment;
}
DEVICE int other_at(int place) { return place; }
template <class Combine>
DEVICE f32 row_reduce(f32 value, Combine combine) {
  value = combine(value, from_lane_xor(value, 1));
  return combine(value, from_lane_xor(value, 2));
}

#else

constexpr bool transposes = true;
#if defined(HEARTH_WMMA11)
constexpr int run = 1;
#else
constexpr int run = mma::elements;
#endif
constexpr int slots = 1;
DEVICE constexpr int slot(int) { return 0; }
DEVICE int own(int) { return (int)lane() % 16; }
DEVICE int other(int i) { return mma::row(i); }

template <class T>
using Own = mma::FragmentB<T>;
template <class T>
using Other = mma::FragmentA<T>;
template <class T>
DEVICE Own<T> load_own(const T* tile, int stride) {
  return mma::load_b(tile, stride);
}
template <class T>
DEVICE Other<T> load_other(const T* tile, int stride) {
  return mma::load_a(tile, stride);
}
// `tile`: rows of others, one for each of 16 features, in the order of other_at().
template <class T>
DEVICE Other<T> load_second(const T* tile, int stride) {
  return mma::load_a(tile, stride);
}
template <class T>
DEVICE void multiply_add(mma::Accumulator<T>& sums, const Own<T>& own, const Other<T>& other) {
  mma::multiply_add(sums, other, own);
}
template <class Combine>
DEVICE f32 row_reduce(f32 value, Combine combine) {
#pragma unroll
  for (int mask = 16; mask < WAVE; mask *= 2) value = combine(value, from_lane_xor(value, mask));
  return value;
}

#if defined(HEARTH_WMMA11)
// A lane needs all 16 others and has every second one: the order is first those of the lower half's lanes.
DEVICE int other_at(int place) { return place < 8 ? 2 * place : 2 * place - 15; }
template <class T>
DEVICE Own<T> operand(const mma::Accumulator<T>* weights) {
  struct Pairs {
    u32 pair[8];
  } pairs;
  const bool upper = lane() >= 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 mine = pack(T{}, weights->element[2 * i], weights->element[2 * i + 1]);
    const u32 theirs = from_lane_xor(mine, 16);
    pairs.pair[i] = upper ? theirs : mine;
    pairs.pair[i + 4] = upper ? mine : theirs;
  }
  return bit_cast<Own<T> >(pairs);
}
#elif defined(HEARTH_MFMA)
// A step of 32 is made of two results of 16, of each of which a lane holds four in a row.
DEVICE int other_at(int place) { return place / 8 * 4 + place % 4 + place / 4 % 2 * 16; }
template <class T>
DEVICE Own<T> operand(const mma::Accumulator<T>* weights) {
  struct Pairs {
    u32 pair[4];
  } pairs;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pairs.pair[i] = pack(T{}, weights[i / 2].element[i % 2 * 2], weights[i / 2].element[i % 2 * 2 + 1]);
  return bit_cast<Own<T> >(pairs);
}
#else
DEVICE int other_at(int place) { return place; }
template <class T>
DEVICE Own<T> operand(const mma::Accumulator<T>* weights) {
  struct Pairs {
    u32 pair[4];
  } pairs;
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs.pair[i] = pack(T{}, weights->element[2 * i], weights->element[2 * i + 1]);
  return bit_cast<Own<T> >(pairs);
}
#endif
#endif

}  // namespace chain
