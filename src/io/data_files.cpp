// Tensors from the files of data sets: IDX, fixed-size records, CSV.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hearth/error.h"
#include "hearth/io.h"
#include "io/csv_format.h"
#include "io/host_tensor.h"
#include "io/idx_format.h"
#include "io/records_format.h"

namespace hearth {

Tensor load_idx(const std::filesystem::path& path) {
  const auto file = io::map_file(path);
  return io::to_tensor(io::parse_idx(file.bytes, file.owner, path.string()));
}

Records load_records(const std::filesystem::path& path, std::int64_t label_bytes, const Shape& item_shape) {
  if (label_bytes < 0) throw ValueError(fmt::format("[records] {} label bytes", label_bytes));
  const auto file = io::read_maybe_compressed(path);
  const auto arrays =
      io::parse_records(file.bytes, static_cast<std::size_t>(label_bytes), item_shape, path.string());
  return {io::to_tensor(arrays.labels), io::to_tensor(arrays.items)};
}

struct CsvTable::State {
  io::CsvText text;
  bool empty_is_nan;

  void check_column(std::size_t column) const {
    if (column >= text.columns())
      throw IndexError(fmt::format("[csv] column {} of a table with {}", column, text.columns()));
  }
};

CsvTable::CsvTable(const std::filesystem::path& path, const CsvOptions& options) {
  const auto file = io::read_maybe_compressed(path);
  io::CsvText text(io::as_text(file.bytes), file.owner, options.separator, options.header, path.string());
  state_ = std::make_shared<const State>(State{std::move(text), options.empty_is_nan});
}

std::size_t CsvTable::rows() const { return state_->text.rows(); }
std::size_t CsvTable::columns() const { return state_->text.columns(); }
const std::vector<std::string>& CsvTable::names() const { return state_->text.names(); }

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::find(names().begin(), names().end(), name);
  if (found == names().end()) throw ValueError(fmt::format("[csv] no column is named {}", io::show(name)));
  return static_cast<std::size_t>(found - names().begin());
}

std::string CsvTable::text(std::size_t row, std::size_t column) const {
  state_->check_column(column);
  if (row >= rows()) throw IndexError(fmt::format("[csv] row {} of a table with {}", row, rows()));
  return state_->text.text(row, column);
}

std::vector<std::string> CsvTable::texts(std::size_t column) const {
  state_->check_column(column);
  std::vector<std::string> cells;
  for (std::size_t row = 0; row < rows(); ++row) cells.push_back(state_->text.text(row, column));
  return cells;
}

Tensor CsvTable::numbers(const std::vector<std::size_t>& columns, DType dtype) const {
  auto chosen = columns;
  if (chosen.empty()) {
    chosen.resize(this->columns());
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  }
  for (const auto column : chosen) state_->check_column(column);
  return io::to_tensor(state_->text.numbers(chosen, dtype, state_->empty_is_nan));
}

}  // namespace hearth
