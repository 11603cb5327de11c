// Steps that a GPU begins before the host knows their tokens: they are those of steps one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "expect_error.h"
#include "hearth/batcher.h"
#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "hearth/ops.h"
#include "llm/model.h"
#include "llm/random_model.h"
#include "llm/sampler_guess.h"
#include "llm/steps_ahead.h"
#include "test_devices.h"
#include "tokenizer_libraries.h"

namespace hearth::llm {
namespace {

using Tokens = std::vector<TokenId>;

bool is_slow(Device device) { return device.kind == DeviceKind::rocm; }

// Two layers, pages of 32 tokens.
Model tiny_model(Device device, std::int64_t context, std::int64_t sequences) {
  const KnownShape& shape = find_known_shape("tiny");
  manual_seed(3);
  return make_random_model(
      shape.config, {.type = DType::f32, .tied = shape.tied},
      {.device = device, .context = context, .cache_dtype = DType::f32, .sequences = sequences});
}

// One that has tokens with texts: the storyteller, or in a fraction of its time the same tokens at random.
Model talking_model(Device device, std::int64_t context, std::int64_t sequences) {
  const auto storyteller = std::filesystem::path(HEARTH_MODELS_DIR) / "storyteller.gguf";
  const LoadOptions options{.device = device, .context = context, .sequences = sequences};
  if (!is_slow(device)) return Model::load(storyteller, options);
  ModelConfig config = find_known_shape("tiny").config;
  const Tokenizer tokenizer = Tokenizer::load(storyteller);
  config.vocabulary = tokenizer.size();
  manual_seed(4);
  Model model = make_random_model(config, {.type = DType::f32, .tied = true}, options);
  model.state()->tokenizer = tokenizer;
  return model;
}

TokenId best_of(const std::vector<float>& scores) {
  return static_cast<TokenId>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}
std::optional<TokenId> feed_one(Session& session, TokenId token, bool goes_on = true) {
  Session* const one = &session;
  return Session::feed_for_best({&one, 1}, std::vector<Tokens>{{token}}, goes_on)[0];
}
TokenId other_than(TokenId token) { return (token + 7) % 512; }

// A session whose steps are begun ahead, and one that is asked for its scores each time.
struct Pair {
  Session ahead, plain;
  explicit Pair(const Model& model) : ahead(model), plain(model) {}
  void read(const Tokens& tokens) {
    ahead.feed(tokens);
    plain.feed(tokens);
  }
  TokenId step(TokenId token, bool goes_on = true) {
    const auto got = feed_one(ahead, token, goes_on);
    const TokenId expected = best_of(plain.feed({&token, 1}));
    EXPECT_EQ(got, expected) << "after " << plain.tokens().size() << " tokens";
    EXPECT_EQ(ahead.tokens(), plain.tokens());
    return expected;
  }
  // So many, each with what the one before has chosen.
  TokenId steps(TokenId token, int count) {
    for (int i = 0; i < count; ++i) token = step(token);
    return token;
  }
  void truncate(std::int64_t count) {
    ahead.truncate(count);
    plain.truncate(count);
  }
};

// By scores and samplers of each row: those of a sampler itself, where it has no steps that are left out.
TEST(SamplerGuess, IsWhatASamplerChooses) {
  constexpr std::int64_t vocabulary = 3000;
  for (const Device device : tested_devices()) {
    const DeviceScope here(device);
    std::vector<Sampler> samplers;
    for (const double temperature : {0.0, 0.8, 1.7, 1e-35})
      for (const double min_p : {0.0, 0.05})
        samplers.push_back(Sampler({.temperature = temperature,
                                    .top_k = 0,
                                    .top_p = 1,
                                    .min_p = min_p,
                                    .seed = 40 + samplers.size()}));
    const auto rows = static_cast<std::int64_t>(samplers.size());
    std::vector<const Sampler*> followed;
    for (const Sampler& sampler : samplers) followed.push_back(&sampler);
    SamplerGuess guess(samplers.size(), device);
    Compiled guessed =
        compile([&](const std::vector<Tensor>& in) { return std::vector{guess.tokens(in[0], in[1])}; });
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 2);
    for (int step = 0; step < (is_slow(device) ? 4 : 60); ++step) {
      std::vector<float> numbers(samplers.size() * vocabulary);
      for (float& number : numbers) number = normal(random);
      const Tensor scores = reshape(tensor(numbers), {rows, vocabulary}).to(device).eval();
      // Now and then one was made that is of no use.
      for (const bool in_vain : {step % 5 == 3, false}) {
        if (step % 5 == 3 && !in_vain) continue;
        guess.follow(followed, in_vain ? 1 : 0);
        const auto tokens = guessed({scores, argmax(scores, 1)})[0].to_vector<std::int64_t>();
        if (in_vain) continue;
        for (std::size_t row = 0; row < samplers.size(); ++row)
          EXPECT_EQ(tokens[row],
                    samplers[row].choose(std::span(numbers).subspan(row * vocabulary, vocabulary)))
              << "row " << row << ", step " << step;
      }
    }
  }
}

TEST(SamplerGuess, OfScoresThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), never = -std::numeric_limits<float>::infinity();
  for (const Device device : tested_devices()) {
    const DeviceScope here(device);
    const Sampler sampler({.temperature = 1, .seed = 3}), best({.temperature = 0, .seed = 3});
    const std::vector<const Sampler*> samplers{&sampler, &best, &sampler, &sampler};
    SamplerGuess guess(4, device);
    guess.follow(samplers, 0);
    const Tensor scores =
        reshape(tensor(std::vector<float>{never, never, never, 5, never, 5, 1, nan, 2, never, 1e30f, never}),
                {4, 3})
            .to(device);
    const auto tokens = guess.tokens(scores, argmax(scores, 1)).to_vector<std::int64_t>();
    EXPECT_EQ(tokens, (std::vector<std::int64_t>{-1, 0, -1, 1}));
  }
}

