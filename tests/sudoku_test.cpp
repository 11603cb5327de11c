// Sudoku: the search, the generator, rearrangements, texts and files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/thread_pool.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/sudoku.h"
#include "temporary_folder.h"

namespace hearth::hrm {
namespace {

using test::expect_error;
using test::TemporaryFolder;

// Published puzzles with their solutions.
constexpr const char* easy =
    "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79";
constexpr const char* easy_solution =
    "534678912672195348198342567859761423426853791713924856961537284287419635345286179";
constexpr const char* escargot =
    "1....7.9..3..2...8..96..5....53..9...1..8...26....4...3......1..4......7..7...3..";

TEST(Sudoku, FindsTheSolution) {
  const auto analysis = analyse(parse_grid(easy));
  EXPECT_EQ(analysis.solutions, 1);
  EXPECT_EQ(analysis.rating, 0);
  EXPECT_EQ(to_text(analysis.solution), easy_solution);
  const auto hard = analyse(parse_grid(escargot));
  EXPECT_EQ(hard.solutions, 1);
  EXPECT_GT(hard.rating, 10);
  EXPECT_TRUE(is_solution(hard.solution));
}

TEST(Sudoku, KnowsNoneOneAndSeveralSolutions) {
  EXPECT_EQ(analyse(Grid{}, 5).solutions, 5);
  Grid contradiction = parse_grid(easy);
  contradiction[2] = 5;  // twice in its row
  EXPECT_EQ(analyse(contradiction).solutions, 0);
  EXPECT_EQ(conflict(contradiction), (std::array<int, 2>{0, 2}));
  // No digit twice, but the last cell of the first column may only be 9, which its row has already.
  Grid blocked{};
  for (std::size_t row = 0; row < 8; ++row) blocked[9 * row] = static_cast<std::uint8_t>(row + 1);
  blocked[80] = 9;
  EXPECT_EQ(conflict(blocked)[0], -1);
  EXPECT_EQ(analyse(blocked).solutions, 0);
  // Without its fours and fives a solution has at least two: they can be exchanged.
  Grid twofold = parse_grid(easy_solution);
  for (auto& digit : twofold)
    if (digit == 4 || digit == 5) digit = 0;
  EXPECT_EQ(analyse(twofold).solutions, 2);
  EXPECT_EQ(check_puzzle(twofold).solutions, 2);
  expect_error<ValueError>([&] { check_puzzle(contradiction); },
                           {"digit 5 twice", "row 1 column 1 and row 1 column 3"});
  expect_error<ValueError>([&] { check_puzzle(blocked); }, {"no solution"});
}

TEST(Sudoku, AgreesWithTheSolutionsOfKnownPuzzles) {
  const auto path = std::filesystem::path(HEARTH_SHARED_DIR) / "data/sudoku/hard.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const auto puzzles = load_puzzles(path);
  EXPECT_EQ(puzzles.size(), 24919u);
  for (std::size_t i = 0; i < puzzles.size(); i += 25) {
    const auto analysis = analyse(puzzles[i].puzzle.clues);
    ASSERT_EQ(analysis.solutions, 1) << i;
    ASSERT_EQ(analysis.solution, puzzles[i].puzzle.solution) << i;
  }
}

TEST(Sudoku, MadePuzzlesHaveOneSolutionAndTheirClues) {
  for (const PuzzleKind& kind : training_mixture()) {
    for (const Puzzle& puzzle : make_puzzles({kind}, 40, 5)) {
      const auto analysis = analyse(puzzle.clues);
      ASSERT_EQ(analysis.solutions, 1);
      EXPECT_EQ(analysis.solution, puzzle.solution);
      EXPECT_EQ(analysis.rating, puzzle.rating);
      if (kind.making != Making::dig || kind.clues_to == 0) continue;
      EXPECT_GE(clue_count(puzzle.clues), kind.clues_from);
      if (kind.clues_from >= 30) {  // fewer cannot always be reached
        EXPECT_LE(clue_count(puzzle.clues), kind.clues_to);
      }
    }
  }
}

// A walk that meets a puzzle of which the search for a second solution is given up.
TEST(Sudoku, PuzzlesOfLongWalksHaveOneSolution) {
  const Puzzle puzzle = make_puzzle({.making = Making::thin, .iterations = 40}, 164, 7);
  const auto analysis = analyse(puzzle.clues);
  EXPECT_EQ(analysis.solutions, 1);
  EXPECT_EQ(analysis.solution, puzzle.solution);
}

TEST(Sudoku, MinimalPuzzlesNeedEveryClue) {
  for (const Puzzle& puzzle : make_puzzles({{.making = Making::climb, .iterations = 5}}, 4, 9))
    for (std::size_t cell = 0; cell < 81; ++cell) {
      if (puzzle.clues[cell] == 0) continue;
      Grid fewer = puzzle.clues;
      fewer[cell] = 0;
      EXPECT_EQ(analyse(fewer).solutions, 2);
    }
}

TEST(Sudoku, ClimbingAndThinningGetSomewhere) {
  const auto mean = [](const std::vector<Puzzle>& puzzles, auto value) {
    double sum = 0;
    for (const Puzzle& puzzle : puzzles) sum += value(puzzle);
    return sum / static_cast<double>(puzzles.size());
  };
  const auto rating = [](const Puzzle& p) { return p.rating; };
  const auto clues = [](const Puzzle& p) { return clue_count(p.clues); };
  const auto minimal = make_puzzles({{.making = Making::dig, .clues_from = 0, .clues_to = 0}}, 64, 3);
  const auto climbed = make_puzzles({{.making = Making::climb, .iterations = 10}}, 64, 3);
  const auto thinned = make_puzzles({{.making = Making::thin, .iterations = 10}}, 64, 3);
  EXPECT_GT(mean(climbed, rating), 4 * mean(minimal, rating));
  EXPECT_LT(mean(thinned, clues), mean(minimal, clues) - 1.5);
}

TEST(Sudoku, PuzzlesOfASetAreDifferent) {
  for (const PuzzleKind& kind : training_mixture()) {
    std::set<std::string> different;
    for (const Puzzle& puzzle : make_puzzles({kind}, 96, 1)) different.insert(to_text(puzzle.clues));
    EXPECT_EQ(different.size(), 96u);
  }
}

TEST(Sudoku, TheSeedDecidesWhateverTheThreads) {
  const auto text = [](const std::vector<Puzzle>& puzzles) {
    std::string all;
    for (const Puzzle& puzzle : puzzles) all += to_text(puzzle.clues) + to_text(puzzle.solution);
    return all;
  };
  const int before = thread_count();
  set_thread_count(1);
  const auto alone = text(make_puzzles(training_mixture(), 60, 11));
  set_thread_count(4);
  EXPECT_EQ(text(make_puzzles(training_mixture(), 60, 11)), alone);
  set_thread_count(before);
  EXPECT_NE(text(make_puzzles(training_mixture(), 60, 12)), alone);
  const PuzzleKind climb{.making = Making::climb, .iterations = 3};
  EXPECT_EQ(to_text(make_puzzle(climb, 4, 7).clues), to_text(make_puzzle(climb, 4, 7).clues));
}

TEST(Sudoku, RearrangedPuzzlesStayPuzzles) {
  const Puzzle puzzle{parse_grid(escargot), analyse(parse_grid(escargot)).solution, 0};
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Grid clues{}, solution{};
    rearrange(puzzle, 1, i, clues, solution);
    ASSERT_TRUE(is_solution(solution));
    ASSERT_EQ(clue_count(clues), clue_count(puzzle.clues));
    for (std::size_t cell = 0; cell < 81; ++cell) {
      if (clues[cell] != 0) {
        ASSERT_EQ(clues[cell], solution[cell]);
      }
    }
    ASSERT_EQ(analyse(clues).solutions, 1);
    seen.insert(to_text(clues));
  }
  EXPECT_EQ(seen.size(), 200u);
}

TEST(Sudoku, ReadsGridsAsPeopleWriteThem) {
  EXPECT_EQ(to_text(parse_grid(easy)), easy);
  std::string drawn;
  for (std::size_t row = 0; row < 9; ++row) {
    if (row % 3 == 0 && row > 0) drawn += "------+-------+------\r\n";
    for (std::size_t column = 0; column < 9; ++column) {
      const char c = easy[9 * row + column];
      drawn += column % 3 == 0 && column > 0 ? "| " : "";
      drawn += c == '.' ? (row % 2 == 0 ? '0' : '_') : c;
      drawn += ' ';
    }
    drawn += '\n';
  }
  EXPECT_EQ(to_text(parse_grid(drawn)), easy);
}

TEST(Sudoku, RefusesWhatIsNotAGrid) {
  expect_error<ValueError>([] { parse_grid(""); }, {"81 cells, this text has 0"});
  expect_error<ValueError>([] { parse_grid(std::string(80, '.')); }, {"this text has 80"});
  expect_error<ValueError>([] { parse_grid(std::string(1000, '1')); }, {"this text has 1000"});
  expect_error<ValueError>([] { parse_grid("12x"); }, {"character 3 is 'x'"});
  expect_error<ValueError>([] { parse_grid(std::string("12\0", 3)); }, {"byte 0x00"});
  expect_error<ValueError>([] { parse_grid("\xc3\xa4"); }, {"byte 0xc3"});
}

TEST(Sudoku, FilesOfPuzzles) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "puzzles.csv";
  const auto made = make_puzzles(training_mixture(), 20, 2);
  save_puzzles(path, made);
  const auto read = load_puzzles(path);
  ASSERT_EQ(read.size(), made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(read[i].puzzle.clues, made[i].clues);
    EXPECT_EQ(read[i].puzzle.solution, made[i].solution);
    EXPECT_EQ(read[i].puzzle.rating, made[i].rating);
  }
  const auto refused = [&](const std::string& text, const char* reason) {
    std::ofstream(path) << text;
    expect_error<FormatError>([&] { load_puzzles(path); }, {reason});
  };
  const std::string header = "question,answer,rating\n";
  refused("a,b\n1,2\n", "no columns \"question\" and \"answer\"");
  refused(header + "12,34,0\n", "81 cells");
  refused(header + easy + "," + std::string(81, '1') + ",0\n", "not a filled grid");
  refused(header + std::string(1, '9') + std::string(80, '.') + "," + easy_solution + ",0\n", "cell 1");
  refused(header + easy + "," + easy_solution + ",many\n", "rating");
  expect_error<FileError>([&] { load_puzzles(folder.path() / "absent.csv"); }, {"absent.csv"});
}

}  // namespace
}  // namespace hearth::hrm
