// Perplexity and importance against what they are by definition.
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "llm/importance.h"
#include "llm/perplexity.h"
#include "llm/weights.h"
#include "temporary_folder.h"

namespace hearth::llm {
namespace {

using test::expect_error;
using test::TemporaryFolder;

const std::filesystem::path shared = HEARTH_SHARED_DIR;
const std::filesystem::path stories = shared / "models" / "tinystories-656K";
const LoadOptions exact{.device = Device{}, .cache_dtype = DType::f32};

std::string story_text(std::size_t begin, std::size_t size) {
  return read_text_file(shared / "data" / "text" / "tinystories_smallgpt.txt").substr(begin, size);
}

double largest_difference(const std::vector<std::vector<float>>& a,
                          const std::vector<std::vector<float>>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < a[i].size(); ++k)
      worst = std::max(worst, std::abs(double(a[i][k]) - b[i][k]));
  return worst;
}

class ModelFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(stories)) GTEST_SKIP() << stories << " is not there";
  }
};

// ---- perplexity

TEST_F(ModelFiles, PerplexityIsWhatItIsByDefinition) {
  const Model model = Model::load(stories / "f32", exact);
  auto tokens = model.tokenizer().encode(story_text(0, 2000));
  tokens.resize(150);
  const auto surprise = [&](const std::vector<float>& scores, TokenId token) {
    double sum = 0;
    for (const float score : scores) sum += std::exp(double(score));
    return std::log(sum) - scores[static_cast<std::size_t>(token)];
  };
  const auto rows = Session(model).feed_all(tokens);
  double whole = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) whole += surprise(rows[i], tokens[i + 1]);
  const Perplexity one = measure_perplexity(model, tokens, {.window = 400});
  EXPECT_EQ(one.tokens, 149);
  EXPECT_EQ(one.windows, 1);
  EXPECT_NEAR(one.mean, whole / 149, 1e-4);

  // Each token from the 39 before it, or fewer, in windows of 40 that begin with the first token.
  double sliding = 0;
  for (std::size_t end = 1; end < tokens.size();) {
    const std::size_t scored = end == 1 ? 39 : 10, next = std::min(tokens.size(), end + scored);
    std::vector<TokenId> seen(tokens.begin() + std::max<std::ptrdiff_t>(0, std::ptrdiff_t(next) - 40),
                              tokens.begin() + std::ptrdiff_t(next));
    seen[0] = 1;
    const auto scores = Session(model).feed_all(seen);
    for (std::size_t i = seen.size() - (next - end); i < seen.size(); ++i)
      sliding += surprise(scores[i - 1], seen[i]);
    end = next;
  }
  const Perplexity many = measure_perplexity(model, tokens, {.window = 40, .stride = 10});
  EXPECT_EQ(many.tokens, 149);
  EXPECT_NEAR(many.mean, sliding / 149, 1e-4);
  EXPECT_GT(many.mean, one.mean);  // less to go by
  EXPECT_GT(many.error, 0);

  const std::vector<TokenId> short_text{1};
  expect_error<ValueError>([&] { measure_perplexity(model, short_text); }, {"less than two tokens"});
  expect_error<ValueError>([&] { measure_perplexity(model, tokens, {.window = 40, .stride = 40}); },
                           {"a stride of 40 in windows of 40"});
}

// ---- importance

TEST_F(ModelFiles, ImportanceIsTheSquaresOfWhatIsMultiplied) {
  const Model model = Model::load(stories / "f32", exact);
  auto tokens = model.tokenizer().encode(story_text(500, 2000));
  tokens.resize(300);
  const auto before = Session(model).feed_all(std::span(tokens).first(20));
  const Importance importance = measure_importance(model, tokens, 128);
  EXPECT_EQ(largest_difference(Session(model).feed_all(std::span(tokens).first(20)), before), 0);
  EXPECT_EQ(importance.chunks, 3);
  EXPECT_EQ(importance.weights.size(), 2u * 7 + 1);
  // What the first layer's projections get: the norm of the embedding.
  const ModelFile file = open_model(stories / "f32");
  const Tensor x = take(file.tensor("token_embd.weight"),
                        tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())), 0);
  const auto expected =
      sum(square(rms_norm(x, file.tensor("blk.0.attn_norm.weight"), 1e-6)), {0}).to_vector<float>();
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    const Importance::Sums& sums = importance.weights.at(name);
    EXPECT_EQ(sums.count, 300);
    ASSERT_EQ(sums.squares.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(sums.squares[i], expected[i], 1e-3 * expected[i]);
  }
  EXPECT_EQ(importance.weights.at("token_embd.weight").count, 300);
  EXPECT_EQ(importance.of("blk.0.ffn_down.weight", 384).size(), 384u);
  EXPECT_TRUE(importance.of("blk.9.ffn_down.weight", 384).empty());
  expect_error<FormatError>([&] { importance.of("blk.0.ffn_down.weight", 4); },
                            {"the importance of blk.0.ffn_down.weight has 384 columns, the weight 4"});

  const TemporaryFolder folder;
  save_importance(folder / "importance.gguf", importance);
  const Importance read = load_importance(folder / "importance.gguf");
  EXPECT_EQ(read.weights.size(), importance.weights.size());
  EXPECT_EQ(read.weights.at("blk.1.ffn_up.weight").squares,
            importance.weights.at("blk.1.ffn_up.weight").squares);
  EXPECT_EQ(read.weights.at("blk.1.ffn_up.weight").count, 300);
  EXPECT_EQ(read.chunks, 3);
}

TEST(ImportanceFiles, ThatAreSomethingElseAreRefused) {
  const TemporaryFolder folder;
  const auto write = [&](const GgufMetadata& metadata, const std::vector<GgufTensorSpec>& specs,
                         float value) {
    GgufWriter writer(folder / "file", metadata, specs);
    for (const auto& spec : specs)
      for (std::int64_t i = 0; i < element_count(spec.shape); ++i)
        writer.write(std::as_bytes(std::span(&value, 1)));
    writer.commit();
  };
  const auto read = [&] { load_importance(folder / "file"); };
  const GgufMetadata kind{{"general.type", std::string("imatrix")}};
  write({}, {}, 0);
  expect_error<FormatError>(read, {"not of importance"});
  write(kind, {{"w.in_sum2", DType::f32, {1, 4}}}, 1);
  expect_error<FormatError>(read, {"tensor w.counts is missing"});
  write(kind, {{"w.in_sum2", DType::f32, {1, 4}}, {"w.counts", DType::f32, {1, 1}}}, NAN);
  expect_error<FormatError>(read, {"no sum of squares"});
  write(kind, {{"w.in_sum2", DType::i32, {1, 4}}, {"w.counts", DType::f32, {1, 1}}}, 1);
  expect_error<FormatError>(read, {"tensor w.in_sum2 is not f32"});
  write(kind, {{"w.in_sum2", DType::f32, {2, 4}}, {"w.counts", DType::f32, {2, 1}}}, 1);
  expect_error<FormatError>(read, {"2 counts for w"});
}

// The differences are of the size of what some thousand tokens say about them: hence a long text, and errors.
}  // namespace
}  // namespace hearth::llm
