// Laying tables out.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace hearth::cli {

std::string plain(const Table& table) {
  std::vector<std::size_t> widths(table.empty() ? 0 : table.front().size());
  for (const auto& row : table)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : table) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string markdown(const Table& table) {
  std::string text;
  for (std::size_t r = 0; r < table.size(); ++r) {
    text += fmt::format("| {} |\n", fmt::join(table[r], " | "));
    if (r > 0) continue;
    for (std::size_t i = 0; i < table[0].size(); ++i) text += "|---";
    text += "|\n";
  }
  return text;
}

std::string gibibytes(std::size_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1024.0 * 1024 * 1024));
}

}  // namespace hearth::cli
