// A set of byte strings with values, walked byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hearth::tokenizer {

class Trie {
 public:
  using Node = std::uint32_t;
  static constexpr Node root = 0, none = 0xffffffff;
  static constexpr std::int32_t no_value = -1;

  Trie() { values_.push_back(no_value); }

  // `value` is not negative. Of equal strings the last counts.
  void add(std::string_view text, std::int32_t value);

  // The node one byte further, or `none`.
  Node next(Node node, char byte) const {
    if (slots_.empty()) return none;
    for (std::size_t i = slot_of(key(node, byte));; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key(node, byte)) return slots_[i].node;
      if (slots_[i].key == empty_key) return none;
    }
  }
  std::int32_t value(Node node) const { return values_[node]; }

 private:
  static constexpr std::uint64_t empty_key = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = empty_key;
    Node node = none;
  };

  static std::uint64_t key(Node node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }
  std::size_t slot_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & (slots_.size() - 1);
  }
  void insert(std::uint64_t key, Node node);
  void grow();

  std::vector<Slot> slots_;  // open addressing over all edges, at most half full
  std::vector<std::int32_t> values_;
};

}  // namespace hearth::tokenizer
