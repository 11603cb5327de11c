// Generation: guessed tokens, contexts that move on, kinds of caches, log-probabilities.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>

#include "default_test_device.h"
#include "expect_error.h"
#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "io/tokenizer/pipeline.h"
#include "io/tokenizer/readers.h"
#include "llm/drafter.h"
#include "llm/model.h"
#include "llm/random_model.h"
#include "llm/rope_frequencies.h"
#include "llm/weights.h"
#include "padded_model.h"

namespace hearth::llm {
namespace {

using test::expect_error;
using test::is_emulated;
using test::padded_copy;
const std::filesystem::path models = std::filesystem::path(HEARTH_SHARED_DIR) / "models";

using Tokens = std::vector<TokenId>;

double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(a[i] - b[i])));
  return worst;
}

TEST(LookUp, FindsWhatFollowedLast) {
  const Tokens text{1, 2, 3, 4, 9, 2, 3, 5, 7, 2, 3};
  EXPECT_EQ(look_up(text, 2, 3), (Tokens{5, 7, 2}));
  EXPECT_EQ(look_up(text, 2, 100), (Tokens{5, 7, 2, 3}));
  EXPECT_EQ(look_up(text, 3, 2), (Tokens{5, 7}));  // 7 2 3 came once: the last two decide
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 9, 3}, 1, 1), (Tokens{9}));
  EXPECT_EQ(look_up(Tokens{1, 2, 3, 9, 3}, 2, 1), Tokens{});
  EXPECT_EQ(look_up(Tokens{4, 4, 4}, 2, 5), (Tokens{4}));
  EXPECT_EQ(look_up(Tokens{4}, 2, 5), Tokens{});
}

class Guesses : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(models)) GTEST_SKIP() << models << " is not there";
  }
  const std::filesystem::path f32 = models / "tinystories-656K" / "f32",
                              bf16 = models / "tinystories-656K" / "bf16",
                              other = models / "stories260K" / "stories260K.gguf";
};

// A long prompt can be shown and ended while it is read; what has been read of it is there the next time.
using LongPrompts = Guesses;
TEST_F(LongPrompts, AreReadInPieces) {
  const Model model = Model::load(f32, {.cache_dtype = DType::f32, .sequences = 2});
  const std::int64_t piece = model.state()->chunk_size();
  if (model.context() <= piece + 20) GTEST_SKIP() << "pieces are longer than the context";
  Tokens prompt(static_cast<std::size_t>(piece + 10), 1);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(5 + i * 37 % 1000);
  const auto all = static_cast<std::int64_t>(prompt.size());
  GenerateOptions options{.most_tokens = 4, .sampling = {.temperature = 0}, .ignore_end = true};
  Session plain(model), session(model);
  const Tokens expected = plain.generate(prompt, options).tokens;

  std::vector<std::int64_t> seen;
  options.reading = [&](std::int64_t read, std::int64_t of) {
    EXPECT_EQ(of, all);
    seen.push_back(read);
    return true;
  };
  EXPECT_EQ(session.generate(prompt, options).tokens, expected);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0}));  // the rest is a piece of its own

  session.truncate(0);
  options.score_prompt = true;
  options.best_log_probabilities = 0;
  options.reading = [&](std::int64_t read, std::int64_t) { return read < 100; };
  const GenerateResult ended = session.generate(prompt, options);
  EXPECT_EQ(ended.reason, FinishReason::cancelled);
  EXPECT_TRUE(ended.tokens.empty());
  EXPECT_EQ(ended.prompt_tokens, static_cast<std::int64_t>(session.tokens().size()));
  EXPECT_GE(ended.prompt_tokens, 100);
  EXPECT_LT(ended.prompt_tokens, all);

  options = {.most_tokens = 4, .sampling = {.temperature = 0}, .ignore_end = true};
  const GenerateResult again = session.generate(prompt, options);
  EXPECT_EQ(again.reused_tokens, ended.prompt_tokens);
  EXPECT_EQ(again.tokens, expected);

  session.truncate(0);
  options.reading = [](std::int64_t, std::int64_t) { return false; };
  EXPECT_EQ(session.generate(prompt, options).reason, FinishReason::cancelled);
  EXPECT_TRUE(session.tokens().empty());
}

