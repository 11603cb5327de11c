// UTF-8: reading, writing and repairing it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

inline constexpr char32_t replacement_character = 0xfffd;

// One step through text that may be ill-formed.
struct Utf8Step {
  char32_t character = replacement_character;
  std::size_t size = 1;  // bytes; of an ill-formed sequence its maximal subpart, as Unicode recommends
  bool valid = false;
  bool cut_short = false;  // ill-formed only because the text ends here
};
// At `position` < text.size().
Utf8Step read_utf8(std::string_view text, std::size_t position);

// Bytes of the character that begins with this byte, in valid text.
constexpr std::size_t utf8_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
// The character at `position` of valid text.
char32_t read_valid_utf8(std::string_view text, std::size_t position);

void append_utf8(std::string& text, char32_t character);
std::string to_utf8(char32_t character);

bool is_utf8(std::string_view text);
bool is_ascii(std::string_view text);
// Appends `bytes` with each ill-formed sequence replaced by U+FFFD. A character that the end of `bytes` cuts
// short is left out unless this is the last of the text; returns how many bytes were taken.
std::size_t append_repaired(std::string& text, std::string_view bytes, bool last);
std::string repaired(std::string_view bytes);

// Unicode's White_Space.
bool is_white_space(char32_t character);

}  // namespace hearth::tokenizer
