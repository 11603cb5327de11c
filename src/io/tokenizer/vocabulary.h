// Tokens by id and by text.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

// "<0x0A>": a byte in vocabularies of characters.
std::string byte_token_text(int byte);
std::optional<char> byte_of_token_text(std::string_view text);

class Vocabulary {
 public:
  // Throws FormatError when two tokens have the same text, or when there are none.
  Vocabulary(std::vector<Token> tokens, std::string_view source);

  TokenId size() const { return static_cast<TokenId>(tokens_.size()); }
  const Token& operator[](TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::optional<TokenId> find(std::string_view text) const;

 private:
  std::vector<Token> tokens_;
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace hearth::tokenizer
