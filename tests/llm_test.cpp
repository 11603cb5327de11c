// Language models: real ones against what plain arithmetic gives, on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "llm/memory_plan.h"
#include "llm/model.h"
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

template <class T>
void expect_scores(const std::vector<float>& got, const std::vector<T>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])));
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

  // Token by token, in one prompt, and in pieces. `rounding`: of scores where many tokens run together.
  static void check(const std::filesystem::path& path, const Expected& expected, const LoadOptions& options,
                    double rounding, std::size_t most_tokens = 1000) {
    constexpr double tolerance = 2e-3;
    SCOPED_TRACE(path.string() + " on " + to_string(options.device));
    const Model model = Model::load(path, options);
    const auto count =
        std::min({expected.tokens.size(), most_tokens, static_cast<std::size_t>(model.context())});
    Session session(model);
    std::vector<std::vector<float>> one_by_one;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const std::vector<float>& scores = one_by_one.emplace_back(session.feed({&expected.tokens[i], 1}));
      if (i < expected.scores.size()) expect_scores(scores, expected.scores[i], tolerance);
      ASSERT_EQ(best_of(scores), expected.tokens[i + 1]) << "after " << i + 1 << " tokens";
    }
    session.truncate(0);
    const std::span<const TokenId> all(expected.tokens.data(), count - 1);
    const auto rows = session.feed_all(all);
    for (std::size_t i = 0; i < rows.size(); ++i) expect_scores(rows[i], one_by_one[i], rounding);
    session.truncate(5);
    session.feed(all.subspan(5, 7));
    expect_scores(session.feed(all.subspan(12)), one_by_one.back(), rounding);
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
    // A GPU multiplies bf16 with bf16: of many tokens, what goes into a product is rounded to 8 bits.
    check(models / "tinystories-656K" / "bf16", expected, {.device = device, .cache_dtype = DType::f32},
          device.kind == DeviceKind::cpu ? 2e-3 : 0.15, most);
  }
}

// The first layers on the CPU, the others elsewhere.
TEST_F(RealModels, LayersOnTwoDevices) {
  const Expected expected(models / "stories260K"), tied(models / "tinystories-656K");
  for (const Device device : tested_devices()) {
    const std::size_t most = device.kind == DeviceKind::rocm ? 24 : 1000;
    const std::int64_t layers = 5;
    for (const std::int64_t there : {std::int64_t{1}, layers - 1}) {
      const LoadOptions options{.device = device, .gpu_layers = there, .cache_dtype = DType::f32};
      check(models / "stories260K" / "stories260K.gguf", expected, options, 2e-3, most);
      const Model model = Model::load(models / "stories260K" / "stories260K.gguf", options);
      EXPECT_EQ(model.config().layers, layers);
      EXPECT_EQ(model.device_layers(), there);
    }
    const LoadOptions halves{.device = device, .gpu_layers = 1, .cache_dtype = DType::f32};
    check(models / "tinystories-656K" / "f32", tied, halves, 2e-3, most);
    // Its embedding is the output, too, and counts once.
    EXPECT_EQ(Model::load(models / "tinystories-656K" / "f32", halves).parameters(),
              Model::load(models / "tinystories-656K" / "f32", {.device = Device{}}).parameters());
  }
}

