// UTF-8: reading, writing and repairing it.
#include "io/tokenizer/utf8.h"

#include <cstdint>
#include <cstring>

namespace hearth::tokenizer {

Utf8Step read_utf8(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  // The second byte has a narrower range after some first bytes: no overlong forms, surrogates or values over
  // U+10FFFF.
  std::size_t size;
  unsigned char low = 0x80, high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    size = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    size = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    size = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  } else {
    return {};
  }
  char32_t character = first & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (position + i == text.size()) return {replacement_character, i, false, true};
    if (byte(i) < low || byte(i) > high) return {replacement_character, i};
    character = character << 6 | (byte(i) & 0x3fu);
    low = 0x80;
    high = 0xbf;
  }
  return {character, size, true};
}

char32_t read_valid_utf8(std::string_view text, std::size_t position) {
  const auto size = utf8_size(text[position]);
  if (size == 1) return static_cast<unsigned char>(text[position]);
  char32_t character = static_cast<unsigned char>(text[position]) & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i)
    character = character << 6 | (static_cast<unsigned char>(text[position + i]) & 0x3fu);
  return character;
}

void append_utf8(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xc0 | character >> 6);
    put(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    put(0xe0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  } else {
    put(0xf0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3f));
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  }
}

std::string to_utf8(char32_t character) {
  std::string text;
  append_utf8(text, character);
  return text;
}

namespace {

// Bytes from `position` on that are ASCII, found eight at a time.
std::size_t ascii_run(std::string_view text, std::size_t position) {
  const auto begin = position;
  for (; position + 8 <= text.size(); position += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + position, sizeof word);
    if (word & 0x8080808080808080u) break;
  }
  while (position < text.size() && static_cast<unsigned char>(text[position]) < 0x80) ++position;
  return position - begin;
}

// The first position at which text is ill-formed, or its size.
std::size_t valid_prefix(std::string_view text, std::size_t position = 0) {
  for (;;) {
    position += ascii_run(text, position);
    if (position == text.size()) return position;
    const auto step = read_utf8(text, position);
    if (!step.valid) return position;
    position += step.size;
  }
}

}  // namespace

bool is_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }
bool is_ascii(std::string_view text) { return ascii_run(text, 0) == text.size(); }

std::size_t append_repaired(std::string& text, std::string_view bytes, bool last) {
  std::size_t position = 0;
  for (;;) {
    const auto valid = valid_prefix(bytes, position);
    text += bytes.substr(position, valid - position);
    position = valid;
    if (position == bytes.size()) return position;
    const auto step = read_utf8(bytes, position);
    if (step.cut_short && !last) return position;
    append_utf8(text, replacement_character);
    position += step.size;
  }
}

std::string repaired(std::string_view bytes) {
  std::string text;
  append_repaired(text, bytes, true);
  return text;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace hearth::tokenizer
