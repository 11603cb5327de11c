// Fusion: one pass over the graph in topological order.
//
// A group collects elementwise nodes of one shape, or of shapes that reshapes turn into each other, such as
// the rows of a product and the stack of sequences they are. It runs when the order reaches its last member,
// so it must be closed as soon as anything outside uses one of its values: later nodes may still read the
// value, but not join. Two open groups that meet in one node become one. Nothing is visited twice, so the
// pass is linear.
#include "plan/fusion.h"

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

class Grouper {
 public:
  Grouper(const LinearGraph& graph, const Drafts& drafts, const Backend& backend, bool fuse)
      : graph_(graph), drafts_(drafts), backend_(backend), fuse_(fuse) {}

  Grouping run() {
    const auto count = static_cast<std::uint32_t>(graph_.nodes.size());
    result_.group_of.assign(count, -1);
    for (std::uint32_t node = 0; node < count; ++node) {
      if (canonical(node) != node || drafts_.uses[node] == 0) continue;
      switch (op_kind(graph_.ops[node])) {
        case OpKind::leaf:
          break;
        case OpKind::view:
          place_view(node);
          break;
        case OpKind::elementwise:
          place_elementwise(node);
          break;
        case OpKind::reduce:
          place_reduction(node);
          break;
        default:
          if (drafts_.turned.ropes.contains(node))
            place_turned(node);
          else
            place_alone(node);
      }
    }
    return std::move(result_);
  }

 private:
  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t canonical(std::uint32_t node) const { return drafts_.canonical[node]; }
  std::int32_t group_of(std::uint32_t node) const { return result_.group_of[canonical(node)]; }
  Group& group(std::int32_t index) { return result_.groups[static_cast<std::size_t>(index)]; }

  void close(std::int32_t index) {
    if (index >= 0) group(index).open = false;
  }

  std::int32_t new_group(std::uint32_t node, const Shape& domain) {
    result_.groups.push_back({});
    result_.groups.back().domain = domain;
    result_.groups.back().last = node;
    return static_cast<std::int32_t>(result_.groups.size() - 1);
  }

  void place_alone(std::uint32_t node) {
    for (auto input : graph_.inputs_of(node)) close(group_of(input));
    const auto index = new_group(node, at(node).shape);
    group(index).anchor = node;
    group(index).open = false;
    result_.group_of[node] = index;
  }

  // A rope that turns columns of a product belongs to it; the product waits for the last one, which may need
  // positions that come after the product.
  void place_turned(std::uint32_t node) {
    for (auto input : graph_.inputs_of(node)) close(group_of(input));
    const auto index = group_of(drafts_.turned.ropes.at(node));
    group(index).last = node;
    result_.group_of[node] = index;
  }

  // A reshape belongs to the group whose value it shows, so that what follows can join through it.
  void place_view(std::uint32_t node) {
    const auto input = canonical(graph_.inputs_of(node)[0]);
    const auto index = group_of(input);
    const bool shows_it = fuse_ && index >= 0 && graph_.ops[node] == Op::reshape && at(node).count() > 0 &&
                          drafts_.values[node].root == drafts_.values[input].root;
    if (!shows_it) return close(index);
    group(index).reshapes.push_back(node);
    result_.group_of[node] = index;
  }

  // Whether the operands of `node` that come from elsewhere have strides over the domain of a group.
  bool fits(std::uint32_t node, std::int32_t index) {
    const Shape &shape = at(node).shape, &domain = group(index).domain;
    if (shape == domain) return true;
    const auto edges = graph_.inputs_of(node);
    return std::all_of(edges.begin(), edges.end(), [&](std::uint32_t edge) {
      const auto operand = canonical(edge);
      return group_of(operand) == index || graph_.ops[operand] == Op::constant ||
             strides_over(at(operand), drafts_.values[operand].layout.strides, shape, domain);
    });
  }

  // A group that `node` may join through its operand: open, of the same shape, with room.
  bool joinable(std::int32_t index, std::uint32_t operand, std::uint32_t node) {
    if (!fuse_ || index < 0) return false;
    const Group& candidate = group(index);
    return candidate.open && at(operand).shape == at(node).shape && candidate.members.size() < max_members &&
           candidate.operands + 3 <= max_operands && goes_on(index, node) && fits(node, index);
  }

  // Whether a group's anchor, where it has one, goes on with `node`.
  bool goes_on(std::int32_t index, std::uint32_t node) {
    if (group(index).anchor < 0) return true;
    const auto anchor = static_cast<std::uint32_t>(group(index).anchor);
    return backend_.fuses_epilogue(graph_.ops[anchor], at(anchor).dtype, graph_.ops[node]);
  }

