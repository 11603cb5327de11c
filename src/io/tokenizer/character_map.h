// SentencePiece's table of replacements: which strings of a text become which others ("ﬁ" -> "fi").
//
// A table is: the size in bytes of a double-array trie (u32), the trie (u32 units), and replacements that end
// in a zero byte, to whose beginnings the values of the trie point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

class CharacterMap {
 public:
  // Throws FormatError.
  CharacterMap(std::string_view table, std::string_view source);

  // Everywhere the longest string that the table has is replaced. `text` is valid UTF-8, and so is the
  // result.
  std::string apply(std::string_view text) const;

 private:
  struct Found {
    std::size_t size = 0;  // 0: nothing
    std::uint32_t value = 0;
  };
  Found longest(std::string_view text) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace hearth::tokenizer
