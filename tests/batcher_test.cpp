// Texts for many at once: the same texts as one at a time, whatever the others do.
#include "hearth/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "expect_error.h"
#include "hearth/error.h"
#include "llm/log_probabilities.h"
#include "llm/model.h"

namespace hearth::llm {
namespace {

Model storyteller(std::int64_t sequences, std::int64_t context = 0) {
  return Model::load(std::filesystem::path(HEARTH_MODELS_DIR) / "storyteller.gguf",
                     {.device = Device{}, .context = context, .sequences = sequences});
}

// Without what begins every text: where two prompts begin alike, the second is read from another place on, in
// products of other sizes, which round differently.
std::vector<TokenId> tokens_of(const Model& model, std::string_view text) {
  return model.tokenizer().encode(text, {.add_special = false});
}

GenerateOptions greedy(std::int64_t tokens) {
  GenerateOptions options{.most_tokens = tokens};
  options.sampling.temperature = 0;
  return options;
}

// A request whose end can be waited for.
struct Asked {
  std::promise<GenerateResult> result;
  std::string streamed;

  static std::shared_ptr<Asked> submit(Batcher& batcher, std::vector<TokenId> prompt, GenerateOptions options,
                                       const Batcher::Each& each = {}) {
    auto asked = std::make_shared<Asked>();
    batcher.submit(
        std::move(prompt), std::move(options),
        [asked, each](const Generated& next) {
          asked->streamed += next.text;
          return !each || each(next);
        },
        [asked](GenerateResult result, std::exception_ptr error) {
          if (error)
            asked->result.set_exception(error);
          else
            asked->result.set_value(std::move(result));
        });
    return asked;
  }
  GenerateResult wait() { return result.get_future().get(); }
};

const char* const beginnings[] = {
    "Once upon a time",
    "The dog ran to",
    "Lily had a red ball. She",
    "One day, a bird",
    "Tom was sad because",
    "In the big forest there lived an old bear who liked honey more than anything else in the world. He"};

TEST(Batcher, TextsAreThoseOfOneAtATime) {
  std::vector<GenerateResult> expected;
  {
    const Model alone = storyteller(1);
    for (const char* text : beginnings)
      expected.push_back(Session(alone).generate(tokens_of(alone, text), greedy(24)));
  }
  const Model model = storyteller(3);  // fewer than requests
  Batcher batcher(model);
  std::vector<std::shared_ptr<Asked>> asked;
  for (const char* text : beginnings)
    asked.push_back(Asked::submit(batcher, tokens_of(model, text), greedy(24)));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const GenerateResult result = asked[i]->wait();
    EXPECT_EQ(result.text, expected[i].text);
    EXPECT_EQ(result.tokens, expected[i].tokens);
    EXPECT_EQ(asked[i]->streamed, result.text);
    EXPECT_EQ(result.reason, expected[i].reason);
    EXPECT_EQ(result.prompt_tokens, expected[i].prompt_tokens);
  }
  const Batcher::Stats stats = batcher.stats();
  EXPECT_EQ(stats.finished, 6);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_LT(stats.steps, stats.tokens) << "no step was shared";
}

TEST(Batcher, TheSameSeedGivesTheSameText) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  GenerateOptions options{.most_tokens = 16};
  options.sampling.seed = 7;
  const auto prompt = tokens_of(model, "Once upon a time");
  const auto one = Asked::submit(batcher, prompt, options), two = Asked::submit(batcher, prompt, options);
  EXPECT_EQ(one->wait().text, two->wait().text);
}

TEST(Batcher, WhatASequenceHasReadIsNotReadAgain) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  const auto prompt = tokens_of(model, "Once upon a time there was a cat");
  EXPECT_EQ(Asked::submit(batcher, prompt, greedy(2))->wait().reused_tokens, 0);
  const GenerateResult again = Asked::submit(batcher, prompt, greedy(2))->wait();
  EXPECT_EQ(again.reused_tokens, static_cast<std::int64_t>(prompt.size()) - 1);
}

TEST(Batcher, OneCanBeStoppedWhileOthersGoOn) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  int seen = 0;
  const auto stopped = Asked::submit(batcher, tokens_of(model, "The dog"), greedy(100),
                                     [&](const Generated&) { return ++seen < 3; });
  const auto other = Asked::submit(batcher, tokens_of(model, "The cat"), greedy(12));
  EXPECT_EQ(stopped->wait().reason, FinishReason::cancelled);
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(other->wait().tokens.size(), 12u);
}

