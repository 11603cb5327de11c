// UTF-8 and the tables of code points.
#include "base/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace hearth::unicode {
namespace {

// Every `step`-th code point from first to last.
struct Run {
  std::uint32_t first, last;
  std::uint32_t step = 1;
};
struct CaseRun {
  std::uint32_t first, last, step;
  std::int32_t offset;
};
struct LongCase {
  std::uint32_t point;
  const char* text;
};

#include "base/unicode_tables.inc"

// The run that contains `point`, or null. Runs are in order and do not overlap.
template <typename R, std::size_t N>
const R* find_run(const R (&runs)[N], char32_t point) {
  const auto* run = std::lower_bound(std::begin(runs), std::end(runs), point,
                                     [](const R& r, char32_t p) { return r.last < p; });
  return run != std::end(runs) && run->first <= point && (point - run->first) % run->step == 0 ? run
                                                                                               : nullptr;
}

template <std::size_t N, std::size_t M>
void append_mapped(std::string& out, char32_t point, const CaseRun (&runs)[N], const LongCase (&longer)[M]) {
  if (const auto* run = find_run(runs, point)) return append(out, point + static_cast<char32_t>(run->offset));
  const auto* found = std::lower_bound(std::begin(longer), std::end(longer), point,
                                       [](const LongCase& c, char32_t p) { return c.point < p; });
  if (found != std::end(longer) && found->point == point)
    out += found->text;
  else
    append(out, point);
}

// The code point that ends before byte `at`, which moves to its beginning.
char32_t previous(std::string_view text, std::size_t& at) {
  do --at;
  while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  std::size_t forward = at;
  return next(text, forward);
}

// A sigma ends a word where a letter with case stands before it and none after it.
bool is_final_sigma(std::string_view text, std::size_t begin, std::size_t end) {
  char32_t before = 0, after = 0;
  while (begin > 0 && find_run(case_ignorable_runs, before = previous(text, begin))) before = 0;
  if (!is_cased(before)) return false;
  while (end < text.size() && find_run(case_ignorable_runs, after = next(text, end))) after = 0;
  return !is_cased(after);
}

void append_upper(std::string& out, char32_t point) {
  if (point < 0x80)
    out += static_cast<char>(point >= 'a' && point <= 'z' ? point - 32 : point);
  else
    append_mapped(out, point, to_upper_runs, to_upper_long);
}

void append_title(std::string& out, char32_t point) {
  append_mapped(out, point, to_title_runs, to_title_long);
}

// The code point at [begin, end) of `text`.
void append_lower(std::string& out, std::string_view text, std::size_t begin, std::size_t end,
                  char32_t point) {
  if (point < 0x80)
    out += static_cast<char>(point >= 'A' && point <= 'Z' ? point + 32 : point);
  else if (point == U'Σ')
    append(out, is_final_sigma(text, begin, end) ? U'ς' : U'σ');
  else
    append_mapped(out, point, to_lower_runs, to_lower_long);
}

// Calls f(out, point, begin, end) for every code point.
template <typename F>
std::string mapped(std::string_view text, F f) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    const char32_t point = next(text, at);
    f(out, point, begin, at);
  }
  return out;
}

}  // namespace

bool is_valid(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (size == 0 || lead > 0xf4 || size > text.size() - i) return false;
    for (std::size_t k = 1; k < size; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    std::size_t at = i;
    const char32_t point = size == 1 ? lead : next(text, at);
    if ((size == 3 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) ||
        (size == 4 && (point < 0x10000 || point > 0x10ffff)))
      return false;
    i += size;
  }
  return true;
}

std::size_t length(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

char32_t next(std::string_view text, std::size_t& at) {
  const auto byte = [&] { return static_cast<char32_t>(static_cast<unsigned char>(text[at++])); };
  const char32_t lead = byte();
  if (lead < 0x80) return lead;
  char32_t point = lead < 0xe0 ? lead & 0x1f : lead < 0xf0 ? lead & 0x0f : lead & 0x07;
  for (int more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3; more > 0; --more)
    point = point << 6 | (byte() & 0x3f);
  return point;
}

void append(std::string& text, char32_t point) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  const auto put_rest = [&](int shift) { put(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put_rest(0);
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put_rest(6);
    put_rest(0);
  } else {
    put(0xf0 | point >> 18);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

std::optional<char32_t> hexadecimal(std::string_view text, std::size_t& at, int digits) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    const char c = at < text.size() ? text[at] : ' ';
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<char32_t>(digit);
  }
  return value;
}

std::size_t offset(std::string_view text, std::size_t index, std::size_t from) {
  for (; index > 0 && from < text.size(); --index) {
    const auto lead = static_cast<unsigned char>(text[from]);
    from += lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  }
  return from;
}

bool is_space(char32_t point) { return find_run(space_runs, point); }
bool is_alpha(char32_t point) { return find_run(alpha_runs, point); }
bool is_decimal(char32_t point) { return find_run(decimal_runs, point); }
bool is_digit(char32_t point) { return find_run(digit_runs, point); }
bool is_numeric(char32_t point) { return find_run(numeric_runs, point); }
bool is_upper(char32_t point) { return find_run(upper_runs, point); }
bool is_lower(char32_t point) { return find_run(lower_runs, point); }
bool is_title(char32_t point) { return find_run(title_runs, point); }
bool is_printable(char32_t point) { return !find_run(unprintable_runs, point); }

std::string to_lower(std::string_view text) {
  return mapped(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    append_lower(out, text, begin, end, point);
  });
}

std::string to_upper(std::string_view text) {
  return mapped(text,
                [](std::string& out, char32_t point, std::size_t, std::size_t) { append_upper(out, point); });
}

std::string to_title(std::string_view text) {
  bool in_word = false;
  return mapped(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    if (in_word)
      append_lower(out, text, begin, end, point);
    else
      append_title(out, point);
    in_word = is_cased(point);
  });
}

std::string capitalize(std::string_view text) {
  return mapped(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    if (begin == 0)
      append_title(out, point);
    else
      append_lower(out, text, begin, end, point);
  });
}

std::string swap_case(std::string_view text) {
  return mapped(text, [&](std::string& out, char32_t point, std::size_t begin, std::size_t end) {
    if (is_upper(point))
      append_lower(out, text, begin, end, point);
    else if (is_lower(point))
      append_upper(out, point);
    else
      append(out, point);
  });
}

}  // namespace hearth::unicode
