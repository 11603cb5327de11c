// Data for reasoning models: mazes, ARC tasks, and the files of the reference implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/hrm_data.h"
#include "hearth/io.h"
#include "temporary_folder.h"

namespace hearth::hrm {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

// ---- mazes

// Shortest paths counted by hand: the number of ways is added up level by level.
std::pair<int, int> shortest_paths(const std::string& grid, int side) {
  std::vector<int> distance(grid.size(), -1);
  std::vector<int> ways(grid.size(), 0);
  const auto start = grid.find('S'), goal = grid.find('G');
  distance[start] = 0;
  ways[start] = 1;
  for (int level = 0; distance[goal] < 0; ++level) {
    for (int i = 0; i < side * side; ++i) {
      if (distance[static_cast<std::size_t>(i)] != level) continue;
      for (const auto& [dr, dc] : {std::pair{0, 1}, {0, -1}, {1, 0}, {-1, 0}}) {
        const int row = i / side + dr, column = i % side + dc;
        if (row < 0 || column < 0 || row >= side || column >= side) continue;
        const auto next = static_cast<std::size_t>(row * side + column);
        if (grid[next] == '#' || (distance[next] >= 0 && distance[next] <= level)) continue;
        distance[next] = level + 1;
        ways[next] += ways[static_cast<std::size_t>(i)];
      }
    }
    if (level > side * side) break;
  }
  return {distance[goal], ways[goal]};
}

TEST(Maze, HasOneShortestPath) {
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Maze maze = make_maze({}, 3, i);
    ASSERT_EQ(maze.grid.size(), 900u);
    const auto [steps, ways] = shortest_paths(maze.grid, 30);
    EXPECT_EQ(ways, 1);
    EXPECT_EQ(steps, maze.steps);
    EXPECT_GE(steps, 110);
    EXPECT_EQ(std::count(maze.answer.begin(), maze.answer.end(), 'o'), steps - 1);
    EXPECT_TRUE(is_shortest_path(maze.grid, maze.answer));
    seen.insert(maze.grid);
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(make_maze({}, 3, 7).grid, make_maze({}, 3, 7).grid);
  EXPECT_NE(make_maze({}, 4, 7).grid, make_maze({}, 3, 7).grid);
}

TEST(Maze, KnowsAShortestPathFromOthers) {
  // S  |
  // ## |
  // G  |
  const std::string corridor = "S  ## G  ";
  EXPECT_TRUE(is_shortest_path(corridor, "Soo##oGoo"));
  EXPECT_FALSE(is_shortest_path(corridor, corridor));
  EXPECT_FALSE(is_shortest_path(corridor, "Soo## Goo"));  // with a gap
  EXPECT_FALSE(is_shortest_path(corridor, "So o#oGoo"));  // through a wall
  EXPECT_FALSE(is_shortest_path(corridor, "Soo##oGo"));
  EXPECT_FALSE(is_shortest_path(corridor, ""));
  EXPECT_FALSE(is_shortest_path("S  ####G ", "Soo####Go"));  // there is none
  // Two ways of the same length, and one that is longer.
  EXPECT_TRUE(is_shortest_path("S   #   G", "Soo #o  G"));
  EXPECT_TRUE(is_shortest_path("S   #   G", "S  o# ooG"));
}

TEST(Maze, RefusesWhatCannotBe) {
  expect_error<ValueError>([] { make_maze({.side = 1}, 0, 0); }, {"side"});
  expect_error<ValueError>([] { make_maze({.side = 6, .openings = 0, .shortest = 100}, 0, 0); },
                           {"100 steps"});
}

TEST(Maze, AsTokens) {
  const MazeOptions options{.side = 12, .openings = 2, .shortest = 20};
  const HrmConfig config = maze_config(options);
  EXPECT_EQ(config.length, 144);
  EXPECT_EQ(config.vocabulary, 6);
  std::vector<std::int32_t> tokens(144), labels(144);
  std::int32_t puzzle = -1;
  maze_source(options, 5)->fill(3, 1, tokens, labels, puzzle);
  EXPECT_EQ(puzzle, 0);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 3), 1);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 5), 0);
  EXPECT_GE(std::count(labels.begin(), labels.end(), 5), 19);
}

// ---- ARC

