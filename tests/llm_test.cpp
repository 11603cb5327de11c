// Language models: real ones against what plain arithmetic gives, on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "test_devices.h"

namespace hearth::llm {
namespace {

const std::filesystem::path models = std::filesystem::path(HEARTH_SHARED_DIR) / "models";

// expected_greedy.json: the tokens that follow the first one, and the scores after the first few.
struct Expected {
  std::vector<TokenId> tokens;
  std::vector<std::vector<double>> scores;

  explicit Expected(const std::filesystem::path& folder) {
    const auto json = nlohmann::json::parse(std::ifstream(folder / "expected_greedy.json"));
    tokens.push_back(json["first_token"].get<TokenId>());
    for (const auto& id : json["greedy_ids"]) tokens.push_back(id.get<TokenId>());
    for (const auto& [key, value] : json.items())
      if (key.starts_with("logits_first")) scores = value.get<std::vector<std::vector<double>>>();
  }
};

void expect_scores(const std::vector<float>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i]));
  EXPECT_LE(worst, tolerance);
}

TokenId best_of(const std::vector<float>& scores) {
  return static_cast<TokenId>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

class RealModels : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(models)) GTEST_SKIP() << models << " is not there";
  }

  // Token by token, in one prompt, and in pieces.
  static void check(const std::filesystem::path& path, const Expected& expected, const LoadOptions& options,
                    double tolerance, std::size_t most_tokens = 1000) {
    SCOPED_TRACE(path.string() + " on " + to_string(options.device));
    const Model model = Model::load(path, options);
    const auto count =
        std::min({expected.tokens.size(), most_tokens, static_cast<std::size_t>(model.context())});
    Session session(model);
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const std::vector<float> scores = session.feed({&expected.tokens[i], 1});
      if (i < expected.scores.size()) expect_scores(scores, expected.scores[i], tolerance);
      ASSERT_EQ(best_of(scores), expected.tokens[i + 1]) << "after " << i + 1 << " tokens";
    }
    session.truncate(0);
    const std::span<const TokenId> all(expected.tokens.data(), count - 1);
    const auto rows = session.feed_all(all);
    for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(best_of(rows[i]), expected.tokens[i + 1]) << i;
    session.truncate(5);
    session.feed(all.subspan(5, 7));
    EXPECT_EQ(best_of(session.feed(all.subspan(12))), expected.tokens[count - 1]);
    session.truncate(0);
    const auto generated =
        session.generate(all.first(1), {.most_tokens = static_cast<std::int64_t>(count) - 1,
                                        .sampling = {.temperature = 0},
                                        .ignore_end = true});
    EXPECT_EQ(generated.tokens,
              std::vector<TokenId>(expected.tokens.begin() + 1,
                                   expected.tokens.begin() + static_cast<std::ptrdiff_t>(count)));
  }
};

TEST_F(RealModels, StoriesOf260K) {
  const Expected expected(models / "stories260K");
  for (const Device device : tested_devices())
    check(models / "stories260K" / "stories260K.gguf", expected,
          {.device = device, .cache_dtype = DType::f32}, 2e-3, device.kind == DeviceKind::rocm ? 24 : 1000);
}

TEST_F(RealModels, TinyStoriesOf656K) {
  const Expected expected(models / "tinystories-656K");
  for (const Device device : tested_devices()) {
    const std::size_t most = device.kind == DeviceKind::rocm ? 24 : 1000;
    check(models / "tinystories-656K" / "f32", expected, {.device = device, .cache_dtype = DType::f32}, 2e-3,
          most);
    // A GPU multiplies bf16 with bf16: what goes into a product is rounded to 8 bits.
    check(models / "tinystories-656K" / "bf16", expected, {.device = device, .cache_dtype = DType::f32},
          device.kind == DeviceKind::cpu ? 2e-3 : 0.15, most);
  }
}

}  // namespace
}  // namespace hearth::llm
