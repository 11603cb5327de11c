// Finds tokens that stand in the text as such ("<|im_end|>") and cuts the text there.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tokenizer/trie.h"
#include "io/tokenizer/vocabulary.h"

namespace hearth::tokenizer {

// Part of a text: a token, or (token < 0) what is still to be encoded.
struct Fragment {
  std::string_view text;
  TokenId token = -1;
};

class TokenSearch {
 public:
  // Looks for the texts, which stand for the tokens of `vocabulary` beside them.
  TokenSearch(const Vocabulary& vocabulary, const std::vector<std::pair<std::string, TokenId>>& texts);

  // The fragments of `text`, none of them empty. At each place the longest token is taken. Without `special`,
  // tokens that are not user-defined are left as text.
  void cut(std::string_view text, bool special, std::vector<Fragment>& fragments) const;

 private:
  TokenId longest(std::string_view text, std::size_t position, bool special, std::size_t& size) const;

  const Vocabulary& vocabulary_;
  Trie trie_;
  std::array<bool, 256> first_bytes_{};
  bool any_ = false, any_user_defined_ = false;
};

}  // namespace hearth::tokenizer
