// Finding the cells of a CSV text in one pass, and converting them on demand.
#include "io/csv_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "hearth/error.h"

namespace hearth::io {

// Goes through the text cell by cell.
class CsvText::Scanner {
 public:
  Scanner(std::string_view text, char separator, const CsvText& table)
      : position_(text.data()), end_(text.data() + text.size()), separator_(separator), table_(table) {
    if (text.starts_with("\xef\xbb\xbf")) position_ += 3;
  }

  std::size_t line() const { return line_; }

  // Passes empty lines; false at the end of the text.
  bool next_row() {
    while (position_ != end_ && end_of_line()) {
    }
    return position_ != end_;
  }

  // The next cell of the row; `last` tells whether the row ends with it.
  Cell next_cell(bool& last) {
    const Cell cell = position_ != end_ && *position_ == '"' ? quoted_cell() : plain_cell();
    last = position_ == end_ || *position_ != separator_;
    if (last)
      end_of_line();
    else
      ++position_;
    return cell;
  }

 private:
  bool end_of_line() {
    const bool crlf = end_ - position_ >= 2 && position_[0] == '\r' && position_[1] == '\n';
    if (!crlf && (position_ == end_ || *position_ != '\n')) return false;
    position_ += crlf ? 2 : 1;
    ++line_;
    return true;
  }

  Cell plain_cell() {
    const char* begin = position_;
    while (position_ != end_ && *position_ != separator_ && *position_ != '\n') {
      if (*position_ == '"') table_.fail(line_, "a quote inside a cell that does not begin with one");
      ++position_;
    }
    if (position_ != begin && position_ != end_ && *position_ == '\n' && position_[-1] == '\r') --position_;
    return cell(begin, position_, false);
  }

  Cell quoted_cell() {
    const std::size_t first_line = line_;
    const char* begin = ++position_;
    bool doubled = false;
    for (;; ++position_) {
      if (position_ == end_) table_.fail(first_line, "a quoted cell that does not end");
      if (*position_ == '\n') ++line_;
      if (*position_ != '"') continue;
      if (position_ + 1 == end_ || position_[1] != '"') break;
      doubled = true;
      ++position_;
    }
    const Cell found = cell(begin, position_, doubled);
    ++position_;
    const bool line_ends = position_ == end_ || *position_ == '\n' ||
                           (*position_ == '\r' && position_ + 1 != end_ && position_[1] == '\n');
    if (!line_ends && *position_ != separator_) table_.fail(line_, "text after the closing quote of a cell");
    return found;
  }

  Cell cell(const char* begin, const char* end, bool doubled) const {
    if (static_cast<std::size_t>(end - begin) > std::numeric_limits<std::uint32_t>::max())
      table_.fail(line_, "a cell of more than 4 GiB");
    return {begin, static_cast<std::uint32_t>(end - begin), doubled};
  }

  const char* position_;
  const char* end_;
  const char separator_;
  const CsvText& table_;
  std::size_t line_ = 1;
};

CsvText::CsvText(std::string_view text, std::shared_ptr<const void> owner, char separator, bool header,
                 std::string_view source)
    : owner_(std::move(owner)), source_(source) {
  if (separator == '"' || separator == '\n' || separator == '\r')
    throw ValueError("[csv] the separator cannot be a quote or a line end");
  Scanner scanner(text, separator, *this);
  const auto read_row = [&](auto take) {
    for (bool last = false; !last;) take(scanner.next_cell(last));
  };
  if (header && scanner.next_row()) read_row([&](const Cell& cell) { names_.push_back(cell_text(cell)); });
  while (scanner.next_row()) {
    const auto line = scanner.line();
    const auto before = cells_.size();
    read_row([&](const Cell& cell) { cells_.push_back(cell); });
    const auto found = cells_.size() - before;
    if (names_.empty())
      for (std::size_t i = 0; i < found; ++i) names_.push_back(fmt::to_string(i));
    if (found != names_.size())
      fail(line, fmt::format("{} cells, where the first line has {}", found, names_.size()));
    lines_.push_back(line);
  }
}

std::string CsvText::text(std::size_t row, std::size_t column) const {
  return cell_text(cells_[row * columns() + column]);
}

std::string CsvText::cell_text(const Cell& cell) {
  std::string text(cell.begin, cell.length);
  if (cell.has_doubled_quotes) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      text[kept++] = text[i];
      if (text[i] == '"') ++i;
    }
    text.resize(kept);
  }
  return text;
}

namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    const auto value = parse_number<float>(text);
    if (!value || (std::isfinite(*value) && !std::isfinite(static_cast<float>(T(*value)))))
      return std::nullopt;
    return T(*value);
  } else if constexpr (std::is_same_v<T, bool>) {
    const auto value = parse_number<std::uint8_t>(text);
    return value && *value <= 1 ? std::optional<bool>(*value == 1) : std::nullopt;
  } else {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size()) return std::nullopt;
    if constexpr (std::is_floating_point_v<T> && !std::is_same_v<T, long double>)
      if (error == std::errc::result_out_of_range) {  // too close to zero is zero; too large is refused
        const auto wide = parse_number<long double>(text);
        return wide && std::abs(*wide) < 1 ? std::optional<T>(static_cast<T>(*wide)) : std::nullopt;
      }
    if (error != std::errc{}) return std::nullopt;
    return value;
  }
}

}  // namespace

template <typename T>
T CsvText::number(std::size_t row, std::size_t column, bool empty_is_nan) const {
  const Cell& cell = cells_[row * columns() + column];
  const auto text = trimmed({cell.begin, cell.length});
  if constexpr (is_floating(dtype_of<T>))
    if (text.empty() && empty_is_nan) return T(std::numeric_limits<float>::quiet_NaN());
  const auto value = parse_number<T>(text);
  if (!value)
    fail(lines_[row], fmt::format("column {}: {} is not a number of dtype {}", show(names_[column]),
                                  show(text), dtype_name(dtype_of<T>)));
  return *value;
}

template <typename T>
void CsvText::fill(std::span<std::byte> out, const std::vector<std::size_t>& columns,
                   bool empty_is_nan) const {
  auto* to = out.data();
  for (std::size_t row = 0; row < rows(); ++row)
    for (const auto column : columns) {
      const T value = number<T>(row, column, empty_is_nan);
      std::memcpy(to, &value, sizeof value);
      to += sizeof value;
    }
}

Array CsvText::numbers(const std::vector<std::size_t>& columns, DType dtype, bool empty_is_nan) const {
  std::vector<std::byte> bytes(rows() * columns.size() * dtype_size(dtype));
  switch (dtype) {
    case DType::bool_:
      fill<bool>(bytes, columns, empty_is_nan);
      break;
    case DType::u8:
      fill<std::uint8_t>(bytes, columns, empty_is_nan);
      break;
    case DType::i8:
      fill<std::int8_t>(bytes, columns, empty_is_nan);
      break;
    case DType::i16:
      fill<std::int16_t>(bytes, columns, empty_is_nan);
      break;
    case DType::i32:
      fill<std::int32_t>(bytes, columns, empty_is_nan);
      break;
    case DType::i64:
      fill<std::int64_t>(bytes, columns, empty_is_nan);
      break;
    case DType::f16:
      fill<float16>(bytes, columns, empty_is_nan);
      break;
    case DType::bf16:
      fill<bfloat16>(bytes, columns, empty_is_nan);
      break;
    case DType::f32:
      fill<float>(bytes, columns, empty_is_nan);
      break;
    case DType::f64:
      fill<double>(bytes, columns, empty_is_nan);
      break;
    default:
      break;
  }
  return owned_array(dtype, {static_cast<std::int64_t>(rows()), static_cast<std::int64_t>(columns.size())},
                     std::move(bytes));
}

void CsvText::fail(std::size_t line, const std::string& rule) const {
  throw FormatError(fmt::format("[csv] '{}' line {}: {}", source_, line, rule));
}

}  // namespace hearth::io
