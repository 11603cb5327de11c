// Sampling: distributions against those of transformers, choices against distributions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/llm.h"
#include "llm/log_probabilities.h"

namespace hearth::llm {
namespace {

using test::expect_error;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

const SamplingOptions open{
    .penalty_window = 0, .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 5};

SamplingOptions options_of(const nlohmann::json& json) {
  SamplingOptions o = open;
  o.penalty_window = json.value("penalty_window", 64);
  o.repetition_penalty = json.value("repetition_penalty", 1.0);
  o.frequency_penalty = json.value("frequency_penalty", 0.0);
  o.presence_penalty = json.value("presence_penalty", 0.0);
  if (json.contains("bias"))
    for (const auto& [token, bias] : json["bias"].items()) o.bias[std::stoi(token)] = bias.get<double>();
  o.temperature = json.value("temperature", 1.0);
  o.top_k = json.value("top_k", 0);
  o.typical_p = json.value("typical_p", 1.0);
  o.top_p = json.value("top_p", 1.0);
  o.min_p = json.value("min_p", 0.0);
  o.mirostat = json.value("mirostat", 0);
  o.mirostat_target = json.value("mirostat_target", 5.0);
  return o;
}

TEST(Sampling, DistributionsAreThoseOfTheReference) {
  const auto cases = nlohmann::json::parse(std::ifstream(HEARTH_GOLDEN_DIR "/sampling.json"));
  ASSERT_GT(cases.size(), 100u);
  for (const auto& item : cases) {
    const auto scores = item["scores"].get<std::vector<float>>();
    SCOPED_TRACE(item["options"].dump() + " of " + std::to_string(scores.size()));
    Sampler sampler(options_of(item["options"]));
    sampler.saw(item["seen"].get<std::vector<TokenId>>());
    std::map<TokenId, double> got, expected;
    for (const auto& [token, probability] : sampler.distribution(scores)) got[token] = probability;
    for (const auto& pair : item["expected"])
      if (pair[1].get<double>() > 1e-30) expected[pair[0].get<TokenId>()] = pair[1].get<double>();
    std::erase_if(got, [](const auto& pair) { return pair.second <= 1e-30; });
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [token, probability] : expected) {
      ASSERT_TRUE(got.contains(token)) << token;
      EXPECT_NEAR(got[token], probability, 2e-6 * std::max(probability, 1e-6) + 1e-12) << token;
    }
  }
}

TEST(Sampling, ChoicesFollowTheDistribution) {
  const std::vector<float> scores{1, 3, 2, -4, 2.5f, nan, -infinity};
  for (SamplingOptions options : {open, [] {
                                    SamplingOptions o = open;
                                    o.temperature = 1.7, o.top_k = 4, o.min_p = 0.1;
                                    return o;
                                  }()}) {
    options.seed = 11;
    Sampler sampler(options);
    const auto expected = sampler.distribution(scores);
    constexpr int draws = 40000;
    std::map<TokenId, int> counts;
    for (int i = 0; i < draws; ++i) ++counts[sampler.choose(scores)];
    double chi = 0, total = 0;
    for (const auto& [token, probability] : expected) {
      const double mean = probability * draws;
      chi += std::pow(counts[token] - mean, 2) / mean;
      total += counts[token];
    }
    EXPECT_EQ(total, draws);  // nothing else was chosen
    EXPECT_LT(chi, 18.5);     // of at most 4 degrees of freedom: p = 0.001
  }
}

// Scores of many tokens are not all looked at; what remains is what the definitions say, of all of them.
TEST(Sampling, OfManyTokens) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  for (const std::size_t size : {1, 63, 128, 129, 1000, 4099})
    for (const bool spoiled : {false, true}) {
      std::vector<float> scores;
      for (std::size_t i = 0; i < size; ++i) scores.push_back(normal(random));
      if (spoiled)
        for (std::size_t i = 1; i < size; i += 3) scores[i] = i % 2 ? nan : i % 4 ? -infinity : scores[i / 2];
      for (const int top_k : {0, 1, 7, 40, 5000})
        for (const double top_p : {1.0, 0.9, 0.2})
          for (const double min_p : {0.0, 0.05}) {
            SCOPED_TRACE(testing::Message() << size << " tokens, top_k " << top_k << ", top_p " << top_p
                                            << ", min_p " << min_p << (spoiled ? ", spoiled" : ""));
            SamplingOptions options = open;
            options.temperature = 0.7, options.top_k = top_k, options.top_p = top_p, options.min_p = min_p;
            struct Token {
              double score;
              TokenId id;
            };
            std::vector<Token> tokens;
            for (std::size_t i = 0; i < size; ++i)
              if (scores[i] > -infinity) tokens.push_back({scores[i] / 0.7, static_cast<TokenId>(i)});
            std::stable_sort(tokens.begin(), tokens.end(),
                             [](const Token& a, const Token& b) { return a.score > b.score; });
            if (top_k > 0 && tokens.size() > static_cast<std::size_t>(top_k)) tokens.resize(top_k);
            const auto total = [&] {
              double sum = 0;
              for (const Token& token : tokens) sum += std::exp(token.score - tokens[0].score);
              return sum;
            };
            double share = 0, all = total();
            std::size_t count = 0;
            while (count < tokens.size() && (top_p == 1 || share < top_p))
              share += std::exp(tokens[count++].score - tokens[0].score) / all;
            tokens.resize(count);
            if (min_p > 0)
              std::erase_if(tokens, [best = tokens[0].score, min_p](const Token& token) {
                return token.score < best + std::log(min_p);
              });
            all = total();
            Sampler sampler(options);
            const auto got = sampler.distribution(scores);
            ASSERT_EQ(got.size(), tokens.size());
            for (std::size_t i = 0; i < got.size(); ++i) {
              EXPECT_EQ(got[i].token, tokens[i].id) << i;
              EXPECT_NEAR(got[i].probability, std::exp(tokens[i].score - tokens[0].score) / all, 1e-5) << i;
            }
          }
    }
}

