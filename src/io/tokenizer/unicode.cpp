// Unicode normal forms, case and categories, by utf8proc.
#include "io/tokenizer/unicode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "hearth/error.h"
#include "io/tokenizer/utf8.h"

#ifdef HEARTH_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

namespace hearth::tokenizer {

#ifdef HEARTH_HAVE_UTF8PROC

void require_unicode_tables(std::string_view) {}

namespace {

utf8proc_category_t category(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

// The text with each character replaced by what `change` appends for it.
template <typename Change>
std::string changed(std::string_view text, Change change) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); i += utf8_size(text[i])) change(result, read_valid_utf8(text, i));
  return result;
}

}  // namespace

namespace {

int combining_class(char32_t character) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->combining_class;
}

// The same text to Unicode, with long runs of combining marks in order: utf8proc sorts them in quadratic
// time.
std::string with_sorted_marks(std::string_view text) {
  constexpr std::size_t long_run = 32;
  std::string result;
  std::u32string marks;
  const auto flush = [&] {
    if (marks.size() >= long_run)
      std::stable_sort(marks.begin(), marks.end(),
                       [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    for (const auto mark : marks) append_utf8(result, mark);
    marks.clear();
  };
  for (std::size_t i = 0; i < text.size(); i += utf8_size(text[i])) {
    const auto character = read_valid_utf8(text, i);
    if (combining_class(character) != 0) {
      marks += character;
    } else {
      flush();
      append_utf8(result, character);
    }
  }
  flush();
  return result;
}

}  // namespace

namespace {

std::string normalised_part(std::string_view part, NormalForm form) {
  const auto text = with_sorted_marks(part);
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* result = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &result,
                                 static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (size < 0) throw Error(fmt::format("[tokenizer] Unicode normalisation: {}", utf8proc_errmsg(size)));
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

// Whether a character stays as it is, unless what follows combines with it.
bool is_stable(char32_t character, NormalForm form) {
  if (character < 0x80) return true;
  // Latin letters, dashes and quotes, ideographs.
  return form == NormalForm::nfc && (character < 0x300 || (character >= 0x2010 && character <= 0x2027) ||
                                     (character >= 0x3400 && character <= 0x9fff));
}

}  // namespace

// Only what is not stable is looked at closely: from the character before it, to which it may belong, up to
// the next one that is ASCII, which belongs to nothing.
std::string normalised(std::string_view text, NormalForm form) {
  std::string result;
  result.reserve(text.size());
  std::size_t done = 0, previous = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (is_stable(read_valid_utf8(text, i), form)) {
      previous = i;
      i += utf8_size(text[i]);
      continue;
    }
    while (i < text.size() && static_cast<unsigned char>(text[i]) >= 0x80) i += utf8_size(text[i]);
    result += text.substr(done, previous - done);
    result += normalised_part(text.substr(previous, i - previous), form);
    done = previous = i;
  }
  return result += text.substr(done);
}

std::string lowercased(std::string_view text) {
  return changed(text, [](std::string& result, char32_t c) {
    append_utf8(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    if (c == 0x130) append_utf8(result, 0x307);  // the only one whose lower case is two characters
  });
}

std::string without_marks(std::string_view text, bool spacing_too) {
  return changed(text, [&](std::string& result, char32_t c) {
    const auto kind = category(c);
    const bool other_mark = kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
    if (kind != UTF8PROC_CATEGORY_MN && !(spacing_too && other_mark)) append_utf8(result, c);
  });
}

bool is_word_character(char32_t character) {
  switch (category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool is_control_character(char32_t character) {
  switch (category(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return true;
    default:
      return false;
  }
}

#else

void require_unicode_tables(std::string_view what) {
  throw Error(
      fmt::format("[tokenizer] {} needs utf8proc, which this build does not have (libutf8proc-dev)", what));
}

std::string normalised(std::string_view text, NormalForm) {
  if (!is_ascii(text)) require_unicode_tables("a Unicode normal form");
  return std::string(text);
}

std::string lowercased(std::string_view text) {
  if (!is_ascii(text)) require_unicode_tables("lower case");
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return result;
}

std::string without_marks(std::string_view text, bool) {
  if (!is_ascii(text)) require_unicode_tables("stripping accents");
  return std::string(text);
}

bool is_word_character(char32_t c) {
  if (c >= 0x80) require_unicode_tables("the end of a word");
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

bool is_control_character(char32_t c) {
  if (c >= 0x80) require_unicode_tables("removing control characters");
  return c < 0x20 || c == 0x7f;
}

#endif

}  // namespace hearth::tokenizer
