// Remembers the tokens of short pieces: most of a text is words that were there before.
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "hearth/tokenizer.h"
#include "io/tokenizer/text_index.h"

namespace hearth::tokenizer {

// Each piece has one place, which the latest one takes: 64 bytes each, 1 MB in all.
class WordCache {
 public:
  // Null when the piece is not there, or is too long to be.
  const auto* find(std::string_view piece) const {
    if (piece.size() > longest || slots_.empty()) return static_cast<const Slot*>(nullptr);
    const auto& slot = slots_[place(piece)];
    const bool same = slot.size == piece.size() && std::memcmp(slot.bytes, piece.data(), piece.size()) == 0;
    return same ? &slot : nullptr;
  }

  void add(std::string_view piece, std::span<const TokenId> tokens) {
    if (piece.size() > longest || tokens.size() > most_tokens || piece.empty()) return;
    if (slots_.empty()) slots_.resize(places);
    auto& slot = slots_[place(piece)];
    slot.size = static_cast<std::uint8_t>(piece.size());
    slot.count = static_cast<std::uint8_t>(tokens.size());
    std::memcpy(slot.bytes, piece.data(), piece.size());
    std::copy(tokens.begin(), tokens.end(), slot.tokens);
  }

 private:
  static constexpr std::size_t places = 16384, longest = 30, most_tokens = 8;
  struct Slot {
    std::uint8_t size = 0, count = 0;
    char bytes[longest];
    TokenId tokens[most_tokens];

    const TokenId* begin() const { return tokens; }
    const TokenId* end() const { return tokens + count; }
  };
  static_assert(sizeof(Slot) == 64);

  static std::size_t place(std::string_view piece) { return hash_of(piece) & (places - 1); }

  std::vector<Slot> slots_;
};

}  // namespace hearth::tokenizer
