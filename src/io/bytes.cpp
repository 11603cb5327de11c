// Checked arithmetic and text for file readers.
#include "io/bytes.h"

#include <fmt/format.h>

#include <algorithm>

namespace hearth::io {

std::optional<std::uint64_t> array_bytes(const Shape& shape, std::size_t element_bytes) {
  std::uint64_t bytes = element_bytes;
  bool empty = false;
  for (auto size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    const auto product = checked_product(bytes, static_cast<std::uint64_t>(size));
    if (!product) return std::nullopt;
    bytes = *product;
  }
  return empty ? 0 : bytes;
}

std::string show(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) {
    if (c == '"' || c == '\\') result += '\\';
    if (c >= 0x20 && c < 0x7f)
      result += c;
    else
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  result += '"';
  if (text.size() > longest) result += fmt::format("... ({} bytes)", text.size());
  return result;
}

void swap_byte_order(std::span<std::byte> bytes, std::size_t element_bytes) {
  if (element_bytes == 1) return;
  for (std::size_t i = 0; i + element_bytes <= bytes.size(); i += element_bytes)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + element_bytes));
}

std::optional<std::size_t> find_bad_bool(Bytes bytes) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return std::nullopt;
  return static_cast<std::size_t>(bad - bytes.begin());
}

}  // namespace hearth::io
