// Remembers the tokens of short pieces: most of a text is words that were there before.
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "hearth/tokenizer.h"

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

  static std::size_t place(std::string_view piece) {
    std::uint64_t hash = piece.size();
    while (piece.size() >= 8) {
      mix(hash, piece.substr(0, 8));
      piece.remove_prefix(8);
    }
    mix(hash, piece);
    return hash >> 50;  // 14 bits
  }
  static void mix(std::uint64_t& hash, std::string_view part) {
    std::uint64_t word = 0;
    std::memcpy(&word, part.data(), part.size());
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9u;
  }

  std::vector<Slot> slots_;
};

}  // namespace hearth::tokenizer
