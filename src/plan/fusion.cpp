// Fusion: one pass over the graph in topological order.
//
// A group collects elementwise nodes of one shape. It runs when the order reaches its last member, so it must
// be closed as soon as anything outside uses one of its values: later nodes may still read the value, but not
// join. Two open groups that meet in one node become one. Nothing is visited twice, so the pass is linear.
#include "plan/fusion.h"

#include <algorithm>

namespace hearth {
namespace {

constexpr std::size_t max_members = 64;     // expression length
constexpr std::uint32_t max_operands = 24;  // values from outside: kernel arguments

class Grouper {
 public:
  Grouper(const LinearGraph& graph, const std::vector<std::uint32_t>& canonical, const Backend& backend,
          bool fuse)
      : graph_(graph), canonical_(canonical), backend_(backend), fuse_(fuse) {}

  Grouping run() {
    const auto count = static_cast<std::uint32_t>(graph_.nodes.size());
    result_.group_of.assign(count, -1);
    count_uses();
    for (std::uint32_t node = 0; node < count; ++node) {
      if (canonical_[node] != node || result_.uses[node] == 0) continue;
      switch (op_kind(graph_.ops[node])) {
        case OpKind::leaf:
          break;
        case OpKind::view:
          for (auto input : graph_.inputs_of(node)) close(group_of(input));
          break;
        case OpKind::elementwise:
          place_elementwise(node);
          break;
        case OpKind::reduce:
          place_reduction(node);
          break;
        default:
          place_alone(node);
      }
    }
    return std::move(result_);
  }

 private:
  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::int32_t group_of(std::uint32_t node) const { return result_.group_of[canonical_[node]]; }
  Group& group(std::int32_t index) { return result_.groups[static_cast<std::size_t>(index)]; }

  void count_uses() {
    // From the outputs backwards, so that nodes kept alive only by merged duplicates do not count.
    result_.uses.assign(graph_.nodes.size(), 0);
    for (auto output : graph_.outputs) result_.uses[canonical_[output]] += 2;  // asked for: never swallowed
    for (auto node = static_cast<std::uint32_t>(graph_.nodes.size()); node-- > 0;)
      if (canonical_[node] == node && result_.uses[node] > 0)
        for (auto input : graph_.inputs_of(node)) ++result_.uses[canonical_[input]];
  }

  void close(std::int32_t index) {
    if (index >= 0) group(index).open = false;
  }

  std::int32_t new_group(std::uint32_t node) {
    result_.groups.push_back({});
    result_.groups.back().last = node;
    return static_cast<std::int32_t>(result_.groups.size() - 1);
  }

  void place_alone(std::uint32_t node) {
    for (auto input : graph_.inputs_of(node)) close(group_of(input));
    const auto index = new_group(node);
    group(index).anchor = node;
    group(index).open = false;
    result_.group_of[node] = index;
  }

  // A group that `node` may join through its operand: open, of the same shape, with room.
  bool joinable(std::int32_t index, std::uint32_t operand, std::uint32_t node) {
    if (!fuse_ || index < 0) return false;
    const Group& candidate = group(index);
    return candidate.open && at(operand).shape == at(node).shape && candidate.members.size() < max_members &&
           candidate.operands + 3 <= max_operands;
  }

  // An operand that is a lone matmul, convolution or normalisation, used here only, whose kernel can go on
  // with an expression or, as a normalisation, with a cast.
  bool swallowable(std::uint32_t operand, std::uint32_t node) {
    const auto op = graph_.ops[operand];
    const bool normalises = op_kind(op) == OpKind::normalisation;
    if (!fuse_ || (op_kind(op) != OpKind::contraction && !normalises) || result_.uses[operand] != 1)
      return false;
    if (normalises && graph_.ops[node] != Op::cast) return false;
    return at(operand).shape == at(node).shape && backend_.fuses_epilogue(op, at(operand).dtype);
  }

  void place_elementwise(std::uint32_t node) {
    std::int32_t target = -1;
    for (auto edge : graph_.inputs_of(node)) {
      const auto operand = canonical_[edge];
      const auto index = group_of(operand);
      if (index < 0 || index == target) continue;
      if (joinable(index, operand, node)) {
        target = target < 0 ? index : merge(target, index);
      } else if (target < 0 && swallowable(operand, node)) {
        target = index;
        group(index).open = op_kind(graph_.ops[operand]) == OpKind::contraction;
      }
    }
    if (target < 0) target = new_group(node);
    Group& joined = group(target);
    for (auto edge : graph_.inputs_of(node)) {
      if (group_of(edge) == target) continue;
      close(group_of(edge));
      ++joined.operands;
    }
    joined.members.push_back(node);
    joined.last = node;
    joined.open = joined.open && fuse_;
    result_.group_of[node] = target;
  }

  // Joins two open groups; returns the one that stays (the other is left empty).
  std::int32_t merge(std::int32_t a, std::int32_t b) {
    Group &first = group(a), &second = group(b);
    const bool fits = first.members.size() + second.members.size() < max_members &&
                      first.operands + second.operands + 3 <= max_operands &&
                      (first.anchor < 0 || second.anchor < 0);
    if (!fits) return a;
    if (first.members.size() < second.members.size()) return absorb(b, a);
    return absorb(a, b);
  }

  std::int32_t absorb(std::int32_t keep, std::int32_t gone) {
    Group &kept = group(keep), &lost = group(gone);
    for (auto member : lost.members) result_.group_of[member] = keep;
    if (lost.anchor >= 0) {
      kept.anchor = lost.anchor;
      result_.group_of[static_cast<std::size_t>(lost.anchor)] = keep;
    }
    kept.members.insert(kept.members.end(), lost.members.begin(), lost.members.end());
    std::sort(kept.members.begin(), kept.members.end());
    kept.operands += lost.operands;
    lost.members.clear();
    lost.anchor = -1;
    lost.open = false;
    return keep;
  }

  void place_reduction(std::uint32_t node) {
    const auto operand = canonical_[graph_.inputs_of(node)[0]];
    auto index = group_of(operand);
    const bool fits = fuse_ && index >= 0 && group(index).open && group(index).anchor < 0;
    if (!fits) {
      close(index);
      index = new_group(node);
    }
    Group& target = group(index);
    target.reduction = node;
    target.last = node;
    target.open = false;
    result_.group_of[node] = index;
  }

  const LinearGraph& graph_;
  const std::vector<std::uint32_t>& canonical_;
  const Backend& backend_;
  const bool fuse_;
  Grouping result_;
};

}  // namespace

Grouping group_nodes(const LinearGraph& graph, const std::vector<std::uint32_t>& canonical,
                     const Backend& backend, bool fuse) {
  return Grouper(graph, canonical, backend, fuse).run();
}

}  // namespace hearth