TEST(StepsAhead, ChooseWhatScoresSay) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 100, 2);
    Pair pair(model);
    pair.read({5, 9, 300});
    TokenId token = pair.steps(1, is_slow(device) ? 34 : 80);  // over the ends of pages
    token = pair.step(token, false);
    token = pair.step(token);
    // With other tokens than they were begun with.
    for (int i = 0; i < 6; ++i) token = other_than(pair.step(token));
  }
}

TEST(StepsAhead, AfterTokensWereForgotten) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 100, 3);
    Pair pair(model);
    pair.read({5, 9, 300});
    const TokenId token = pair.steps(1, 8);
    pair.truncate(7);
    pair.steps(token, 4);
    // As many tokens as the step that was begun has before it, but others.
    pair.truncate(9);
    pair.read({17, 18});
    pair.steps(pair.step(token), 2);
    EXPECT_EQ(pair.ahead.shift(2), pair.plain.shift(2));
    pair.steps(20, 3);
  }
}

// A page that was given ahead goes back when tokens are forgotten, even if none are; then others get it.
TEST(StepsAhead, LeavePagesToOthers) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 100, 4);
    Pair pair(model);
    Tokens prompt;
    for (TokenId i = 0; i < 31; ++i) prompt.push_back(i * 11 % 512);
    pair.read(prompt);
    const TokenId token = pair.step(4);  // the page of the next token is there already
    pair.truncate(32);
    Session other(model);
    other.feed(prompt);
    const TokenId others = best_of(other.feed(Tokens{1, 2, 3, 4}));
    pair.steps(token, 3);
    Session again(model);
    EXPECT_EQ(other.tokens().size(), 35u);
    Tokens all = other.tokens();
    EXPECT_EQ(best_of(again.feed(all)), others);
  }
}

TEST(StepsAhead, OfSessionsThatComeAndGo) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 64, 2);
    // In the same memory, if it so happens, after as many tokens: what was begun for one is not for the next.
    Session plain(model);
    TokenId token = 9;
    for (const Tokens& prompt : {Tokens{40, 2, 3}, Tokens{50, 2, 3, 4}, Tokens{60, 2, 3, 4, 5}}) {
      Session session(model);
      session.feed(prompt);
      plain.truncate(0);
      plain.feed(prompt);
      const auto chosen = feed_one(session, token);
      EXPECT_EQ(chosen, best_of(plain.feed({&token, 1})));
      token = chosen.value_or(0);
    }
  }
}

