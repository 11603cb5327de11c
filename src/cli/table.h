// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace hearth::cli {

// The first row is the heading. Every row has as many cells.
using Table = std::vector<std::vector<std::string>>;

// Columns padded with spaces, one line per row.
std::string plain(const Table& table);
std::string markdown(const Table& table);

std::string gibibytes(std::size_t bytes);  // "15.9 GiB"

}  // namespace hearth::cli
