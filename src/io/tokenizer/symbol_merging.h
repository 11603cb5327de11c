// The loop of byte-pair encoding: the best pair of neighbours becomes one symbol, until no pair can.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hearth/tokenizer.h"

namespace hearth::tokenizer {

struct Symbol {
  static constexpr std::uint32_t none = 0xffffffff;
  TokenId id;
  std::uint32_t begin, end;  // of its bytes
  std::uint32_t previous, next;
};

// What a pair becomes. A lower rank goes first; of equal ones the leftmost.
struct Merged {
  std::uint32_t rank;
  TokenId id;
};

class SymbolMerging {
 public:
  void clear() { symbols_.clear(); }
  void add(TokenId id, std::uint32_t begin, std::uint32_t end) {
    const auto index = static_cast<std::uint32_t>(symbols_.size());
    if (index > 0) symbols_.back().next = index;
    symbols_.push_back({id, begin, end, index - 1, Symbol::none});  // the first one's previous is none
  }

  // `find(left, right)` returns an optional Merged for two neighbours. Takes n log n steps for n symbols.
  template <typename Find>
  void run(Find find) {
    queue_.clear();
    const auto consider = [&](std::uint32_t left) {
      const auto right = symbols_[left].next;
      if (right == Symbol::none) return false;
      const auto merged = find(symbols_[left], symbols_[right]);
      if (merged) queue_.push_back({merged->rank, left, symbols_[left].id, symbols_[right].id, merged->id});
      return merged.has_value();
    };
    for (std::uint32_t i = 0; i < symbols_.size(); ++i) consider(i);
    std::make_heap(queue_.begin(), queue_.end());
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end());
      const Candidate best = queue_.back();
      queue_.pop_back();
      auto& left = symbols_[best.position];
      // What has changed since has a candidate of its own.
      if (left.id != best.left || left.next == Symbol::none || symbols_[left.next].id != best.right) continue;
      auto& right = symbols_[left.next];
      left.id = best.result;
      left.end = right.end;
      left.next = right.next;
      right.id = gone;
      if (left.next != Symbol::none) symbols_[left.next].previous = best.position;
      if (consider(best.position)) std::push_heap(queue_.begin(), queue_.end());
      if (left.previous != Symbol::none && consider(left.previous))
        std::push_heap(queue_.begin(), queue_.end());
    }
  }

  // Calls `use` with what is left, in order.
  template <typename Use>
  void for_each(Use use) const {
    for (std::uint32_t i = symbols_.empty() ? Symbol::none : 0; i != Symbol::none; i = symbols_[i].next)
      use(symbols_[i]);
  }

 private:
  static constexpr TokenId gone = -2;  // equal to no candidate's symbol
  struct Candidate {
    std::uint32_t rank, position;
    TokenId left, right, result;
    // The heap has the largest on top.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;
};

}  // namespace hearth::tokenizer
