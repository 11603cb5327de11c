// Reading numbers out of untrusted bytes, and showing untrusted text to people.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hearth/dtype.h"
#include "hearth/shape.h"

namespace hearth::io {

using Bytes = std::span<const std::byte>;

// Tensors are stored in files as they are in memory.
static_assert(std::endian::native == std::endian::little,
              "Hearth's file formats assume a little-endian machine");

// `bytes` must hold at least sizeof(T) at `offset`.
template <std::unsigned_integral T>
T load_little(Bytes bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <std::unsigned_integral T>
T load_big(Bytes bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value = static_cast<T>((value << 8) | std::to_integer<T>(bytes[offset + i]));
  return value;
}

template <std::unsigned_integral T>
void append_little(std::string& text, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  text.append(bytes, sizeof value);
}

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// a * b, or nothing when that does not fit in 63 bits.
inline std::optional<std::uint64_t> checked_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product;
  if (__builtin_mul_overflow(a, b, &product) ||
      product > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return product;
}

// The bytes of a dense array, or nothing when they, or the non-zero sizes alone, do not fit in 63 bits (the
// rule of check_shape).
std::optional<std::uint64_t> array_bytes(const Shape& shape, std::size_t element_bytes);

// Text from a file, fit for a message: in double quotes, with what is not printable ASCII escaped, and
// shortened.
std::string show(std::string_view text);

// Reverses the bytes of each element.
void swap_byte_order(std::span<std::byte> bytes, std::size_t element_bytes);

// The position of the first element that is neither 0 nor 1: C++ has no other bool.
std::optional<std::size_t> find_bad_bool(Bytes bytes);

}  // namespace hearth::io