// Tokens that no random number can make the best are passed over; the choice is the same as among all.
TEST(Sampling, ChoosesTheSameAmongManyTokens) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> scores;
  for (int i = 0; i < 3000; ++i) scores.push_back(normal(random));
  SamplingOptions sorted = open;
  sorted.top_k = 3000;  // all, the best first
  Sampler in_order(open), best_first(sorted);
  std::map<TokenId, int> counts;
  for (int i = 0; i < 3000; ++i) {
    const TokenId chosen = in_order.choose(scores);
    EXPECT_EQ(chosen, best_first.choose(scores)) << i;
    ++counts[chosen];
  }
  EXPECT_GT(counts.size(), 200u);
}

TEST(Sampling, TheSameSeedChoosesTheSame) {
  const std::vector<float> scores(100, 0.0f);
  SamplingOptions options = open;
  Sampler a(options), b(options);
  options.seed = 6;
  Sampler other(options), random({.seed = 0}), random_too({.seed = 0});
  int differences = 0;
  for (int i = 0; i < 50; ++i) {
    const TokenId chosen = a.choose(scores);
    EXPECT_EQ(chosen, b.choose(scores));
    differences += chosen != other.choose(scores);
  }
  EXPECT_GT(differences, 25);
  EXPECT_NE(random.seed(), random_too.seed());
}

// Two models that nearly agree, with the same random numbers, nearly always choose the same.
TEST(Sampling, SimilarScoresChooseTheSame) {
  std::vector<float> scores, similar;
  for (int i = 0; i < 50; ++i) {
    scores.push_back(std::sin(static_cast<float>(i)) * 2);
    similar.push_back(scores.back() + 0.05f * std::cos(7.0f * static_cast<float>(i)));
  }
  Sampler a(open), b(open);
  int same = 0;
  for (int i = 0; i < 1000; ++i) same += a.choose(scores) == b.choose(similar);
  EXPECT_GT(same, 930);
}

TEST(Sampling, MirostatComesToItsTarget) {
  std::vector<float> scores;
  for (int i = 0; i < 600; ++i) scores.push_back(-1.05f * std::log(static_cast<float>(i + 1)));  // Zipf
  for (const int version : {1, 2})
    for (const double target : {1.5, 3.0}) {
      SCOPED_TRACE(testing::Message() << version << ' ' << target);
      SamplingOptions options = open;
      options.mirostat = version, options.mirostat_target = target;
      Sampler sampler(options);
      double sum = 0, limit = 2 * target;
      constexpr int steps = 2000;
      for (int i = 0; i < steps; ++i) {
        const auto distribution = sampler.distribution(scores);
        const TokenId token = sampler.choose(scores);
        for (const auto& [id, probability] : distribution)
          if (id == token) {
            sum -= std::log2(probability);
            limit -= options.mirostat_rate * (-std::log2(probability) - target);
          }
        if (version == 2 && i < 20) {  // what is kept is what is not more surprising than the limit
          const auto next = sampler.distribution(scores);
          double kept = 0;
          for (std::size_t k = 0; k < next.size(); ++k) kept += std::exp(scores[k]);
          double all = 0;
          for (const float score : scores) all += std::exp(score);
          EXPECT_TRUE(next.size() == 1 ||
                      -std::log2(std::exp(scores[next.size() - 1]) / all) <= limit + 1e-6);
          EXPECT_TRUE(next.size() == scores.size() ||
                      -std::log2(std::exp(scores[next.size()]) / all) > limit - 1e-6);
        }
      }
      EXPECT_NEAR(sum / steps, target, 0.15);
    }
}

