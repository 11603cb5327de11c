// Logarithms of probabilities.
#include "llm/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth::llm {
namespace {

double log_sum(std::span<const float> scores) {
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float score : scores) sum += std::exp(score - most);
  return std::log(sum) + most;
}

}  // namespace

double log_probability(std::span<const float> scores, TokenId token) {
  return scores[static_cast<std::size_t>(token)] - log_sum(scores);
}

LogProbabilities log_probabilities(std::span<const float> scores, TokenId chosen, std::size_t best) {
  const double sum = log_sum(scores);
  const auto of = [&](TokenId token) {
    return TokenLogProbability{token, scores[static_cast<std::size_t>(token)] - sum};
  };
  std::vector<TokenId> order;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > -std::numeric_limits<float>::infinity()) order.push_back(static_cast<TokenId>(i));
  best = std::min(best, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(best), order.end(),
                    [&](TokenId a, TokenId b) {
                      const float left = scores[static_cast<std::size_t>(a)],
                                  right = scores[static_cast<std::size_t>(b)];
                      return left != right ? left > right : a < b;
                    });
  LogProbabilities result{of(chosen), {}};
  for (std::size_t i = 0; i < best; ++i) result.best.push_back(of(order[i]));
  return result;
}

}  // namespace hearth::llm
