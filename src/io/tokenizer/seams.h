// Where text can be cut without any effect: between two characters that are neighbours in no token.
//
// Vocabularies of characters (SentencePiece) encode a text as one piece, which takes long. Cut at the seams,
// it is words, most of which were there before.
#pragma once

#include <bitset>
#include <string_view>
#include <unordered_set>

#include "io/tokenizer/vocabulary.h"

namespace hearth::tokenizer {

class Seams {
 public:
  explicit Seams(const Vocabulary& vocabulary);

  // The first seam of `text`, which is valid UTF-8, behind its first character; its size if there is none.
  std::size_t find(std::string_view text) const;

 private:
  static std::uint64_t pair(char32_t left, char32_t right) { return std::uint64_t{left} << 32 | right; }
  // The characters that most texts consist of, numbered; others are 0.
  static std::size_t common(char32_t character) {
    return character < 0x80 ? character : character == 0x2581 ? 0x80 : 0;
  }
  bool is_seam(char32_t left, char32_t right) const;
  bool is_seam_of_others(char32_t left, char32_t right) const;

  static constexpr std::size_t commons = 0x81;
  std::bitset<commons * commons> common_seams_;
  std::unordered_set<std::uint64_t> neighbours_;
  std::unordered_set<char32_t> known_;
};

}  // namespace hearth::tokenizer
