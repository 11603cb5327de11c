// Byte-pair encoding, for every kind of vocabulary.
//
// Vocabularies without a list of merges (SentencePiece, tiktoken) say that any two neighbours that together
// are a token may become it, the better token first. For a token t that is one pair only: whenever two
// neighbours make up t, nothing outside has touched them, so they were merged just as the loop would merge t
// alone. So that list of merges is found by running the loop on each token, and all vocabularies are encoded
// alike.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <unordered_map>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/byte_tokens.h"
#include "io/tokenizer/model.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

// From pairs of symbols to what they become: open addressing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(std::size_t count) {
    std::size_t size = 16;
    while (size < count * 2) size *= 2;
    slots_.resize(size);
  }

  // Of a pair that is added twice the first counts.
  void add(TokenId left, TokenId right, Merged merged) {
    auto& slot = slots_[find_slot(key(left, right))];
    if (slot.key == empty) slot = {key(left, right), merged};
  }
  std::optional<Merged> find(TokenId left, TokenId right) const {
    const auto& slot = slots_[find_slot(key(left, right))];
    return slot.key == empty ? std::nullopt : std::optional(slot.merged);
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = empty;
    Merged merged{};
  };
  static std::uint64_t key(TokenId left, TokenId right) {
    return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
  }
  std::size_t find_slot(std::uint64_t wanted) const {
    auto hash = wanted * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i].key != wanted && slots_[i].key != empty) i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  std::vector<Slot> slots_;
};

class Bpe : public Model {
 public:
  Bpe(const BpeModel& definition, const Vocabulary& vocabulary, const SpecialTokens& special)
      : vocabulary_(vocabulary),
        unknown_(special.unknown),
        options_(definition.options),
        byte_tokens_(vocabulary, definition.options.byte_fallback),
        merges_(0) {
    read_tokens();
    if (definition.merges)
      use_merges(*definition.merges);
    else
      derive_merges();
  }

