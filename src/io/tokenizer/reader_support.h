// What several readers of tokenizers do.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

[[noreturn]] void fail(std::string_view source, const std::string& rule);

// The token at `id`, which may be new. Throws FormatError for an id that so many tokens do not justify.
Token& token_at(Definition& definition, std::int64_t id, std::size_t count);

// Id of a token by its text, or nothing. Linear; for a few.
std::optional<TokenId> find_token(const Definition& definition, std::string_view text);

// "left right" of a list of merges.
std::pair<std::string_view, std::string_view> split_merge(std::string_view merge, std::size_t rank,
                                                          std::string_view source);
// Names to ids. Throws FormatError for a merge that names no token or makes none.
std::vector<Merge> resolve_merges(const Definition& definition,
                                  std::span<const std::pair<std::string_view, std::string_view>> merges);

// The bytes that base64 stands for; nothing for other text.
std::optional<std::string> from_base64(std::string_view text);

// GGUF has no place for what a token of SentencePiece's does with the white space beside it: whether it takes
// that on its right follows from the name of the architecture.
bool gguf_strips_right(std::string_view architecture, const Token& token);

// What SentencePiece does with text before and after encoding.
struct SentencePieceText {
  std::string character_map = {};
  bool add_prefix = true, remove_extra_spaces = false;
};
void use_sentencepiece_text(const SentencePieceText& text, Definition& definition);

}  // namespace hearth::tokenizer
