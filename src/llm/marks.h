// Marks in a text that comes in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace hearth::llm {

// How much of the end of `text` could be the beginning of `mark`.
inline std::size_t begun(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size)
    if (text.substr(text.size() - size) == mark.substr(0, size)) return size;
  return 0;
}

}  // namespace hearth::llm
