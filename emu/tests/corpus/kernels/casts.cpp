// Conversions from each of the twelve types to each.
#include "../prelude.h"

constexpr int n = 650;

template <class T>
struct Limits {
  static constexpr bool is_signed = TypeTraits<T>::is_signed;
  static constexpr u64 max_magnitude = (~0ull >> (64 - sizeof(T) * 8)) >> is_signed;
};

// From a float to an integer as every target does it when the number does not fit: the nearest that does, and
// 0 for NaN. C++ leaves that open, so it is spelled out.
template <class To, class From>
To convert(From value) {
  if constexpr (is_float<From> && !is_float<To>) {
    if constexpr (sizeof(From) == 2) {
      return convert<To>(static_cast<f32>(value));
    } else {
      constexpr int digits = sizeof(To) * 8 - Limits<To>::is_signed;
      const From limit = static_cast<From>(2) * static_cast<From>(1ull << (digits - 1));  // exact
      if (!(value == value)) return 0;
      if (value >= limit) return static_cast<To>(Limits<To>::max_magnitude);
      if constexpr (Limits<To>::is_signed) {
        if (value <= -limit) return static_cast<To>(1ull << digits);
      } else {
        if (value <= From(-1)) return 0;
      }
      return static_cast<To>(value);
    }
  } else if constexpr (is_float<From> && is_float<To> && sizeof(To) == 2 && sizeof(From) == 2) {
    return static_cast<To>(static_cast<f32>(value));
  } else {
    return static_cast<To>(value);
  }
}

// Compilers may round twice on the way from a wide integer to bf16.
#define CAST_WITHIN(From, To, output)                                       \
  KERNEL cast_##From##_to_##To(To* result, const From* values, int count) { \
    const int i = static_cast<int>(global_x());                             \
    if (i < count) result[i] = convert<To>(values[i]);                      \
  }                                                                         \
  CASE(cast_##From##_to_##To, over(n, 64), output, any<From>(n), n)
#define CAST(From, To) CAST_WITHIN(From, To, out<To>(n))
#define CAST_TWICE(From, To) CAST_WITHIN(From, To, out<To>(n).within(1))

ALL_TYPES(CAST, f16)
FLOAT_TYPES(CAST, bf16)
CAST(i8, bf16)
CAST(u8, bf16)
CAST(i16, bf16)
CAST(u16, bf16)
CAST_TWICE(i32, bf16)
CAST_TWICE(u32, bf16)
CAST_TWICE(i64, bf16)
CAST_TWICE(u64, bf16)
ALL_TYPES(CAST, f32)
ALL_TYPES(CAST, f64)
ALL_TYPES(CAST, i8)
ALL_TYPES(CAST, u8)
ALL_TYPES(CAST, i16)
ALL_TYPES(CAST, u16)
ALL_TYPES(CAST, i32)
ALL_TYPES(CAST, u32)
ALL_TYPES(CAST, i64)
ALL_TYPES(CAST, u64)

// The same bits as another type, in halves and bytes.
KERNEL reinterpret_bits(u32* result, const f64* doubles, const u8* bytes, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u64 wide = bits_as<u64>(doubles[i]);
  u32 gathered = 0;
  for (int byte = 0; byte < 4; ++byte) gathered |= static_cast<u32>(bytes[4 * i + 3 - byte]) << (8 * byte);
  result[i] = static_cast<u32>(wide >> 32) ^ static_cast<u32>(wide) ^ gathered ^
              bits_as<u32>(static_cast<f32>(static_cast<u16>(wide >> 40)));
}
CASE(reinterpret_bits, over(n), out<u32>(n), any<f64>(n), any<u8>(4 * n), n)