TEST(StepsAhead, OfSeveralSessions) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 64, 4);
    std::vector<Session> sessions;
    for (int i = 0; i < 3; ++i) sessions.emplace_back(model);
    Session plain(model);
    std::vector<Tokens> so_far{{5, 6, 7}, {8}, {9, 10}};
    for (std::size_t i = 0; i < 3; ++i) sessions[i].feed(so_far[i]);
    std::vector<TokenId> next{1, 2, 3};
    const auto step = [&](const std::vector<std::size_t>& which) {
      std::vector<Session*> together;
      std::vector<Tokens> tokens;
      for (const std::size_t i : which) {
        together.push_back(&sessions[i]);
        tokens.push_back({next[i]});
        so_far[i].push_back(next[i]);
      }
      const auto chosen = Session::feed_for_best(together, tokens);
      for (std::size_t k = 0; k < which.size(); ++k) {
        const std::size_t i = which[k];
        plain.truncate(0);
        EXPECT_EQ(chosen[k], best_of(plain.feed(so_far[i]))) << i;
        EXPECT_EQ(sessions[i].tokens(), so_far[i]);
        next[i] = chosen[k].value_or(0);
      }
    };
    for (int i = 0; i < 3; ++i) step({0, 1, 2});
    for (int i = 0; i < 2; ++i) step({0, 2});
    step({2, 0});
    step({1});
    for (int i = 0; i < 2; ++i) step({0, 1, 2});
    // Prompts of several tokens take their time, too.
    Session* const both[] = {&sessions[0], &sessions[1]};
    const auto chosen = Session::feed_for_best(both, std::vector<Tokens>{{3, 4}, {next[1]}});
    so_far[0].insert(so_far[0].end(), {3, 4});
    plain.truncate(0);
    EXPECT_EQ(chosen[0], best_of(plain.feed(so_far[0])));
  }
}

TEST(StepsAhead, UpToTheEndOfTheContext) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 8, 2);
    Pair pair(model);
    const TokenId token = pair.steps(1, 8);
    test::expect_error<ValueError>([&] { feed_one(pair.ahead, token); }, {"do not fit a context of 8"});
    pair.truncate(6);
    pair.steps(token, 2);
  }
}

// Scores that are no numbers are never the best, and where there is no other, nothing is chosen.
TEST(StepsAhead, WithoutNumbers) {
  for (const Device device : tested_devices()) {
    const float nan = std::numeric_limits<float>::quiet_NaN(),
                never = -std::numeric_limits<float>::infinity();
    std::vector<float> added(512, 0.0f);
    added[3] = nan;
    for (const bool any : {true, false}) {
      if (!any) added.assign(512, never);
      const Model model = tiny_model(device, 64, 2);
      model.state()->no_tokens = tensor(added).to(device).eval();
      Session session(model), plain(model);
      TokenId token = 1;
      for (int i = 0; i < 2; ++i) {
        const auto got = feed_one(session, token);
        std::vector<float> scores = plain.feed({&token, 1});
        scores[3] = never;
        EXPECT_EQ(got.has_value(), any);
        if (any) {
          EXPECT_EQ(got, best_of(scores));
        }
        EXPECT_EQ(session.tokens(), plain.tokens());
      }
    }
  }
}

TEST(StepsAhead, AreThoseOfGeneratedTexts) {
  SKIP_WITHOUT_TOKENIZERS();
  for (const Device device : tested_devices()) {
    const Model model = talking_model(device, 64, 2);
    const Tokens prompt = model.tokenizer().encode("Once upon a time");
    GenerateOptions greedy{.most_tokens = is_slow(device) ? 3 : 30, .sampling = {.temperature = 0}};
    GenerateOptions plain = greedy;
    plain.best_log_probabilities = 0;  // needs the scores
    Session one(model), other(model);
    for (int i = 0; i < 2; ++i) {  // the second begins with what the first has left
      const auto a = one.generate(prompt, greedy), b = other.generate(prompt, plain);
      EXPECT_EQ(a.tokens, b.tokens);
      EXPECT_EQ(a.text, b.text);
      EXPECT_EQ(one.tokens(), other.tokens());
    }
    // Until the context is full, which drops some.
    if (is_slow(device)) continue;
    greedy.most_tokens = plain.most_tokens = 90;
    greedy.ignore_end = plain.ignore_end = true;
    greedy.keep = plain.keep = 4;
    const auto a = one.generate(prompt, greedy), b = other.generate(prompt, plain);
    EXPECT_GT(a.shifts, 0);
    EXPECT_EQ(a.tokens, b.tokens);
  }
}