// Whoever guesses, the text is that of the model alone, and so is what the session remembers.
TEST_F(Guesses, ChangeNothing) {
  const Model model = Model::load(f32, {.cache_dtype = DType::f32}), same = Model::load(f32),
              rounded = Model::load(bf16);
  Session plain(model);
  const Tokens prompt =
      model.tokenizer().encode("Once upon a time there was a cat. Once upon a time there was a");
  for (const double temperature : {0.0, 1.0}) {
    plain.truncate(0);
    const GenerateOptions alone{.most_tokens = is_emulated() ? 8 : 60,
                                .sampling = {.temperature = temperature, .seed = 4}};
    const auto expected = plain.generate(prompt, alone);
    const Tokens remembered = plain.tokens();
    EXPECT_EQ(expected.drafted_tokens, 0);
    const auto check = [&](const GenerateOptions& options, double least_right) {
      plain.truncate(0);
      const auto got = plain.generate(prompt, options);
      EXPECT_EQ(got.tokens, expected.tokens);
      EXPECT_EQ(got.text, expected.text);
      EXPECT_EQ(got.reason, expected.reason);
      // What came before may not come again, least of all in a short text.
      EXPECT_TRUE(got.drafted_tokens > 0 || (!options.draft && (temperature > 0 || is_emulated())));
      EXPECT_GE(static_cast<double>(got.accepted_tokens),
                least_right * static_cast<double>(got.drafted_tokens));
      const std::size_t shorter = std::min(plain.tokens().size(), remembered.size());
      EXPECT_GE(shorter + 1, remembered.size());
      EXPECT_TRUE(std::equal(remembered.begin(), remembered.begin() + static_cast<std::ptrdiff_t>(shorter),
                             plain.tokens().begin()));
    };
    GenerateOptions options = alone;
    options.draft = same;
    check(options, 1.0);
    options.most_drafted = 1;
    check(options, 1.0);
    options.most_drafted = 30;
    options.draft = rounded;
    check(options, temperature == 0 ? 0.8 : 0.3);
    options.draft.reset();
    options.lookup = 2;
    options.most_drafted = 5;
    check(options, 0);
    options.draft = same;  // where nothing is found, the model guesses
    check(options, 0);
  }
}

// Ids that are no tokens are never chosen, whatever their scores.
TEST_F(Guesses, AndChoicesAreTokens) {
  const LoadOptions exact{.cache_dtype = DType::f32};
  const Model model = Model::load(f32, exact), padded = padded_copy(f32, exact);
  const Tokens prompt = model.tokenizer().encode("Once upon a time");
  GenerateOptions options{
      .most_tokens = is_emulated() ? 4 : 20, .sampling = {.temperature = 0}, .best_log_probabilities = 3};
  const auto expected = Session(model).generate(prompt, options);
  const auto got = Session(padded).generate(prompt, options);
  EXPECT_EQ(got.tokens, expected.tokens);
  ASSERT_EQ(got.log_probabilities.size(), expected.log_probabilities.size());
  for (std::size_t i = 0; i < got.log_probabilities.size(); ++i)
    for (std::size_t k = 0; k < 3; ++k) {
      const auto &a = got.log_probabilities[i].best[k], &b = expected.log_probabilities[i].best[k];
      EXPECT_EQ(a.token, b.token);
      EXPECT_NEAR(a.log_probability, b.log_probability, 1e-3);
    }
  options.draft = padded;
  const auto drafted = Session(model).generate(prompt, options);
  EXPECT_EQ(drafted.tokens, expected.tokens);
  EXPECT_EQ(drafted.accepted_tokens, drafted.drafted_tokens);

  expect_error<ValueError>(
      [&] {
        Session(padded).generate(Tokens{1, 2048});
      },
      {"token 2048 is in the prompt, but the tokenizer has 2048 tokens"});
  options.sampling.bias[3000] = 5;
  expect_error<ValueError>([&] { Session(padded).generate(prompt, options); }, {"token 3000 has a bias"});
}