  // An operand that stands alone, such as a product, and is used here only, whose kernel can go on with
  // `node`.
  bool swallowable(std::uint32_t operand, std::uint32_t node) {
    if (!fuse_ || at(operand).shape != at(node).shape || drafts_.uses[operand] != 1) return false;
    auto source = operand;
    while (graph_.ops[source] == Op::reshape) {
      source = canonical(graph_.inputs_of(source)[0]);
      if (drafts_.uses[source] != 1) return false;
    }
    // Of a group that has gone on already, others may use values: it must not run later than they do.
    const auto index = group_of(operand);
    return index >= 0 && group(index).anchor == static_cast<std::int64_t>(source) && goes_on(index, node) &&
           fits(node, index);
  }

  void place_elementwise(std::uint32_t node) {
    std::int32_t target = -1;
    for (auto edge : graph_.inputs_of(node)) {
      const auto operand = canonical(edge);
      const auto index = group_of(operand);
      if (index < 0 || index == target) continue;
      if (joinable(index, operand, node)) {
        target = target < 0 ? index : merge(target, index);
      } else if (target < 0 && swallowable(operand, node)) {
        target = index;
        group(index).open =
            op_kind(graph_.ops[static_cast<std::size_t>(group(index).anchor)]) != OpKind::normalisation;
      }
    }
    if (target < 0) target = new_group(node, at(node).shape);
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
    const Group &first = group(a), &second = group(b);
    const bool room = first.members.size() + second.members.size() < max_members &&
                      first.operands + second.operands + 3 <= max_operands;
    if (!room || (first.anchor >= 0 && second.anchor >= 0)) return a;
    // The domain of an anchor stays.
    const bool keep_second =
        second.anchor >= 0 || (first.anchor < 0 && first.members.size() < second.members.size());
    const auto keep = keep_second ? b : a, gone = keep_second ? a : b;
    const auto& members = group(gone).members;
    const auto joins = [&](std::uint32_t member) { return fits(member, keep) && goes_on(keep, member); };
    if (!std::all_of(members.begin(), members.end(), joins)) return a;
    absorb(result_, keep, gone);
    return keep;
  }

  void place_reduction(std::uint32_t node) {
    const auto operand = canonical(graph_.inputs_of(node)[0]);
    auto index = group_of(operand);
    const bool joins = fuse_ && index >= 0 && group(index).open && group(index).anchor < 0 &&
                       change_domain(index, at(operand).shape);
    if (!joins) {
      close(index);
      index = new_group(node, at(operand).shape);
    }
    Group& target = group(index);
    target.reduction = node;
    target.last = node;
    target.open = false;
    result_.group_of[node] = index;
  }

  // False where a member has an operand without strides over it.
  bool change_domain(std::int32_t index, const Shape& domain) {
    const Shape before = std::exchange(group(index).domain, domain);
    const auto& members = group(index).members;
    const bool fine =
        std::all_of(members.begin(), members.end(), [&](auto member) { return fits(member, index); });
    if (!fine) group(index).domain = before;
    return fine;
  }

  const LinearGraph& graph_;
  const Drafts& drafts_;
  const Backend& backend_;
  const bool fuse_;
  Grouping result_;
};

}  // namespace

void absorb(Grouping& grouping, std::int32_t keep, std::int32_t gone) {
  Group &kept = grouping.groups[static_cast<std::size_t>(keep)],
        &lost = grouping.groups[static_cast<std::size_t>(gone)];
  const auto move = [&](std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& from) {
    for (auto node : from) grouping.group_of[node] = keep;
    to.insert(to.end(), from.begin(), from.end());
    std::sort(to.begin(), to.end());
  };
  move(kept.members, lost.members);
  move(kept.reshapes, lost.reshapes);
  kept.operands += lost.operands;
  lost = {};
  lost.open = false;
}

Grouping group_nodes(const LinearGraph& graph, const Drafts& drafts, const Backend& backend, bool fuse) {
  return Grouper(graph, drafts, backend, fuse).run();
}

std::optional<Strides> strides_over(const Node& node, const Strides& strides, const Shape& shape,
                                    const Shape& domain) {
  const Strides seen = broadcast_strides(node.shape, strides, shape);
  return shape == domain ? seen : reshape_strides(shape, seen, domain);
}

}  // namespace hearth