TEST(StepsAhead, OfManyRequests) {
  SKIP_WITHOUT_TOKENIZERS();
  for (const Device device : tested_devices()) {
    const Model model = talking_model(device, 64, 3);
    const int most = is_slow(device) ? 3 : 20;
    const std::vector<std::string> beginnings{"Once upon a time", "The dog", "Lily and Tom"};
    std::vector<GenerateResult> got(beginnings.size());
    {
      Batcher batcher(model);
      for (std::size_t i = 0; i < beginnings.size(); ++i)
        batcher.submit(
            model.tokenizer().encode(beginnings[i]),
            {.most_tokens = most - static_cast<int>(i), .sampling = {.temperature = 0}, .ignore_end = true},
            {}, [&, i](GenerateResult result, std::exception_ptr error) {
              EXPECT_FALSE(error);
              got[i] = std::move(result);
            });
      while (batcher.stats().finished < static_cast<std::int64_t>(beginnings.size()))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Session session(model);
    for (std::size_t i = 0; i < beginnings.size(); ++i) {
      session.truncate(0);
      const auto expected = session.generate(model.tokenizer().encode(beginnings[i]),
                                             {.most_tokens = most - static_cast<int>(i),
                                              .sampling = {.temperature = 0},
                                              .best_log_probabilities = 0});
      EXPECT_EQ(got[i].text.substr(0, expected.text.size()), expected.text);
    }
  }
}

// A session with a sampler that is told ahead, and one with another sampler of the same seed that is not.
struct SampledPair {
  static SamplingOptions sampling() { return {.temperature = 0.3, .seed = 11}; }
  Session ahead, plain;
  Sampler first{sampling()}, second{sampling()};

  explicit SampledPair(const Model& model) : ahead(model), plain(model) {}
  TokenId step(TokenId token, bool goes_on = true) {
    Session* const session = &ahead;
    const Sampler* const sampler = &first;
    const ScoreRows rows =
        Session::feed_together({&session, 1}, std::vector<Tokens>{{token}}, {&sampler, 1}, goes_on);
    const std::vector<float> expected = plain.feed({&token, 1});
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(rows[0][i], expected[i], 1e-5);
    EXPECT_EQ(ahead.tokens(), plain.tokens());
    const TokenId chosen = first.choose(rows[0]);
    EXPECT_EQ(chosen, second.choose(expected));
    return chosen;
  }
};
StepsAhead::Counts counts_of(const Model& model) {
  const StepsAhead* const ahead = model.state()->steps_ahead();
  return ahead != nullptr ? ahead->counts() : StepsAhead::Counts{};
}

TEST(StepsAhead, AreThoseOfSamplers) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 200, 2);
    const bool on_gpu = device.kind != DeviceKind::cpu;
    SampledPair pair(model);
    TokenId token = 1;
    constexpr int steps = 12;
    for (int i = 0; i < steps; ++i) token = pair.step(token);
    StepsAhead::Counts counts = counts_of(model);
    EXPECT_GE(counts.used, on_gpu ? steps - 3 : 0);
    // Tokens that nobody guessed are right, too, and after some of them none are begun.
    for (int i = 0; i < 4; ++i) token = other_than(pair.step(token));
    counts = counts_of(model);
    const std::size_t used = counts.used;
    for (int i = 0; i < 3; ++i) token = other_than(pair.step(token));
    EXPECT_EQ(counts_of(model).begun, counts.begun);
    EXPECT_EQ(counts_of(model).used, used);
    pair.step(pair.step(token), false);
    if (is_slow(device)) continue;
    // Until they have been right for a while.
    for (int i = 0; i < 60; ++i) token = pair.step(token);
    EXPECT_GE(counts_of(model).used, on_gpu ? used + 10 : 0);
  }
}

