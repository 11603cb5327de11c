// Sudoku: puzzles made from a seed, solved, rated and rearranged.
//
// Everything here is a pure function of its arguments, the seed included, whatever the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::hrm {

// 81 cells row by row; 0 is empty, else the digit.
using Grid = std::array<std::uint8_t, 81>;

// Digits, with '.', '0', '_' or '*' for empty cells; white space and the rulers "|", "-", "+" are skipped.
// Throws ValueError that says what is wrong.
Grid parse_grid(std::string_view text);
std::string to_text(const Grid& grid);  // 81 characters, '.' for empty
int clue_count(const Grid& grid);

// The first pair of equal digits in a row, column or box, as cells; {-1, -1} if there is none.
std::array<int, 2> conflict(const Grid& grid);
// Every cell filled, no conflict.
bool is_solution(const Grid& grid);

struct SudokuAnalysis {
  int solutions = 0;  // counted up to the limit
  int rating = 0;     // branches that the search tried beyond singles, until the limit or the end
  Grid solution{};    // one of them
};
SudokuAnalysis analyse(const Grid& puzzle, int limit = 2);
// The same of a puzzle that must have a solution. Throws ValueError that says where digits conflict, or that
// there is none.
SudokuAnalysis check_puzzle(const Grid& puzzle);

// A puzzle with exactly one solution.
struct Puzzle {
  Grid clues{}, solution{};
  int rating = 0;
};

// How puzzles are made: dig removes clues in random order while the solution stays the only one; climb
// changes a minimal puzzle again and again and keeps what is not easier; thin does the same towards fewer
// clues.
enum class Making { dig, climb, thin };
struct PuzzleKind {
  Making making = Making::dig;
  int clues_from = 30, clues_to = 34;  // dig: where to stop, drawn evenly; 0 is until nothing can be removed
  int iterations = 100;                // climb, thin
  double share = 1;                    // of the puzzles of a mixture, relative to the others
};

// Puzzle number `index` of an endless sequence.
Puzzle make_puzzle(const PuzzleKind& kind, std::uint64_t seed, std::uint64_t index);
// The first `count` puzzles of a mixture, made by all threads, in random order.
std::vector<Puzzle> make_puzzles(const std::vector<PuzzleKind>& mixture, std::int64_t count,
                                 std::uint64_t seed);
// What models are trained on where nothing else is said: easy to minimal, and rated hard.
std::vector<PuzzleKind> training_mixture();

// Another puzzle that is as hard: digits renamed, rows, columns, bands and stacks exchanged, transposed.
// Which of the 9! * 6^8 * 2 is drawn from (seed, index).
void rearrange(const Puzzle& puzzle, std::uint64_t seed, std::uint64_t index, Grid& clues, Grid& solution);

// CSV files with the columns question and answer, and where they have them source and rating.
struct NamedPuzzle {
  Puzzle puzzle;
  std::string source;
};
// Throws FormatError, with the line, for what is not a puzzle and its solution.
std::vector<NamedPuzzle> load_puzzles(const std::filesystem::path& path);
void save_puzzles(const std::filesystem::path& path, const std::vector<Puzzle>& puzzles);

}  // namespace hearth::hrm