TEST_F(Guesses, AndChoicesOfManyAreTokens) {
  const Model padded = padded_copy(f32, {.cache_dtype = DType::f32, .sequences = 2});
  for (const std::size_t kept_from : {std::size_t{0}, std::numeric_limits<std::size_t>::max()}) {
    padded.state()->kept_from = kept_from;
    Session a(padded), b(padded);
    Session* const both[] = {&a, &b};
    Sampler first({.temperature = 0}), second({.temperature = 0});
    Sampler* const samplers[] = {&first, &second};
    const auto chosen =
        choose_together(samplers, Session::feed_together(both, std::vector<Tokens>{{5}, {7}}));
    for (const std::optional<TokenId>& token : chosen) EXPECT_LT(token.value(), padded.tokenizer().size());
  }
}

// The model with noise in its weights: it guesses wrong often enough.
Model noisy_copy(const std::filesystem::path& path) {
  ModelFile file = open_model(path);
  file.tensor = [tensor = file.tensor](const std::string& name) {
    const Tensor weight = tensor(name);
    return weight + randn(weight.shape()) * 0.05;
  };
  manual_seed(1);
  return make_model(file, {});
}

// Where a later part of a long prompt fails, the parts before it are forgotten, too.
TEST_F(Guesses, AreAppendedWholeOrNotAtAll) {
  if (is_emulated()) GTEST_SKIP() << "prompts are long";
  const Model model = Model::load(f32, {.cache_dtype = DType::f32, .sequences = 2});
  Session one(model), second(model);
  one.feed(Tokens{1, 2, 3});
  const Tokens longer(static_cast<std::size_t>(model.state()->chunk_size() + 5), 4);
  const Compiled::Function step = model.state()->step;
  int left = 0;
  model.state()->step = [&](const std::vector<Tensor>& in) {
    if (left-- == 0) throw KernelError("[test] it fails");
    return step(in);
  };
  for (const int parts : {0, 1, 2, 3}) {
    left = parts;
    Session* const both[] = {&one, &second};
    expect_error<KernelError>(
        [&] {
          Session::feed_together(both, std::vector<Tokens>{longer, longer});
        },
        {"it fails"});
    EXPECT_EQ(one.tokens(), (Tokens{1, 2, 3})) << parts;
    EXPECT_TRUE(second.tokens().empty()) << parts;
  }
  left = 1;
  expect_error<KernelError>([&] { one.feed(longer); }, {"it fails"});
  EXPECT_EQ(one.tokens(), (Tokens{1, 2, 3}));
  left = 100;
  const auto scores = one.feed(longer);
  second.feed(Tokens{1, 2, 3});
  EXPECT_EQ(second.feed(longer), scores);
}

// The distribution of pairs of tokens, the second of which was guessed, is that of the model.
TEST_F(Guesses, LeaveTheDistributionAsItIs) {
  if (is_emulated()) GTEST_SKIP() << "it takes thousands of tokens";
  const Model model = Model::load(f32, {.cache_dtype = DType::f32}), draft = noisy_copy(f32);
  Session session(model);
  const Tokens prompt = model.tokenizer().encode("The dog");
  const SamplingOptions sampling{.temperature = 2, .top_k = 3, .top_p = 1, .min_p = 0};
  std::map<std::pair<TokenId, TokenId>, double> expected, counts;
  for (const auto& [first, p] : Sampler(sampling).distribution(session.feed(prompt))) {
    for (const auto& [second, q] : Sampler(sampling).distribution(session.feed({&first, 1})))
      expected[{first, second}] = p * q;
    session.truncate(static_cast<std::int64_t>(prompt.size()));
  }
  constexpr int draws = 1500;
  std::int64_t right = 0, guessed = 0;
  for (std::uint64_t seed = 1; seed <= draws; ++seed) {
    GenerateOptions options{.most_tokens = 3, .sampling = sampling, .ignore_end = true, .draft = draft};
    options.sampling.seed = seed;
    const auto result = session.generate(prompt, options);
    ++counts[{result.tokens[0], result.tokens[1]}];
    right += result.accepted_tokens;
    guessed += result.drafted_tokens;
  }
  EXPECT_GT(right, draws / 4);
  EXPECT_GT(guessed, right + draws / 20);
  double chi = 0, total = 0;
  for (const auto& [pair, probability] : expected) {
    chi += std::pow(counts[pair] - probability * draws, 2) / (probability * draws);
    total += counts[pair];
  }
  EXPECT_EQ(total, draws);
  EXPECT_LT(chi, 26.1);  // 8 degrees of freedom: p = 0.001
}

