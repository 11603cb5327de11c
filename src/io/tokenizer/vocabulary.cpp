// Tokens by id and by text.
#include "io/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <charconv>

#include "hearth/error.h"
#include "io/bytes.h"

namespace hearth::tokenizer {

std::string byte_token_text(int byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<char> byte_of_token_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

Vocabulary::Vocabulary(std::vector<Token> tokens, std::string_view source)
    : tokens_(std::move(tokens)), ids_(tokens_.size()) {
  bool any = false;
  for (TokenId id = 0; id < size(); ++id) {
    const auto& text = (*this)[id].text;
    if (text.empty()) continue;
    any = true;
    if (const auto other = ids_.add(text, id))
      throw FormatError(fmt::format("[tokenizer] '{}': the tokens {} and {} are both {}", source, *other, id,
                                    io::show(text)));
  }
  if (!any) throw FormatError(fmt::format("[tokenizer] '{}': the vocabulary is empty", source));
}

}  // namespace hearth::tokenizer
