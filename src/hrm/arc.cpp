// ARC tasks: JSON files, changes that keep a task what it is, and grids as tokens.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/hrm_data.h"
#include "hrm/random_source.h"
#include "io/parse_json.h"

namespace hearth::hrm {
namespace {

constexpr std::int32_t outside = 0, edge = 1, first_colour = 2;

ArcGrid grid_from(const nlohmann::json& json, const std::string& where) {
  const auto fail = [&](const char* what) {
    throw FormatError(fmt::format("[load_arc] {}: {}", where, what));
  };
  ArcGrid grid;
  if (!json.is_array() || json.empty() || json.size() > arc_side) fail("a grid must have 1 to 30 rows");
  grid.rows = static_cast<std::int64_t>(json.size());
  for (const auto& row : json) {
    if (!row.is_array() || row.empty() || row.size() > arc_side) fail("a row must have 1 to 30 cells");
    if (grid.columns == 0) grid.columns = static_cast<std::int64_t>(row.size());
    if (static_cast<std::int64_t>(row.size()) != grid.columns) fail("rows of different lengths");
    for (const auto& cell : row) {
      if (!cell.is_number_integer() || cell < 0 || cell > 9) fail("a cell must be a digit");
      grid.colours.push_back(cell.get<std::uint8_t>());
    }
  }
  return grid;
}

ArcTask task_from(const std::filesystem::path& path) {
  const auto json = io::parse_json(read_text_file(path), path.string());
  ArcTask task{.name = path.stem().string(), .train = {}, .test = {}};
  if (!json.is_object()) throw FormatError(fmt::format("[load_arc] {}: not a JSON object", path.string()));
  for (const auto& [part, pairs] : {std::pair{"train", &task.train}, std::pair{"test", &task.test}}) {
    if (!json.contains(part) || !json[part].is_array())
      throw FormatError(fmt::format("[load_arc] {}: no list \"{}\"", path.string(), part));
    for (const auto& pair : json[part]) {
      if (!pair.is_object() || !pair.contains("input") || !pair.contains("output"))
        throw FormatError(fmt::format("[load_arc] {}: a pair without input or output", path.string()));
      pairs->emplace_back(grid_from(pair["input"], path.string()), grid_from(pair["output"], path.string()));
    }
  }
  if (task.train.empty()) throw FormatError(fmt::format("[load_arc] {}: no training pairs", path.string()));
  return task;
}

// Where the cell (row, column) of a turned or mirrored grid was before. `rows` and `columns` are of the grid
// before.
std::pair<std::int64_t, std::int64_t> origin(int symmetry, std::int64_t row, std::int64_t column,
                                             std::int64_t rows, std::int64_t columns) {
  switch (symmetry) {
    case 1:  // a quarter turn to the left
      return {column, columns - 1 - row};
    case 2:
      return {rows - 1 - row, columns - 1 - column};
    case 3:
      return {rows - 1 - column, row};
    case 4:  // mirrored left to right
      return {row, columns - 1 - column};
    case 5:
      return {rows - 1 - row, column};
    case 6:  // along the diagonals
      return {column, row};
    case 7:
      return {rows - 1 - column, columns - 1 - row};
    default:
      return {row, column};
  }
}

ArcGrid turned(const ArcGrid& grid, int symmetry) {
  const bool exchanged = symmetry == 1 || symmetry == 3 || symmetry == 6 || symmetry == 7;
  ArcGrid result{exchanged ? grid.columns : grid.rows, exchanged ? grid.rows : grid.columns, {}};
  for (std::int64_t row = 0; row < result.rows; ++row)
    for (std::int64_t column = 0; column < result.columns; ++column) {
      const auto [r, c] = origin(symmetry, row, column, grid.rows, grid.columns);
      result.colours.push_back(grid.colours[static_cast<std::size_t>(r * grid.columns + c)]);
    }
  return result;
}

ArcGrid recoloured(ArcGrid grid, const std::array<std::uint8_t, 10>& colours) {
  for (auto& colour : grid.colours) colour = colours[colour];
  return grid;
}

class ArcSource : public ExampleSource {
 public:
  ArcSource(std::vector<ArcTask> tasks, std::int64_t changes, bool with_test, std::uint64_t seed)
      : tasks_(std::move(tasks)), changes_(changes), seed_(seed) {
    if (tasks_.empty()) throw ValueError("[arc_source] there are no tasks");
    if (changes < 0) throw ValueError("[arc_source] the number of changes must not be negative");
    if (with_test)
      for (ArcTask& task : tasks_) task.train.insert(task.train.end(), task.test.begin(), task.test.end());
  }

