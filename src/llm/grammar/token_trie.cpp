// Building tries of tokens.
#include "llm/grammar/token_trie.h"

#include <algorithm>

namespace hearth::llm::grammar {

void TokenTrie::fill(std::vector<std::pair<std::string_view, TokenId>> sorted) {
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> path;  // the nodes of the token before
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].end = static_cast<std::int32_t>(nodes_.size());
      nodes_[path.back()].tokens_end = static_cast<std::int32_t>(tokens_.size());
    }
  };
  for (const auto& [bytes, token] : sorted) {
    std::size_t same = 0;
    while (same < path.size() && same < bytes.size() &&
           nodes_[path[same]].byte == static_cast<std::uint8_t>(bytes[same]))
      ++same;
    close(same);
    const auto next = static_cast<std::int32_t>(tokens_.size());
    for (std::size_t depth = same; depth < bytes.size(); ++depth) {
      path.push_back(nodes_.size());
      nodes_.push_back(
          {static_cast<std::uint8_t>(bytes[depth]), static_cast<std::int32_t>(depth), 0, next, next, 0});
    }
    tokens_.push_back(token);
    nodes_[path.back()].last_token = next + 1;
  }
  close(0);
}

}  // namespace hearth::llm::grammar