// One that waits ends, too, when nobody wants it any more.
TEST(Batcher, WhoeverEndsIsCounted) {
  const Model model = storyteller(1);
  Batcher batcher(model);
  const auto first = Asked::submit(batcher, tokens_of(model, "The dog"), greedy(20));
  const auto unwanted =
      Asked::submit(batcher, tokens_of(model, "The cat"), greedy(20), [](const Generated&) { return false; });
  EXPECT_EQ(unwanted->wait().reason, FinishReason::cancelled);
  first->wait();
  batcher.stop();
  EXPECT_EQ(batcher.stats().finished, 2);
}

TEST(Batcher, AMistakeInOneIsNobodyElses) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  GenerateOptions impossible = greedy(5);  // no token can be chosen
  for (TokenId token = 0; token < model.config().vocabulary; ++token)
    impossible.sampling.bias[token] = -std::numeric_limits<double>::infinity();
  const auto wrong = Asked::submit(batcher, tokens_of(model, "The dog"), impossible);
  const auto other = Asked::submit(batcher, tokens_of(model, "The cat"), greedy(8));
  EXPECT_THROW(wrong->wait(), ValueError);
  EXPECT_EQ(other->wait().tokens.size(), 8u);
  EXPECT_EQ(Asked::submit(batcher, tokens_of(model, "The dog"), greedy(3))->wait().tokens.size(), 3u);
}

TEST(Batcher, GrammarsAndStopsHoldForTheirOwnRequests) {
  const Model model = storyteller(3);
  Batcher batcher(model);
  GenerateOptions number = greedy(20), stop = greedy(60);
  number.grammar = Grammar::parse("root ::= [0-9]{4}");
  stop.stop = {"."};
  const auto digits = Asked::submit(batcher, tokens_of(model, "The year was"), number);
  const auto sentence = Asked::submit(batcher, tokens_of(model, "The dog"), stop);
  const auto plain = Asked::submit(batcher, tokens_of(model, "The cat"), greedy(10));
  const GenerateResult four = digits->wait(), first = sentence->wait();
  EXPECT_EQ(four.text.size(), 4u);
  EXPECT_EQ(four.text.find_first_not_of("0123456789"), std::string::npos) << four.text;
  EXPECT_EQ(four.reason, FinishReason::end);
  EXPECT_EQ(first.reason, FinishReason::stop);
  EXPECT_EQ(first.text.find('.'), std::string::npos) << first.text;
  EXPECT_EQ(plain->wait().tokens.size(), 10u);
}

// As for JSON behind thoughts. The mark may be part of a token, and of several.
TEST(Batcher, GrammarsMayHoldOnlyAfterAMark) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  const Model alone = storyteller(1);
  Session session(alone);
  const auto prompt = tokens_of(model, "Once upon a time");
  for (const std::string mark : {"e", "her", " there", "there was", "ere was a"}) {
    GenerateOptions options = greedy(60);
    options.grammar = Grammar::parse("root ::= [a-z ]{0,9} [0-9]{4}");
    options.grammar_after = mark;
    for (const GenerateResult& result :
         {session.generate(prompt, options), Asked::submit(batcher, prompt, options)->wait()}) {
      EXPECT_EQ(result.reason, FinishReason::end) << result.text;
      const auto at = result.text.find(mark);
      ASSERT_NE(at, std::string::npos) << result.text;
      EXPECT_TRUE(options.grammar->matches(result.text.substr(at + mark.size()))) << result.text;
    }
  }
  GenerateOptions never = greedy(20);
  never.grammar = Grammar::parse("root ::= [0-9]");
  never.grammar_after = "what does not come";
  EXPECT_EQ(session.generate(prompt, never).tokens.size(), 20u);
}