// Models of one family have their vocabularies padded to different sizes: Qwen2.5's to 151936 and 152064.
TEST_F(Guesses, VocabulariesMayBePaddedDifferently) {
  static constexpr std::int64_t more = 8;
  // With a few tokens that the other has not, which it likes best.
  const auto with_more = [&](double liked) {
    ModelFile file = open_model(f32);
    file.config.vocabulary += more;
    file.tensor = [tensor = file.tensor, liked](const std::string& name) {
      const Tensor weight = tensor(name);
      const auto rows = [](const Tensor& all) { return narrow(all, 0, 300, more / 2); };
      return name == "token_embd.weight" ? concat({weight, rows(weight) * liked, rows(weight) * -liked}, 0)
                                         : weight;
    };
    file.tokenizer = [path = f32]() -> std::optional<Tokenizer> {
      auto definition = tokenizer::read_folder(path);
      for (std::int64_t i = 0; i < more; ++i)
        definition.tokens.push_back({.text = "[PAD" + std::to_string(definition.tokens.size()) + "]",
                                     .kind = tokenizer::TokenKind::unused});
      return Tokenizer(std::make_shared<const tokenizer::Pipeline>(std::move(definition)));
    };
    return make_model(file, {.cache_dtype = DType::f32});
  };
  const Model model = Model::load(f32, {.cache_dtype = DType::f32});
  const Tokens prompt = model.tokenizer().encode("Once upon a time");
  const GenerateOptions alone{.most_tokens = is_emulated() ? 6 : 30, .sampling = {.temperature = 0}};
  const auto check = [&](const Model& of, const Model& draft, bool is_right) {
    GenerateOptions guessing = alone;
    guessing.draft = draft;
    const auto expected = Session(of).generate(prompt, alone), got = Session(of).generate(prompt, guessing);
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_EQ(got.drafted_tokens > 0, is_right);
    EXPECT_EQ(got.accepted_tokens, got.drafted_tokens);
    return got.tokens;
  };
  const Model padded = with_more(0), talkative = with_more(20);
  check(model, padded, true);
  check(padded, model, true);
  check(model, talkative, false);  // what it guesses is no token
  const Tokens text = check(talkative, model, false);
  EXPECT_GE(*std::max_element(text.begin(), text.end()), model.tokenizer().size());
}

TEST_F(Guesses, WrongUseIsRefused) {
  const Model model = Model::load(f32), stranger = Model::load(other);
  Session session(model);
  const Tokens prompt = model.tokenizer().encode("The dog");
  expect_error<ValueError>([&] { session.generate(prompt, {.draft = stranger}); },
                           {"draft model", "other tokens"});
  expect_error<ValueError>([&] { session.generate(prompt, {.lookup = -1}); }, {"lookup -1"});
  expect_error<ValueError>([&] { session.generate(prompt, {.keep = model.context()}); },
                           {"nothing can be dropped"});
  expect_error<ValueError>([&] { session.generate({}); }, {"at least one token"});
  const Model small = Model::load(f32, {.context = 4});  // its context ends early: no guesses, no error
  const auto result =
      session.generate(prompt, {.most_tokens = 20, .sampling = {.temperature = 0}, .draft = small});
  EXPECT_EQ(result.tokens.size(), 20u);
}

