// Tokens by id and by text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/definition.h"
#include "io/tokenizer/text_index.h"

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
  std::optional<TokenId> find(std::string_view text) const {
    return text.empty() ? std::nullopt : ids_.find(text);
  }

 private:
  std::vector<Token> tokens_;
  TextIndex ids_;
};

}  // namespace hearth::tokenizer
