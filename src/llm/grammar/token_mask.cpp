// Masks of tokens.
#include "llm/grammar/token_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "hearth/error.h"

namespace hearth::llm::grammar {
namespace {

constexpr std::size_t most_remembered = std::size_t{64} << 20;  // bytes of masks
// For a token, which is some tenths of a second: a node of a trie that is looked at takes 1, a token that is
// put into a new one 8.
constexpr std::size_t most_work = std::size_t{1} << 25, work_per_open_token = 8;

// Tokens that are text. Others are never part of a grammar's text.
std::vector<TokenId> texts_of(const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < tokenizer.size(); ++token)
    if (!tokenizer.is_special(token) && !tokenizer.ends_generation(token) && !tokenizer.bytes(token).empty())
      tokens.push_back(token);
  return tokens;
}

void set(std::vector<std::uint64_t>& bits, TokenId token) {
  bits[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << token % 64;
}

// Walks along the nodes that can be reached from `start`. `found(token, place)` is called for the tokens
// there, `lost(tokens)` for those that begin with a node that leads nowhere.
template <class Found, class Lost>
void walk(const TokenTrie& trie, Matcher& matcher, Place start, const Found& found, const Lost& lost) {
  std::vector<Place> places{start};  // by depth
  const auto nodes = trie.nodes();
  const auto tokens = trie.tokens();
  std::size_t steps = 0;
  for (std::size_t i = 0; i < nodes.size(); ++steps) {
    const TokenTrie::Node& node = nodes[i];
    const auto depth = static_cast<std::size_t>(node.depth);
    places.resize(depth + 1);
    const Place place = matcher.step(places[depth], node.byte);
    const auto part = [&](std::int32_t first, std::int32_t last) {
      return tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    };
    if (place == nowhere) {
      lost(std::span<const Place>(places), part(node.first_token, node.tokens_end));
      i = static_cast<std::size_t>(node.end);
      continue;
    }
    for (const TokenId token : part(node.first_token, node.last_token)) found(token);
    places.push_back(place);
    ++i;
  }
  matcher.spend(steps);
}

}  // namespace

TokenMask::TokenMask(const Grammar& grammar, const Tokenizer& tokenizer)
    : grammar_(grammar),
      tokenizer_(tokenizer),
      trie_(texts_of(tokenizer), [&](TokenId token) { return tokenizer.bytes(token); }),
      matcher_(grammar_.automaton()),
      place_(matcher_.start()) {
  for (TokenId token = 0; token < tokenizer.size(); ++token)
    if (tokenizer.ends_generation(token)) ends_.push_back(token);
}

void TokenMask::restart() { place_ = matcher_.start(); }

const TokenMask::Decided& TokenMask::decided(std::int32_t state) {
  const auto known = decided_.find(state);
  if (known != decided_.end()) return known->second;
  const std::size_t words = (static_cast<std::size_t>(tokenizer_.size()) + 63) / 64;
  if (decided_.size() * words * 8 > most_remembered) decided_.clear();
  Bits bits(words);
  std::vector<TokenId> open;
  walk(
      trie_, matcher_, matcher_.lonely(state), [&](TokenId token) { set(bits, token); },
      [&](std::span<const Place> places, std::span<const TokenId> tokens) {
        bool left = false;  // a beginning of these may be all of the rule
        for (std::size_t depth = 1; depth < places.size(); ++depth)
          left = left || matcher_.leaves(places[depth]);
        if (left) open.insert(open.end(), tokens.begin(), tokens.end());
      });
  matcher_.spend(work_per_open_token * open.size());
  TokenTrie trie(std::move(open), [&](TokenId token) { return tokenizer_.bytes(token); });
  return decided_.emplace(state, Decided{std::move(bits), std::move(trie)}).first->second;
}

TokenMask::Bits TokenMask::allowed() {
  place_ = matcher_.forget_all_but(place_);
  matcher_.allow_work(most_work);
  Bits bits((static_cast<std::size_t>(tokenizer_.size()) + 63) / 64);
  // By state: a state in several calls is looked at once.
  std::int32_t last = -1;
  const std::vector<Configuration> configurations = matcher_.configurations(place_);
  for (const Configuration& configuration : configurations) {
    if (configuration.state == last) continue;
    last = configuration.state;
    const Decided& d = decided(last);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] |= d.allowed[i];
    walk(
        d.open, matcher_, place_, [&](TokenId token) { set(bits, token); },
        [](std::span<const Place>, std::span<const TokenId>) {});
  }
  if (matcher_.may_end(place_))
    for (const TokenId token : ends_) set(bits, token);
  return bits;
}

void TokenMask::apply(std::span<float> scores) {
  const Bits bits = allowed();
  if (std::all_of(bits.begin(), bits.end(), [](std::uint64_t word) { return word == 0; }))
    throw Error("[grammar] the text has to go on, but the model has no token that it may go on with");
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (i / 64 >= bits.size() || (bits[i / 64] >> i % 64 & 1) == 0)
      scores[i] = -std::numeric_limits<float>::infinity();
}

void TokenMask::push(TokenId token) { push(tokenizer_.bytes(token)); }

void TokenMask::push(std::string_view text) {
  matcher_.allow_work(most_work);
  const Place next = matcher_.step(place_, text);
  if (next == nowhere) throw Error(fmt::format("[grammar] '{}' may not come here", text));
  place_ = next;
}

bool TokenMask::complete() const { return !matcher_.may_go_on(place_); }

}  // namespace hearth::llm::grammar