TEST_F(Guesses, LogProbabilitiesAreOfTheModel) {
  const Model model = Model::load(other);
  Session session(model);
  const Tokens prompt = model.tokenizer().encode("One day");
  const auto result = session.generate(prompt, {.most_tokens = 8,
                                                .sampling = {.temperature = 3, .seed = 2},
                                                .best_log_probabilities = 3,
                                                .lookup = 1});
  ASSERT_EQ(result.log_probabilities.size(), result.tokens.size());
  session.truncate(0);
  std::vector<float> scores = session.feed(prompt);
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    double sum = 0;
    for (const float score : scores) sum += std::exp(static_cast<double>(score));
    const LogProbabilities& got = result.log_probabilities[i];
    EXPECT_EQ(got.chosen.token, result.tokens[i]);
    EXPECT_NEAR(got.chosen.log_probability,
                scores[static_cast<std::size_t>(result.tokens[i])] - std::log(sum), 1e-3);
    EXPECT_EQ(got.best.size(), 3u);
    EXPECT_EQ(got.best[0].token, std::max_element(scores.begin(), scores.end()) - scores.begin());
    scores = session.feed({&result.tokens[i], 1});
  }
}

// ---- sessions and threads

// Whose pages are given back twice, or are lost, would be another's keys and values.
TEST(Sessions, EndWhileOthersDo) {
  const Model model = make_random_model(find_known_shape("tiny").config, {}, {.context = 64});
  Model::State& state = *model.state();
  constexpr std::int64_t pages = 2000000, threads = 4;  // enough that they meet
  state.free_pages.clear();
  state.free_pages.reserve(pages);
  std::vector<Sequence> sequences(threads);
  for (std::int64_t i = 0; i < pages; ++i)
    sequences[static_cast<std::size_t>(i % threads)].pages.push_back(i);
  std::atomic<std::int64_t> late = threads;
  std::vector<std::thread> enders;
  for (Sequence& sequence : sequences)
    enders.emplace_back([&] {
      --late;
      while (late > 0) std::this_thread::yield();
      state.truncate(sequence, 0);
    });
  for (std::thread& ender : enders) ender.join();
  std::vector<std::int64_t> expected(pages);
  std::iota(expected.begin(), expected.end(), 0);
  std::sort(state.free_pages.begin(), state.free_pages.end());
  EXPECT_TRUE(state.free_pages == expected);
}

// ---- contexts that move on

ModelConfig config_of(std::int64_t layers) {
  ModelConfig c = find_known_shape("tiny").config;
  c.layers = layers;
  c.windows.assign(static_cast<std::size_t>(layers), 0);
  return c;
}

Tokens text_of(std::size_t size) {
  Tokens tokens;
  for (std::size_t i = 0; i < size; ++i) tokens.push_back(static_cast<TokenId>(i * 37 % 511));
  return tokens;
}

// In a model of one layer keys and values depend on their own tokens only: after a shift they are what they
// would be from scratch.
void check_shift(const ModelConfig& config, DType cache, double tolerance) {
  manual_seed(3);
  const Model model =
      make_random_model(config, {.type = DType::f32}, {.context = 100, .cache_dtype = cache, .sequences = 3});
  Session session(model), fresh(model), between(model);
  const Tokens text = text_of(90), next{5};
  for (std::size_t i = 0; i < text.size(); i += 10) {  // pages of two sequences alternate
    session.feed(std::span(text).subspan(i, 10));
    between.feed(std::span(text).subspan(i, 10));
  }
  const std::int64_t dropped = session.shift(7);
  EXPECT_EQ(dropped, 41);
  Tokens left(text.begin(), text.begin() + 7);
  left.insert(left.end(), text.begin() + 48, text.end());
  EXPECT_EQ(session.tokens(), left);
  fresh.feed(left);
  EXPECT_LE(worst_difference(session.feed(next), fresh.feed(next)), tolerance);
  session.truncate(0);
  fresh.truncate(0);
  session.feed(text);
  fresh.feed(text);  // pages have been given back
  EXPECT_LE(worst_difference(session.feed(next), fresh.feed(next)), tolerance);
}

