// What tokenizers need of the Unicode tables, by utf8proc. In a build without it, whatever needs the tables
// throws Error; text that is ASCII never does.
#pragma once

#include <string>
#include <string_view>

namespace hearth::tokenizer {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Throws Error if this build has no Unicode tables; `what` says who needs them.
void require_unicode_tables(std::string_view what);

// All take and return valid UTF-8.
std::string normalised(std::string_view text, NormalForm form);
std::string lowercased(std::string_view text);  // character by character, whatever the language
// Without combining marks, of those that are characters of their own: NFD makes them so.
std::string without_marks(std::string_view text, bool spacing_too);

bool is_word_character(char32_t character);     // letters, marks, digits, connectors
bool is_control_character(char32_t character);  // also those that format, and private ones

}  // namespace hearth::tokenizer
