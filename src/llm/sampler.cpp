// Sampling: scores to a token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <unordered_map>

#include "hearth/error.h"
#include "hearth/llm.h"

namespace hearth::llm {
namespace {

void check(bool fine, const char* option, double value) {
  if (!fine) throw ValueError(fmt::format("[Sampler] {} is out of range: {}", option, value));
}

// splitmix64: mixes the bits of a counter.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;

// xoshiro256++: the same numbers on every machine.
std::uint64_t next_random(std::uint64_t (&s)[4]) {
  const auto turned = [](std::uint64_t x, int by) { return x << by | x >> (64 - by); };
  const std::uint64_t result = turned(s[0] + s[3], 23) + s[0], shifted = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= shifted;
  s[3] = turned(s[3], 45);
  return result;
}

struct Candidate {
  float score;
  TokenId token;
};
using Candidates = std::vector<Candidate>;

bool better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.token < b.token;
}

// Probabilities, from the scores. There is at least one.
std::vector<double> probabilities_of(const Candidates& candidates) {
  const double most = std::min_element(candidates.begin(), candidates.end(), better)->score;
  std::vector<double> probabilities;
  probabilities.reserve(candidates.size());
  double total = 0;
  for (const Candidate& candidate : candidates)
    total += probabilities.emplace_back(std::exp(static_cast<double>(candidate.score) - most));
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

// The best `count`, in order.
void keep_best(Candidates& candidates, std::size_t count) {
  count = std::min(count, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates.end(), better);
  candidates.resize(count);
}

void sort(Candidates& candidates) { keep_best(candidates, candidates.size()); }

// Those whose surprise is nearest to the expected one, until their share is p; best first again.
void keep_typical(Candidates& candidates, double p) {
  const std::vector<double> probabilities = probabilities_of(candidates);
  double entropy = 0;
  for (const double probability : probabilities)
    if (probability > 0) entropy -= probability * std::log(probability);
  std::vector<double> distances;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    distances.push_back(probabilities[i] > 0 ? std::abs(std::log(probabilities[i]) + entropy)
                                             : std::numeric_limits<double>::infinity());
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return distances[a] < distances[b]; });
  double share = 0;
  std::size_t count = 0;
  while (count < order.size() && share < p) share += probabilities[order[count++]];
  order.resize(count);
  Candidates kept;
  for (const std::size_t i : order) kept.push_back(candidates[i]);
  candidates = std::move(kept);
  sort(candidates);
}

// Of sorted candidates, the fewest whose share is p.
void keep_nucleus(Candidates& candidates, double p) {
  const std::vector<double> probabilities = probabilities_of(candidates);
  double share = 0;
  std::size_t count = 0;
  while (count < candidates.size() && share < p) share += probabilities[count++];
  candidates.resize(count);
}

// Those with at least this part of the best one's probability.
void keep_likely(Candidates& candidates, double part) {
  const double most = std::min_element(candidates.begin(), candidates.end(), better)->score;
  const double least = most + std::log(part);
  std::erase_if(candidates, [&](const Candidate& c) { return static_cast<double>(c.score) < least; });
}

// Mirostat (Basu et al., 2021). Version 1 takes the scores for Zipf's law with an exponent that the first
// hundred show, and keeps as many as have that surprise by this law; version 2 looks at each.
void keep_expected(Candidates& candidates, double most_surprise, int version) {
  sort(candidates);
  const std::vector<double> probabilities = probabilities_of(candidates);
  const auto size = candidates.size();
  if (version == 2) {
    std::size_t count = 1;
    while (count < size && -std::log2(probabilities[count]) <= most_surprise) ++count;
    candidates.resize(count);
    return;
  }
  double products = 0, squares = 0;
  for (std::size_t i = 0; i + 1 < std::min<std::size_t>(size, 100) && probabilities[i + 1] > 0; ++i) {
    const double rank = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += rank * std::log(probabilities[i] / probabilities[i + 1]);
    squares += rank * rank;
  }
  if (squares == 0) return;
  const double exponent = products / squares, beyond = exponent - 1, n = static_cast<double>(size);
  const double scale = beyond != 0 ? beyond / (1 - std::pow(n, -beyond)) : 1 / std::log(n);
  const double count = std::pow(scale * std::exp2(most_surprise), 1 / exponent);
  // Where the law has no answer (all are equally likely, say), none is left out.
  if (std::isfinite(count) && count < static_cast<double>(size))
    candidates.resize(std::max<std::size_t>(1, static_cast<std::size_t>(count)));
}

// All tokens that can be, in the order of tokens, with their scores after penalties and bias.
Candidates penalised(std::span<const float> scores, const SamplingOptions& o, std::span<const TokenId> seen) {
  Candidates candidates;
  candidates.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) candidates.push_back({scores[i], static_cast<TokenId>(i)});
  const auto change = [&](TokenId token, const auto& f) {
    if (token < 0 || static_cast<std::size_t>(token) >= scores.size()) return;
    float& score = candidates[static_cast<std::size_t>(token)].score;
    score = static_cast<float>(f(static_cast<double>(score)));
  };
  if (o.repetition_penalty != 1 || o.frequency_penalty != 0 || o.presence_penalty != 0) {
    std::unordered_map<TokenId, int> counts;
    for (const TokenId token : seen) ++counts[token];
    for (const auto& [token, count] : counts)
      change(token, [&, times = count](double score) {
        const double repeated = score > 0 ? score / o.repetition_penalty : score * o.repetition_penalty;
        return repeated - o.frequency_penalty * times - o.presence_penalty;
      });
  }
  for (const auto& [token, bias] : o.bias) change(token, [add = bias](double score) { return score + add; });
  constexpr float most = std::numeric_limits<float>::max();
  std::erase_if(candidates, [](const Candidate& c) { return !(c.score >= -most); });
  if (candidates.empty())
    throw ValueError("[Sampler] no token can be chosen: all scores are NaN or -infinity");
  for (Candidate& candidate : candidates) candidate.score = std::min(candidate.score, most);
  return candidates;
}