TEST(Shift, IsTheTextWithoutWhatWasDropped) {
  ModelConfig c = config_of(1);
  check_shift(c, DType::f32, 2e-5);
  check_shift(c, DType::f16, 2e-3);
  check_shift(c, DType::q8_0, 0.1);
  if (is_emulated()) return;  // what follows differs in operations that have tests of their own
  c.rope_interleaved = !c.rope_interleaved;
  check_shift(c, DType::f32, 2e-5);
  c.rope.scale = 1.7;
  check_shift(c, DType::f32, 2e-5);
  c.rope.frequencies.resize(c.rope.frequencies.size() / 2);  // half of the features stay
  check_shift(c, DType::f32, 2e-5);
  c.windows[0] = 20;
  c.local_rope = plain_rope(500, c.head_size);
  check_shift(c, DType::f32, 2e-5);
  c.without_rope = {true};
  check_shift(c, DType::f32, 2e-5);
}

TEST(Shift, WrongUseIsRefused) {
  const Model model = make_random_model(config_of(2), {.type = DType::f32}, {.context = 64});
  Session session(model);
  const Tokens text = text_of(10);
  session.feed(text);
  expect_error<ValueError>([&] { session.shift(9); }, {"cannot keep 9 of 10"});
  expect_error<ValueError>([&] { session.shift(-1); }, {"cannot keep -1"});
  EXPECT_EQ(session.shift(8), 1);
  EXPECT_EQ(session.tokens().size(), 9u);
}

TEST(Shift, GenerationGoesOn) {
  const auto path = models / "stories260K" / "stories260K.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Model model = Model::load(path, {.context = 48});
  Session session(model);
  const Tokens prompt = model.tokenizer().encode("Once upon a time");
  const std::int64_t count = is_emulated() ? 80 : 200, least_shifts = (count - 48) / 22;
  GenerateOptions options{.most_tokens = count, .sampling = {.temperature = 0}, .ignore_end = true};
  const auto stopped = session.generate(prompt, options);
  EXPECT_EQ(stopped.reason, FinishReason::context);
  EXPECT_EQ(stopped.tokens.size() + prompt.size(), 49u);  // the last one is not in the cache
  options.keep = 5;
  const auto whole = session.generate(prompt, options);
  EXPECT_EQ(whole.reason, FinishReason::length);
  EXPECT_EQ(whole.tokens.size(), static_cast<std::size_t>(count));
  EXPECT_GE(whole.shifts, least_shifts);
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), session.tokens().begin()));
  EXPECT_TRUE(std::equal(stopped.tokens.begin(), stopped.tokens.end(), whole.tokens.begin()));
  options.lookup = 2;  // guesses never go beyond the context
  const auto guessed = session.generate(prompt, options);
  EXPECT_EQ(guessed.tokens.size(), static_cast<std::size_t>(count));
  EXPECT_GE(guessed.shifts, least_shifts);
}

// ---- kinds of caches

TEST(Caches, SmallerOnesAreNearlyAsGood) {
  const ModelConfig c = config_of(2);
  const Tokens text = text_of(70), next{9};
  const auto scores_of = [&](DType cache, std::size_t& bytes) {
    manual_seed(3);
    const Model model = make_random_model(c, {.type = DType::f32}, {.context = 96, .cache_dtype = cache});
    bytes = model.cache_bytes();
    Session session(model);
    session.feed(text);
    return session.feed(next);
  };
  std::size_t full = 0, bytes = 0;
  const auto expected = scores_of(DType::f32, full);
  EXPECT_LE(worst_difference(scores_of(DType::f16, bytes), expected), 4e-3);
  EXPECT_EQ(bytes, full / 2);
  EXPECT_LE(worst_difference(scores_of(DType::bf16, bytes), expected), 4e-2);
  EXPECT_LE(worst_difference(scores_of(DType::q8_0, bytes), expected), 0.1);
  EXPECT_EQ(bytes, full / 128 * 34);
  ModelConfig odd = c;
  odd.head_size = 48;
  expect_error<ValueError>(
      [&] { make_random_model(odd, {.type = DType::f32}, {.cache_dtype = DType::q8_0}); },
      {"multiple of 32", "48"});
  expect_error<ValueError>([&] { make_random_model(c, {.type = DType::f32}, {.cache_dtype = DType::q4_0}); },
                           {"q4_0", "q8_0 are possible"});
}

}  // namespace
}  // namespace hearth::llm
