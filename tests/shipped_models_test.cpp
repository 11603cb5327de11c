// The models in models/: they are what their cards say.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "hearth/hrm_train.h"
#include "hearth/llm.h"

namespace hearth {
namespace {

using Path = std::filesystem::path;

const Path folder = HEARTH_MODELS_DIR;
constexpr std::uintmax_t megabyte = 1000 * 1000;

// Nats per token of a text.
double mean_loss(const llm::Model& model, const std::string& text) {
  const auto tokens = model.tokenizer().encode(text);
  llm::Session session(model);
  double sum = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto scores = session.feed({&tokens[i], 1});
    const double largest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (const float score : scores) total += std::exp(score - largest);
    sum += largest + std::log(total) - scores[static_cast<std::size_t>(tokens[i + 1])];
  }
  return sum / static_cast<double>(tokens.size() - 1);
}

TEST(Storyteller, KnowsEnglish) {
  const Path path = folder / "storyteller.gguf";
  EXPECT_LE(std::filesystem::file_size(path), 25 * megabyte);
  const llm::Model model = llm::Model::load(path);
  // Written for this test. Chance would be log(8192) = 9.0.
  const std::string text =
      "Once upon a time there was a little boy named Sam. Sam had a red kite. One day the wind was very "
      "strong, "
      "and the kite flew high up into a tree. Sam was sad. His mom said, \"Don't cry. We will ask Dad to "
      "help "
      "us.\" Dad came with a ladder and got the kite down. Sam was happy and said thank you.";
  EXPECT_LT(mean_loss(model, text), 2.7);
  const std::string backwards(text.rbegin(), text.rend());
  EXPECT_GT(mean_loss(model, backwards), 5);
}

TEST(Storyteller, SaysItsFirstWordSoon) {
  const auto start = std::chrono::steady_clock::now();
  const llm::Model model = llm::Model::load(folder / "storyteller.gguf");
  llm::Session session(model);
  const auto result = session.generate(model.tokenizer().encode("Once upon a time"), {.most_tokens = 1});
  EXPECT_FALSE(result.text.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// The shares that the card promises, on puzzles that were not there when the model was trained.
TEST(SudokuModel, SolvesFreshPuzzles) {
  const Path path = folder / "sudoku.safetensors";
  EXPECT_LE(std::filesystem::file_size(path), 15 * megabyte);
  hrm::Reasoner reasoner(hrm::load_model(path));
  const auto share_solved = [&](int clues_from, int clues_to) {
    constexpr std::int64_t count = 60;
    const hrm::SudokuSet set{
        "", hrm::make_puzzles({{.making = hrm::Making::dig, .clues_from = clues_from, .clues_to = clues_to}},
                              count, 20261115)};
    return static_cast<double>(hrm::score(reasoner, set).solved) / count;
  };
  EXPECT_GE(share_solved(30, 34), 0.95);
  EXPECT_GE(share_solved(26, 28), 0.85);
}

}  // namespace
}  // namespace hearth
