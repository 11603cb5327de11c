// Generating text: tokens are chosen by their scores, one after the other, until something ends it.
#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "llm/continuation.h"
#include "llm/log_probabilities.h"
#include "llm/score_rows.h"
#include "llm/session.h"

namespace hearth::llm {
std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::end:
      return "end";
    case FinishReason::length:
      return "length";
    case FinishReason::stop:
      return "stop";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      break;
  }
  return "cancelled";
}

GenerateResult Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                 const std::function<bool(const Generated&)>& each) {
  const std::int64_t context = state_->model->context;
  check_generation(options, prompt, *state_->model);
  const Tokenizer& tokenizer = state_->model->tokenizer_or_throw();
  grammar::TokenMask* mask = nullptr;
  if (options.grammar) {
    if (!state_->mask || &state_->mask->grammar().automaton() != &options.grammar->automaton())
      state_->mask = std::make_unique<grammar::TokenMask>(*options.grammar, tokenizer);
    mask = state_->mask.get();
  }
  Continuation text(tokenizer, prompt, options, mask, each ? Continuation::Each(std::cref(each)) : nullptr);
  if (options.draft && !(state_->draft && state_->draft->is(*options.draft)))
    state_->draft = std::make_unique<DraftModel>(*options.draft, *state_->model);
  GenerateResult& result = text.result();

  // Of what the cache has, keep what the prompt begins with; the last token of the prompt is always run.
  const std::vector<TokenId>& seen = state_->sequence.tokens;
  const std::size_t same = options.score_prompt ? 0 : common_prefix(seen, prompt.first(prompt.size() - 1));
  truncate(static_cast<std::int64_t>(same));
  result.reused_tokens = static_cast<std::int64_t>(same);
  auto start = Clock::now();
  const auto scores_after = [&](std::span<const TokenId> tokens, std::size_t wanted,
                                std::span<const Sampler* const> samplers = {}) {
    const Piece piece{&state_->sequence, tokens, static_cast<std::int64_t>(wanted)};
    return state_->model->append_together({&piece, 1}, samplers, !text.has_all());
  };
  const auto goes_on = [&] {
    return !options.reading ||
           options.reading(static_cast<std::int64_t>(seen.size()), static_cast<std::int64_t>(prompt.size()));
  };
  const auto cancel = [&] {
    result.reason = FinishReason::cancelled;
    result.prompt_tokens = static_cast<std::int64_t>(seen.size());
    result.prompt_seconds = seconds_since(start);
    return std::move(result);
  };
  if (options.score_prompt)
    while (seen.size() + 1 < prompt.size()) {
      if (!goes_on()) return cancel();
      const auto left = prompt.subspan(seen.size());
      text.score_prompt(feed_all(left.first(std::min(rows_at_once, left.size() - 1))), left.subspan(1));
    }
  // The pieces in which the model would take it anyway.
  if (const auto piece = static_cast<std::size_t>(state_->model->chunk_size()); options.reading) try {
      while (prompt.size() - seen.size() > piece) {
        if (!goes_on()) return cancel();
        state_->model->append(state_->sequence, prompt.subspan(seen.size(), piece), 0, Output::scores);
      }
    } catch (...) {  // a prompt is appended whole or not at all
      truncate(static_cast<std::int64_t>(same));
      throw;
    }
  ScoreRows rows = scores_after(prompt.subspan(seen.size()), 1);
  result.prompt_seconds = seconds_since(start);

  start = Clock::now();
  // Guesses of what follows `token`, as many as there is room and use for.
  const auto guess = [&](TokenId token) -> std::vector<TokenId> {
    std::int64_t most = std::min(options.most_drafted, context - static_cast<std::int64_t>(seen.size()) - 1);
    if (options.most_tokens >= 0)
      most = std::min(most, options.most_tokens - static_cast<std::int64_t>(result.tokens.size()) - 1);
    if (most <= 0 || (!options.draft && options.lookup == 0)) return {};
    std::vector<TokenId> so_far = seen;
    so_far.push_back(token);
    std::vector<TokenId> guesses;
    if (options.lookup > 0)
      guesses = look_up(so_far, static_cast<std::size_t>(options.lookup), static_cast<std::size_t>(most));
    if (guesses.empty() && options.draft)
      guesses = state_->draft->guess(so_far, text.sampler(), static_cast<std::size_t>(most));
    return guesses;
  };

  // rows[i] are the scores after guesses[0 .. i - 1], which are in the cache; `next` of them were right.
  std::vector<TokenId> guesses;
  std::size_t next = 0;
  const auto forget_wrong = [&] {
    if (next < guesses.size()) truncate(static_cast<std::int64_t>(seen.size() - (guesses.size() - next)));
  };
  // Without guesses a GPU need not wait to be told the next token, least where it is the best each time.
  const bool one_by_one = !options.draft && options.lookup == 0, best_only = one_by_one && text.takes_best();
  const Sampler* const sampler = &text.sampler();
  const auto append_for_best = [&](TokenId token) {
    const Piece piece{&state_->sequence, {&token, 1}, 1};
    const auto best = state_->model->append_for_best({&piece, 1}, !text.has_all())[0];
    if (best)
      text.chose(*best);
    else if (!text.has_all())
      refuse_scores();
  };
  const auto advance = [&] {
    if (rows.empty()) return text.advance({});
    if (Sampler* const chooser = text.chooser()) {
      std::vector<Sampler*> choosers(rows.size(), nullptr);
      choosers[next] = chooser;
      if (const auto chosen = choose_together(choosers, rows)[next]) {
        text.chose(*chosen);
        return text.advance({});
      }
    }
    return text.advance(text.has_all() ? std::span<const float>() : rows[next]);
  };
  while (const std::optional<TokenId> token = advance()) {
    if (next < guesses.size() && guesses[next] == *token) {
      ++next;
      ++result.accepted_tokens;
      continue;
    }
    forget_wrong();
    if (static_cast<std::int64_t>(seen.size()) == context) {
      if (options.keep < 0) {
        result.reason = FinishReason::context;
        guesses.clear(), next = 0;
        break;
      }
      shift(options.keep);
      ++result.shifts;
    }
    rows = {};  // so that its memory is used again
    if (best_only) {
      append_for_best(*token);
      continue;
    }
    guesses = guess(*token);
    next = 0;
    result.drafted_tokens += static_cast<std::int64_t>(guesses.size());
    std::vector<TokenId> fed{*token};
    fed.insert(fed.end(), guesses.begin(), guesses.end());
    rows = scores_after(
        fed, fed.size(),
        one_by_one ? std::span<const Sampler* const>(&sampler, 1) : std::span<const Sampler* const>());
  }
  forget_wrong();
  text.finish();
  result.generate_seconds = seconds_since(start);
  return std::move(result);
}

}  // namespace hearth::llm
