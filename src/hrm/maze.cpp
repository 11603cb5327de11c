// Mazes with one shortest path.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "hearth/error.h"
#include "hearth/hrm_data.h"
#include "hrm/random_source.h"

namespace hearth::hrm {
namespace {

constexpr std::string_view characters = "# SGo";  // token 1 and up
constexpr int attempts = 1000;

struct Walk {
  std::vector<std::int64_t> distance;  // -1: not reached
  std::vector<std::uint8_t> ways;      // shortest paths, counted up to 2
};

template <typename Visit>
void for_neighbours(std::int64_t cell, std::int64_t side, Visit visit) {
  const std::int64_t row = cell / side, column = cell % side;
  if (row > 0) visit(cell - side);
  if (row + 1 < side) visit(cell + side);
  if (column > 0) visit(cell - 1);
  if (column + 1 < side) visit(cell + 1);
}

// Breadth first from a cell over all that is not wall.
Walk walk_from(const std::string& grid, std::int64_t side, std::int64_t start) {
  Walk walk{std::vector<std::int64_t>(grid.size(), -1), std::vector<std::uint8_t>(grid.size(), 0)};
  const auto at = [](auto& values, std::int64_t i) -> auto& { return values[static_cast<std::size_t>(i)]; };
  std::deque<std::int64_t> queue{start};
  at(walk.distance, start) = 0;
  at(walk.ways, start) = 1;
  while (!queue.empty()) {
    const std::int64_t cell = queue.front();
    queue.pop_front();
    for_neighbours(cell, side, [&](std::int64_t next) {
      if (grid[static_cast<std::size_t>(next)] == '#') return;
      if (at(walk.distance, next) < 0) {
        at(walk.distance, next) = at(walk.distance, cell) + 1;
        queue.push_back(next);
      }
      if (at(walk.distance, next) == at(walk.distance, cell) + 1)
        at(walk.ways, next) =
            static_cast<std::uint8_t>(std::min(2, at(walk.ways, next) + at(walk.ways, cell)));
    });
  }
  return walk;
}

// Rooms joined by a random walk that never meets itself, then some walls opened.
std::string carve(const MazeOptions& options, RandomSource& random) {
  const std::int64_t side = options.side, rooms = (side + 1) / 2;
  std::string grid(static_cast<std::size_t>(side * side), '#');
  std::vector<std::int64_t> trail{2 * side * random.below(static_cast<std::uint32_t>(rooms)) +
                                  2 * random.below(static_cast<std::uint32_t>(rooms))};
  grid[static_cast<std::size_t>(trail[0])] = ' ';
  while (!trail.empty()) {
    const std::int64_t room = trail.back(), row = room / side, column = room % side;
    std::array<std::int64_t, 4> steps{};
    std::uint32_t open = 0;
    const auto consider = [&](bool inside, std::int64_t step) {
      if (inside && grid[static_cast<std::size_t>(room + 2 * step)] == '#') steps[open++] = step;
    };
    consider(row >= 2, -side);
    consider(row + 2 < side, side);
    consider(column >= 2, -1);
    consider(column + 2 < side, 1);
    if (open == 0) {
      trail.pop_back();
      continue;
    }
    const std::int64_t step = steps[random.below(open)];
    grid[static_cast<std::size_t>(room + step)] = grid[static_cast<std::size_t>(room + 2 * step)] = ' ';
    trail.push_back(room + 2 * step);
  }
  for (std::int64_t i = 0; i < options.openings; ++i) {
    // Between two rooms of one row or one column.
    const std::int64_t along = 2 * random.below(static_cast<std::uint32_t>(rooms));
    const std::int64_t across =
        1 + 2 * random.below(static_cast<std::uint32_t>(std::max<std::int64_t>(rooms - 1, 1)));
    const bool horizontal = random.below(2) == 0;
    const std::int64_t cell = horizontal ? along * side + across : across * side + along;
    if (across < side) grid[static_cast<std::size_t>(cell)] = ' ';
  }
  return grid;
}

std::int64_t side_of(const std::string& grid) {
  std::int64_t side = 0;
  while (side * side < static_cast<std::int64_t>(grid.size())) ++side;
  return side;
}

class MazeSource : public ExampleSource {
 public:
  MazeSource(const MazeOptions& options, std::uint64_t seed) : options_(options), seed_(seed) {}
  void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels, std::int32_t& puzzle) const override {
    const Maze maze =
        make_maze(options_, seed_, static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint64_t>(row));
    const auto token = [](char c) { return static_cast<std::int32_t>(characters.find(c)) + 1; };
    for (std::size_t i = 0; i < maze.grid.size(); ++i) {
      tokens[i] = token(maze.grid[i]);
      labels[i] = token(maze.answer[i]);
    }
    puzzle = 0;
  }