  void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& tokens) const override {
    if (options_.whole_pieces_first)
      if (const auto found = by_bytes_.find(piece)) {
        tokens.push_back(*found);
        return;
      }
    auto& merging = workspace.merging;
    add_symbols(piece, merging);
    merging.run([&](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
    bool after_unknown = false;
    merging.for_each([&](const Symbol& symbol) {
      const std::string_view text = piece.substr(symbol.begin, symbol.end - symbol.begin);
      after_unknown = add_symbol(symbol.id, text, after_unknown, tokens);
    });
  }

 private:
  bool symbols_are_bytes() const { return options_.symbols != BpeSymbols::characters; }
  bool is_token(TokenId symbol) const { return symbol >= 0 && symbol < vocabulary_.size(); }

  // The bytes of text that a token of the vocabulary is made of; nothing where no text is.
  std::optional<std::string> bytes_of(const Token& token) const {
    if (options_.symbols == BpeSymbols::bytes_as_characters) return from_byte_characters(token.text);
    if (options_.symbols == BpeSymbols::bytes || is_utf8(token.text)) return token.text;
    return std::nullopt;
  }

  static bool can_be_merged(const Token& token) {
    return token.kind == TokenKind::normal || token.kind == TokenKind::user_defined ||
           token.kind == TokenKind::unused;
  }

  void read_tokens() {
    bytes_.resize(static_cast<std::size_t>(vocabulary_.size()));
    for (TokenId id = 0; id < vocabulary_.size(); ++id) {
      const auto& token = vocabulary_[id];
      if (token.text.empty() || !can_be_merged(token)) continue;
      auto bytes = bytes_of(token);
      if (!bytes) continue;
      bytes_[static_cast<std::size_t>(id)] = std::move(*bytes);
      by_bytes_.add(bytes_[static_cast<std::size_t>(id)], id);
    }
    if (symbols_are_bytes()) {
      for (int byte = 0; byte < 256; ++byte) {
        const char text = static_cast<char>(byte);
        byte_symbols_[static_cast<std::size_t>(byte)] =
            by_bytes_.find(std::string_view(&text, 1)).value_or(-1);
      }
      return;
    }
    // Characters that are parts of tokens but no tokens get numbers after the last.
    TokenId next = vocabulary_.size();
    for (const auto& text : bytes_)
      for (std::size_t i = 0; i < text.size();) {
        const auto text_of_it = std::string_view(text).substr(i, utf8_size(text[i]));
        const auto character = read_valid_utf8(text, i);
        i += text_of_it.size();
        if (characters_.contains(character)) continue;
        const auto found = by_bytes_.find(text_of_it);
        characters_.emplace(character, found ? *found : next++);
      }
  }

  void use_merges(const std::vector<Merge>& merges) {
    merges_ = MergeTable(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank)
      merges_.add(merges[rank].left, merges[rank].right,
                  {static_cast<std::uint32_t>(rank), merges[rank].result});
  }

  void derive_merges() {
    const auto ranks = ranks_by_score();
    merges_ = MergeTable(bytes_.size());
    SymbolMerging merging;
    for (TokenId id = 0; id < vocabulary_.size(); ++id) {
      const std::string_view text = bytes_[static_cast<std::size_t>(id)];
      if (text.empty()) continue;
      std::optional<std::pair<TokenId, TokenId>> last;
      add_symbols(text, merging);
      merging.run([&](const Symbol& left, const Symbol& right) -> std::optional<Merged> {
        const auto found = by_bytes_.find(text.substr(left.begin, right.end - left.begin));
        if (!found) return std::nullopt;
        if (left.begin == 0 && right.end == text.size()) last = {left.id, right.id};
        return Merged{ranks[static_cast<std::size_t>(*found)], *found};
      });
      if (!last) continue;
      merges_.add(last->first, last->second, {ranks[static_cast<std::size_t>(id)], id});
      if (vocabulary_[id].kind == TokenKind::unused) parts_of_unused_.emplace(id, *last);
    }
  }

  // Higher scores have lower ranks, equal ones the same.
  std::vector<std::uint32_t> ranks_by_score() const {
    std::vector<std::size_t> order(bytes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto score = [&](std::size_t id) { return vocabulary_[static_cast<TokenId>(id)].score; };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return score(a) > score(b); });
    std::vector<std::uint32_t> ranks(order.size());
    std::uint32_t rank = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && score(order[i]) != score(order[i - 1])) ++rank;
      ranks[order[i]] = rank;
    }
    return ranks;
  }

  void add_symbols(std::string_view piece, SymbolMerging& merging) const {
    merging.clear();
    if (symbols_are_bytes()) {
      for (std::uint32_t i = 0; i < piece.size(); ++i)
        merging.add(byte_symbols_[static_cast<unsigned char>(piece[i])], i, i + 1);
      return;
    }
    for (std::size_t i = 0; i < piece.size();) {
      const auto found = characters_.find(read_valid_utf8(piece, i));
      const auto end = i + utf8_size(piece[i]);
      merging.add(found == characters_.end() ? -1 : found->second, static_cast<std::uint32_t>(i),
                  static_cast<std::uint32_t>(end));
      i = end;
    }
  }

  // Tokens that must not be used fall apart again. These return whether an unknown token is last now.
  bool add_symbol(TokenId id, std::string_view text, bool after_unknown, std::vector<TokenId>& tokens) const {
    if (!is_token(id)) return add_unknown(text, after_unknown, tokens);
    if (const auto parts = parts_of_unused_.find(id); parts != parts_of_unused_.end()) {
      const auto [left, right] = parts->second;
      const std::size_t size = is_token(left)        ? bytes_[static_cast<std::size_t>(left)].size()
                               : symbols_are_bytes() ? 1
                                                     : utf8_size(text[0]);
      after_unknown = add_symbol(left, text.substr(0, size), after_unknown, tokens);
      return add_symbol(right, text.substr(size), after_unknown, tokens);
    }
    tokens.push_back(id);
    return false;
  }
  bool add_unknown(std::string_view character, bool after_unknown, std::vector<TokenId>& tokens) const {
    if (byte_tokens_.append(character, tokens)) return false;
    if (!unknown_) return after_unknown;
    if (!after_unknown || !options_.fuse_unknown) tokens.push_back(*unknown_);
    return true;
  }

  const Vocabulary& vocabulary_;
  std::optional<TokenId> unknown_;
  BpeOptions options_;
  ByteTokens byte_tokens_;
  MergeTable merges_;
  std::vector<std::string> bytes_;  // by id; empty: not made by merging
  TextIndex by_bytes_;
  std::array<TokenId, 256> byte_symbols_{};
  std::unordered_map<char32_t, TokenId> characters_;
  std::map<TokenId, std::pair<TokenId, TokenId>> parts_of_unused_;
};

}  // namespace

std::unique_ptr<Model> make_bpe(const BpeModel& definition, const Vocabulary& vocabulary,
                                const SpecialTokens& special) {
  return std::make_unique<Bpe>(definition, vocabulary, special);
}

}  // namespace hearth::tokenizer
