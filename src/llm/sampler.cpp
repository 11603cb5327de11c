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

// The weights of candidates relative to the largest score, and their sum. The first has the largest.
template <class Candidates>
double weights_of(const Candidates& candidates, std::vector<double>& weights) {
  weights.clear();
  double total = 0;
  for (const auto& candidate : candidates) {
    weights.push_back(
        std::exp(static_cast<double>(candidate.score) - static_cast<double>(candidates[0].score)));
    total += weights.back();
  }
  return total;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options) : options_(options) {
  const SamplingOptions& o = options;
  check(o.repetition_penalty > 0, "repetition_penalty", o.repetition_penalty);
  check(std::isfinite(o.frequency_penalty), "frequency_penalty", o.frequency_penalty);
  check(std::isfinite(o.presence_penalty), "presence_penalty", o.presence_penalty);
  check(o.penalty_window >= 0, "penalty_window", static_cast<double>(o.penalty_window));
  check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature);
  check(o.top_k >= 0, "top_k", static_cast<double>(o.top_k));
  check(o.typical_p > 0 && o.typical_p <= 1, "typical_p", o.typical_p);
  check(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p);
  check(o.min_p >= 0 && o.min_p < 1, "min_p", o.min_p);
  if (options_.seed == 0) {
    std::random_device source;
    while (options_.seed == 0) options_.seed = static_cast<std::uint64_t>(source()) << 32 | source();
  }
  // splitmix64 fills the state from the seed.
  std::uint64_t x = options_.seed;
  for (std::uint64_t& word : state_) {
    std::uint64_t z = x += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    word = z ^ z >> 31;
  }
}

std::uint64_t Sampler::seed() const { return options_.seed; }

void Sampler::saw(std::span<const TokenId> tokens) {
  seen_.insert(seen_.end(), tokens.begin(), tokens.end());
}

TokenId Sampler::choose(std::span<const float> scores) {
  if (scores.empty()) throw ValueError("[Sampler] there are no scores");
  candidates_.clear();
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (!std::isnan(scores[i])) candidates_.push_back({scores[i], static_cast<TokenId>(i)});
  if (candidates_.empty()) throw ValueError("[Sampler] all scores are NaN");
  const auto change = [&](TokenId token, const auto& f) {
    if (token < 0 || static_cast<std::size_t>(token) >= scores.size()) return;
    // Candidates are in the order of tokens; a NaN before this one shifts it.
    const auto at = std::lower_bound(candidates_.begin(), candidates_.end(), token,
                                     [](const Candidate& c, TokenId id) { return c.token < id; });
    if (at != candidates_.end() && at->token == token)
      at->score = static_cast<float>(f(static_cast<double>(at->score)));
  };
  const SamplingOptions& o = options_;
  if (o.repetition_penalty != 1 || o.frequency_penalty != 0 || o.presence_penalty != 0) {
    std::unordered_map<TokenId, int> counts;
    const auto window = std::min(seen_.size(), static_cast<std::size_t>(o.penalty_window));
    for (std::size_t i = seen_.size() - window; i < seen_.size(); ++i) ++counts[seen_[i]];
    for (const auto& [token, count] : counts)
      change(token, [&, times = count](double score) {
        const double repeated = score > 0 ? score / o.repetition_penalty : score * o.repetition_penalty;
        return repeated - o.frequency_penalty * times - o.presence_penalty;
      });
  }
  for (const auto& [token, bias] : o.bias) change(token, [add = bias](double score) { return score + add; });

  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.token < b.token;
  };
  TokenId chosen = std::min_element(candidates_.begin(), candidates_.end(), better)->token;
  if (o.temperature > 0) {
    for (Candidate& c : candidates_)
      c.score = static_cast<float>(static_cast<double>(c.score) / o.temperature);
    const auto kept =
        o.top_k > 0 ? std::min(candidates_.size(), static_cast<std::size_t>(o.top_k)) : candidates_.size();
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                      candidates_.end(), better);
    candidates_.resize(kept);
    if (o.typical_p < 1) keep_typical(candidates_);
    std::vector<double> weights;
    double total = weights_of(candidates_, weights);
    if (o.top_p < 1) {  // the fewest whose share is top_p
      double sum = 0;
      std::size_t count = 0;
      while (count < weights.size() && sum < o.top_p * total) sum += weights[count++];
      candidates_.resize(std::max<std::size_t>(1, count));
      total = weights_of(candidates_, weights);
    }
    if (o.min_p > 0) {  // those with at least min_p of the best one's probability
      std::size_t count = 1;
      while (count < weights.size() && weights[count] >= o.min_p) ++count;
      candidates_.resize(count);
      total = weights_of(candidates_, weights);
    }
    const double place = static_cast<double>(next_random(state_) >> 11) * 0x1p-53 * total;
    double sum = 0;
    chosen = candidates_.back().token;
    for (std::size_t i = 0; i < weights.size(); ++i)
      if ((sum += weights[i]) > place) {
        chosen = candidates_[i].token;
        break;
      }
  }
  seen_.push_back(chosen);
  return chosen;
}

// Those whose surprise is nearest to the expected one, until their share is typical_p; best first again.
void Sampler::keep_typical(std::vector<Candidate>& candidates) const {
  std::vector<double> weights;
  const double total = weights_of(candidates, weights);
  double entropy = 0;
  for (double& weight : weights) {
    weight /= total;
    if (weight > 0) entropy -= weight * std::log(weight);
  }
  std::vector<std::size_t> order(candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto distance = [&](std::size_t i) {
    return weights[i] > 0 ? std::abs(-std::log(weights[i]) - entropy)
                          : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  double sum = 0;
  std::size_t count = 0;
  while (count < order.size() && sum < options_.typical_p) sum += weights[order[count++]];
  order.resize(std::max<std::size_t>(1, count));
  std::sort(order.begin(), order.end());
  std::vector<Candidate> kept;
  for (const std::size_t i : order) kept.push_back(candidates[i]);
  candidates = std::move(kept);
}

}  // namespace hearth::llm