// Enough for several threads to choose tokens; those with a grammar, with probabilities, and those whose
// texts end meanwhile. Scores may stay where they are.
void many_choose_at_once(bool scores_stay) {
  constexpr std::size_t count = 18;
  const Model alone = storyteller(1);
  const Model model = storyteller(count);
  if (scores_stay) model.state()->kept_from = 0;
  Batcher batcher(model);
  std::vector<std::shared_ptr<Asked>> asked;
  for (std::size_t i = 0; i < count; ++i) {
    GenerateOptions options = greedy(static_cast<std::int64_t>(3 + i));
    if (i % 5 == 4) options.best_log_probabilities = 2;
    options.ignore_end = true;
    options.sampling.top_k = static_cast<std::int64_t>(i);
    if (i % 3 == 2) options.grammar = Grammar::parse("root ::= [0-9]{4}");
    asked.push_back(Asked::submit(batcher, tokens_of(model, beginnings[i % 6]), options));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const GenerateResult result = asked[i]->wait();
    if (i % 3 == 2) {
      EXPECT_EQ(result.text.find_first_not_of("0123456789"), std::string::npos) << result.text;
      continue;
    }
    EXPECT_EQ(result.tokens.size(), 3 + i);
    EXPECT_EQ(asked[i]->streamed, result.text);
    EXPECT_EQ(result.log_probabilities.size(), i % 5 == 4 ? 3 + i : 0);
    // Each token has the best score after those before it, or nearly: scores of a step of many sequences
    // differ by some tenths.
    Session session(alone);
    std::vector<float> scores = session.feed(tokens_of(alone, beginnings[i % 6]));
    for (std::size_t k = 0; k < result.tokens.size(); ++k) {
      const float best = *std::max_element(scores.begin(), scores.end());
      EXPECT_GE(scores[static_cast<std::size_t>(result.tokens[k])], best - 0.5f) << i << ' ' << k;
      scores = session.feed({&result.tokens[k], 1});
    }
  }
}

TEST(Batcher, ManyChooseAtOnce) { many_choose_at_once(false); }
TEST(Batcher, ManyChooseByScoresThatStay) { many_choose_at_once(true); }

TEST(Batcher, AFullContextEndsTheTextOrShifts) {
  const Model model = storyteller(2, 64);
  Batcher batcher(model);
  GenerateOptions endless = greedy(-1), shifting = greedy(90);
  endless.ignore_end = shifting.ignore_end = true;
  shifting.keep = 4;
  const auto full = Asked::submit(batcher, tokens_of(model, "The dog"), endless);
  const auto moved = Asked::submit(batcher, tokens_of(model, "The cat"), shifting);
  EXPECT_EQ(full->wait().reason, FinishReason::context);
  const GenerateResult long_text = moved->wait();
  EXPECT_EQ(long_text.tokens.size(), 90u);
  EXPECT_GE(long_text.shifts, 1);
}

// The mean of a session's features, whatever else is going on, and however many pieces a text is read in.
TEST(Batcher, EmbedsTextsBesideOthers) {
  std::vector<std::vector<TokenId>> texts;
  std::vector<std::vector<double>> expected;
  {
    const Model model = storyteller(1);
    Session session(model);
    for (const char* const beginning : beginnings) texts.push_back(tokens_of(model, beginning));
    while (texts[2].size() < 300)
      texts[2].insert(texts[2].end(), texts[5].begin(), texts[5].end());  // more than a piece
    for (const auto& text : texts) {
      session.truncate(0);
      std::vector<double> sum(static_cast<std::size_t>(model.config().width));
      for (const auto& row : session.features(text))
        for (std::size_t i = 0; i < row.size(); ++i) sum[i] += static_cast<double>(row[i]);
      double squares = 0;
      for (const double number : sum) squares += number * number;
      for (double& number : sum) number /= std::sqrt(squares);
      expected.push_back(sum);
    }
  }
  const Model model = storyteller(2);
  Batcher batcher(model);
  const auto story = Asked::submit(batcher, texts[0], greedy(60));
  std::vector<std::promise<GenerateResult>> results(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    batcher.embed(texts[i], {}, [&results, i](GenerateResult result, std::exception_ptr error) {
      if (error)
        results[i].set_exception(error);
      else
        results[i].set_value(std::move(result));
    });
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const GenerateResult result = results[i].get_future().get();
    EXPECT_EQ(result.prompt_tokens, static_cast<std::int64_t>(texts[i].size()));
    EXPECT_EQ(result.reason, FinishReason::end);
    ASSERT_EQ(result.embedding.size(), expected[i].size());
    for (std::size_t k = 0; k < expected[i].size(); ++k)
      ASSERT_NEAR(result.embedding[k], expected[i][k], 2e-3) << "text " << i;
  }
  EXPECT_EQ(story->wait().tokens.size(), 60u);
  // A text that was embedded is known to the next request that begins so.
  EXPECT_FALSE(Asked::submit(batcher, texts[5], greedy(4))->wait().tokens.empty());
  const auto nobody = [](GenerateResult, std::exception_ptr) { FAIL(); };
  test::expect_error<ValueError>([&] { batcher.embed({}, {}, nobody); }, {"0 tokens to embed"});
  test::expect_error<ValueError>([&] { batcher.embed({8192}, {}, nobody); }, {"token 8192"});
  test::expect_error<ValueError>([&] { batcher.embed(std::vector<TokenId>(100000, 5), {}, nobody); },
                                 {"100000 tokens to embed"});
  // Nobody wants it any more.
  std::promise<GenerateResult> left;
  batcher.embed(
      texts[1], [](const Generated&) { return false; },
      [&](GenerateResult result, std::exception_ptr) { left.set_value(std::move(result)); });
  EXPECT_EQ(left.get_future().get().reason, FinishReason::cancelled);
}

