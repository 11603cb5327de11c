// Guessing tokens: by what came before, and with a model.
#include "llm/drafter.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"
#include "llm/continuation.h"
#include "llm/model.h"

namespace hearth::llm {

std::vector<TokenId> look_up(std::span<const TokenId> text, std::size_t most, std::size_t count) {
  const std::size_t least = std::min<std::size_t>(most, 2);
  for (std::size_t size = std::min(most, text.size() - 1); size >= least && size > 0; --size) {
    const auto pattern = text.last(size);
    // The match ends before the last token, and something follows it.
    for (std::size_t end = text.size() - 1; end >= size; --end)
      if (std::equal(pattern.begin(), pattern.end(),
                     text.begin() + static_cast<std::ptrdiff_t>(end - size))) {
        const auto found = text.subspan(end, std::min(count, text.size() - end));
        return {found.begin(), found.end()};
      }
  }
  return {};
}

DraftModel::DraftModel(const Model& draft, const Model::State& of)
    : model_(draft),
      session_(draft),
      tokens_(std::min(draft.tokenizer().size(), of.tokenizer_or_throw().size())) {
  const Tokenizer &own = draft.tokenizer(), &other = of.tokenizer_or_throw();
  bool same = true;
  for (TokenId token = 0; same && token < tokens_; ++token) same = own.text(token) == other.text(token);
  if (!same)
    throw ValueError(fmt::format("[Session] the draft model {} has other tokens than {}", draft.config().name,
                                 of.config.name));
}

std::vector<TokenId> DraftModel::guess(std::span<const TokenId> text, Sampler sampler, std::size_t count) {
  const std::vector<TokenId>& seen = session_.tokens();
  const std::size_t same = common_prefix(seen, text.first(text.size() - 1));
  const auto room = static_cast<std::size_t>(model_.context());
  const auto is_shared = [&](TokenId token) { return token < tokens_; };
  if (text.size() > room || !std::ranges::all_of(text.subspan(same), is_shared)) return {};
  count = std::min(count, room - text.size() + 1);
  session_.truncate(static_cast<std::int64_t>(same));
  std::vector<TokenId> guesses;
  std::vector<float> scores;
  while (guesses.size() < count) {
    scores = guesses.empty() ? session_.feed(text.subspan(same)) : session_.feed({&guesses.back(), 1});
    const TokenId next = sampler.choose(scores);
    if (!is_shared(next)) break;
    guesses.push_back(next);
  }
  return guesses;
}

}  // namespace hearth::llm