TEST(Sampling, HostileScores) {
  const std::vector<float> none, one{-3}, nans(4, nan), never(4, -infinity), mixed{nan, -infinity, nan},
      certain{1, infinity, 2}, certain_two{infinity, 1, infinity}, huge{3e38f, -3e38f, 3.1e38f};
  for (const double temperature : {0.0, 1.0, 1e-300})
    for (const int mirostat : {0, 1, 2}) {
      SamplingOptions options{
          .temperature = temperature, .top_k = 1000, .typical_p = 0.9, .mirostat = mirostat};
      EXPECT_EQ(Sampler(options).choose(one), 0);
      EXPECT_EQ(Sampler(options).choose(certain), 1);
      EXPECT_NE(Sampler(options).choose(certain_two), 1);
      EXPECT_EQ(Sampler(options).choose(huge) % 2, 0);
      for (const auto* scores : {&none, &nans, &never, &mixed})
        expect_error<ValueError>([&] { Sampler(options).choose(*scores); }, {"[Sampler] no token"});
    }
  // Ties go to the first; a token out of the vocabulary is nobody's bias.
  EXPECT_EQ(Sampler({.temperature = 0}).choose(std::vector<float>(5, 1.0f)), 0);
  EXPECT_EQ(Sampler({.bias = {{100, 5.0}, {1, 1.0}}, .temperature = 0}).choose(std::vector<float>(5, 1.0f)),
            1);
  EXPECT_EQ(Sampler({.bias = {{0, -infinity}}, .temperature = 0}).choose(std::vector<float>{9, 1}), 1);
  Sampler seen(open);
  seen.saw(std::vector<TokenId>{-5, 1 << 30});
  EXPECT_NO_THROW(seen.choose(one));
}

TEST(Sampling, OptionsOutOfRangeAreNamed) {
  const auto refused = [](SamplingOptions options, const char* name) {
    expect_error<ValueError>([&] { Sampler{options}; }, {"[Sampler]", name, "out of range"});
  };
  refused({.repetition_penalty = 0}, "repetition_penalty");
  refused({.frequency_penalty = nan}, "frequency_penalty");
  refused({.presence_penalty = infinity}, "presence_penalty");
  refused({.penalty_window = -1}, "penalty_window");
  refused({.bias = {{-1, 0.0}}}, "bias");
  refused({.bias = {{1, nan}}}, "bias");
  refused({.temperature = -1}, "temperature");
  refused({.temperature = nan}, "temperature");
  refused({.top_k = -1}, "top_k");
  refused({.typical_p = 0}, "typical_p");
  refused({.top_p = 0}, "top_p");
  refused({.top_p = 1.01}, "top_p");
  refused({.min_p = 1}, "min_p");
  refused({.mirostat = 3}, "mirostat");
  refused({.mirostat_target = 0}, "mirostat_target");
  refused({.mirostat_rate = nan}, "mirostat_rate");
}

TEST(Sampling, PenaltiesSeeTheLastTokens) {
  const std::vector<float> scores{1, 3, 2, -4, 2.5f};
  Sampler sampler({.repetition_penalty = 3, .temperature = 0});
  EXPECT_EQ(sampler.choose(scores), 1);
  EXPECT_EQ(sampler.choose(scores), 4);  // 3 / 3 is less than 2.5
  Sampler forgetful({.repetition_penalty = 3, .penalty_window = 1, .temperature = 0});
  EXPECT_EQ(forgetful.choose(scores), 1);
  EXPECT_EQ(forgetful.choose(scores), 4);
  EXPECT_EQ(forgetful.choose(scores), 1);
}

TEST(LogProbabilities, AreThoseOfTheSoftmax) {
  const std::vector<float> scores{1, 3, 3, nan, -infinity};
  const std::vector<float> fine{1, 3, 3, -infinity};
  const double sum = std::log(std::exp(1.0) + 2 * std::exp(3.0));
  const LogProbabilities result = log_probabilities(fine, 0, 10);
  EXPECT_NEAR(result.chosen.log_probability, 1 - sum, 1e-12);
  ASSERT_EQ(result.best.size(), 3u);  // what cannot be chosen is not among the best
  EXPECT_EQ(result.best[0].token, 1);
  EXPECT_EQ(result.best[1].token, 2);
  EXPECT_NEAR(result.best[0].log_probability, 3 - sum, 1e-12);
  EXPECT_EQ(result.best[2].token, 0);
  EXPECT_EQ(log_probabilities(fine, 2, 0).best.size(), 0u);
  EXPECT_EQ(log_probabilities(scores, 2, 10).best.size(), 3u);
}

}  // namespace
}  // namespace hearth::llm
