// Measuring perplexity in windows that slide over the text.
#include "llm/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hearth/error.h"
#include "llm/log_probabilities.h"

namespace hearth::llm {
namespace {

class Total {
 public:
  void add(double value) {
    count_ += 1;
    const double before = value - mean_;
    mean_ += before / count_;
    squares_ += before * (value - mean_);
  }
  Perplexity result(std::int64_t windows) const {
    const double variance = count_ > 1 ? squares_ / (count_ - 1) : 0;
    return {mean_, std::sqrt(variance / std::max(count_, 1.0)), static_cast<std::int64_t>(count_), windows};
  }

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

}  // namespace

double Perplexity::value() const { return std::exp(mean); }

Perplexity measure_perplexity(const Model& model, std::span<const TokenId> tokens,
                              const PerplexityOptions& options,
                              const std::function<bool(const Perplexity&, std::int64_t)>& progress) {
  if (tokens.size() < 2) throw ValueError("[perplexity] a text of less than two tokens");
  const std::int64_t window = std::min(options.window, model.context());
  const std::int64_t stride = options.stride > 0 ? options.stride : window / 2;
  if (stride < 1 || stride >= window)
    throw ValueError(fmt::format("[perplexity] a stride of {} in windows of {}", stride, window));
  const bool begins = model.tokenizer().adds_bos();
  const TokenId begin_token = model.tokenizer().special().bos.value_or(0);
  Session session(model);
  Total total;
  std::int64_t windows = 0;
  // Tokens before `scored` have been scored; the first has nothing before it that it could follow from.
  for (std::size_t scored = 1; scored < tokens.size();) {
    const std::size_t size = static_cast<std::size_t>(window), fresh = static_cast<std::size_t>(stride);
    const std::size_t end = std::min(tokens.size(), scored == 1 ? size : scored + fresh);
    const std::size_t begin = end > size ? end - size : 0;
    std::vector<TokenId> seen(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                              tokens.begin() + static_cast<std::ptrdiff_t>(end));
    if (begins && begin > 0) seen[0] = begin_token;
    session.truncate(0);
    std::size_t next = scored - begin;  // in `seen`
    if (next > 1) session.feed(std::span(seen).first(next - 1));
    while (next < seen.size()) {
      const auto part = std::span(seen).subspan(next - 1, std::min(seen.size() - next, rows_at_once));
      for (const auto& scores : session.feed_all(part)) total.add(-log_probability(scores, seen[next++]));
    }
    scored = end;
    ++windows;
    if (progress && !progress(total.result(windows), static_cast<std::int64_t>(end))) break;
  }
  return total.result(windows);
}

}  // namespace hearth::llm
