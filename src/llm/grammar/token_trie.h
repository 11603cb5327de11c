// The tokens of a vocabulary by their bytes, so that what tokens have in common is looked at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "hearth/tokenizer.h"

namespace hearth::llm::grammar {

class TokenTrie {
 public:
  struct Node {
    std::uint8_t byte;
    std::int32_t depth;                    // bytes before this one
    std::int32_t end;                      // the first node that does not begin with this one
    std::int32_t first_token, last_token;  // in tokens(): those that end here
    std::int32_t tokens_end;               // in tokens(): the end of those that begin with this
  };

  // `bytes(token)` gives the bytes of a token, which are not empty.
  template <class Bytes>
  TokenTrie(std::vector<TokenId> tokens, const Bytes& bytes) {
    std::vector<std::pair<std::string_view, TokenId>> sorted;
    for (const TokenId token : tokens) sorted.emplace_back(bytes(token), token);
    fill(std::move(sorted));
  }

  // Each node comes before those that begin with it.
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const TokenId> tokens() const { return tokens_; }

 private:
  void fill(std::vector<std::pair<std::string_view, TokenId>> sorted);

  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // in the order of their bytes
};

}  // namespace hearth::llm::grammar
