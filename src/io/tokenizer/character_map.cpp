// SentencePiece's table of replacements.
#include "io/tokenizer/character_map.h"

#include <fmt/format.h>

#include <cstring>

#include "hearth/error.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

constexpr std::size_t longest_replacement = 1024;

// A unit of the trie: the byte that leads to it, whether a string ends after it, and where its children are.
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000ffu; }
bool ends_string(std::uint32_t unit) { return unit >> 8 & 1; }
std::uint32_t children(std::uint32_t unit) { return (unit >> 10) << ((unit >> 6) & 8); }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7fffffffu; }

}  // namespace

CharacterMap::CharacterMap(std::string_view table, std::string_view source) {
  const auto fail = [&](const char* rule) {
    throw FormatError(fmt::format("[tokenizer] '{}': the table of characters {}", source, rule));
  };
  std::uint32_t size = 0;
  if (table.size() < sizeof size) fail("is too short");
  std::memcpy(&size, table.data(), sizeof size);
  table.remove_prefix(sizeof size);
  if (size > table.size()) fail("is cut short");
  if (size == 0 || size % sizeof(std::uint32_t) != 0) fail("has a trie of a wrong size");
  units_.resize(size / sizeof(std::uint32_t));
  std::memcpy(units_.data(), table.data(), size);
  replacements_ = table.substr(size);
  if (!replacements_.empty() && replacements_.back() != '\0')
    fail("does not end with the end of a replacement");
  if (!is_utf8(replacements_)) fail("has replacements that are not UTF-8");
  // A text must not grow without limits.
  for (std::size_t begin = 0, end; begin < replacements_.size(); begin = end + 1) {
    end = replacements_.find('\0', begin);
    if (end - begin > longest_replacement) fail("has a replacement of more than 1024 bytes");
  }
}

CharacterMap::Found CharacterMap::longest(std::string_view text) const {
  Found found;
  std::uint32_t position = children(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    position ^= byte;
    if (position >= units_.size() || label(units_[position]) != byte) break;
    const auto unit = units_[position];
    position ^= children(unit);
    if (!ends_string(unit)) continue;
    if (position >= units_.size()) break;
    found = {i + 1, value_of(units_[position])};
  }
  return found;
}

std::string CharacterMap::apply(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto [size, value] = longest(text);
    // A string that ends inside a character, or a replacement that begins there, is of a damaged table.
    const bool whole = size == text.size() || (static_cast<unsigned char>(text[size]) & 0xc0) != 0x80;
    if (size != 0 && whole && value < replacements_.size()) {
      append_repaired(result, replacements_.c_str() + value, true);
      text.remove_prefix(size);
    } else {
      const auto character = utf8_size(text[0]);
      result += text.substr(0, character);
      text.remove_prefix(character);
    }
  }
  return result;
}

}  // namespace hearth::tokenizer
