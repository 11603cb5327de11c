// Python's text functions over UTF-8. Positions are bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::jinja {

constexpr std::size_t no_limit = static_cast<std::size_t>(-1);
constexpr std::size_t npos = std::string_view::npos;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

enum class Side { left, right, both };
// Without the code points of `chars` at its ends, or without white space.
std::string_view strip(std::string_view text, Side side = Side::both,
                       std::optional<std::string_view> chars = std::nullopt);

// At white space, or at a separator that is not empty. At most `limit` cuts, counted from the left or the
// right.
std::vector<std::string_view> split_space(std::string_view text, std::size_t limit);
std::vector<std::string_view> split_space_right(std::string_view text, std::size_t limit);
std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::size_t limit);
std::vector<std::string_view> split_right(std::string_view text, std::string_view separator,
                                          std::size_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// In linear time, whatever the texts; npos where there is none.
std::size_t find(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t find_last(std::string_view text, std::string_view part);
// Occurrences that do not overlap; an empty part is found before every code point and at the end.
std::size_t count(std::string_view text, std::string_view part);
std::string replace(std::string_view text, std::string_view old, std::string_view with, std::size_t limit);

// repr() of a text
std::string quote(std::string_view text);
std::string escape_html(std::string_view text);

}  // namespace hearth::jinja