// Those that remain after all steps; in no order.
Candidates remaining(std::span<const float> scores, const SamplingOptions& o, std::span<const TokenId> seen,
                     double most_surprise) {
  Candidates candidates = penalised(scores, o, seen);
  if (o.temperature == 0) {
    candidates.front() = *std::min_element(candidates.begin(), candidates.end(), better);
    candidates.resize(1);
    return candidates;
  }
  // Relative to the best, so that the lowest temperature leaves it.
  const double best = std::min_element(candidates.begin(), candidates.end(), better)->score;
  constexpr double least = -std::numeric_limits<float>::max();
  for (Candidate& c : candidates)
    c.score = static_cast<float>(std::max((static_cast<double>(c.score) - best) / o.temperature, least));
  if (o.mirostat != 0) {
    keep_expected(candidates, most_surprise, o.mirostat);
    return candidates;
  }
  if (o.top_k > 0) keep_best(candidates, static_cast<std::size_t>(o.top_k));
  if (o.typical_p < 1) keep_typical(candidates, o.typical_p);
  if (o.top_p < 1) {
    sort(candidates);
    keep_nucleus(candidates, o.top_p);
  }
  if (o.min_p > 0) keep_likely(candidates, o.min_p);
  return candidates;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options)
    : options_(options), most_surprise_(2 * options.mirostat_target) {
  const SamplingOptions& o = options;
  check(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "repetition_penalty",
        o.repetition_penalty);
  check(std::isfinite(o.frequency_penalty), "frequency_penalty", o.frequency_penalty);
  check(std::isfinite(o.presence_penalty), "presence_penalty", o.presence_penalty);
  check(o.penalty_window >= 0, "penalty_window", static_cast<double>(o.penalty_window));
  for (const auto& [token, bias] : o.bias)
    check(token >= 0 && !std::isnan(bias), "bias", token < 0 ? static_cast<double>(token) : bias);
  check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature);
  check(o.top_k >= 0, "top_k", static_cast<double>(o.top_k));
  check(o.typical_p > 0 && o.typical_p <= 1, "typical_p", o.typical_p);
  check(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p);
  check(o.min_p >= 0 && o.min_p < 1, "min_p", o.min_p);
  check(o.mirostat >= 0 && o.mirostat <= 2, "mirostat", o.mirostat);
  check(o.mirostat_target > 0 && std::isfinite(o.mirostat_target), "mirostat_target", o.mirostat_target);
  check(o.mirostat_rate > 0 && std::isfinite(o.mirostat_rate), "mirostat_rate", o.mirostat_rate);
  if (options_.seed == 0) {
    std::random_device source;
    while (options_.seed == 0) options_.seed = static_cast<std::uint64_t>(source()) << 32 | source();
  }
  std::uint64_t x = options_.seed;
  for (std::uint64_t& word : state_) word = mixed(x += golden);
}

std::uint64_t Sampler::seed() const { return options_.seed; }

void Sampler::saw(std::span<const TokenId> tokens) {
  seen_.insert(seen_.end(), tokens.begin(), tokens.end());
  const auto window = static_cast<std::size_t>(options_.penalty_window);
  if (seen_.size() > window) seen_.erase(seen_.begin(), seen_.end() - static_cast<std::ptrdiff_t>(window));
}

std::vector<TokenProbability> Sampler::distribution(std::span<const float> scores) const {
  Candidates candidates = remaining(scores, options_, seen_, most_surprise_);
  sort(candidates);
  const std::vector<double> probabilities = probabilities_of(candidates);
  std::vector<TokenProbability> result;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    result.push_back({candidates[i].token, probabilities[i]});
  return result;
}

TokenId Sampler::choose(std::span<const float> scores) {
  const Candidates candidates = remaining(scores, options_, seen_, most_surprise_);
  // The best score after adding noise of Gumbel's distribution is of a token with its probability.
  const std::uint64_t draw = next_random(state_);
  std::size_t chosen = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::uint64_t bits = mixed(draw + (static_cast<std::uint64_t>(candidates[i].token) + 1) * golden);
    const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
    const double noisy = static_cast<double>(candidates[i].score) - std::log(-std::log(uniform));
    if (noisy > most) most = noisy, chosen = i;
  }
  if (options_.mirostat != 0 && options_.temperature > 0) {
    const double surprise = -std::log2(probabilities_of(candidates)[chosen]);
    most_surprise_ -= options_.mirostat_rate * (surprise - options_.mirostat_target);
  }
  const TokenId token = candidates[chosen].token;
  saw({&token, 1});
  return token;
}

}  // namespace hearth::llm
