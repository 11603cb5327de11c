// The values of the arrays in tests/golden/io, by the formula of make_io_golden.py.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "hearth/tensor.h"
#include "io/bytes.h"

namespace hearth::test {

inline constexpr DType all_dtypes[] = {DType::bool_, DType::u8,  DType::i8,   DType::i16, DType::i32,
                                       DType::i64,   DType::f16, DType::bf16, DType::f32, DType::f64};

inline double golden_value(DType dtype, std::int64_t i) {
  if (dtype == DType::bool_) return i % 3 == 0;
  if (dtype == DType::u8) return static_cast<double>(i * 7 % 251);
  if (is_integral(dtype)) return static_cast<double>(i * 7 % 251 - 100);
  return static_cast<double>(i % 11 - 5) / 4;
}

template <typename T>
std::vector<std::byte> golden_bytes(std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) {
    const double exact = golden_value(dtype_of<T>, i);
    T value;
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
      value = T(static_cast<float>(exact));
    else
      value = static_cast<T>(exact);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

inline std::vector<std::byte> golden_bytes(DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::bool_:
      return golden_bytes<bool>(count);
    case DType::u8:
      return golden_bytes<std::uint8_t>(count);
    case DType::i8:
      return golden_bytes<std::int8_t>(count);
    case DType::i16:
      return golden_bytes<std::int16_t>(count);
    case DType::i32:
      return golden_bytes<std::int32_t>(count);
    case DType::i64:
      return golden_bytes<std::int64_t>(count);
    case DType::f16:
      return golden_bytes<float16>(count);
    case DType::bf16:
      return golden_bytes<bfloat16>(count);
    case DType::f32:
      return golden_bytes<float>(count);
    case DType::f64:
      return golden_bytes<double>(count);
    default:
      throw std::logic_error("not a dtype of numbers");
  }
  return {};
}

inline Tensor golden_tensor(DType dtype, const Shape& shape) {
  return from_bytes(golden_bytes(dtype, element_count(shape)), shape, dtype);
}

// `tensor` must be golden_tensor(dtype, shape), to the bit.
inline void expect_golden(const Tensor& tensor, DType dtype, const Shape& shape) {
  EXPECT_EQ(dtype_name(tensor.dtype()), dtype_name(dtype));
  EXPECT_EQ(to_string(tensor.shape()), to_string(shape));
  EXPECT_EQ(tensor.to_bytes(), golden_bytes(dtype, element_count(shape)));
}

}  // namespace hearth::test
