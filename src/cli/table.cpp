// Laying text out.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

std::string size_text(std::size_t bytes) {
  const double amount = static_cast<double>(bytes);
  return bytes < 1000   ? fmt::format("{} B", bytes)
         : amount < 1e6 ? fmt::format("{:.1f} kB", amount * 1e-3)
         : amount < 1e9 ? fmt::format("{:.1f} MB", amount * 1e-6)
                        : fmt::format("{:.2f} GB", amount * 1e-9);
}

std::string in_quotes(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string escaped(std::string_view text) {
  const std::string quoted = in_quotes(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace hearth::cli