TEST(Batcher, RefusesWhatCannotRun) {
  const Model model = storyteller(1, 32);
  Batcher batcher(model);
  const auto submit = [&](std::vector<TokenId> prompt, const GenerateOptions& options) {
    batcher.submit(std::move(prompt), options, {}, [](GenerateResult, std::exception_ptr) { FAIL(); });
  };
  test::expect_error<ValueError>([&] { submit({}, {}); }, {"at least one token"});
  test::expect_error<ValueError>([&] { submit(std::vector<TokenId>(32, 5), {}); },
                                 {"32 tokens, the context 32"});
  test::expect_error<ValueError>([&] { submit({8192}, {}); }, {"token 8192"});
  test::expect_error<ValueError>([&] { submit({5}, {.lookup = 2}); }, {"one text at a time"});
  GenerateOptions hot;
  hot.sampling.temperature = -1;
  test::expect_error<ValueError>([&] { submit({5}, hot); }, {"temperature"});
}

TEST(Batcher, StoppingEndsAll) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  std::promise<void> begun;
  GenerateOptions endless = greedy(-1);
  endless.ignore_end = true;
  endless.keep = 4;
  std::vector<std::shared_ptr<Asked>> asked;
  asked.push_back(Asked::submit(batcher, {5}, endless, [&, first = true](const Generated&) mutable {
    if (first) begun.set_value();
    first = false;
    return true;
  }));
  for (TokenId token = 6; token < 10; ++token) asked.push_back(Asked::submit(batcher, {token}, endless));
  begun.get_future().wait();
  batcher.stop();
  for (const auto& one : asked) EXPECT_EQ(one->wait().reason, FinishReason::cancelled);
  test::expect_error<Error>([&] { batcher.submit({5}, {}, {}, {}); }, {"stopped"});
}

TEST(Batcher, RequestsMayComeFromManyThreads) {
  constexpr int threads = 4, each = 3;
  const auto token = [](int t, int i) { return static_cast<TokenId>(10 * t + i + 1); };
  std::string expected[threads][each];
  {
    const Model alone = storyteller(1);
    for (int t = 0; t < threads; ++t)
      for (int i = 0; i < each; ++i) {
        const std::vector<TokenId> prompt{token(t, i)};
        expected[t][i] = Session(alone).generate(prompt, greedy(4)).text;
      }
  }
  const Model model = storyteller(3);
  Batcher batcher(model);
  std::atomic<int> right = 0;
  std::vector<std::thread> clients;
  for (int t = 0; t < threads; ++t)
    clients.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        if (Asked::submit(batcher, {token(t, i)}, greedy(4))->wait().text == expected[t][i]) ++right;
        static_cast<void>(batcher.stats());
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, threads * each);
}

// Of two talks that begin alike neither loses its place to the other while there is another one.
TEST(Batcher, TalksKeepTheirPlaces) {
  const Model model = storyteller(3);
  Batcher batcher(model);
  std::vector<TokenId> one = tokens_of(model, "Once upon a time there was a cat who liked milk"),
                       two = tokens_of(model, "Once upon a ball was lost and nobody knew where it had gone");
  for (int turn = 0; turn < 3; ++turn)
    for (std::vector<TokenId>* talk : {&one, &two}) {
      const GenerateResult result = Asked::submit(batcher, *talk, greedy(4))->wait();
      if (turn > 0) {
        EXPECT_GE(result.reused_tokens, static_cast<std::int64_t>(talk->size()) - 2);
      }
      talk->insert(talk->end(), result.tokens.begin(), result.tokens.end());
      talk->push_back(14);
    }
}

