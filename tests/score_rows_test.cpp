// Scores that stay on their device: samplers choose by them as by scores that are here.
#include "llm/score_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/hearth.h"
#include "llm/model.h"
#include "test_devices.h"
#include "tokenizer_libraries.h"

namespace hearth::llm {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
// What lies where nothing was brought: who looks there chooses it.
constexpr float poison = 1e30f;
constexpr std::size_t width = 4096, block = 128;

using Rows = std::vector<std::vector<float>>;

Rows random_rows(std::size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  Rows rows(count, std::vector<float>(width));
  for (auto& row : rows)
    for (float& score : row) score = normal(random);
  return rows;
}

ScoreRows on_device(const Rows& rows, Device device) {
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  const auto count = static_cast<std::int64_t>(rows.size());
  const Tensor scores = tensor<float>(all).reshape({count, static_cast<std::int64_t>(width)}).to(device);
  const std::size_t room = all.size() + all.size() / block;
  const std::shared_ptr<float> values(new float[room], std::default_delete<float[]>());
  std::fill_n(values.get(), all.size(), poison);
  return ScoreRows(std::make_shared<ScoreRows::State>(
      values, scores, best_of_blocks(scores, static_cast<std::int64_t>(block)), pick_blocks()));
}

std::vector<Sampler*> pointers(std::vector<Sampler>& samplers) {
  std::vector<Sampler*> result;
  for (Sampler& sampler : samplers) result.push_back(&sampler);
  return result;
}

std::vector<SamplingOptions> all_options() {
  std::vector<SamplingOptions> all{{.temperature = 0}, {}};
  for (const std::int64_t top_k : {1, 7, 40, 3000}) all.push_back({.top_k = top_k});
  all.push_back({.top_k = 0});
  all.push_back({.top_k = 0, .top_p = 1});
  all.push_back({.top_k = 0, .top_p = 1, .min_p = 0});
  all.push_back({.typical_p = 0.6});
  all.push_back({.repetition_penalty = 30, .temperature = 0});
  all.push_back({.bias = {{3, 100.0}, {77, -infinity}}, .temperature = 0});
  all.push_back({.mirostat = 1});
  all.push_back({.mirostat = 2});
  for (std::size_t i = 0; i < all.size(); ++i) all[i].seed = 7 + i;
  return all;
}

TEST(ChooseTogether, ChoosesAsEachAlone) {
  Rows rows = random_rows(9);
  rows[1][700] = nan;
  rows[2].assign(width, -infinity);
  rows[2][4095] = -5;
  rows[3][100] = rows[3][3000] = infinity;
  rows[4].assign(width, 2.5f);  // all are the best
  std::fill(rows[5].begin(), rows[5].begin() + 2048, -infinity);
  rows[6][128] = rows[6][127] = 50;
  for (const Device device : tested_devices())
    for (const SamplingOptions& options : all_options()) {
      SCOPED_TRACE(testing::Message() << "top_k " << options.top_k << ", temperature " << options.temperature
                                      << ", mirostat " << options.mirostat);
      std::vector<Sampler> alone(rows.size(), Sampler(options)), together = alone;
      for (int step = 0; step < 3; ++step) {
        const auto chosen = choose_together(pointers(together), on_device(rows, device));
        ASSERT_EQ(chosen.size(), rows.size());
        for (std::size_t i = 0; i < rows.size(); ++i)
          EXPECT_EQ(chosen[i], alone[i].choose(rows[i])) << "row " << i << ", step " << step;
      }
    }
}

TEST(ChooseTogether, BringsLittle) {
  const Rows rows = random_rows(6);
  for (const Device device : tested_devices())
    for (const std::int64_t top_k : {1, 10}) {
      const ScoreRows scores = on_device(rows, device);
      std::vector<Sampler> samplers(rows.size(), Sampler({.top_k = top_k}));
      choose_together(pointers(samplers), scores);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto here = scores.state()->brought(i);
        const auto brought = width - static_cast<std::size_t>(std::count(here.begin(), here.end(), poison));
        EXPECT_GE(brought, block);
        EXPECT_LE(brought, static_cast<std::size_t>(top_k) * block);
        EXPECT_EQ(brought % block, 0u);
      }
    }
}

