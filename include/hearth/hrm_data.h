// Data for reasoning models besides Sudoku: mazes made from a seed, ARC tasks, and the files of the reference
// implementation.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hearth/hrm_train.h"

namespace hearth::hrm {

// ---- mazes. Characters are those of the reference: '#' wall, ' ' way, 'S' start, 'G' goal, 'o' path; their
// tokens are 1 to 5 in that order.

struct MazeOptions {
  std::int64_t side = 30;       // cells; rooms lie on every second one
  std::int64_t openings = 7;    // walls taken away at random, which makes circles
  std::int64_t shortest = 110;  // steps from start to goal, at least
};
struct Maze {
  std::string grid;    // side * side characters, row by row
  std::string answer;  // the same with the one shortest path from start to goal
  std::int64_t steps = 0;
};
// Maze number `index` of an endless sequence. There is exactly one shortest path. Throws ValueError for
// options that no maze fulfils.
Maze make_maze(const MazeOptions& options, std::uint64_t seed, std::uint64_t index);
// Whether an answer marks a path from start to goal that is as short as can be.
bool is_shortest_path(const std::string& grid, const std::string& answer);
// What a model for them needs: vocabulary, length.
HrmConfig maze_config(const MazeOptions& options);
std::shared_ptr<ExampleSource> maze_source(const MazeOptions& options, std::uint64_t seed);

// ---- ARC

struct ArcGrid {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::uint8_t> colours;  // 0 to 9, row by row
  friend bool operator==(const ArcGrid&, const ArcGrid&) = default;
};
struct ArcTask {
  std::string name;
  std::vector<std::pair<ArcGrid, ArcGrid>> train, test;  // input, output
};
// The tasks of a folder of JSON files, by name. Throws FormatError, FileError.
std::vector<ArcTask> load_arc(const std::filesystem::path& folder);

// One of the eight symmetries of the square, and other names for the colours. Black stays.
struct ArcChange {
  int symmetry = 0;
  std::array<std::uint8_t, 10> colours{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
};
ArcChange draw_change(std::uint64_t seed, std::uint64_t index);
ArcGrid changed(const ArcGrid& grid, const ArcChange& change);
ArcGrid changed_back(const ArcGrid& grid, const ArcChange& change);

// 30 x 30 tokens with the grid at (row, column): 0 outside, 1 along its lower and right edge, 2 + colour
// within.
inline constexpr std::int64_t arc_side = 30;
void to_tokens(const ArcGrid& grid, std::int64_t row, std::int64_t column, std::span<std::int32_t> tokens);
// The grid in a model's answer; nothing where there is none.
std::optional<ArcGrid> arc_grid(std::span<const std::int32_t> tokens);

// The training pairs of the tasks (and `with_test` the others), each under `changes` changes besides itself,
// moved about at random. Every task and change has a row of the table of puzzle vectors; row 0 is nobody's.
HrmConfig arc_config(const std::vector<ArcTask>& tasks, std::int64_t changes);
std::shared_ptr<ExampleSource> arc_source(std::vector<ArcTask> tasks, std::int64_t changes, bool with_test,
                                          std::uint64_t seed);

// ---- files of the reference implementation: <folder>/dataset.json and <set>__<field>.npy

struct ReferenceData {
  HrmConfig config;  // vocabulary, length, puzzles
  std::int64_t examples = 0, puzzles = 0, groups = 0;
  std::shared_ptr<ExampleSource> source;
};
// Throws FormatError, FileError.
ReferenceData load_reference_data(const std::filesystem::path& folder, std::uint64_t seed);

// ---- weights of the reference implementation

// What its checkpoints say nothing of; 0: what goes with the vocabulary or the sizes.
struct ImportOptions {
  std::int64_t length = 0, heads = 0;
  std::int64_t h_cycles = 2, l_cycles = 2;
};
// A model from a checkpoint (torch.save of its state dictionary), of which nothing is run. Throws FormatError
// for what is not one.
std::shared_ptr<Hrm> import_checkpoint(const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace hearth::hrm
