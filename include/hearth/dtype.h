// Element types of tensors, and the promotion rules between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hearth {

// From q4_0 on: block formats of quantised weights, laid out as in GGUF files (quantise.h). Elements along
// the last axis share the scales of their block; they can be stored and multiplied with, not computed with.
// The last four are how a CPU keeps the weights of a language model that it has repacked: blocks of four
// neighbouring rows lie together. No file has them, and nothing else makes them.
enum class DType : std::uint8_t {
  bool_,
  u8,
  i8,
  i16,
  i32,
  i64,
  f16,
  bf16,
  f32,
  f64,  // one value per element
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_xs,
  iq4_nl,
  mxfp4,  // blocks
  q4_0x4,
  q8_0x4,
  q4_kx4,
  q6_kx4  // of four rows
};
inline constexpr int dtype_count = 10;           // of those with one value per element
inline constexpr int block_format_count = 13;    // as files have them
inline constexpr int repacked_format_count = 4;  // of four rows

constexpr bool is_quantised(DType dtype) { return dtype >= DType::q4_0; }
constexpr bool is_repacked(DType dtype) { return dtype >= DType::q4_0x4; }

namespace detail {
[[noreturn]] void no_element_size(DType dtype);
}

// Bytes of one element. Throws DTypeError for block formats.
constexpr std::size_t dtype_size(DType dtype) {
  constexpr std::size_t sizes[dtype_count] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  if (is_quantised(dtype)) detail::no_element_size(dtype);
  return sizes[static_cast<int>(dtype)];
}

// The smallest unit of storage: elements in it, and its bytes. One element where the dtype is no block
// format. A block of four rows counts as four.
constexpr std::int64_t block_elements(DType dtype) {
  const bool large = (dtype >= DType::q2_k && dtype <= DType::iq4_xs) || dtype >= DType::q4_kx4;
  return !is_quantised(dtype) ? 1 : large ? 256 : 32;
}
constexpr std::size_t block_bytes(DType dtype) {
  constexpr std::size_t bytes[block_format_count + repacked_format_count] = {
      18, 20, 22, 24, 34, 84, 110, 144, 176, 210, 136, 18, 17, 18, 34, 148, 210};
  return is_quantised(dtype) ? bytes[static_cast<int>(dtype) - dtype_count] : dtype_size(dtype);
}
// Bytes of so many elements, a whole number of blocks.
constexpr std::int64_t storage_bytes(DType dtype, std::int64_t elements) {
  return elements / block_elements(dtype) * static_cast<std::int64_t>(block_bytes(dtype));
}

// "f32", "i64", "bool", "q4_k", ...
std::string_view dtype_name(DType dtype);

// The inverse of dtype_name; also accepts NumPy's names ("float32") and GGUF's ("Q4_K"). Throws DTypeError.
DType dtype_from_name(std::string_view name);

constexpr bool is_floating(DType dtype) { return dtype >= DType::f16 && !is_quantised(dtype); }
constexpr bool is_integral(DType dtype) { return dtype < DType::f16; }  // bool included
constexpr bool is_signed(DType dtype) { return dtype != DType::bool_ && dtype != DType::u8; }

// The dtype of an operation on `a` and `b`. Integers promote as in NumPy; an integer with a floating type
// gives that floating type (NumPy would widen to f64, which a GPU runs at a small fraction of its speed); f16
// with bf16 gives f32. Throws DTypeError for block formats.
DType promote(DType a, DType b);

// Half-precision storage types. Arithmetic happens in float.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  operator float() const;
};

struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  operator float() const;
};

namespace detail {
template <typename T>
struct dtype_of;
template <>
struct dtype_of<bool> {
  static constexpr DType value = DType::bool_;
};
template <>
struct dtype_of<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct dtype_of<std::int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of<float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_of<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::f64;
};
}  // namespace detail

// The DType of a C++ element type.
template <typename T>
inline constexpr DType dtype_of = detail::dtype_of<T>::value;

inline bfloat16::bfloat16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  bits = nan ? static_cast<std::uint16_t>((u >> 16) | 0x40u)
             : static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

inline bfloat16::operator float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline float16::float16(float value) {
  // Round to nearest even by letting a float addition do the rounding at the right bit.
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t magnitude = u & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude >= 0x47800000u) {  // 65536 and more, infinity, NaN
    half = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below the smallest normal half
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(rounded) - 0x3f000000u;
  } else {
    half = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

inline float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  std::uint32_t u;
  if (magnitude >= 0x7c00u) {
    u = 0x7f800000u | (magnitude << 13);
  } else if (magnitude < 0x0400u) {  // zero and denormals: magnitude * 2^-24, exactly
    u = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  } else {
    u = (magnitude << 13) + 0x38000000u;
  }
  return std::bit_cast<float>(sign | u);
}

}  // namespace hearth