TEST(Arc, ChangesAreUndone) {
  const ArcGrid grid{2, 3, {0, 1, 2, 3, 4, 5}};
  // As NumPy's rot90, fliplr, flipud, T have it.
  const std::vector<std::vector<std::uint8_t>> turned{
      {0, 1, 2, 3, 4, 5}, {2, 5, 1, 4, 0, 3}, {5, 4, 3, 2, 1, 0}, {3, 0, 4, 1, 5, 2},
      {2, 1, 0, 5, 4, 3}, {3, 4, 5, 0, 1, 2}, {0, 3, 1, 4, 2, 5}, {5, 2, 4, 1, 3, 0}};
  for (int symmetry = 0; symmetry < 8; ++symmetry) {
    ArcChange change{.symmetry = symmetry};
    EXPECT_EQ(changed(grid, change).colours, turned[static_cast<std::size_t>(symmetry)]) << symmetry;
    change.colours = {0, 9, 1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_EQ(changed_back(changed(grid, change), change), grid) << symmetry;
  }
  for (std::uint64_t i = 0; i < 100; ++i) {
    const ArcChange change = draw_change(1, i);
    EXPECT_EQ(change.colours[0], 0);
    EXPECT_EQ(changed_back(changed(grid, change), change), grid);
  }
}

TEST(Arc, TokensAndBack) {
  const ArcGrid grid{2, 3, {0, 1, 2, 3, 4, 9}};
  std::vector<std::int32_t> tokens(900);
  to_tokens(grid, 4, 5, tokens);
  EXPECT_EQ(tokens[4 * 30 + 5], 2);
  EXPECT_EQ(tokens[5 * 30 + 7], 11);
  EXPECT_EQ(tokens[6 * 30 + 5], 1);
  EXPECT_EQ(tokens[4 * 30 + 8], 1);
  EXPECT_EQ(tokens[6 * 30 + 8], 0);
  EXPECT_EQ(arc_grid(tokens), grid);
  to_tokens(grid, 28, 27, tokens);  // in the corner there is no edge
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 1), 0);
  EXPECT_EQ(arc_grid(tokens), grid);
  EXPECT_FALSE(arc_grid(std::vector<std::int32_t>(900, 0)));
  tokens[28 * 30 + 28] = 0;  // a hole
  tokens[29 * 30 + 28] = 0;
  EXPECT_EQ(arc_grid(tokens)->columns, 1);
}

TEST(Arc, AllTasksOfTheCollection) {
  const auto archive = std::filesystem::path(HEARTH_SHARED_DIR) / "data/arc/arc-agi.tar.xz";
  if (!std::filesystem::exists(archive)) GTEST_SKIP() << "no " << archive;
  const TemporaryFolder folder;
  const std::string command = "tar xJf '" + archive.string() + "' -C '" + folder.path().string() + "'";
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "cannot unpack " << archive;
  const auto tasks = load_arc(folder.path() / "arc-agi-1/training");
  EXPECT_EQ(tasks.size(), 400u);
  EXPECT_EQ(load_arc(folder.path() / "arc-agi-1/evaluation").size(), 400u);
  EXPECT_EQ(load_arc(folder.path() / "arc-agi-2/training").size(), 1000u);
  EXPECT_EQ(load_arc(folder.path() / "arc-agi-2/evaluation").size(), 120u);
  const HrmConfig config = arc_config(tasks, 10);
  EXPECT_EQ(config.puzzles, 4401);
  const auto source = arc_source(tasks, 10, false, 2);
  std::vector<std::int32_t> tokens(900), labels(900);
  for (std::int64_t row = 0; row < 500; ++row) {
    std::int32_t puzzle = 0;
    source->fill(0, row, tokens, labels, puzzle);
    ASSERT_GE(puzzle, 1);
    ASSERT_LT(puzzle, config.puzzles);
    ASSERT_TRUE(arc_grid(tokens));
    std::replace(labels.begin(), labels.end(), ignored_label, 0);
    ASSERT_TRUE(arc_grid(labels));
  }
}

TEST(Arc, RefusesDamage) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const char* reason) {
    std::ofstream(folder.path() / "task.json") << text;
    expect_error<FormatError>([&] { load_arc(folder.path()); }, {reason, "task.json"});
  };
  const std::string good = R"({"train":[{"input":[[1,2],[3,4]],"output":[[5]]}],"test":[]})";
  std::ofstream(folder.path() / "task.json") << good;
  EXPECT_EQ(load_arc(folder.path()).at(0).train.at(0).first.colours, (std::vector<std::uint8_t>{1, 2, 3, 4}));
  refused("{", "not a JSON object");
  refused("{}", "no list");
  refused(replaced(good, "[3,4]", "[3]"), "different lengths");
  refused(replaced(good, "[3,4]", "[3,10]"), "digit");
  refused(replaced(good, "[3,4]", "[3,\"4\"]"), "digit");
  refused(replaced(good, "[[5]]", "[]"), "1 to 30 rows");
  refused(replaced(good, "\"output\"", "\"result\""), "without input or output");
  refused(R"({"train":[],"test":[]})", "no training pairs");
  expect_error<FileError>([&] { load_arc(folder.path() / "absent"); }, {"absent"});
}

// ---- files of the reference implementation