TEST(ChooseTogether, NothingWhereThereIsNoneToChooseOrNobodyToDoIt) {
  Rows rows = random_rows(4);
  rows[0].assign(width, nan);
  rows[2].assign(width, -infinity);
  for (const Device device : tested_devices()) {
    std::vector<Sampler> samplers(rows.size(), Sampler({.temperature = 0}));
    std::vector<Sampler*> choosers = pointers(samplers);
    choosers[3] = nullptr;
    const auto chosen = choose_together(choosers, on_device(rows, device));
    EXPECT_FALSE(chosen[0].has_value());
    EXPECT_TRUE(chosen[1].has_value());
    EXPECT_FALSE(chosen[2].has_value());
    EXPECT_FALSE(chosen[3].has_value());
  }
  EXPECT_TRUE(choose_together({}, ScoreRows()).empty());
  Sampler sampler({.temperature = 0});
  Sampler* const one = &sampler;
  test::expect_error<ValueError>([&] { choose_together({&one, 1}, ScoreRows()); }, {"1 samplers for 0 rows"});
}

TEST(ScoreRows, AreReadWholeWhenAskedFor) {
  const Rows rows = random_rows(8);
  for (const Device device : tested_devices()) {
    const ScoreRows scores = on_device(rows, device);
    std::vector<Sampler> samplers(rows.size(), Sampler({.temperature = 0}));
    choose_together(pointers(samplers), scores);  // some blocks are here
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> got(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      threads.emplace_back([&, i] { got[i].assign(scores[i].begin(), scores[i].end()); });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(got[i], rows[i]) << i;
  }
}

TEST(ScoreRows, BlocksDivideRows) {
  EXPECT_EQ(score_block(128256), 128);
  EXPECT_EQ(score_block(32064), 64);
  EXPECT_EQ(score_block(32), 32);
  EXPECT_EQ(score_block(32003), 0);
}

// The scores of a model that leaves them on its device are those of one that does not.
TEST(ScoreRows, OfAModel) {
  SKIP_WITHOUT_TOKENIZERS();
  const bool slow = brief();
  const std::size_t count = slow ? 3 : 5;
  for (const Device device : tested_devices()) {
    const auto texts = [&](bool stay) {
      const Model model =
          Model::load(std::filesystem::path(HEARTH_MODELS_DIR) / "storyteller.gguf",
                      {.device = device, .context = 64, .sequences = static_cast<std::int64_t>(count)});
      if (stay) model.state()->kept_from = 0;
      std::vector<Session> sessions;
      std::vector<Session*> all;
      std::vector<std::vector<TokenId>> next, chosen_tokens(count);
      for (std::size_t i = 0; i < count; ++i) sessions.emplace_back(model);
      for (Session& session : sessions) all.push_back(&session);
      for (std::size_t i = 0; i < count; ++i) next.push_back({static_cast<TokenId>(5 + 11 * i), 9});
      std::vector<Sampler> samplers(count, Sampler({.temperature = 0}));
      for (int step = 0; step < (slow ? 2 : 6); ++step) {
        const ScoreRows rows = Session::feed_together(all, next);
        EXPECT_EQ(rows.state()->blocks() > 0, stay);
        const auto chosen = choose_together(pointers(samplers), rows);
        for (std::size_t i = 0; i < count; ++i) {
          const auto row = rows[i];
          EXPECT_EQ(*chosen[i], std::max_element(row.begin(), row.end()) - row.begin());
          chosen_tokens[i].push_back(*chosen[i]);
          next[i] = {*chosen[i]};
        }
      }
      return chosen_tokens;
    };
    EXPECT_EQ(texts(true), texts(false)) << to_string(device);
  }
}

}  // namespace
}  // namespace hearth::llm
