// Finds tokens that stand in the text as such.
#include "io/tokenizer/token_search.h"

#include "io/tokenizer/unicode.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

std::size_t character_before(std::string_view text, std::size_t position) {
  do --position;
  while ((static_cast<unsigned char>(text[position]) & 0xc0) == 0x80);
  return position;
}

bool inside_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin > 0 && is_word_character(read_valid_utf8(text, character_before(text, begin)))) ||
         (end < text.size() && is_word_character(read_valid_utf8(text, end)));
}

}  // namespace

TokenSearch::TokenSearch(const Vocabulary& vocabulary,
                         const std::vector<std::pair<std::string, TokenId>>& texts)
    : vocabulary_(vocabulary) {
  for (const auto& [text, token] : texts) {
    if (text.empty()) continue;
    if (vocabulary[token].single_word) require_unicode_tables("a token that must be a word of its own");
    trie_.add(text, token);
    first_bytes_[static_cast<unsigned char>(text[0])] = true;
    any_ = true;
    any_user_defined_ |= vocabulary[token].kind == TokenKind::user_defined;
  }
}

TokenId TokenSearch::longest(std::string_view text, std::size_t position, bool special,
                             std::size_t& size) const {
  TokenId best = -1;
  auto node = Trie::root;
  for (std::size_t end = position; end < text.size();) {
    node = trie_.next(node, text[end++]);
    if (node == Trie::none) break;
    const auto token = trie_.value(node);
    if (token == Trie::no_value) continue;
    if (!special && vocabulary_[token].kind != TokenKind::user_defined) continue;
    best = token;
    size = end - position;
  }
  return best;
}

void TokenSearch::cut(std::string_view text, bool special, std::vector<Fragment>& fragments) const {
  std::size_t done = 0;
  const auto add_text = [&](std::size_t end) {
    if (end > done) fragments.push_back({text.substr(done, end - done)});
  };
  if (special ? any_ : any_user_defined_) {
    for (std::size_t i = 0; i < text.size();) {
      if (!first_bytes_[static_cast<unsigned char>(text[i])]) {
        ++i;
        continue;
      }
      std::size_t size = 0;
      const auto id = longest(text, i, special, size);
      if (id < 0 || (vocabulary_[id].single_word && inside_word(text, i, i + size))) {
        i += id < 0 ? 1 : size;
        continue;
      }
      std::size_t begin = i, end = i + size;
      const auto& token = vocabulary_[id];
      while (token.strip_left && begin > done) {
        const auto before = character_before(text, begin);
        if (!is_white_space(read_valid_utf8(text, before))) break;
        begin = before;
      }
      while (token.strip_right && end < text.size() && is_white_space(read_valid_utf8(text, end)))
        end += utf8_size(text[end]);
      add_text(begin);
      fragments.push_back({text.substr(begin, end - begin), id});
      done = i = end;
    }
  }
  add_text(text.size());
}

}  // namespace hearth::tokenizer
