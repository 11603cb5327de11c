// Greedy steps that a GPU begins before the host knows their tokens: they are those of steps one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "expect_error.h"
#include "hearth/batcher.h"
#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "llm/model.h"
#include "llm/random_model.h"
#include "test_devices.h"

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
  for (const Device device : tested_devices()) {
    const Model model = Model::load(std::filesystem::path(HEARTH_MODELS_DIR) / "storyteller.gguf",
                                    {.device = device, .context = 64, .sequences = 2});
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
  for (const Device device : tested_devices()) {
    const Model model = Model::load(std::filesystem::path(HEARTH_MODELS_DIR) / "storyteller.gguf",
                                    {.device = device, .context = 64, .sequences = 3});
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

}  // namespace
}  // namespace hearth::llm
