// Which tokens may come next by a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hearth/grammar.h"
#include "hearth/tokenizer.h"
#include "llm/grammar/matcher.h"
#include "llm/grammar/token_trie.h"

namespace hearth::llm::grammar {

// Follows a text of tokens. Where a state of the automaton is, most tokens are decided by the state alone,
// whatever calls it is in; that is remembered. The few tokens that may leave the rule are tried each time.
class TokenMask {
 public:
  TokenMask(const Grammar& grammar, const Tokenizer& tokenizer);

  const Grammar& grammar() const { return grammar_; }
  void restart();
  // Puts -infinity in the places of tokens that may not come next. Tokens that end a generation may come
  // where the text may end. Throws Error where the grammar is so ambiguous that it would take long.
  void apply(std::span<float> scores);
  // Throws Error for a token that may not come.
  void push(TokenId token);
  void push(std::string_view text);
  // The text is whole, and nothing can follow.
  bool complete() const;

 private:
  using Bits = std::vector<std::uint64_t>;
  struct Decided {
    Bits allowed;
    TokenTrie open;  // tokens that depend on the calls
  };
  const Decided& decided(std::int32_t state);
  Bits allowed();

  Grammar grammar_;
  Tokenizer tokenizer_;
  TokenTrie trie_;
  Matcher matcher_;
  Place place_;
  std::unordered_map<std::int32_t, Decided> decided_;
  std::vector<TokenId> ends_;  // tokens that end a generation
};

}  // namespace hearth::llm::grammar
