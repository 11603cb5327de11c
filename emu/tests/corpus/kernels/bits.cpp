// Tricks with bits, wide multiplication and division, saturation.
#include "../prelude.h"

constexpr int n = 500;

template <class T>
T leading_zeros(T a) {
  if constexpr (sizeof(T) == 8)
    return a == 0 ? 64 : __builtin_clzll(a);
  else
    return a == 0 ? T(sizeof(T) * 8) : static_cast<T>(__builtin_clz(a) - (32 - sizeof(T) * 8));
}
template <class T>
T trailing_zeros(T a) {
  if constexpr (sizeof(T) == 8)
    return a == 0 ? 64 : __builtin_ctzll(a);
  else
    return a == 0 ? T(sizeof(T) * 8) : static_cast<T>(__builtin_ctz(a));
}
template <class T>
T population(T a) {
  return static_cast<T>(__builtin_popcountll(a));
}
template <class T>
T parity(T a) {
  return static_cast<T>(__builtin_parityll(a));
}
template <class T>
T first_set(T a) {
  return static_cast<T>(__builtin_ffsll(static_cast<i64>(a)));
}
template <class T>
T reverse_bits(T a) {
  if constexpr (sizeof(T) == 8)
    return __builtin_bitreverse64(a);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bitreverse32(a);
  else if constexpr (sizeof(T) == 2)
    return __builtin_bitreverse16(a);
  else
    return __builtin_bitreverse8(a);
}
template <class T>
T reverse_bytes(T a) {
  if constexpr (sizeof(T) == 8)
    return __builtin_bswap64(a);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bswap32(a);
  else if constexpr (sizeof(T) == 2)
    return __builtin_bswap16(a);
  else
    return static_cast<u8>(a << 4 | a >> 4);
}
template <class T>
T isolate_lowest(T a) {
  return static_cast<T>(a & (0 - a));
}
template <class T>
T gray_code(T a) {
  return static_cast<T>(a ^ (a >> 1));
}
template <class T>
T spread(T a) {  // Morton order of the low half
  u64 x = a & 0xffffffffu;
  x = (x | x << 16) & 0x0000ffff0000ffffull;
  x = (x | x << 8) & 0x00ff00ff00ff00ffull;
  x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
  x = (x | x << 2) & 0x3333333333333333ull;
  return static_cast<T>((x | x << 1) & 0x5555555555555555ull);
}
template <class T>
T next_power(T a) {
  if (a <= 1) return 1;
  const int zeros = static_cast<int>(leading_zeros<T>(static_cast<T>(a - 1)));
  return zeros == 0 ? 0 : static_cast<T>(1ull << (sizeof(T) * 8 - zeros));
}
template <class T>
T integer_root(T a) {
  T root = 0;
  for (int bit = sizeof(T) * 4 - 1; bit >= 0; --bit) {
    const T candidate = static_cast<T>(root | T(1) << bit);
    if (u64(candidate) * candidate <= a) root = candidate;
  }
  return root;
}

