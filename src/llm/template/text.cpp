// Cutting, finding, replacing and quoting text.
#include "llm/template/text.h"

#include <fmt/format.h>
#include <string.h>  // memmem

#include <algorithm>

#include "base/unicode.h"

namespace hearth::jinja {
namespace {

std::size_t last_begin(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

bool is_space_at(std::string_view text, std::size_t at) { return unicode::is_space(unicode::next(text, at)); }

// Python's line ends; \r\n is one.
std::size_t line_end_size(std::string_view text, std::size_t at) {
  std::size_t end = at;
  const char32_t point = unicode::next(text, end);
  if (point == '\r' && end < text.size() && text[end] == '\n') return 2;
  const bool ends = (point >= 0x0a && point <= 0x0d) || (point >= 0x1c && point <= 0x1e) || point == 0x85 ||
                    point == 0x2028 || point == 0x2029;
  return ends ? end - at : 0;
}

}  // namespace

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars) {
  const auto goes = [&](std::size_t begin, std::size_t end) {
    return chars ? chars->find(text.substr(begin, end - begin)) != npos : is_space_at(text, begin);
  };
  if (side != Side::right)
    while (!text.empty()) {
      const auto end = unicode::offset(text, 1);
      if (!goes(0, end)) break;
      text.remove_prefix(end);
    }
  if (side != Side::left)
    while (!text.empty()) {
      const auto begin = last_begin(text, text.size());
      if (!goes(begin, text.size())) break;
      text = text.substr(0, begin);
    }
  return text;
}

std::vector<std::string_view> split_space(std::string_view text, std::size_t limit) {
  std::vector<std::string_view> out;
  text = strip(text, Side::left);
  while (!text.empty()) {
    std::size_t end = 0;
    if (out.size() == limit) {
      out.push_back(text);
      break;
    }
    while (end < text.size() && !is_space_at(text, end)) end = unicode::offset(text, 1, end);
    out.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::left);
  }
  return out;
}

std::vector<std::string_view> split_space_right(std::string_view text, std::size_t limit) {
  std::vector<std::string_view> out;
  text = strip(text, Side::right);
  while (!text.empty()) {
    std::size_t begin = text.size();
    if (out.size() == limit) {
      out.push_back(text);
      break;
    }
    while (begin > 0 && !is_space_at(text, last_begin(text, begin))) begin = last_begin(text, begin);
    out.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), Side::right);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::size_t limit) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t at; out.size() < limit && (at = find(text, separator, begin)) != npos;
       begin = at + separator.size())
    out.push_back(text.substr(begin, at - begin));
  out.push_back(text.substr(begin));
  return out;
}

std::vector<std::string_view> split_right(std::string_view text, std::string_view separator,
                                          std::size_t limit) {
  // Over the texts read backwards, where the last occurrence is the first.
  const std::string backwards(text.rbegin(), text.rend()), part(separator.rbegin(), separator.rend());
  std::vector<std::string_view> out;
  for (const auto piece : split(backwards, part, limit)) {
    const auto from_end = static_cast<std::size_t>(piece.data() - backwards.data()) + piece.size();
    out.push_back(text.substr(text.size() - from_end, piece.size()));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin, size = 0;
    while (end < text.size() && (size = line_end_size(text, end)) == 0) end = unicode::offset(text, 1, end);
    out.push_back(text.substr(begin, end - begin + (keep_ends ? size : 0)));
    begin = end + size;
  }
  return out;
}

std::size_t find(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return npos;
  // std::string_view::find takes quadratic time on texts made for it.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : npos;
}

std::size_t find_last(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend()), reversed(part.rbegin(), part.rend());
  const auto at = find(backwards, reversed);
  return at == npos ? npos : text.size() - at - part.size();
}

std::size_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return unicode::length(text) + 1;
  std::size_t found = 0;
  for (std::size_t at = 0; (at = find(text, part, at)) != npos; at += part.size()) ++found;
  return found;
}

std::string replace(std::string_view text, std::string_view old, std::string_view with, std::size_t limit) {
  std::string out;
  std::size_t begin = 0;
  if (old.empty()) {
    for (std::size_t at = 0; limit > 0; --limit) {
      out += with;
      if (begin == text.size()) return out;
      at = unicode::offset(text, 1, begin);
      out += text.substr(begin, at - begin);
      begin = at;
    }
  } else {
    for (std::size_t at; limit > 0 && (at = find(text, old, begin)) != npos; --limit) {
      out += text.substr(begin, at - begin);
      out += with;
      begin = at + old.size();
    }
  }
  out += text.substr(begin);
  return out;
}

std::string quote(std::string_view text) {
  const char mark = text.find('\'') != npos && text.find('"') == npos ? '"' : '\'';
  std::string out(1, mark);
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    const char32_t point = unicode::next(text, at);
    if (point == static_cast<char32_t>(mark) || point == '\\')
      (out += '\\') += static_cast<char>(point);
    else if (point == '\n')
      out += "\\n";
    else if (point == '\r')
      out += "\\r";
    else if (point == '\t')
      out += "\\t";
    else if ((point >= ' ' && point < 0x7f) || (point > 0x7f && unicode::is_printable(point)))
      out += text.substr(begin, at - begin);
    else if (point < 0x100)
      out += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(point));
    else if (point < 0x10000)
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point));
    else
      out += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(point));
  }
  return out += mark;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace hearth::jinja
