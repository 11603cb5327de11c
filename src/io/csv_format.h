// CSV (RFC 4180): the cells of a text, and their values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/dtype.h"
#include "io/array.h"

namespace hearth::io {

// The table in a text. Cells are separated by `separator`, rows by LF or CRLF; a cell in double quotes may
// hold separators, line ends and, doubled, quotes. Empty lines are skipped, as is a byte order mark. Throws
// FormatError with the line for an unfinished quoted cell, a quote out of place, or a row with more or fewer
// cells than the first.
class CsvText {
 public:
  // `owner` keeps `text` alive; `source` names the file in messages.
  CsvText(std::string_view text, std::shared_ptr<const void> owner, char separator, bool header,
          std::string_view source);

  std::size_t rows() const { return lines_.size(); }  // without the header
  std::size_t columns() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }  // of the header, else "0", "1", ...

  std::string text(std::size_t row, std::size_t column) const;
  // The line of the file on which a row begins, counted from 1.
  std::size_t line(std::size_t row) const { return lines_[row]; }

  // The values of some columns as (rows, columns). Spaces around a number are ignored. Throws FormatError
  // with line and column for a cell that is not a number of that dtype, or is empty unless `empty_is_nan`.
  Array numbers(const std::vector<std::size_t>& columns, DType dtype, bool empty_is_nan) const;

 private:
  struct Cell {
    const char* begin;     // after the opening quote
    std::uint32_t length;  // up to the closing quote
    bool has_doubled_quotes;
  };
  class Scanner;
  template <typename T>
  void fill(std::span<std::byte> out, const std::vector<std::size_t>& columns, bool empty_is_nan) const;
  template <typename T>
  T number(std::size_t row, std::size_t column, bool empty_is_nan) const;
  static std::string cell_text(const Cell& cell);
  [[noreturn]] void fail(std::size_t line, const std::string& rule) const;

  std::shared_ptr<const void> owner_;
  std::string source_;
  std::vector<std::string> names_;
  std::vector<Cell> cells_;  // row by row
  std::vector<std::size_t> lines_;
};

}  // namespace hearth::io
