// From a dtype known at run time to a C++ type.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "hearth/dtype.h"
#include "hearth/error.h"

namespace hearth::cpu {

// Calls f(std::type_identity<T>{}) with T the element type of `dtype`. A bool is read and written as
// std::uint8_t.
template <typename F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bool_:
    case DType::u8:
      return std::forward<F>(f)(std::type_identity<std::uint8_t>{});
    case DType::i8:
      return std::forward<F>(f)(std::type_identity<std::int8_t>{});
    case DType::i16:
      return std::forward<F>(f)(std::type_identity<std::int16_t>{});
    case DType::i32:
      return std::forward<F>(f)(std::type_identity<std::int32_t>{});
    case DType::i64:
      return std::forward<F>(f)(std::type_identity<std::int64_t>{});
    case DType::f16:
      return std::forward<F>(f)(std::type_identity<float16>{});
    case DType::bf16:
      return std::forward<F>(f)(std::type_identity<bfloat16>{});
    case DType::f32:
      return std::forward<F>(f)(std::type_identity<float>{});
    case DType::f64:
      return std::forward<F>(f)(std::type_identity<double>{});
    default:
      break;
  }
  throw DTypeError("unknown dtype");
}

// The same with an unsigned integer of the element's size, for code that only moves elements.
template <typename F>
decltype(auto) dispatch_size(DType dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1:
      return std::forward<F>(f)(std::type_identity<std::uint8_t>{});
    case 2:
      return std::forward<F>(f)(std::type_identity<std::uint16_t>{});
    case 4:
      return std::forward<F>(f)(std::type_identity<std::uint32_t>{});
    default:
      return std::forward<F>(f)(std::type_identity<std::uint64_t>{});
  }
}

template <typename T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <typename T>
inline constexpr bool is_floating_type = std::is_floating_point_v<T> || is_half<T>;

}  // namespace hearth::cpu
