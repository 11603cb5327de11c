// A number of bytes that someone configured, as a whole number.
#pragma once

#include <cstddef>
#include <limits>

namespace hearth {

// As many as there can be where it is larger, as infinity is.
inline std::size_t whole_bytes(double bytes) {
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  return bytes < static_cast<double>(all) ? static_cast<std::size_t>(bytes) : all;
}

}  // namespace hearth
