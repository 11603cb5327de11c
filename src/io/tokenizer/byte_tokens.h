// Unknown characters as tokens for their bytes: "<0x0A>".
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "io/tokenizer/vocabulary.h"

namespace hearth::tokenizer {

std::string byte_token_text(int byte);
std::optional<char> byte_of_token_text(std::string_view text);

class ByteTokens {
 public:
  // Without `used` there are none.
  ByteTokens(const Vocabulary& vocabulary, bool used);

  // Appends the bytes of a character. False, and nothing is appended, if one of them has no token.
  bool append(std::string_view character, std::vector<TokenId>& tokens) const;

 private:
  std::array<TokenId, 256> tokens_;  // -1: none
};

}  // namespace hearth::tokenizer