 private:
  MazeOptions options_;
  std::uint64_t seed_;
};

}  // namespace

Maze make_maze(const MazeOptions& options, std::uint64_t seed, std::uint64_t index) {
  if (options.side < 2 || options.side > 1000 || options.openings < 0 || options.shortest < 1)
    throw ValueError(
        "[make_maze] needs a side of 2 to 1000, openings that are not negative and a path of a step or more");
  RandomSource random(seed, index);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    Maze maze;
    maze.grid = carve(options, random);
    std::vector<std::int64_t> ways;
    for (std::size_t i = 0; i < maze.grid.size(); ++i)
      if (maze.grid[i] == ' ') ways.push_back(static_cast<std::int64_t>(i));
    const std::int64_t start = ways[random.below(static_cast<std::uint32_t>(ways.size()))];
    const Walk walk = walk_from(maze.grid, options.side, start);
    std::vector<std::int64_t> goals;
    for (const std::int64_t cell : ways)
      if (walk.distance[static_cast<std::size_t>(cell)] >= options.shortest &&
          walk.ways[static_cast<std::size_t>(cell)] == 1)
        goals.push_back(cell);
    if (goals.empty()) continue;
    const std::int64_t goal = goals[random.below(static_cast<std::uint32_t>(goals.size()))];
    maze.steps = walk.distance[static_cast<std::size_t>(goal)];
    maze.grid[static_cast<std::size_t>(start)] = 'S';
    maze.grid[static_cast<std::size_t>(goal)] = 'G';
    maze.answer = maze.grid;
    for (std::int64_t cell = goal; cell != start;) {
      std::int64_t before = start;
      for_neighbours(cell, options.side, [&](std::int64_t next) {
        if (walk.distance[static_cast<std::size_t>(next)] ==
            walk.distance[static_cast<std::size_t>(cell)] - 1)
          before = next;
      });
      cell = before;
      if (cell != start) maze.answer[static_cast<std::size_t>(cell)] = 'o';
    }
    return maze;
  }
  throw ValueError(fmt::format("[make_maze] in {} mazes of side {} no single shortest path has {} steps",
                               attempts, options.side, options.shortest));
}

bool is_shortest_path(const std::string& grid, const std::string& answer) {
  const std::int64_t side = side_of(grid);
  const auto start = grid.find('S'), goal = grid.find('G');
  if (side * side != static_cast<std::int64_t>(grid.size()) || answer.size() != grid.size() ||
      start == std::string::npos || goal == std::string::npos)
    return false;
  std::string marked(grid.size(), '#');
  std::int64_t count = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (answer[i] == 'o') {
      if (grid[i] != ' ') return false;
      ++count;
    } else if (answer[i] != grid[i]) {
      return false;
    }
    if (answer[i] == 'o' || i == start || i == goal) marked[i] = ' ';
  }
  // As many marks as a shortest path has, and a way over them.
  const std::int64_t steps = walk_from(grid, side, static_cast<std::int64_t>(start)).distance[goal];
  return steps > 0 && count == steps - 1 &&
         walk_from(marked, side, static_cast<std::int64_t>(start)).distance[goal] == steps;
}

HrmConfig maze_config(const MazeOptions& options) {
  HrmConfig config = reference_config();
  config.vocabulary = static_cast<std::int64_t>(characters.size()) + 1;
  config.length = options.side * options.side;
  return config;
}

std::shared_ptr<ExampleSource> maze_source(const MazeOptions& options, std::uint64_t seed) {
  make_maze(options, seed, 0);  // complains now, not in the middle of a run
  return std::make_shared<MazeSource>(options, seed);
}

}  // namespace hearth::hrm
