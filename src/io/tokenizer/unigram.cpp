// The unigram model: of all ways to write a piece as tokens the one with the highest sum of scores.
#include <algorithm>

#include "io/tokenizer/byte_tokens.h"
#include "io/tokenizer/model.h"
#include "io/tokenizer/trie.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

constexpr double unknown_penalty = 10;

class Unigram : public Model {
 public:
  Unigram(const UnigramModel& definition, const Vocabulary& vocabulary, const SpecialTokens& special)
      : vocabulary_(vocabulary),
        unknown_(special.unknown),
        byte_tokens_(vocabulary, definition.byte_fallback) {
    double lowest = 0;
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      const auto& token = vocabulary[id];
      if (token.text.empty() || (token.kind != TokenKind::normal && token.kind != TokenKind::user_defined))
        continue;
      trie_.add(token.text, id);
      lowest = std::min<double>(lowest, token.score);
    }
    unknown_score_ = lowest - unknown_penalty;
  }

  // Viterbi's algorithm: the best way to each position, from the best ways to those before it.
  void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& tokens) const override {
    auto& path = workspace.path;
    path.assign(piece.size() + 1, {0, nowhere, unknown});
    const auto offer = [&](std::size_t begin, std::size_t end, double score, TokenId token) {
      const double sum = path[begin].score + score;
      if (path[end].begin == nowhere || sum > path[end].score)
        path[end] = {sum, static_cast<std::uint32_t>(begin), token};
    };
    for (std::size_t begin = 0; begin < piece.size();) {
      const auto next = begin + utf8_size(piece[begin]);
      bool has_character = false;
      auto node = Trie::root;
      for (std::size_t end = begin; end < piece.size();) {
        node = trie_.next(node, piece[end++]);
        if (node == Trie::none) break;
        if (const auto token = trie_.value(node); token != Trie::no_value) {
          offer(begin, end, vocabulary_[token].score, token);
          has_character |= end == next;
        }
      }
      if (!has_character) offer(begin, next, unknown_score_, unknown);
      begin = next;
    }
    add_path(piece, workspace, tokens);
  }

 private:
  static constexpr TokenId unknown = -1;
  static constexpr std::uint32_t nowhere = 0xffffffff;

  void add_path(std::string_view piece, Workspace& workspace, std::vector<TokenId>& tokens) const {
    const auto& path = workspace.path;
    auto& ends = workspace.ends;
    ends.clear();
    for (auto end = static_cast<std::uint32_t>(piece.size()); end > 0; end = path[end].begin)
      ends.push_back(end);
    std::reverse(ends.begin(), ends.end());
    bool after_unknown = false;  // several unknown characters in a row are one token
    for (const auto end : ends) {
      const auto& step = path[end];
      if (step.token != unknown) {
        tokens.push_back(step.token);
        after_unknown = false;
      } else if (byte_tokens_.append(piece.substr(step.begin, end - step.begin), tokens)) {
        after_unknown = false;
      } else if (unknown_ && !after_unknown) {
        tokens.push_back(*unknown_);
        after_unknown = true;
      }
    }
  }

  const Vocabulary& vocabulary_;
  std::optional<TokenId> unknown_;
  ByteTokens byte_tokens_;
  double unknown_score_ = 0;
  Trie trie_;
};

}  // namespace

std::unique_ptr<Model> make_unigram(const UnigramModel& definition, const Vocabulary& vocabulary,
                                    const SpecialTokens& special) {
  return std::make_unique<Unigram>(definition, vocabulary, special);
}

}  // namespace hearth::tokenizer
