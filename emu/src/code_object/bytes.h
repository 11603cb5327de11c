// Reading untrusted bytes: every access is checked, and a failed check names what was being read.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "code_object/code_object.h"

namespace hipemu {

using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "code objects are little-endian and read in place");

// The part [offset, offset + size). Written so that no sum can wrap.
inline Bytes slice(Bytes bytes, uint64_t offset, uint64_t size, std::string_view what) {
  if (offset > bytes.size() || size > bytes.size() - offset)
    throw CodeObjectError(
        fmt::format("[code object] {}: {} bytes at offset {} are outside the {} bytes there are", what, size,
                    offset, bytes.size()));
  return bytes.subspan(offset, size);
}

// A value at any alignment.
template <typename T>
T read(Bytes bytes, uint64_t offset, std::string_view what) {
  static_assert(std::is_trivially_copyable_v<T>);
  const Bytes source = slice(bytes, offset, sizeof(T), what);
  T value;
  std::memcpy(&value, source.data(), sizeof(T));
  return value;
}

// a + b, or an error: addresses and sizes of a file must not wrap around.
inline uint64_t checked_sum(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    throw CodeObjectError(fmt::format("[code object] {}: {:#x} + {:#x} does not fit in 64 bits", what, a, b));
  return sum;
}

}  // namespace hipemu
