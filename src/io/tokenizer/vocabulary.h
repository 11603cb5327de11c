// Tokens by id and by text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/definition.h"
#include "io/tokenizer/text_index.h"

namespace hearth::tokenizer {

class Vocabulary {
 public:
  // Throws FormatError when two tokens have the same text, a score is not a number, or there are no tokens.
  Vocabulary(std::vector<Token> tokens, std::string_view source);

  TokenId size() const { return static_cast<TokenId>(tokens_.size()); }
  const Token& operator[](TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::optional<TokenId> find(std::string_view text) const {
    return text.empty() ? std::nullopt : ids_.find(text);
  }

 private:
  std::vector<Token> tokens_;
  TextIndex ids_;
};

}  // namespace hearth::tokenizer
