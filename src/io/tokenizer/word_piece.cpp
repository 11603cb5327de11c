// WordPiece: the longest token that begins the word, then the longest that goes on, and so on.
#include <fmt/format.h>

#include "hearth/error.h"
#include "io/tokenizer/model.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

class WordPiece : public Model {
 public:
  WordPiece(const WordPieceModel& definition, const Vocabulary& vocabulary, TokenId unknown)
      : definition_(definition), vocabulary_(vocabulary), unknown_(unknown) {}

  void encode(std::string_view word, Workspace&, std::vector<TokenId>& tokens) const override {
    const auto first = tokens.size();
    std::size_t characters = 0;
    for (std::size_t i = 0; i < word.size(); i += utf8_size(word[i])) ++characters;
    bool found = characters <= definition_.longest_word;
    for (std::size_t begin = 0; found && begin < word.size();) {
      std::string text = (begin == 0 ? definition_.beginning : definition_.continuation);
      const auto prefix = text.size();
      text += word.substr(begin);
      found = false;
      for (; text.size() > prefix; drop_last_character(text))
        if (const auto token = vocabulary_.find(text);
            token && vocabulary_[*token].kind == TokenKind::normal) {
          tokens.push_back(*token);
          begin += text.size() - prefix;
          found = true;
          break;
        }
    }
    if (found) return;
    tokens.resize(first);
    tokens.push_back(unknown_);
  }

 private:
  static void drop_last_character(std::string& text) {
    while ((static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
    text.pop_back();
  }

  WordPieceModel definition_;
  const Vocabulary& vocabulary_;
  TokenId unknown_;
};

}  // namespace

std::unique_ptr<Model> make_word_piece(const WordPieceModel& definition, const Vocabulary& vocabulary,
                                       const SpecialTokens& special, std::string_view source) {
  if (!special.unknown)
    throw FormatError(fmt::format("[tokenizer] '{}': WordPiece needs an unknown token", source));
  return std::make_unique<WordPiece>(definition, vocabulary, *special.unknown);
}

}  // namespace hearth::tokenizer