#define UNARY(T, operation)                                  \
  KERNEL operation##_##T(T* result, const T* a, int count) { \
    const int i = static_cast<int>(global_x());              \
    if (i < count) result[i] = operation<T>(a[i]);           \
  }                                                          \
  CASE(operation##_##T, over(n, 64), out<T>(n), any<T>(n), n)
#define UNSIGNED(X, operation) X(u8, operation) X(u16, operation) X(u32, operation) X(u64, operation)
UNSIGNED(UNARY, leading_zeros)
UNSIGNED(UNARY, trailing_zeros)
UNSIGNED(UNARY, population)
UNSIGNED(UNARY, parity)
UNSIGNED(UNARY, first_set)
UNSIGNED(UNARY, reverse_bits)
UNSIGNED(UNARY, reverse_bytes)
UNSIGNED(UNARY, isolate_lowest)
UNSIGNED(UNARY, gray_code)
UNSIGNED(UNARY, spread)
UNSIGNED(UNARY, next_power)
UNSIGNED(UNARY, integer_root)

template <class T>
T add_saturating(T a, T b) {
  if constexpr (TypeTraits<T>::is_signed)
    return __builtin_elementwise_add_sat(a, b);
  else
    return __builtin_elementwise_add_sat(a, b);
}
template <class T>
T subtract_saturating(T a, T b) {
  return __builtin_elementwise_sub_sat(a, b);
}
template <class T>
T add_checked(T a, T b) {
  T sum;
  return __builtin_add_overflow(a, b, &sum) ? T(77) : sum;
}
template <class T>
T subtract_checked(T a, T b) {
  T difference;
  return __builtin_sub_overflow(a, b, &difference) ? T(77) : difference;
}
template <class T>
T multiply_checked(T a, T b) {
  T product;
  return __builtin_mul_overflow(a, b, &product) ? T(77) : product;
}
template <class T>
T multiply_high(T a, T b) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<T>(static_cast<i64>(a) * static_cast<i64>(b) >> (sizeof(T) * 8));
  } else if constexpr (TypeTraits<T>::is_signed) {
    const i64 high_a = a >> 32, high_b = b >> 32;
    const u64 low_a = u32(a), low_b = u32(b);
    const i64 carry = static_cast<i64>(low_a * low_b >> 32);
    const i64 cross = high_a * static_cast<i64>(low_b) + carry;
    const i64 low_cross = static_cast<i64>(low_a) * high_b + static_cast<i64>(u32(cross));
    return high_a * high_b + (cross >> 32) + (low_cross >> 32);
  } else {
    const u64 low = u64(u32(a)) * u32(b);
    const u64 cross = (a >> 32) * u32(b) + (low >> 32);
    const u64 low_cross = u64(u32(a)) * (b >> 32) + u32(cross);
    return (a >> 32) * (b >> 32) + (cross >> 32) + (low_cross >> 32);
  }
}
template <class T>
T rotate_left(T a, T b) {
  constexpr int bits = sizeof(T) * 8;
  const int by = static_cast<int>(b & (bits - 1));
  return static_cast<T>(by == 0 ? a : T(a << by) | T(a >> (bits - by)));
}
// The upper half of the concatenation a:b shifted left.
template <class T>
T funnel_shift(T a, T b) {
  constexpr int bits = sizeof(T) * 8;
  const int by = static_cast<int>((a ^ b) & (bits - 1));
  return static_cast<T>(by == 0 ? a : T(a << by) | T(b >> (bits - by)));
}
template <class T>
T extract_field(T a, T b) {
  constexpr int bits = sizeof(T) * 8;
  const int offset = static_cast<int>(b & (bits - 1)), width = static_cast<int>(b / 64 & 15) + 1;
  return static_cast<T>(a >> offset & static_cast<T>((u64(1) << width) - 1));
}
template <class T>
T insert_field(T a, T b) {
  const T mask = static_cast<T>(T(0xff) << (sizeof(T) * 2));
  return static_cast<T>((a & static_cast<T>(~mask)) | (b & mask));
}
template <class T>
T common_divisor(T a, T b) {
  int steps = 0;
  while (b != 0 && steps++ < 40) {
    const T rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

#define BINARY(T, operation)                                             \
  KERNEL operation##_##T(T* result, const T* a, const T* b, int count) { \
    const int i = static_cast<int>(global_x());                          \
    if (i < count) result[i] = operation<T>(a[i], b[i]);                 \
  }                                                                      \
  CASE(operation##_##T, over(n, 64), out<T>(n), any<T>(n), any<T>(n), n)
INTEGER_TYPES(BINARY, add_saturating)
INTEGER_TYPES(BINARY, subtract_saturating)
INTEGER_TYPES(BINARY, add_checked)
INTEGER_TYPES(BINARY, subtract_checked)
BINARY(i8, multiply_checked)
BINARY(u16, multiply_checked)
BINARY(i32, multiply_checked)
BINARY(u32, multiply_checked)
BINARY(u64, multiply_checked)
INTEGER_TYPES(BINARY, multiply_high)
UNSIGNED(BINARY, rotate_left)
UNSIGNED(BINARY, funnel_shift)
UNSIGNED(BINARY, extract_field)
UNSIGNED(BINARY, insert_field)
BINARY(u8, common_divisor)
BINARY(u32, common_divisor)
BINARY(u64, common_divisor)

// Numbers of 128 bits by hand: sum, difference and product of pairs.
struct Pair {
  u64 low, high;
};
Pair add_pairs(Pair a, Pair b) {
  Pair sum{a.low + b.low, a.high + b.high};
  sum.high += sum.low < a.low;
  return sum;
}
Pair multiply_pairs(Pair a, Pair b) {
  return {a.low * b.low, multiply_high<u64>(a.low, b.low) + a.low * b.high + a.high * b.low};
}
KERNEL wide_arithmetic(u64* result, const u64* a, const u64* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Pair x{a[2 * i], a[2 * i + 1]}, y{b[2 * i], b[2 * i + 1]};
  const Pair z = add_pairs(multiply_pairs(x, y), add_pairs(x, y));
  result[2 * i] = z.low;
  result[2 * i + 1] = z.high;
}
CASE(wide_arithmetic, over(n, 64), out<u64>(2 * n), any<u64>(2 * n), any<u64>(2 * n), n)

// The compiler's own 128 bits.
KERNEL int128(u64* result, const u64* a, const u64* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const unsigned __int128 x = static_cast<unsigned __int128>(a[2 * i]) << 64 | a[2 * i + 1];
  const unsigned __int128 y = static_cast<unsigned __int128>(b[2 * i]) << 64 | b[2 * i + 1];
  const unsigned __int128 z = (x * y + (x >> (b[2 * i] & 127))) ^ ((y << (a[2 * i] & 127)) - x);
  result[2 * i] = static_cast<u64>(z) + (x < y);
  result[2 * i + 1] = static_cast<u64>(z >> 64);
}
CASE(int128, over(n, 64), out<u64>(2 * n), any<u64>(2 * n), any<u64>(2 * n), n)

// Division by numbers that are known.
KERNEL divide_by_constants(u32* result, const u32* a, const i64* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32 x = a[i];
  const i64 y = b[i];
  result[i] = x / 3 + x / 7 * 11 + x % 10 + x / 641 + static_cast<u32>(static_cast<i32>(x) / -5) +
              static_cast<u32>(y / 1000003) + static_cast<u32>(y % 17) +
              static_cast<u32>(static_cast<u64>(y) / 6);
}
CASE(divide_by_constants, over(n, 64), out<u32>(n), any<u32>(n), any<i64>(n), n)

// Four bytes chosen from eight.
u32 permute_bytes(u32 high, u32 low, u32 selector) {
#if CORPUS_DEVICE
  return __builtin_amdgcn_perm(high, low, selector);
#else
  const u64 all = u64(high) << 32 | low;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 pick = selector >> (8 * i) & 255;
    u32 byte = 0;
    if (pick < 8)
      byte = all >> (8 * pick) & 255;
    else if (pick < 12)
      byte = (all >> (16 * (pick - 8) + 15) & 1) != 0 ? 255 : 0;
    else if (pick > 12)
      byte = 255;
    result |= byte << (8 * i);
  }
  return result;
#endif
}
KERNEL byte_permute(u32* result, const u32* a, const u32* b, const u32* selectors, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[2 * i] = permute_bytes(a[i], b[i], selectors[i] & 0x0f0f0f0f);
  result[2 * i + 1] = permute_bytes(a[i], b[i], 0x04010602);
}
CASE(byte_permute, over(n, 64), out<u32>(2 * n), any<u32>(n), any<u32>(n), any<u32>(n), n)

// Hashes: long chains of integer operations.
KERNEL hashes(u32* narrow, u64* wide, const u32* a, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 h = a[i];
  h ^= h >> 16;
  h *= 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  h ^= h >> 16;
  narrow[i] = h;
  u64 s = a[i] + 0x9e3779b97f4a7c15ull * (i + 1);
  s = (s ^ (s >> 30)) * 0xbf58476d1ce4e5b9ull;
  s = (s ^ (s >> 27)) * 0x94d049bb133111ebull;
  wide[i] = s ^ (s >> 31);
}
CASE(hashes, over(n, 64), out<u32>(n), out<u64>(n), any<u32>(n), n)

// Bytes through a polynomial, bit by bit.
KERNEL checksum(u32* result, const u8* bytes, int length, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 crc = ~0u;
  for (int k = 0; k < length; ++k) {
    crc ^= bytes[i * length + k];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xedb88320u & (0 - (crc & 1)));
  }
  result[i] = ~crc;
}
CASE(checksum, over(60, 64), out<u32>(60), any<u8>(60 * 13), 13, 60)