// Scores that somebody holds stay what they are.
TEST(StepsAhead, LeaveScoresToTheirHolders) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 64, 2);
    Session session(model), plain(model);
    Session* const one = &session;
    const Sampler best({.temperature = 0});
    const Sampler* const sampler = &best;
    std::vector<ScoreRows> held;
    std::vector<std::vector<float>> expected;
    TokenId token = 1;
    for (int i = 0; i < 5; ++i) {
      held.push_back(Session::feed_together({&one, 1}, std::vector<Tokens>{{token}}, {&sampler, 1}));
      expected.push_back(plain.feed({&token, 1}));
      token = best_of(expected.back());
    }
    for (std::size_t row = 0; row < held.size(); ++row)
      for (std::size_t i = 0; i < 512; ++i) EXPECT_NEAR(held[row][0][i], expected[row][i], 1e-5) << row;
  }
}

// What was begun is not used when the cache has been written to since, even by a step that failed.
TEST(StepsAhead, AfterAStepThatFailed) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 64, 2);
    Pair pair(model);
    const TokenId token = pair.steps(1, 5);
    bool fails = true;
    const Compiled::Function step = model.state()->step;
    model.state()->step = [&](const std::vector<Tensor>& in) {
      auto result = step(in);
      eval(result);
      if (fails) throw KernelError("at the end");
      return result;
    };
    const TokenId other = other_than(token);
    test::expect_error<KernelError>([&] { pair.ahead.feed({&other, 1}); }, {"at the end"});
    fails = false;
    pair.steps(token, 3);
    model.state()->step = step;
  }
}

// Steps of sessions in turn are none that follow each other: after some in vain none are begun.
TEST(StepsAhead, AreNotBegunForOthers) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 64, 2);
    Session one(model), other(model);
    for (int i = 0; i < 12; ++i) {
      feed_one(one, 1 + i);
      feed_one(other, 30 + i);
    }
    EXPECT_LE(counts_of(model).begun, 6);
    EXPECT_EQ(counts_of(model).used, 0);
  }
}

// Validation takes no infinity, which scores that are too small must not become.
TEST(StepsAhead, UnderStrictValidation) {
  const Config before = config();
  Config strict = before;
  strict.enable_strict_validation = true;
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 64, 2);
    SampledPair pair(model);
    set_config(strict);
    EXPECT_NO_THROW(pair.step(pair.step(pair.step(1))));
    set_config(before);
  }
}

// Samplers append a token whatever comes behind it. The step that is begun behind one with scores of which
// none can be chosen leaves its keys and values alone.
TEST(StepsAhead, BehindScoresOfNothing) {
  for (const Device device : tested_devices()) {
    const DeviceScope here(device);
    const Model model = tiny_model(device, 64, 2);
    const auto add_to_scores = [&](float number) {
      model.state()->no_tokens.assign(full({model.config().vocabulary}, number).to(device).eval());
    };
    model.state()->no_tokens = full({model.config().vocabulary}, 0.0f).to(device).eval();
    Session ahead(model), plain(model);
    Session* const one = &ahead;
    const Sampler sampler({.temperature = 0});
    const Sampler* const chooser = &sampler;
    const Tokens tokens{40, 77, 123, 9, 200};
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool nothing = i == 2;
      add_to_scores(nothing ? -std::numeric_limits<float>::infinity() : 0.0f);
      const ScoreRows rows =
          Session::feed_together({&one, 1}, std::vector<Tokens>{{tokens[i]}}, {&chooser, 1}, true);
      const std::vector<float> got(rows[0].begin(), rows[0].end());
      add_to_scores(0);
      const std::vector<float> expected = plain.feed({&tokens[i], 1});
      if (nothing) continue;
      for (std::size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], expected[k], 1e-4) << i << " " << k;
    }
    EXPECT_EQ(ahead.tokens(), plain.tokens());
  }
}

