// Adding strings to a trie.
#include "io/tokenizer/trie.h"

#include <algorithm>
#include <utility>

namespace hearth::tokenizer {

void Trie::insert(std::uint64_t key, Node node) {
  std::size_t i = slot_of(key);
  while (slots_[i].key != empty_key) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {key, node};
}

void Trie::grow() {
  auto old = std::exchange(slots_, std::vector<Slot>(std::max<std::size_t>(64, slots_.size() * 2)));
  for (const auto& slot : old)
    if (slot.key != empty_key) insert(slot.key, slot.node);
}

void Trie::add(std::string_view text, std::int32_t value) {
  Node node = root;
  for (const char byte : text) {
    auto child = next(node, byte);
    if (child == none) {
      if (values_.size() * 2 > slots_.size()) grow();
      child = static_cast<Node>(values_.size());
      values_.push_back(no_value);
      insert(key(node, byte), child);
    }
    node = child;
  }
  values_[node] = value;
}

}  // namespace hearth::tokenizer
