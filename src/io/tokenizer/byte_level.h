// The alphabet in which byte-level vocabularies are written: one printable character for each byte. "Ġ" is a
// space.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hearth::tokenizer {

// The bytes that such a text stands for; nothing when it has other characters.
std::optional<std::string> from_byte_characters(std::string_view text);
std::string to_byte_characters(std::string_view bytes);

}  // namespace hearth::tokenizer
