// Unknown characters as tokens for their bytes.
#include "io/tokenizer/byte_tokens.h"

#include <fmt/format.h>

#include <charconv>

namespace hearth::tokenizer {

std::string byte_token_text(int byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<char> byte_of_token_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

ByteTokens::ByteTokens(const Vocabulary& vocabulary, bool used) {
  tokens_.fill(-1);
  for (int byte = 0; used && byte < 256; ++byte)
    tokens_[static_cast<std::size_t>(byte)] = vocabulary.find(byte_token_text(byte)).value_or(-1);
}

bool ByteTokens::append(std::string_view character, std::vector<TokenId>& tokens) const {
  const auto before = tokens.size();
  for (const char byte : character) {
    const auto token = tokens_[static_cast<unsigned char>(byte)];
    if (token < 0) {
      tokens.resize(before);
      return false;
    }
    tokens.push_back(token);
  }
  return true;
}

}  // namespace hearth::tokenizer
