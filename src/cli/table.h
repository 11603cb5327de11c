// Text for terminals: columns, sizes, quotes, JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::cli {

// The first row is the heading. Every row has as many cells.
using Table = std::vector<std::vector<std::string>>;

// Columns padded with spaces, one line per row.
std::string plain(const Table& table);
std::string markdown(const Table& table);

std::string gibibytes(std::size_t bytes);  // "15.9 GiB"
std::string size_text(std::size_t bytes);  // "790 B", "1.5 kB", "12.0 MB", "4.50 GB"

// Text from a file, fit for a terminal: quoted and escaped as in JSON, what is not UTF-8 replaced.
std::string in_quotes(std::string_view text);
std::string escaped(std::string_view text);  // the same without quotes

// What --json prints. Names of files may not be UTF-8, as JSON is: such bytes are replaced.
std::string json_text(const nlohmann::json& json);

}  // namespace hearth::cli