TEST(Batcher, WhoHasLeftIsNotReadFor) {
  const Model model = storyteller(1);
  Batcher batcher(model);
  std::promise<void> begun;
  std::atomic<bool> go_on = true;
  GenerateOptions endless = greedy(-1);
  endless.ignore_end = true;
  endless.keep = 4;
  const auto running = Asked::submit(batcher, {5}, endless, [&, first = true](const Generated&) mutable {
    if (std::exchange(first, false)) begun.set_value();
    return go_on.load();
  });
  begun.get_future().wait();
  const auto left =
      Asked::submit(batcher, tokens_of(model, "The dog"), greedy(5), [](const Generated&) { return false; });
  EXPECT_EQ(left->wait().reason, FinishReason::cancelled);  // before there was a place for it
  go_on = false;
  EXPECT_EQ(running->wait().reason, FinishReason::cancelled);
  EXPECT_EQ(batcher.stats().prompt_tokens, 1);
}

// By the scores that the prompt's tokens have one by one, whatever the cache knows of it.
TEST(Batcher, ScoresPrompts) {
  const Model model = storyteller(2);
  std::vector<TokenId> prompt = model.tokenizer().encode(beginnings[5]);
  while (prompt.size() < 150) prompt.insert(prompt.end(), prompt.begin(), prompt.end());
  GenerateOptions options = greedy(1);
  options.best_log_probabilities = 2;
  options.score_prompt = true;
  std::vector<LogProbabilities> expected;
  GenerateResult alone;
  {
    Session session(model);
    for (std::size_t i = 0; i + 1 < prompt.size(); ++i)
      expected.push_back(log_probabilities(session.feed(std::span(prompt).subspan(i, 1)), prompt[i + 1], 2));
    alone = session.generate(prompt, options);
  }
  Batcher batcher(model);
  for (int i = 0; i < 2; ++i) {
    const GenerateResult result = Asked::submit(batcher, prompt, options)->wait();
    EXPECT_EQ(result.tokens, alone.tokens);
    EXPECT_EQ(result.reused_tokens, 0);
    for (const GenerateResult& one : {result, alone}) {
      ASSERT_EQ(one.prompt_log_probabilities.size(), expected.size());
      for (std::size_t k = 0; k < expected.size(); ++k) {
        const LogProbabilities& scored = one.prompt_log_probabilities[k];
        EXPECT_EQ(scored.chosen.token, prompt[k + 1]);
        // Products of one row and of more round their operands in different ways.
        EXPECT_NEAR(scored.chosen.log_probability, expected[k].chosen.log_probability, 0.4) << k;
        ASSERT_EQ(scored.best.size(), 2u);
      }
    }
  }
}

// Those who came later and want little do not keep one from its turn.
TEST(Batcher, PromptsAreReadInTheOrderOfComing) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  std::vector<int> order;  // only by the batcher's thread
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 0; i < 8; ++i)
    asked.push_back(Asked::submit(batcher, {static_cast<TokenId>(20 + i)}, greedy(i == 1 ? 2 : 1),
                                  [&order, i](const Generated& next) {
                                    if (next.token >= 0 && (order.empty() || order.back() != i))
                                      order.push_back(i);
                                    return true;
                                  }));
  for (const auto& one : asked) one->wait();
  EXPECT_LT(std::find(order.begin(), order.end(), 1) - order.begin(), 3);
}

// A short prompt does not wait for all pieces of a long one.
TEST(Batcher, AShortPromptIsReadBetweenPiecesOfALongOne) {
  const Model model = storyteller(2);
  Batcher batcher(model);
  std::vector<int> order;  // only by the batcher's thread
  const auto noting = [&](int number) {
    return [&order, number](const Generated& next) {
      if (next.token >= 0) order.push_back(number);
      return true;
    };
  };
  const auto prompt_of = [](std::int64_t length, TokenId first) {
    std::vector<TokenId> prompt;
    for (TokenId i = 0; i < length; ++i) prompt.push_back(first + i % 900);
    return prompt;
  };
  const std::int64_t much = model.context() - 2;
  ASSERT_GT(much, model.state()->chunk_size());
  const auto slow = Asked::submit(batcher, prompt_of(much, 20), greedy(1), noting(0));
  const auto quick = Asked::submit(batcher, prompt_of(4, 1000), greedy(1), noting(1));
  slow->wait(), quick->wait();
  ASSERT_FALSE(order.empty());
  EXPECT_EQ(order.front(), 1);
}

}  // namespace
}  // namespace hearth::llm