// ... and so do all other things that touch the cache.
TEST_F(RealModels, LayersOnTwoDevicesForgetAndRunTogether) {
  const Expected expected(models / "stories260K");
  const std::span<const TokenId> all(expected.tokens.data(), 30);
  const auto results = [&](const LoadOptions& options) {
    const Model model = Model::load(models / "stories260K" / "stories260K.gguf", options);
    Session one(model), other(model);
    one.feed(all.first(24));
    EXPECT_EQ(one.shift(4), 10);
    std::vector<std::vector<float>> rows{one.feed(all.subspan(24, 1))};
    other.feed(all.first(9));
    Session* const both[] = {&one, &other};
    const std::vector<TokenId> next[] = {{all[25]}, {all[9], all[10]}};
    const ScoreRows together = Session::feed_together(both, next);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto row = together[i];
      rows.emplace_back(row.begin(), row.end());
    }
    rows.push_back(one.features(all.subspan(26, 1))[0]);
    return rows;
  };
  const auto whole = results({.device = Device{}, .cache_dtype = DType::f32, .sequences = 2});
  for (const Device device : tested_devices()) {
    const auto parts =
        results({.device = device, .gpu_layers = 2, .cache_dtype = DType::f32, .sequences = 2});
    for (std::size_t i = 0; i < whole.size(); ++i) expect_scores(parts[i], whole[i], 2e-3);
  }
}

TEST_F(RealModels, PlansOfMemoryCountLayers) {
  const auto path = models / "stories260K" / "stories260K.gguf";
  const Config before = config();
  const MemoryPlan whole = plan_memory(path, {.device = Device{}});
  EXPECT_EQ(whole.device_layers, 5);
  EXPECT_EQ(whole.fitting_layers, 5);
  Config limited = before;
  limited.max_memory_gb = 0.7 * static_cast<double>(whole.needed()) / (1 << 30);
  set_config(limited);
  const MemoryPlan too_large = plan_memory(path, {.device = Device{}});
  EXPECT_FALSE(too_large.fits());
  ASSERT_GT(too_large.fitting_layers, 0);
  ASSERT_LT(too_large.fitting_layers, 5);
  const MemoryPlan fitting = plan_memory(path, {.device = Device{}, .gpu_layers = too_large.fitting_layers});
  EXPECT_TRUE(fitting.fits());
  // A tied embedding is in both parts.
  EXPECT_GE(fitting.weights + fitting.host_weights, whole.weights);
  EXPECT_EQ(fitting.cache + fitting.host_cache, whole.cache);
  EXPECT_FALSE(plan_memory(path, {.device = Device{}, .gpu_layers = too_large.fitting_layers + 1}).fits());
  set_config(before);
  EXPECT_THROW(Model::load(path, {.device = Device{}, .gpu_layers = 0}), ValueError);
}

// Many tokens at once, from the beginning and after others, are as each by itself.
TEST_F(RealModels, ManyTokensTogether) {
  const Expected expected(models / "stories260K");
  const std::span<const TokenId> all(expected.tokens.data(), 80);
  for (const Device device : tested_devices()) {
    const LoadOptions options{.device = device};  // keys and values in f16
    const Model model = Model::load(models / "stories260K" / "stories260K.gguf", options);
    Session together(model);
    std::vector<std::vector<float>> rows = together.feed_all(all.first(37));
    for (auto& row : together.feed_all(all.subspan(37))) rows.push_back(std::move(row));
    const Model plain = Model::load(models / "stories260K" / "stories260K.gguf", {.cache_dtype = DType::f32});
    Session alone(plain);
    for (std::size_t i = 0; i < all.size(); ++i) expect_scores(rows[i], alone.feed(all.subspan(i, 1)), 0.03);
  }
}

// Features are what scores are made of: times the output matrix they are the scores of feed_all().
TEST_F(RealModels, FeaturesBecomeScores) {
  const Expected expected(models / "tinystories-656K");
  const std::span<const TokenId> all(expected.tokens.data(), 24);
  for (const Device device : tested_devices()) {
    const Model model = Model::load(models / "tinystories-656K" / "f32",
                                    {.device = device, .cache_dtype = DType::f32, .sequences = 2});
    const auto width = static_cast<std::size_t>(model.config().width);
    Session session(model), other(model);
    session.feed(all.first(3));
    const auto features = session.features(all.subspan(3));
    EXPECT_EQ(session.tokens().size(), all.size());
    const auto scores = other.feed_all(all);
    ASSERT_EQ(features.size(), all.size() - 3);
    const auto matrix = model.state()->weights.output.weight.to(Device{}).to_vector<float>();
    for (std::size_t i = 0; i < features.size(); ++i) {
      ASSERT_EQ(features[i].size(), width);
      std::vector<double> products(scores[i].size());
      for (std::size_t token = 0; token < products.size(); ++token)
        for (std::size_t k = 0; k < width; ++k)
          products[token] +=
              static_cast<double>(features[i][k]) * static_cast<double>(matrix[token * width + k]);
      expect_scores(scores[i + 3], products, 2e-3);
    }
    EXPECT_TRUE(session.features({}).empty());
  }
}