class ReferenceFiles : public testing::Test {
 protected:
  // Three groups of one, two and one puzzles, with five examples of four tokens in all.
  void SetUp() override {
    write_json(R"({"pad_id":0,"ignore_label_id":0,"blank_identifier_id":0,"vocab_size":11,"seq_len":4,)"
               R"("num_puzzle_identifiers":6,"total_groups":3,"mean_puzzle_examples":1.25,"sets":["all"]})");
    std::vector<std::uint8_t> inputs, labels;
    for (int i = 0; i < 20; ++i) {
      inputs.push_back(static_cast<std::uint8_t>(i / 4 + 1));
      labels.push_back(static_cast<std::uint8_t>(i % 4 == 0 ? 0 : i / 4 + 2));
    }
    save("inputs", tensor(inputs, {5, 4}));
    save("labels", tensor(labels, {5, 4}));
    save("puzzle_identifiers", tensor<std::int32_t>({1, 2, 3, 5}));
    save("puzzle_indices", tensor<std::int32_t>({0, 1, 2, 3, 5}));
    save("group_indices", tensor<std::int32_t>({0, 1, 3, 4}));
  }
  void write_json(const std::string& text) { std::ofstream(folder_.path() / "dataset.json") << text; }
  void save(const std::string& field, const Tensor& values) {
    save_npy(folder_.path() / ("all__" + field + ".npy"), values);
  }
  void refused(const char* reason) {
    expect_error<FormatError>([&] { load_reference_data(folder_.path(), 1); }, {reason});
  }
  TemporaryFolder folder_;
};

TEST_F(ReferenceFiles, AreRead) {
  const ReferenceData data = load_reference_data(folder_.path(), 1);
  EXPECT_EQ(data.config.vocabulary, 11);
  EXPECT_EQ(data.config.length, 4);
  EXPECT_EQ(data.config.puzzles, 6);
  EXPECT_EQ(data.examples, 5);
  EXPECT_EQ(data.puzzles, 4);
  EXPECT_EQ(data.groups, 3);
  std::map<std::int32_t, int> count;
  for (std::int64_t row = 0; row < 3000; ++row) {
    std::vector<std::int32_t> tokens(4), labels(4);
    std::int32_t puzzle = 0;
    data.source->fill(0, row, tokens, labels, puzzle);
    ++count[tokens[0]];
    EXPECT_EQ(labels,
              (std::vector<std::int32_t>{ignored_label, tokens[0] + 1, tokens[0] + 1, tokens[0] + 1}));
    EXPECT_EQ(puzzle, (std::vector<std::int32_t>{1, 2, 3, 5, 5}[static_cast<std::size_t>(tokens[0] - 1)]));
  }
  // A third for each group, shared among its puzzles, and those among their examples.
  const std::vector<int> expected{1000, 500, 500, 500, 500};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(count[static_cast<std::int32_t>(i + 1)], expected[i], 120);
}

TEST_F(ReferenceFiles, AreCheckedJson) {
  write_json("[]");
  refused("not a JSON object");
  write_json(R"({"vocab_size":"11"})");
  refused("vocab_size");
  write_json(R"({"vocab_size":11,"seq_len":4,"num_puzzle_identifiers":6,"sets":["../all"]})");
  refused("name of the set");
}

TEST_F(ReferenceFiles, AreCheckedTokens) {
  save("inputs", tensor<std::int32_t>({1, 2, 3, 11}, {1, 4}));
  refused("token 11");
}
TEST_F(ReferenceFiles, AreCheckedShape) {
  save("inputs", tensor<std::int32_t>({1, 2, 3}, {1, 3}));
  refused("not (examples, 4)");
}
TEST_F(ReferenceFiles, AreCheckedIndices) {
  save("puzzle_indices", tensor<std::int32_t>({0, 2, 1, 3, 5}));
  refused("must rise");
  save("puzzle_indices", tensor<std::int32_t>({0, 1, 2, 3, 6}));
  refused("end with 5");
  save("puzzle_indices", tensor<std::int32_t>({0, 5}));
  refused("one more than puzzles");
}
TEST_F(ReferenceFiles, AreCheckedIdentifiers) {
  save("puzzle_identifiers", tensor<std::int32_t>({1, 2, 3, 6}));
  refused("identifier 6");
}

// ---- checkpoints of the reference implementation (golden/make_hrm_golden.py)

TEST(ReferenceCheckpoint, BecomesAModel) {
  const auto path = HEARTH_GOLDEN_DIR "/hrm_checkpoint.pt";
  const auto model = import_checkpoint(path, {.length = 9, .heads = 2});
  const HrmConfig& config = model->config();
  EXPECT_EQ(config.features, 8);
  EXPECT_EQ(config.h_layers, 2);
  EXPECT_EQ(config.l_layers, 1);
  EXPECT_EQ(config.vocabulary, 7);
  EXPECT_EQ(config.puzzles, 3);
  EXPECT_EQ(config.prefix, 1);
  EXPECT_EQ(config.inner_features(), 256);
  EXPECT_EQ(model->state_dict().at("q_head.bias").to_vector<float>(), (std::vector<float>{-5, -5}));
  expect_error<ValueError>([&] { import_checkpoint(path); }, {"length"});
  expect_error<FormatError>([&] { import_checkpoint(HEARTH_GOLDEN_DIR "/io/checkpoint.pt"); },
                            {"embed_tokens"});
}

}  // namespace
}  // namespace hearth::hrm
