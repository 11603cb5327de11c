// What several readers of tokenizers do.
#include "io/tokenizer/reader_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hearth/error.h"
#include "io/bytes.h"
#include "io/tokenizer/text_index.h"

namespace hearth::tokenizer {

void fail(std::string_view source, const std::string& rule) {
  throw FormatError(fmt::format("[tokenizer] '{}': {}", source, rule));
}

Token& token_at(Definition& definition, std::int64_t id, std::size_t count) {
  // Files leave some ids out, but not most of them.
  const auto limit = static_cast<std::int64_t>(count + std::max<std::size_t>(count, 4096));
  if (id < 0 || id >= limit)
    fail(definition.source, fmt::format("a token has the id {}, and there are {} tokens", id, count));
  auto& tokens = definition.tokens;
  if (static_cast<std::size_t>(id) >= tokens.size()) tokens.resize(static_cast<std::size_t>(id) + 1);
  return tokens[static_cast<std::size_t>(id)];
}

std::optional<TokenId> find_token(const Definition& definition, std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto& tokens = definition.tokens;
  const auto found = std::ranges::find_if(tokens, [&](const Token& token) { return token.text == text; });
  return found == tokens.end() ? std::nullopt : std::optional(static_cast<TokenId>(found - tokens.begin()));
}

std::pair<std::string_view, std::string_view> split_merge(std::string_view merge, std::size_t rank,
                                                          std::string_view source) {
  const auto space = merge.find(' ', 1);  // a part may begin with a space, not end with one
  if (space == merge.npos || space + 1 == merge.size())
    fail(source, fmt::format("merge {} is {}; two tokens with a space between them are expected", rank,
                             io::show(merge)));
  return {merge.substr(0, space), merge.substr(space + 1)};
}

std::vector<Merge> resolve_merges(const Definition& definition,
                                  std::span<const std::pair<std::string_view, std::string_view>> merges) {
  TextIndex ids(definition.tokens.size());
  for (std::size_t id = 0; id < definition.tokens.size(); ++id)
    if (const auto& text = definition.tokens[id].text; !text.empty()) ids.add(text, static_cast<TokenId>(id));
  std::vector<Merge> result;
  result.reserve(merges.size());
  std::string whole;
  for (const auto& merge : merges) {
    const auto id = [&](std::string_view text) {
      const auto found = text.empty() ? std::nullopt : ids.find(text);
      if (!found)
        fail(definition.source, fmt::format("merge {} of {} and {}: {} is no token", result.size(),
                                            io::show(merge.first), io::show(merge.second), io::show(text)));
      return *found;
    };
    whole = merge.first;
    whole += merge.second;
    result.push_back({id(merge.first), id(merge.second), id(whole)});
  }
  return result;
}

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr auto values = [] {
    std::array<int, 256> table{};
    table.fill(-1);
    int value = 0;
    for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
      table[static_cast<unsigned char>(c)] = value++;
    return table;
  }();
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
    bits &= (1u << count) - 1;
  }
  return bits == 0 && count < 6 ? std::optional(bytes) : std::nullopt;
}

bool gguf_strips_right(std::string_view architecture, const Token& token) {
  if (architecture != "phi3") return false;
  const bool keeps_space = token.text == "<unk>" || token.text == "<s>" || token.text == "<|endoftext|>";
  return (token.kind == TokenKind::control || token.text == "</s>") && !keeps_space;
}

void use_sentencepiece_text(const SentencePieceText& text, Definition& definition) {
  if (!text.character_map.empty()) definition.normaliser.emplace_back(CharacterMapStep{text.character_map});
  if (text.remove_extra_spaces) definition.normaliser.emplace_back(CollapseSpacesStep{});
  if (text.add_prefix) definition.normaliser.emplace_back(PrependStep{" "});
  definition.normaliser.emplace_back(ReplaceStep{" ", std::string(space_mark)});
  definition.decoder = {ReplaceStep{std::string(space_mark), " "}, DecodeByteFallbackStep{}};
  definition.strip_first_space = text.add_prefix;
}

}  // namespace hearth::tokenizer
