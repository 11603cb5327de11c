// Operations between the lanes of a wave: shuffles, votes, DPP, permutations.
#include "../prelude.h"

constexpr int n = 192;  // whole waves of either size, unless a kernel says otherwise

#define rdna_chips (gfx1030 | gfx1100 | gfx1201)
#define cdna_chips (gfx90a | gfx942)
#if CORPUS_HOST || defined(__gfx10__) || defined(__gfx1030__) || defined(__gfx1100__) || defined(__gfx1201__)
#define ON_RDNA 1
#endif
#if CORPUS_HOST || defined(__gfx90a__) || defined(__gfx942__)
#define ON_CDNA 1
#endif

#define SHUFFLE(T, ...)                                              \
  KERNEL shuffle_##T(T* result, const T* values, const u32* where) { \
    const u32 i = global_x();                                        \
    const T value = values[i];                                       \
    result[4 * i] = shuffle(value, where[i] % wave_size);            \
    result[4 * i + 1] = shuffle_xor(value, 5);                       \
    result[4 * i + 2] = shuffle_up(value, 3);                        \
    result[4 * i + 3] = shuffle_down(value, 7);                      \
  }                                                                  \
  CASE(shuffle_##T, over(n).together(), out<T>(4 * n), any<T>(n), any<u32>(n))
ALL_TYPES(SHUFFLE, )

KERNEL push(u32* result, const u32* values) {
  const u32 i = global_x();
  result[i] = push_word(values[i], (lane_id() * 5 + 3) % wave_size);
}
CASE(push, over(n).together(), out<u32>(n), any<u32>(n))

KERNEL votes(u64* masks, u32* flags, const u32* values) {
  const u32 i = global_x();
  const u32 value = values[i];
  const u64 odd = ballot((value & 1) != 0);
  const u64 everyone = ballot(true);
  masks[3 * i] = odd;
  masks[3 * i + 1] = everyone;
  masks[3 * i + 2] = ballot(value > 100);
  const u64 below = (1ull << lane_id()) - 1;
  flags[i] = static_cast<u32>(__builtin_popcountll(odd & below)) << 8 | (odd == everyone) << 1 | (odd != 0);
}
CASE(votes, over(n).together(), out<u64>(3 * n), out<u32>(n), any<u32>(n))

// The last wave is not full.
KERNEL votes_of_some(u64* masks, const u32* values, u32 count) {
  const u32 i = global_x();
  if (i >= count) return;
  masks[i] = ballot((values[i] & 3) != 0);
}
CASE(votes_of_some, over(150, 75).together(), out<u64>(150), any<u32>(150), 150)

KERNEL votes_in_branches(u64* masks, const u32* values) {
  const u32 i = global_x();
  const u32 value = values[i];
  u64 mask = 0;
  if ((value & 1) != 0) {
    mask = ballot((value & 2) != 0);
    if ((value & 4) != 0) mask ^= ballot(true) << 1;
  } else {
    mask = ~ballot(value > 10);
  }
  masks[i] = mask + ballot(true);
}
CASE(votes_in_branches, over(n).together(), out<u64>(n), any<u32>(n))

// Loops in which lanes drop out one by one.
KERNEL votes_in_loop(u32* result, const u32* values) {
  const u32 i = global_x();
  u32 rounds = values[i] & 15, seen = 0;
  while (rounds > 0) {
    seen = seen * 3 + static_cast<u32>(__builtin_popcountll(ballot((rounds & 1) != 0)));
    --rounds;
  }
  result[i] = seen;
}
CASE(votes_in_loop, over(n).together(), out<u32>(n), any<u32>(n))

// One lane at a time speaks for all that have the same value.
KERNEL groups_of_equals(u32* result, const u32* values) {
  const u32 i = global_x();
  const u32 value = values[i] & 7;
  u32 turn = 0, answer = 0;
  bool waiting = true;
  while (waiting) {
    ++turn;
    const u32 leader = first_lane_word(value);
    const u64 same = ballot(leader == value);
    if (leader == value) {
      answer = turn << 16 | static_cast<u32>(__builtin_popcountll(same));
      waiting = false;
    }
  }
  result[i] = answer;
}
CASE(groups_of_equals, over(n).together(), out<u32>(n), any<u32>(n))

KERNEL broadcasts(u32* result, const u32* values, u32 from) {
  const u32 i = global_x();
  const u32 value = values[i];
  result[3 * i] = first_lane_word(value);
  result[3 * i + 1] = read_lane_word(value, from);
  u32 other = 0;
  if (lane_id() >= 5) other = first_lane_word(value * 3);
  result[3 * i + 2] = other;
}
CASE(broadcasts, over(n).together(), out<u32>(3 * n), any<u32>(n), 17)

// ---- Reductions and scans of a wave ----

template <class T>
T sum_of(T a, T b) {
  return static_cast<T>(a + b);
}
template <class T>
T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T smaller(T a, T b) {
  return a < b ? a : b;
}
#define WAVE_REDUCE(T, operation)                             \
  KERNEL wave_##operation##_##T(T* result, const T* values) { \
    T value = values[global_x()];                             \
    for (u32 mask = wave_size / 2; mask > 0; mask /= 2)       \
      value = operation<T>(value, shuffle_xor(value, mask));  \
    result[global_x()] = value;                               \
  }                                                           \
  CASE(wave_##operation##_##T, over(n).together(), out<T>(n), between<T>(n, 0, 1))
ALL_TYPES(WAVE_REDUCE, sum_of)
ALL_TYPES(WAVE_REDUCE, larger)
ALL_TYPES(WAVE_REDUCE, smaller)

#define WAVE_SCAN(T, ...)                                               \
  KERNEL wave_scan_##T(T* result, const T* values) {                    \
    T value = values[global_x()];                                       \
    for (u32 distance = 1; distance < wave_size; distance *= 2) {       \
      const T other = shuffle_up(value, distance);                      \
      if (lane_id() >= distance) value = static_cast<T>(value + other); \
    }                                                                   \
    result[global_x()] = value;                                         \
  }                                                                     \
  CASE(wave_scan_##T, over(n).together(), out<T>(n), between<T>(n, 0, 2))
ALL_TYPES(WAVE_SCAN, )

// ---- DPP ----

#define DPP(name, chips_, control, ...)                                       \
  KERNEL dpp_##name(u32* result, const u32* values) {                         \
    const u32 i = global_x();                                                 \
    result[i] = dpp<control __VA_OPT__(, ) __VA_ARGS__>(i * 1000, values[i]); \
  }                                                                           \
  CASE(dpp_##name, over(n).together().only(chips_), out<u32>(n), any<u32>(n))
DPP(quad_reverse, every_chip, 0x1b)
DPP(quad_broadcast, every_chip, 0xaa)
DPP(quad_masked, every_chip, 0x4e, 0xa, 0x5)
DPP(row_shl_1, every_chip, 0x101)
DPP(row_shl_7, every_chip, 0x107)
DPP(row_shl_bound, every_chip, 0x103, 15, 15, true)
DPP(row_shr_1, every_chip, 0x111)
DPP(row_shr_15, every_chip, 0x11f)
DPP(row_shr_bound, every_chip, 0x112, 15, 15, true)
DPP(row_shr_masked, every_chip, 0x114, 0x5, 0xe)
DPP(row_ror_1, every_chip, 0x121)
DPP(row_ror_12, every_chip, 0x12c)
DPP(row_mirror, every_chip, 0x140)
DPP(row_half_mirror, every_chip, 0x141)
#if ON_CDNA
DPP(wave_shl, cdna_chips, 0x130)
DPP(wave_rol, cdna_chips, 0x134)
DPP(wave_shr, cdna_chips, 0x138)
DPP(wave_shr_bound, cdna_chips, 0x138, 15, 15, true)
DPP(wave_ror, cdna_chips, 0x13c)
DPP(row_bcast_15, cdna_chips, 0x142)
DPP(row_bcast_15_masked, cdna_chips, 0x142, 0xa)
DPP(row_bcast_31, cdna_chips, 0x143, 0xc)
DPP(row_newbcast, cdna_chips, 0x155)
#endif
#if ON_RDNA
DPP(row_share, rdna_chips, 0x153)
DPP(row_xmask, rdna_chips, 0x16a)
#endif

// In place, and as an operand of other instructions.
KERNEL dpp_prefix_sum(u32* result, const u32* values) {
  const u32 i = global_x();
  u32 sum = values[i];
  sum += dpp<0x111, 15, 15, true>(0, sum);
  sum += dpp<0x112, 15, 15, true>(0, sum);
  sum += dpp<0x114, 15, 15, true>(0, sum);
  sum += dpp<0x118, 15, 15, true>(0, sum);
  result[i] = sum;
}
CASE(dpp_prefix_sum, over(n).together(), out<u32>(n), any<u32>(n))

KERNEL dpp_float_maximum(f32* result, const f32* values) {
  const u32 i = global_x();
  f32 value = values[i];
  value = larger(value, bits_as<f32>(dpp<0xb1>(0, bits_as<u32>(value))));
  value = larger(value, bits_as<f32>(dpp<0x4e>(0, bits_as<u32>(value))));
  value = larger(value, bits_as<f32>(dpp<0x141>(0, bits_as<u32>(value))));
  value = larger(value, bits_as<f32>(dpp<0x140>(0, bits_as<u32>(value))));
  result[i] = value * bits_as<f32>(dpp<0x121>(0, bits_as<u32>(value)));
}
CASE(dpp_float_maximum, over(n).together(), out<f32>(n), between<f32>(n, -10, 10))

KERNEL dpp_in_branch(u32* result, const u32* values) {
  const u32 i = global_x();
  u32 value = values[i];
  if ((value & 3) != 0) value = dpp<0x111>(7, value) + 1;
  result[i] = value;
}
CASE(dpp_in_branch, over(n).together(), out<u32>(n), any<u32>(n))

// ---- ds_swizzle ----

#define SWIZZLE(name, pattern)                                 \
  KERNEL swizzle_##name(u32* result, const u32* values) {      \
    result[global_x()] = swizzle<pattern>(values[global_x()]); \
  }                                                            \
  CASE(swizzle_##name, over(n).together(), out<u32>(n), any<u32>(n))
SWIZZLE(xor_1, 0x041f)
SWIZZLE(xor_16, 0x401f)
SWIZZLE(reverse, 0x7c1f)
SWIZZLE(broadcast_3, 0x0060)
SWIZZLE(and_or_xor, 0x1451)
SWIZZLE(quad, 0x801b)

// ---- Permutations of RDNA ----

#if ON_RDNA
u32 permute_row(u32 old, u32 value, u32 low, u32 high, int site = __builtin_LINE()) {
#if CORPUS_DEVICE
  (void)site;
  return __builtin_amdgcn_permlane16(old, value, low, high, false, false);
#else
  static u64 selectors;
  selectors = u64(high) << 32 | low;
  (void)old;
  return wave_operation(
      value, 0,
      [](const Lanes& lanes, u32 self) {
        return lanes.values[(self & ~15u) + (selectors >> 4 * (self & 15) & 15)];
      },
      site);
#endif
}
u32 permute_other_row(u32 old, u32 value, u32 low, u32 high, int site = __builtin_LINE()) {
#if CORPUS_DEVICE
  (void)site;
  return __builtin_amdgcn_permlanex16(old, value, low, high, false, false);
#else
  static u64 selectors;
  selectors = u64(high) << 32 | low;
  (void)old;
  return wave_operation(
      value, 0,
      [](const Lanes& lanes, u32 self) {
        return lanes.values[((self & ~15u) ^ 16) + (selectors >> 4 * (self & 15) & 15)];
      },
      site);
#endif
}
KERNEL permlane(u32* result, const u32* values) {
  const u32 i = global_x();
  result[3 * i] = permute_row(0, values[i], 0x76543210, 0x01234567);
  result[3 * i + 1] = permute_other_row(0, values[i], 0x76543210, 0xfedcba98);
  result[3 * i + 2] = permute_other_row(1, values[i], 0xf0e1d2c3, 0x12345678);
}
CASE(permlane, over(n).together().only(rdna_chips), out<u32>(3 * n), any<u32>(n))

template <int selectors>
u32 permute_eight(u32 value, int site = __builtin_LINE()) {
#if CORPUS_DEVICE
  (void)site;
  return __builtin_amdgcn_mov_dpp8(value, selectors);
#else
  return wave_operation(
      value, 0,
      [](const Lanes& lanes, u32 self) {
        return lanes.values[(self & ~7u) + (selectors >> 3 * (self & 7) & 7)];
      },
      site);
#endif
}
KERNEL dpp8(u32* result, const u32* values) {
  const u32 i = global_x();
  result[2 * i] = permute_eight<0x053977>(values[i]);  // reversed: 7 6 5 4 3 2 1 0
  result[2 * i + 1] = permute_eight<0x6db6db>(values[i]) + 1;
}
CASE(dpp8, over(n).together().only(rdna_chips), out<u32>(2 * n), any<u32>(n))
#endif

// Lanes below this one, and below it in the mask.
KERNEL lane_numbers(u32* result, const u32* values) {
  const u32 i = global_x();
  result[2 * i] = lane_id();
  const u64 mask = ballot((values[i] & 1) != 0);
#if CORPUS_DEVICE
  result[2 * i + 1] = __builtin_amdgcn_mbcnt_hi(mask >> 32, __builtin_amdgcn_mbcnt_lo(mask, 5));
#else
  result[2 * i + 1] = 5 + static_cast<u32>(__builtin_popcountll(mask & ((1ull << lane_id()) - 1)));
#endif
}
CASE(lane_numbers, over(n).together(), out<u32>(2 * n), any<u32>(n))

// Compaction: the lanes that have something write one after the other.
KERNEL compact(u32* result, u32* counts, const u32* values) {
  const u32 i = global_x();
  const u32 first = i - lane_id();
  const bool keep = values[i] % 3 == 0;
  const u64 mask = ballot(keep);
  if (keep)
    result[first + static_cast<u32>(__builtin_popcountll(mask & ((1ull << lane_id()) - 1)))] = values[i];
  if (lane_id() == 0) counts[i / wave_size] = static_cast<u32>(__builtin_popcountll(mask));
}
CASE(compact, over(n, 64).together(), out<u32>(n), zeros<u32>(n / 32), any<u32>(n))
