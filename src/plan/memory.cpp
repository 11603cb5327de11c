// Offsets in the arena.
//
// Two ways are tried and the smaller arena wins: best fit in order of time (n log n, always), and largest
// block first into the lowest gap (n^2, for plans of ordinary size), which fragments less.
#include "plan/memory.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hearth {
namespace {

constexpr std::size_t most_for_quadratic = 4096;

struct Block {
  std::size_t bytes;
  std::uint32_t first, last;
};

std::size_t rounded(std::size_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

// Places blocks in order of time, each into the smallest hole that takes it.
std::size_t best_fit(const std::vector<Block>& blocks, std::vector<std::size_t>& offsets) {
  std::map<std::size_t, std::size_t> holes;               // offset -> bytes
  std::multimap<std::size_t, std::size_t> holes_by_size;  // bytes -> offset
  std::multimap<std::uint32_t, std::size_t> ends;         // last step -> block
  std::size_t total = 0;

  const auto add_hole = [&](std::size_t offset, std::size_t bytes) {
    holes.emplace(offset, bytes);
    holes_by_size.emplace(bytes, offset);
  };
  const auto remove_hole = [&](std::map<std::size_t, std::size_t>::iterator hole) {
    auto [it, end] = holes_by_size.equal_range(hole->second);
    while (it->second != hole->first) ++it;
    holes_by_size.erase(it);
    return holes.erase(hole);
  };
  const auto give_back = [&](std::size_t offset, std::size_t bytes) {
    auto next = holes.lower_bound(offset);
    if (next != holes.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = remove_hole(next);
    }
    if (next != holes.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        remove_hole(before);
      }
    }
    add_hole(offset, bytes);
  };

  for (std::size_t i = 0; i < blocks.size(); ++i) {
    while (!ends.empty() && ends.begin()->first < blocks[i].first) {
      const auto ended = ends.begin()->second;
      ends.erase(ends.begin());
      if (blocks[ended].bytes) give_back(offsets[ended], blocks[ended].bytes);
    }
    const auto bytes = blocks[i].bytes;
    auto fit = holes_by_size.lower_bound(bytes);
    if (bytes == 0) {
      offsets[i] = 0;
    } else if (fit != holes_by_size.end()) {
      const auto hole = holes.find(fit->second);
      const auto [offset, size] = *hole;
      remove_hole(hole);
      offsets[i] = offset;
      if (size > bytes) add_hole(offset + bytes, size - bytes);
    } else {
      // Grow the arena, from its last hole if that reaches the end.
      std::size_t offset = total;
      if (!holes.empty() && holes.rbegin()->first + holes.rbegin()->second == total) {
        offset = holes.rbegin()->first;
        remove_hole(std::prev(holes.end()));
      }
      offsets[i] = offset;
      total = offset + bytes;
    }
    ends.emplace(blocks[i].last, i);
  }
  return total;
}

// Places the largest blocks first, each at the lowest offset that is free during its life.
std::size_t largest_first(const std::vector<Block>& blocks, std::vector<std::size_t>& offsets) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<std::size_t> placed;  // sorted by offset
  std::size_t total = 0;
  for (auto i : order) {
    std::size_t offset = 0;
    for (auto other : placed) {
      if (blocks[other].last < blocks[i].first || blocks[i].last < blocks[other].first) continue;
      if (offset + blocks[i].bytes <= offsets[other]) break;
      offset = std::max(offset, offsets[other] + blocks[other].bytes);
    }
    offsets[i] = offset;
    total = std::max(total, offset + blocks[i].bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) { return offsets[a] < offsets[b]; }),
                  i);
  }
  return total;
}

std::size_t peak(const std::vector<Block>& blocks) {
  std::vector<std::pair<std::uint32_t, std::int64_t>> events;
  for (const auto& block : blocks) {
    events.emplace_back(block.first, static_cast<std::int64_t>(block.bytes));
    events.emplace_back(block.last + 1, -static_cast<std::int64_t>(block.bytes));
  }
  std::sort(events.begin(), events.end());  // at equal steps, releases (negative) come first
  std::int64_t now = 0, most = 0;
  for (const auto& [step, change] : events) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

}  // namespace

MemoryPlan plan_memory(const std::vector<MemoryRequest>& requests) {
  // A chain of take-overs is one block that lives from its first request to its last.
  std::vector<Block> blocks;
  std::vector<std::size_t> block_of(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& request = requests[i];
    if (request.takes_over >= 0) {
      block_of[i] = block_of[static_cast<std::size_t>(request.takes_over)];
      blocks[block_of[i]].last = std::max(blocks[block_of[i]].last, request.last);
    } else {
      block_of[i] = blocks.size();
      blocks.push_back({rounded(request.bytes), request.first, request.last});
    }
  }

  std::vector<std::size_t> offsets(blocks.size());
  MemoryPlan plan;
  plan.required = peak(blocks);
  plan.total = best_fit(blocks, offsets);
  if (plan.total > plan.required && blocks.size() <= most_for_quadratic) {
    std::vector<std::size_t> others(blocks.size());
    const auto total = largest_first(blocks, others);
    if (total < plan.total) {
      plan.total = total;
      offsets = std::move(others);
    }
  }
  for (auto block : block_of) plan.offsets.push_back(offsets[block]);
  return plan;
}

}  // namespace hearth
