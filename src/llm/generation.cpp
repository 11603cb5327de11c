// Generating text: tokens are chosen by their scores, one after the other, until something ends it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "hearth/error.h"
#include "llm/log_probabilities.h"
#include "llm/session.h"
#include "llm/stop_texts.h"

namespace hearth::llm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto size = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.begin() + size, b.begin()).first - a.begin());
}

void check(const GenerateOptions& options, std::span<const TokenId> prompt, std::int64_t context) {
  if (prompt.empty()) throw ValueError("[Session] generate() needs at least one token");
  if (options.lookup < 0 || options.most_drafted < 0)
    throw ValueError(fmt::format("[Session] lookup {} and most_drafted {} must not be negative",
                                 options.lookup, options.most_drafted));
  if (options.keep > context - 2)
    throw ValueError(fmt::format("[Session] nothing can be dropped if {} tokens of a context of {} are kept",
                                 options.keep, context));
}

}  // namespace

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
                                 const std::function<bool(TokenId, std::string_view)>& each) {
  const std::int64_t context = state_->model->context;
  check(options, prompt, context);
  const Tokenizer& tokenizer = state_->model->tokenizer_or_throw();
  Sampler sampler(options.sampling);
  sampler.saw(prompt);
  grammar::TokenMask* mask = nullptr;
  if (options.grammar) {
    if (!state_->mask || &state_->mask->grammar().automaton() != &options.grammar->automaton())
      state_->mask = std::make_unique<grammar::TokenMask>(*options.grammar, tokenizer);
    mask = state_->mask.get();
    mask->restart();
  }
  if (options.draft && !(state_->draft && state_->draft->is(*options.draft)))
    state_->draft = std::make_unique<DraftModel>(*options.draft, *state_->model);
  GenerateResult result;
  result.prompt_tokens = static_cast<std::int64_t>(prompt.size());

  // Of what the cache has, keep what the prompt begins with; the last token of the prompt is always run.
  const std::vector<TokenId>& seen = state_->sequence.tokens;
  const std::size_t same = common_prefix(seen, prompt.first(prompt.size() - 1));
  truncate(static_cast<std::int64_t>(same));
  result.reused_tokens = static_cast<std::int64_t>(same);
  auto start = Clock::now();
  std::vector<std::vector<float>> rows{feed(prompt.subspan(same))};
  result.prompt_seconds = seconds_since(start);

  start = Clock::now();
  StreamDecoder decoder(tokenizer, {.skip_special = true});
  decoder.push(prompt.back());  // what follows is not the beginning of a text: it keeps its space
  StopTexts stops(options.stop);
  const auto give = [&](TokenId token, const std::string& text) {
    result.text += text;
    return !each || each(token, text);
  };
  const auto choose = [&](std::vector<float>& scores) {
    if (!mask) return sampler.choose(scores);
    std::vector<float> masked = scores;
    mask->apply(masked);
    return sampler.choose(masked);
  };
  // Guesses of what follows `token`, as many as there is room and use for.
  const auto guess = [&](TokenId token) -> std::vector<TokenId> {
    std::int64_t most = std::min(options.most_drafted, context - static_cast<std::int64_t>(seen.size()) - 1);
    if (options.most_tokens >= 0)
      most = std::min(most, options.most_tokens - static_cast<std::int64_t>(result.tokens.size()) - 1);
    if (most <= 0 || (!options.draft && options.lookup == 0)) return {};
    std::vector<TokenId> text = seen;
    text.push_back(token);
    std::vector<TokenId> guesses;
    if (options.lookup > 0)
      guesses = look_up(text, static_cast<std::size_t>(options.lookup), static_cast<std::size_t>(most));
    if (guesses.empty() && options.draft)
      guesses = state_->draft->guess(text, sampler, static_cast<std::size_t>(most));
    return guesses;
  };

  // rows[i] are the scores after guesses[0 .. i - 1], which are in the cache; `next` of them were right.
  std::vector<TokenId> guesses;
  std::size_t next = 0;
  const auto forget_wrong = [&] {
    truncate(static_cast<std::int64_t>(seen.size() - (guesses.size() - next)));
  };
  for (;;) {
    if (options.most_tokens >= 0 && static_cast<std::int64_t>(result.tokens.size()) >= options.most_tokens) {
      result.reason = FinishReason::length;
      break;
    }
    const TokenId token = choose(rows[next]);
    if (tokenizer.ends_generation(token) && (!options.ignore_end || mask)) {
      result.reason = FinishReason::end;
      break;
    }
    if (mask) mask->push(token);
    result.tokens.push_back(token);
    if (options.best_log_probabilities >= 0)
      result.log_probabilities.push_back(
          log_probabilities(rows[next], token, static_cast<std::size_t>(options.best_log_probabilities)));
    const std::string text = stops.push(decoder.push(token));
    if (!give(token, text)) {
      result.reason = FinishReason::cancelled;
      break;
    }
    if (stops.found()) {
      result.reason = FinishReason::stop;
      break;
    }
    if (mask && mask->complete()) {
      result.reason = FinishReason::end;
      break;
    }
    if (next < guesses.size() && guesses[next] == token) {
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
    guesses = guess(token);
    next = 0;
    result.drafted_tokens += static_cast<std::int64_t>(guesses.size());
    std::vector<TokenId> fed{token};
    fed.insert(fed.end(), guesses.begin(), guesses.end());
    rows = feed_all(fed);
  }
  forget_wrong();
  if (result.reason != FinishReason::cancelled && !stops.found()) {
    const std::string rest = stops.push(decoder.finish()) + stops.finish();
    if (!rest.empty()) give(result.tokens.empty() ? TokenId{-1} : result.tokens.back(), rest);
  }
  result.generate_seconds = seconds_since(start);
  return result;
}

}  // namespace hearth::llm