  void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels, std::int32_t& puzzle) const override {
    RandomSource random(seed_, static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint64_t>(row));
    const std::uint32_t number = random.below(static_cast<std::uint32_t>(tasks_.size()));
    const std::uint32_t version = random.below(static_cast<std::uint32_t>(changes_ + 1));
    const ArcTask& task = tasks_[number];
    const auto& [input, output] = task.train[random.below(static_cast<std::uint32_t>(task.train.size()))];
    // Version 0 is the task itself.
    const auto id = static_cast<std::uint64_t>(number) * static_cast<std::uint64_t>(changes_ + 1) + version;
    const ArcChange change = version == 0 ? ArcChange{} : draw_change(seed_, id);
    const ArcGrid question = changed(input, change), answer = changed(output, change);
    const auto room = [](std::int64_t a, std::int64_t b) {
      return static_cast<std::uint32_t>(arc_side - std::max(a, b) + 1);
    };
    const std::int64_t down = random.below(room(question.rows, answer.rows));
    const std::int64_t right = random.below(room(question.columns, answer.columns));
    to_tokens(question, down, right, tokens);
    to_tokens(answer, down, right, labels);
    std::replace(labels.begin(), labels.end(), outside, ignored_label);
    puzzle = static_cast<std::int32_t>(1 + id);
  }

 private:
  std::vector<ArcTask> tasks_;
  std::int64_t changes_;
  std::uint64_t seed_;
};

}  // namespace

std::vector<ArcTask> load_arc(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<ArcTask> tasks;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".json") tasks.push_back(task_from(entry.path()));
  if (error) throw FileError(fmt::format("{}: {}", folder.string(), error.message()));
  std::sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return tasks;
}

ArcChange draw_change(std::uint64_t seed, std::uint64_t index) {
  RandomSource random(seed ^ 0xA5C, index);
  ArcChange change;
  change.symmetry = static_cast<int>(random.below(8));
  random.shuffle(std::span<std::uint8_t>(change.colours).subspan(1));
  return change;
}

ArcGrid changed(const ArcGrid& grid, const ArcChange& change) {
  return turned(recoloured(grid, change.colours), change.symmetry);
}

ArcGrid changed_back(const ArcGrid& grid, const ArcChange& change) {
  std::array<std::uint8_t, 10> back{};
  for (std::size_t i = 0; i < back.size(); ++i) back[change.colours[i]] = static_cast<std::uint8_t>(i);
  // Quarter turns undo each other; every other symmetry undoes itself.
  const int symmetry = change.symmetry == 1 ? 3 : change.symmetry == 3 ? 1 : change.symmetry;
  return recoloured(turned(grid, symmetry), back);
}

void to_tokens(const ArcGrid& grid, std::int64_t row, std::int64_t column, std::span<std::int32_t> tokens) {
  std::fill(tokens.begin(), tokens.end(), outside);
  const auto at = [&](std::int64_t r, std::int64_t c) -> std::int32_t& {
    return tokens[static_cast<std::size_t>((row + r) * arc_side + column + c)];
  };
  for (std::int64_t r = 0; r < grid.rows; ++r)
    for (std::int64_t c = 0; c < grid.columns; ++c)
      at(r, c) = first_colour + grid.colours[static_cast<std::size_t>(r * grid.columns + c)];
  if (row + grid.rows < arc_side)
    for (std::int64_t c = 0; c < grid.columns; ++c) at(grid.rows, c) = edge;
  if (column + grid.columns < arc_side)
    for (std::int64_t r = 0; r < grid.rows; ++r) at(r, grid.columns) = edge;
}

std::optional<ArcGrid> arc_grid(std::span<const std::int32_t> tokens) {
  if (tokens.size() != arc_side * arc_side) return std::nullopt;
  const auto is_colour = [&](std::int64_t r, std::int64_t c) {
    return r < arc_side && c < arc_side && tokens[static_cast<std::size_t>(r * arc_side + c)] >= first_colour;
  };
  const auto first =
      std::find_if(tokens.begin(), tokens.end(), [](std::int32_t t) { return t >= first_colour; });
  if (first == tokens.end()) return std::nullopt;
  const std::int64_t row = (first - tokens.begin()) / arc_side, column = (first - tokens.begin()) % arc_side;
  ArcGrid grid;
  while (is_colour(row + grid.rows, column)) ++grid.rows;
  while (is_colour(row, column + grid.columns)) ++grid.columns;
  for (std::int64_t r = 0; r < grid.rows; ++r)
    for (std::int64_t c = 0; c < grid.columns; ++c) {
      if (!is_colour(row + r, column + c)) return std::nullopt;
      grid.colours.push_back(static_cast<std::uint8_t>(
          tokens[static_cast<std::size_t>((row + r) * arc_side + column + c)] - first_colour));
    }
  return grid;
}

HrmConfig arc_config(const std::vector<ArcTask>& tasks, std::int64_t changes) {
  HrmConfig config = reference_config();
  config.vocabulary = first_colour + 10;
  config.length = arc_side * arc_side;
  config.puzzles = 1 + static_cast<std::int64_t>(tasks.size()) * (changes + 1);
  return config;
}

std::shared_ptr<ExampleSource> arc_source(std::vector<ArcTask> tasks, std::int64_t changes, bool with_test,
                                          std::uint64_t seed) {
  return std::make_shared<ArcSource>(std::move(tasks), changes, with_test, seed);
}

}  // namespace hearth::hrm
