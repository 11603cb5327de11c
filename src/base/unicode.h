// Code points of UTF-8 texts: what they are, and how their case changes, as Python's str has it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::unicode {

// ---- UTF-8. All but is_valid expect valid text.

bool is_valid(std::string_view text);  // no surrogates, nothing overlong
std::size_t length(std::string_view text);
// The code point that begins at byte `at`, which moves behind it.
char32_t next(std::string_view text, std::size_t& at);
void append(std::string& text, char32_t point);
// The number that the next `digits` characters write, behind which `at` moves; none where one of them is no
// hexadecimal digit.
std::optional<char32_t> hexadecimal(std::string_view text, std::size_t& at, int digits);
// The byte at which code point `index` begins, text.size() where there are fewer; counted from byte `from`.
std::size_t offset(std::string_view text, std::size_t index, std::size_t from = 0);

// ---- properties

bool is_space(char32_t point);
bool is_alpha(char32_t point);
bool is_decimal(char32_t point);
bool is_digit(char32_t point);
bool is_numeric(char32_t point);
bool is_upper(char32_t point);
bool is_lower(char32_t point);
bool is_title(char32_t point);
bool is_printable(char32_t point);
inline bool is_cased(char32_t point) { return is_upper(point) || is_lower(point) || is_title(point); }

// ---- case. One code point can become up to three.

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string to_title(std::string_view text);    // every word; a word is a run of letters that have case
std::string capitalize(std::string_view text);  // the first code point; the rest becomes lower case
std::string swap_case(std::string_view text);

}  // namespace hearth::unicode