// The last token is appended for who goes on from there; the text is complete without what follows.
TEST(StepsAhead, OfATextThatIsComplete) {
  SKIP_WITHOUT_TOKENIZERS();
  for (const Device device : tested_devices()) {
    const Model model = talking_model(device, 64, 2);
    Session session(model);
    const auto end_numbers = [&](const Generated&) {
      model.state()->no_tokens =
          full({model.config().vocabulary}, -std::numeric_limits<float>::infinity()).to(device).eval();
      return true;
    };
    const auto result = session.generate(model.tokenizer().encode("Once upon a time"),
                                         {.most_tokens = 1, .sampling = {.temperature = 0}}, end_numbers);
    EXPECT_EQ(result.tokens.size(), 1u);
    EXPECT_EQ(result.reason, FinishReason::length);
  }
}

TEST(StepsAhead, OfTheBestAndOfSamplersInTurn) {
  for (const Device device : tested_devices()) {
    const Model model = tiny_model(device, 64, 2);
    Pair pair(model);
    const Sampler best({.temperature = 0});
    const Sampler* const sampler = &best;
    TokenId token = 1;
    for (int i = 0; i < 6; ++i) {
      token = pair.steps(token, i % 2 + 1);
      Session* const one = &pair.ahead;
      const ScoreRows rows = Session::feed_together({&one, 1}, std::vector<Tokens>{{token}}, {&sampler, 1});
      token = best_of(pair.plain.feed({&token, 1}));
      EXPECT_EQ(best_of({rows[0].begin(), rows[0].end()}), token);
    }
    Session* const one = &pair.ahead;
    const std::vector<const Sampler*> too_many{sampler, sampler}, none{nullptr};
    const auto fed_with = [&](const std::vector<const Sampler*>& samplers) {
      return [&, samplers] { Session::feed_together({&one, 1}, std::vector<Tokens>{{1}}, samplers); };
    };
    test::expect_error<ValueError>(fed_with(too_many), {"1 sessions with 2 samplers"});
    test::expect_error<ValueError>(fed_with(none), {"a sampler for each session"});
  }
}

// Texts by the defaults of `hearth run`: one alone, and several that share their steps.
TEST(StepsAhead, AreThoseOfSampledTexts) {
  SKIP_WITHOUT_TOKENIZERS();
  for (const Device device : tested_devices()) {
    const Model model = talking_model(device, 96, 3);
    const int most = is_slow(device) ? 6 : 60;
    const std::vector<std::string> beginnings{"Once upon a time", "The dog"};
    std::vector<GenerateOptions> options;
    std::vector<Tokens> expected;
    for (const std::string& beginning : beginnings) {
      options.push_back({.most_tokens = most,
                         .sampling = {.temperature = is_slow(device) ? 0.2 : 0.8, .seed = 3 + options.size()},
                         .ignore_end = true});
      Session session(model);
      Sampler sampler(options.back().sampling);
      Tokens tokens;
      std::vector<float> scores = session.feed(model.tokenizer().encode(beginning));
      for (int i = 0; i < most; ++i) {
        tokens.push_back(sampler.choose(scores));
        scores = session.feed({&tokens.back(), 1});
      }
      expected.push_back(std::move(tokens));
    }
    for (std::size_t i = 0; i < beginnings.size(); ++i) {
      Session session(model);
      const auto prompt = model.tokenizer().encode(beginnings[i]);
      EXPECT_EQ(session.generate(prompt, options[i]).tokens, expected[i]);
      options[i].best_log_probabilities = 2;  // which look at the scores, too
      session.truncate(0);
      const auto with = session.generate(prompt, options[i]);
      EXPECT_EQ(with.tokens, expected[i]);
      EXPECT_EQ(with.log_probabilities.size(), with.tokens.size());
    }
    if (device.kind != DeviceKind::cpu) {
      EXPECT_GT(counts_of(model).used, 0);
    }
    std::vector<GenerateResult> got(beginnings.size());
    Batcher batcher(model);
    for (std::size_t i = 0; i < beginnings.size(); ++i)
      batcher.submit(model.tokenizer().encode(beginnings[i]), options[i], {},
                     [&, i](GenerateResult result, std::exception_ptr error) {
                       EXPECT_FALSE(error);
                       got[i] = std::move(result);
                     });
    while (batcher.stats().finished < static_cast<std::int64_t>(beginnings.size()))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    batcher.stop();
    for (std::size_t i = 0; i < beginnings.size(); ++i) EXPECT_EQ(got[i].tokens, expected[i]);
  }
}

}  // namespace
}  // namespace hearth::llm
