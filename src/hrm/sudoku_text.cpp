// Grids as text, and files of puzzles.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "hearth/sudoku.h"

namespace hearth::hrm {

Grid parse_grid(std::string_view text) {
  Grid grid{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool empty = c == '.' || c == '0' || c == '_' || c == '*';
    const bool digit = c >= '1' && c <= '9';
    if (empty || digit) {
      if (count < grid.size()) grid[count] = static_cast<std::uint8_t>(digit ? c - '0' : 0);
      ++count;
      continue;
    }
    if (std::string_view(" \t\r\n|-+").find(c) != std::string_view::npos) continue;
    throw ValueError(
        fmt::format("[parse_grid] character {} is {}; a grid has digits, and '.' for empty cells", i + 1,
                    c > ' ' && c < 127 ? fmt::format("'{}'", c)
                                       : fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c))));
  }
  if (count != grid.size())
    throw ValueError(fmt::format("[parse_grid] a grid has 81 cells, this text has {}", count));
  return grid;
}

SudokuAnalysis check_puzzle(const Grid& puzzle) {
  const auto name = [](int cell) { return fmt::format("row {} column {}", cell / 9 + 1, cell % 9 + 1); };
  if (const auto [a, b] = conflict(puzzle); a >= 0)
    throw ValueError(fmt::format("the puzzle has the digit {} twice where it may be once: {} and {}",
                                 puzzle[static_cast<std::size_t>(a)], name(a), name(b)));
  // Few clues have solutions beyond number: two are enough to know.
  const SudokuAnalysis analysis = analyse(puzzle, 2);
  if (analysis.solutions == 0) throw ValueError("the puzzle has no solution");
  return analysis;
}

std::string to_text(const Grid& grid) {
  std::string text;
  for (const auto digit : grid) text += digit == 0 ? '.' : static_cast<char>('0' + digit);
  return text;
}

std::vector<NamedPuzzle> load_puzzles(const std::filesystem::path& path) {
  const CsvTable table(path);
  const auto column = [&](std::string_view name) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < table.names().size(); ++i)
      if (table.names()[i] == name) return i;
    return std::nullopt;
  };
  const auto question = column("question"), answer = column("answer");
  const auto source = column("source"), rating = column("rating");
  if (!question || !answer)
    throw FormatError(fmt::format("{}: no columns \"question\" and \"answer\"", path.string()));
  std::vector<NamedPuzzle> puzzles(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    NamedPuzzle& entry = puzzles[row];
    const auto fail = [&](const std::string& what) {
      throw FormatError(fmt::format("{}: puzzle {}: {}", path.string(), row + 1, what));
    };
    try {
      entry.puzzle.clues = parse_grid(table.text(row, *question));
      entry.puzzle.solution = parse_grid(table.text(row, *answer));
    } catch (const ValueError& error) {
      fail(error.what());
    }
    if (!is_solution(entry.puzzle.solution)) fail("the answer is not a filled grid without conflicts");
    for (std::size_t i = 0; i < 81; ++i)
      if (entry.puzzle.clues[i] != 0 && entry.puzzle.clues[i] != entry.puzzle.solution[i])
        fail(fmt::format("the answer has another digit than the question in cell {}", i + 1));
    if (source) entry.source = table.text(row, *source);
    if (rating) {
      const std::string text = table.text(row, *rating);
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), entry.puzzle.rating);
      if (error != std::errc() || end != text.data() + text.size()) fail("the rating is not a whole number");
    }
  }
  return puzzles;
}

void save_puzzles(const std::filesystem::path& path, const std::vector<Puzzle>& puzzles) {
  write_atomically(path, [&](AtomicFile& file) {
    file.write("question,answer,rating\n");
    std::string text;
    for (const Puzzle& puzzle : puzzles) {
      text += fmt::format("{},{},{}\n", to_text(puzzle.clues), to_text(puzzle.solution), puzzle.rating);
      if (text.size() < 1 << 20) continue;
      file.write(text);
      text.clear();
    }
    file.write(text);
  });
}

}  // namespace hearth::hrm