// What is generated after a prompt is the rest of the text, its first space included; stops cut it.
TEST_F(RealModels, TextGoesOn) {
  const Model model = Model::load(models / "stories260K" / "stories260K.gguf");
  Session session(model);
  const auto prompt = model.tokenizer().encode("Once upon a time, there was a");
  const GenerateOptions options{.most_tokens = 40, .sampling = {.temperature = 0}};
  std::string streamed;
  const auto whole = session.generate(prompt, options, [&](const Generated& next) {
    streamed += next.text;
    return true;
  });
  EXPECT_TRUE(whole.text.starts_with(" little girl")) << whole.text;
  EXPECT_EQ(streamed, whole.text);
  EXPECT_EQ(whole.reason, FinishReason::length);
  EXPECT_EQ(whole.tokens.size(), 40u);

  GenerateOptions stopped = options;
  stopped.stop = {"girl named", "nobody says this"};
  const auto cut = session.generate(prompt, stopped);
  EXPECT_EQ(cut.text, " little ");
  EXPECT_EQ(cut.reason, FinishReason::stop);
  EXPECT_EQ(cut.reused_tokens, static_cast<std::int64_t>(prompt.size()) - 1);  // all but the last

  int calls = 0;
  const auto cancelled = session.generate(prompt, options, [&](const Generated&) { return ++calls < 3; });
  EXPECT_EQ(cancelled.reason, FinishReason::cancelled);
  EXPECT_EQ(cancelled.tokens.size(), 3u);
}

TEST_F(RealModels, TheSameSeedGivesTheSameText) {
  const Model model = Model::load(models / "stories260K" / "stories260K.gguf");
  Session session(model);
  const auto prompt = model.tokenizer().encode("One day");
  const auto text_of = [&](std::uint64_t seed) {
    return session.generate(prompt, {.most_tokens = 30, .sampling = {.temperature = 1.5, .seed = seed}}).text;
  };
  EXPECT_EQ(text_of(7), text_of(7));
  EXPECT_NE(text_of(7), text_of(8));
}

TEST_F(RealModels, WrongUseIsRefused) {
  const Model model = Model::load(models / "stories260K" / "stories260K.gguf", {.context = 32});
  Session session(model);
  EXPECT_THROW(Session{model}, ValueError);  // room for one sequence
  EXPECT_THROW(session.feed({}), ValueError);
  const std::vector<TokenId> unknown{512}, negative{-1}, many(33, 5), fine(32, 5);
  EXPECT_THROW(session.feed(unknown), ValueError);
  EXPECT_THROW(session.feed(negative), ValueError);
  EXPECT_THROW(session.feed(many), ValueError);
  EXPECT_TRUE(session.tokens().empty());
  session.feed(fine);
  EXPECT_THROW(session.feed({fine.data(), 1}), ValueError);
  session.truncate(31);
  const auto full = session.generate(std::vector<TokenId>(32, 5), {.ignore_end = true});
  EXPECT_EQ(full.reason, FinishReason::context);
  EXPECT_EQ(full.tokens.size(), 1u);
  EXPECT_THROW(Model::load(models / "nothing.gguf"), FileError);
  EXPECT_THROW(Model::load(models / "stories260K" / "stories260K.gguf", {.cache_dtype = DType::i8}),
               ValueError);
}

}  // namespace
}  // namespace hearth::llm
