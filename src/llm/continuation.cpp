// Choosing tokens and giving their text away.
#include "llm/continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hearth/error.h"
#include "llm/log_probabilities.h"

namespace hearth::llm {

void check_generation(const GenerateOptions& options, std::span<const TokenId> prompt,
                      const Model::State& model) {
  if (prompt.empty()) throw ValueError("[Session] generate() needs at least one token");
  model.check(prompt);
  const std::int32_t tokens = model.tokenizer_or_throw().size();
  const auto check_token = [&](TokenId token, const char* where) {
    if (token >= tokens)
      throw ValueError(
          fmt::format("[Session] token {} {}, but the tokenizer has {} tokens", token, where, tokens));
  };
  for (const TokenId token : prompt) check_token(token, "is in the prompt");
  for (const auto& [token, bias] : options.sampling.bias) check_token(token, "has a bias");
  if (options.lookup < 0 || options.most_drafted < 0)
    throw ValueError(fmt::format("[Session] lookup {} and most_drafted {} must not be negative",
                                 options.lookup, options.most_drafted));
  if (options.keep > model.context - 2)
    throw ValueError(fmt::format("[Session] nothing can be dropped if {} tokens of a context of {} are kept",
                                 options.keep, model.context));
}

std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto size = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + size, b.begin()).first - a.begin());
}

Continuation::Continuation(const Tokenizer& tokenizer, std::span<const TokenId> prompt,
                           const GenerateOptions& options, grammar::TokenMask* mask, Each each)
    : tokenizer_(tokenizer),
      options_(options),
      mask_(mask),
      is_free_(mask != nullptr && !options.grammar_after.empty()),
      each_(std::move(each)),
      sampler_(options.sampling),
      decoder_(tokenizer, {.skip_special = !options.special_text}),
      stops_(options.stop) {
  sampler_.saw(prompt);
  decoder_.push(prompt.back());  // what follows is not the beginning of a text: it keeps its space
  if (mask_) mask_->restart();
  result_.prompt_tokens = static_cast<std::int64_t>(prompt.size());
}

std::optional<TokenId> Continuation::advance(std::span<const float> scores) {
  if (has_all()) return end(FinishReason::length);
  const TokenId token = prepared_ ? *std::exchange(prepared_, std::nullopt) : choose(scores);
  if (tokenizer_.ends_generation(token) && (!options_.ignore_end || holding())) return end(FinishReason::end);
  const std::string piece = decoder_.push(token);
  if (is_free_)
    look_for_mark(piece);
  else if (mask_)
    mask_->push(token);
  result_.tokens.push_back(token);
  const LogProbabilities* own = nullptr;
  if (options_.best_log_probabilities >= 0)
    own = &result_.log_probabilities.emplace_back(
        log_probabilities(scores, token, static_cast<std::size_t>(options_.best_log_probabilities)));
  if (!give({token, stops_.push(piece), own})) return end(FinishReason::cancelled);
  if (stops_.found()) return end(FinishReason::stop);
  if (holding() && mask_->complete()) return end(FinishReason::end);
  return token;
}

void Continuation::score_prompt(std::span<const std::vector<float>> rows,
                                std::span<const TokenId> following) {
  const std::int64_t best = std::max<std::int64_t>(options_.best_log_probabilities, 0);
  for (std::size_t i = 0; i < std::min(rows.size(), following.size()); ++i)
    result_.prompt_log_probabilities.push_back(
        log_probabilities(rows[i], following[i], static_cast<std::size_t>(best)));
}

void Continuation::prepare(std::span<const float> scores) noexcept {
  try {
    if (!has_all()) prepared_ = choose(scores);
  } catch (...) {
  }
}

Sampler* Continuation::chooser() {
  return holding() != nullptr || options_.best_log_probabilities >= 0 || has_all() ? nullptr : &sampler_;
}

bool Continuation::takes_best() const {
  return mask_ == nullptr && options_.best_log_probabilities < 0 && sampler_.takes_best();
}

bool Continuation::has_all() const {
  return options_.most_tokens >= 0 &&
         static_cast<std::int64_t>(result_.tokens.size()) >= options_.most_tokens;
}

void Continuation::finish() {
  if (result_.reason == FinishReason::cancelled || stops_.found()) return;
  const std::string rest = stops_.push(decoder_.finish()) + stops_.finish();
  if (!rest.empty()) give({result_.tokens.empty() ? TokenId{-1} : result_.tokens.back(), rest});
}

TokenId Continuation::choose(std::span<const float> scores) {
  if (!holding()) return sampler_.choose(scores);
  std::vector<float> masked(scores.begin(), scores.end());
  mask_->apply(masked);
  return sampler_.choose(masked);
}

void Continuation::look_for_mark(std::string_view piece) {
  const std::string& mark = options_.grammar_after;
  free_ += piece;
  const auto at = free_.find(mark);
  if (at == std::string::npos) {
    if (free_.size() >= mark.size()) free_.erase(0, free_.size() - mark.size() + 1);
    return;
  }
  is_free_ = false;
  // White space behind it, where a token has both, is no part of what follows.
  const auto first = free_.find_first_not_of(" \t\r\n", at + mark.size());
  if (first != std::string::npos) mask_->push(std::string_view(free_).substr(first));
}

bool Continuation::give(const Generated& next) {
  result_.text += next.text;
  return !each_ || each_(next);
}

std::optional<TokenId> Continuation::end(FinishReason reason) {
  result_.reason = reason;
  return std::nullopt;
}

}  // namespace hearth::llm
