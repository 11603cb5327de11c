// Sampling: scores to a token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <unordered_map>

#include "base/thread_pool.h"
#include "hearth/error.h"
#include "hearth/llm.h"
#include "llm/sampler_random.h"
#include "llm/score_rows.h"

namespace hearth::llm {
namespace {

void check(bool fine, const char* option, double value, const char* allowed) {
  if (!fine)
    throw ValueError(fmt::format("[Sampler] {} is out of range: {}; it must be {}", option, value, allowed));
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

// The best ones, as few as have the share p, in order. They are sorted bit by bit: few will do.
void keep_nucleus(Candidates& candidates, double p) {
  const double best = std::min_element(candidates.begin(), candidates.end(), better)->score;
  const auto weight = [&](const Candidate& c) { return std::exp(static_cast<double>(c.score) - best); };
  double total = 0;
  for (const Candidate& candidate : candidates) total += weight(candidate);
  double share = 0;
  std::size_t count = 0;
  for (std::size_t sorted = 256; count < candidates.size(); sorted *= 8) {
    const auto first = candidates.begin() + static_cast<std::ptrdiff_t>(count);
    sorted = std::min(sorted, candidates.size());
    std::partial_sort(first, candidates.begin() + static_cast<std::ptrdiff_t>(sorted), candidates.end(),
                      better);
    while (count < sorted && share < p) share += weight(candidates[count++]) / total;
    if (share >= p) break;
  }
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
  const auto size = candidates.size();
  if (version == 2) {
    const std::vector<double> probabilities = probabilities_of(candidates);
    const double least = std::exp2(-most_surprise);
    if (*std::max_element(probabilities.begin(), probabilities.end()) < least)
      return keep_best(candidates, 1);
    std::size_t index = 0;
    std::erase_if(candidates, [&](const Candidate&) { return probabilities[index++] < least; });
    return;
  }
  const std::size_t shown = std::min<std::size_t>(size, 100);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(shown),
                    candidates.end(), better);
  const auto above = [&](std::size_t i) {
    return static_cast<double>(candidates[i].score) - static_cast<double>(candidates[i + 1].score);
  };
  constexpr double least_logarithm = -745;  // of a probability that is not 0, relative to the best
  double products = 0, squares = 0;
  for (std::size_t i = 0; i + 1 < shown && candidates[i + 1].score - candidates[0].score > least_logarithm;
       ++i) {
    const double rank = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += rank * above(i);
    squares += rank * rank;
  }
  if (squares == 0) return;
  const double exponent = products / squares, beyond = exponent - 1, n = static_cast<double>(size);
  const double scale = beyond != 0 ? beyond / (1 - std::pow(n, -beyond)) : 1 / std::log(n);
  const double count = std::pow(scale * std::exp2(most_surprise), 1 / exponent);
  // Where the law has no answer (all are equally likely, say), none is left out.
  if (std::isfinite(count) && count < static_cast<double>(size))
    keep_best(candidates, std::max<std::size_t>(1, static_cast<std::size_t>(count)));
}

constexpr float most_score = std::numeric_limits<float>::max();

bool has_penalties(const SamplingOptions& o, std::span<const TokenId> seen) {
  return !seen.empty() && (o.repetition_penalty != 1 || o.frequency_penalty != 0 || o.presence_penalty != 0);
}

// Scores after penalties and bias: the given ones, or a copy in `changed`.
std::span<const float> penalised(std::span<const float> scores, const SamplingOptions& o,
                                 std::span<const TokenId> seen, std::vector<float>& changed) {
  const bool penalties = has_penalties(o, seen);
  if (!penalties && o.bias.empty()) return scores;
  changed.assign(scores.begin(), scores.end());
  const auto change = [&](TokenId token, const auto& f) {
    if (token < 0 || static_cast<std::size_t>(token) >= scores.size()) return;
    float& score = changed[static_cast<std::size_t>(token)];
    score = static_cast<float>(f(static_cast<double>(score)));
  };
  if (penalties) {
    std::unordered_map<TokenId, int> counts;
    for (const TokenId token : seen) ++counts[token];
    for (const auto& [token, count] : counts)
      change(token, [&, times = count](double score) {
        const double repeated = score > 0 ? score / o.repetition_penalty : score * o.repetition_penalty;
        return repeated - o.frequency_penalty * times - o.presence_penalty;
      });
  }
  for (const auto& [token, bias] : o.bias) change(token, [add = bias](double score) { return score + add; });
  return changed;
}

}  // namespace

void refuse_scores() {
  throw ValueError("[Sampler] no token can be chosen: all scores are NaN or -infinity");
}

// Scores in blocks, with the best of each: of a hundred thousand tokens, the few that matter are found
// without a look at the others. Those that cannot be chosen are in no block.
class Sampler::Blocks {
 public:
  explicit Blocks(std::span<const float> scores) : scores_(scores), size_(128) {
    own_.reserve(scores.size() / size_ + 1);
    for (std::size_t first = 0; first < scores.size(); first += size_)
      own_.push_back(best_of(scores.subspan(first, std::min(size_, scores.size() - first))));
    best_ = own_;
    find_top();
  }
  // The best of each block of so many are known, and none is NaN. Scores may come later.
  Blocks(std::span<const float> scores, std::span<const float> best, std::size_t size)
      : scores_(scores), size_(size), best_(best) {
    find_top();
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  float best() const { return top_; }

  // A score that at least so many tokens have or exceed.
  float reached_by(std::size_t count) const {
    if (count > best_.size()) return -most_score;
    std::vector<float> sorted(best_.begin(), best_.end());
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
    return std::clamp(*last, -most_score, most_score);
  }

  // Blocks that have such a score.
  std::vector<std::size_t> reaching(float least) const {
    std::vector<std::size_t> found;
    for (std::size_t block = 0; block < best_.size(); ++block)
      if (best_[block] >= least) found.push_back(block);
    return found;
  }

  // Those with at least this score, in the order of tokens.
  Candidates from(float least) const {
    Candidates found;
    for (const std::size_t block : reaching(least)) {
      const std::size_t end = std::min(scores_.size(), (block + 1) * size_);
      for (std::size_t i = block * size_; i < end; ++i)
        if (scores_[i] >= least) found.push_back({std::min(scores_[i], most_score), static_cast<TokenId>(i)});
    }
    return found;
  }

 private:
  void find_top() {
    top_ = best_of(best_);
    if (top_ < -most_score) refuse_scores();
  }

  static constexpr float none = -std::numeric_limits<float>::infinity();

  // Comparisons with NaN are false.
  static float best_of(std::span<const float> block) {
    typedef float Four __attribute__((vector_size(16)));
    const auto read = [&](std::size_t at) {
      Four some;
      std::memcpy(&some, block.data() + at, sizeof(some));
      return some;
    };
    const auto larger = [](Four x, Four y) { return x > y ? x : y; };
    Four a{none, none, none, none}, b = a, c = a, d = a;
    std::size_t i = 0;
    for (; i + 16 <= block.size(); i += 16) {
      a = larger(read(i), a);
      b = larger(read(i + 4), b);
      c = larger(read(i + 8), c);
      d = larger(read(i + 12), d);
    }
    a = larger(larger(a, b), larger(c, d));
    float most = none;
    for (int lane = 0; lane < 4; ++lane) most = a[lane] > most ? a[lane] : most;
    for (; i < block.size(); ++i) most = block[i] > most ? block[i] : most;
    return std::min(most, most_score);
  }

  std::span<const float> scores_;
  std::size_t size_;
  std::vector<float> own_;       // where nobody has given them
  std::span<const float> best_;  // of blocks
  float top_ = none;             // of all
};

namespace {

// The lowest score that can be among what remains.
float least_needed(const Sampler::Blocks& blocks, const SamplingOptions& o) {
  if (o.temperature == 0) return blocks.best();
  if (o.mirostat == 0 && o.top_k > 0) {
    // Below by what scores may be rounded to the same when they are divided by the temperature.
    const double reached = blocks.reached_by(static_cast<std::size_t>(o.top_k)), best = blocks.best();
    const double least = reached - (best - reached) * 0x1p-20 - o.temperature * 0x1p-100;
    return static_cast<float>(std::max<double>(least, -most_score));
  }
  if (o.mirostat != 0 || o.typical_p < 1 || o.top_p < 1 || o.min_p == 0) return -most_score;
  constexpr double rounding = 1e-3;
  const double least = static_cast<double>(blocks.best()) + o.temperature * (std::log(o.min_p) - rounding);
  return static_cast<float>(std::clamp<double>(least, -most_score, static_cast<double>(blocks.best())));
}

// Those that remain after all steps; in no order.
Candidates remaining(const Sampler::Blocks& blocks, const SamplingOptions& o, double most_surprise) {
  Candidates candidates = blocks.from(least_needed(blocks, o));
  if (o.temperature == 0) {
    candidates.resize(1);  // of several, the first
    return candidates;
  }
  // Relative to the best, so that the lowest temperature leaves it.
  const double best = blocks.best();
  for (Candidate& c : candidates)
    c.score = static_cast<float>(
        std::max((static_cast<double>(c.score) - best) / o.temperature, -static_cast<double>(most_score)));
  if (o.mirostat != 0) {
    keep_expected(candidates, most_surprise, o.mirostat);
    return candidates;
  }
  if (o.top_k > 0) keep_best(candidates, static_cast<std::size_t>(o.top_k));
  if (o.typical_p < 1) keep_typical(candidates, o.typical_p);
  if (o.top_p < 1) keep_nucleus(candidates, o.top_p);
  if (o.min_p > 0) keep_likely(candidates, o.min_p);
  return candidates;
}

// One of them, by their probabilities: the best score after adding noise of Gumbel's distribution is of a
// token with its probability. Each token has random numbers of its own, from `draw`.
std::size_t drawn(const Candidates& candidates, std::uint64_t draw) {
  constexpr std::size_t at_once = 64;
  std::size_t chosen = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first < candidates.size(); first += at_once) {
    const std::size_t end = std::min(candidates.size(), first + at_once);
    float best = candidates[first].score;
    for (std::size_t i = first + 1; i < end; ++i) best = std::max(best, candidates[i].score);
    // Smaller numbers make none of these the best so far; nearly all are, and need no logarithms.
    const double least = std::exp(-std::exp(static_cast<double>(best) - most)) - 1e-12;
    for (std::size_t i = first; i < end; ++i) {
      const auto bits = bits_of_token(draw, static_cast<std::uint64_t>(candidates[i].token));
      const double uniform = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
      if (uniform < least) continue;
      const double noisy = static_cast<double>(candidates[i].score) - std::log(-std::log(uniform));
      if (noisy > most) most = noisy, chosen = i;
    }
  }
  return chosen;
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options)
    : options_(options), most_surprise_(2 * options.mirostat_target) {
  const SamplingOptions& o = options;
  const char* const number = "a number";
  const char* const positive = "more than 0";
  const char* const not_negative = "0 or more";
  const char* const part = "more than 0 and at most 1";
  check(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "repetition_penalty",
        o.repetition_penalty, positive);
  check(std::isfinite(o.frequency_penalty), "frequency_penalty", o.frequency_penalty, number);
  check(std::isfinite(o.presence_penalty), "presence_penalty", o.presence_penalty, number);
  check(o.penalty_window >= 0, "penalty_window", static_cast<double>(o.penalty_window), not_negative);
  for (const auto& [token, bias] : o.bias)
    check(token >= 0 && !std::isnan(bias), "bias", token < 0 ? static_cast<double>(token) : bias,
          "a number for a token");
  check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature, not_negative);
  check(o.top_k >= 0, "top_k", static_cast<double>(o.top_k), not_negative);
  check(o.typical_p > 0 && o.typical_p <= 1, "typical_p", o.typical_p, part);
  check(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p, part);
  check(o.min_p >= 0 && o.min_p < 1, "min_p", o.min_p, "from 0 on and less than 1");
  check(o.mirostat >= 0 && o.mirostat <= 2, "mirostat", o.mirostat, "0, 1 or 2");
  check(o.mirostat_target > 0 && std::isfinite(o.mirostat_target), "mirostat_target", o.mirostat_target,
        positive);
  check(o.mirostat_rate > 0 && std::isfinite(o.mirostat_rate), "mirostat_rate", o.mirostat_rate, positive);
  if (options_.seed == 0) {
    std::random_device source;
    while (options_.seed == 0) options_.seed = static_cast<std::uint64_t>(source()) << 32 | source();
  }
  std::uint64_t x = options_.seed;
  for (std::uint64_t& word : random_) word = mixed(x += golden);
}

std::uint64_t Sampler::seed() const { return options_.seed; }

void Sampler::saw(std::span<const TokenId> tokens) {
  seen_.insert(seen_.end(), tokens.begin(), tokens.end());
  const auto window = static_cast<std::size_t>(options_.penalty_window);
  if (seen_.size() > window) seen_.erase(seen_.begin(), seen_.end() - static_cast<std::ptrdiff_t>(window));
}

std::vector<TokenProbability> Sampler::distribution(std::span<const float> scores) const {
  std::vector<float> changed;
  Candidates candidates =
      remaining(Blocks(penalised(scores, options_, seen_, changed)), options_, most_surprise_);
  sort(candidates);
  const std::vector<double> probabilities = probabilities_of(candidates);
  std::vector<TokenProbability> result;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    result.push_back({candidates[i].token, probabilities[i]});
  return result;
}

bool Sampler::takes_best() const {
  const SamplingOptions& o = options_;
  return o.temperature == 0 && o.bias.empty() && o.repetition_penalty == 1 && o.frequency_penalty == 0 &&
         o.presence_penalty == 0;
}

bool Sampler::changes_scores() const { return has_penalties(options_, seen_) || !options_.bias.empty(); }

TokenId Sampler::choose(std::span<const float> scores) {
  std::vector<float> changed;
  return choose(Blocks(penalised(scores, options_, seen_, changed)));
}

TokenId Sampler::choose(const Blocks& blocks) {
  const Candidates candidates = remaining(blocks, options_, most_surprise_);
  const std::size_t chosen = drawn(candidates, next_random(random_));
  if (options_.mirostat != 0 && options_.temperature > 0) {
    const double surprise = -std::log2(probabilities_of(candidates)[chosen]);
    most_surprise_ -= options_.mirostat_rate * (surprise - options_.mirostat_target);
  }
  const TokenId token = candidates[chosen].token;
  saw({&token, 1});
  return token;
}

std::vector<std::optional<TokenId>> choose_together(std::span<Sampler* const> samplers,
                                                    const ScoreRows& rows) {
  if (samplers.size() != rows.size())
    throw ValueError(
        fmt::format("[Sampler] {} samplers for {} rows of scores", samplers.size(), rows.size()));
  std::vector<std::optional<TokenId>> chosen(samplers.size());
  if (samplers.empty()) return chosen;
  ScoreRows::State& state = *rows.state();
  const auto for_each_row = [&](const auto& work) {
    constexpr std::int64_t few = 4;  // sooner done than other threads wake up
    parallel_for(static_cast<std::int64_t>(samplers.size()), few, [&](std::int64_t begin, std::int64_t end) {
      for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) try {
          if (samplers[row] != nullptr) work(row);
        } catch (const ValueError&) {  // none can be chosen
        }
    });
  };
  // What each looks at: some blocks, or all.
  std::vector<std::optional<Sampler::Blocks>> seen(samplers.size());
  if (state.blocks() > 0) {
    std::vector<std::vector<std::size_t>> found(samplers.size());
    for_each_row([&](std::size_t row) {
      const auto best = state.best(row);
      if (samplers[row]->changes_scores() ||
          std::any_of(best.begin(), best.end(), [](float score) { return std::isnan(score); }))
        return;
      seen[row].emplace(state.brought(row), best, state.block_size());
      found[row] = seen[row]->reaching(least_needed(*seen[row], samplers[row]->options_));
      if (2 * found[row].size() > state.blocks()) seen[row].reset();
    });
    std::vector<std::size_t> whole;
    std::vector<ScoreRows::State::Place> places;
    for (std::size_t row = 0; row < samplers.size(); ++row) {
      if (samplers[row] != nullptr && !seen[row]) whole.push_back(row);
      if (seen[row])
        for (const std::size_t block : found[row]) places.push_back({row, block});
    }
    state.bring(whole, places);
  }
  for_each_row([&](std::size_t row) {
    chosen[row] = seen[row] ? samplers[row]->choose(*seen[row]) : samplers[row]->choose(state.brought(row));
  });
  return chosen;
}

}  // namespace hearth::llm
