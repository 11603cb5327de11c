// Who reads each product, and when, is found in one pass over the graph; then those products join whose
// readers allow it.
//
// A group that reads a product has members behind it in the graph's order, so it was open when the product
// was placed: the product does not depend on it. The step runs when the group's last member is reached, as
// before. Others may read the product after that, as gradients do: then it is kept.
#include "plan/halves.h"

#include <algorithm>
#include <map>

namespace hearth {
namespace {

class Joiner {
 public:
  Joiner(const LinearGraph& graph, const Drafts& drafts, const Backend& backend, Grouping& grouping)
      : graph_(graph), drafts_(drafts), backend_(backend), grouping_(grouping) {}

  void run() {
    find_products();
    if (readers_.empty()) return;
    find_readers();
    for (const auto& [product, readers] : readers_)
      if (readers.first >= 0 && group(readers.first).last < readers.others &&
          fits(product, readers.first, readers.others != nobody))
        join(product, readers.first, readers.others != nobody);
  }

 private:
  static constexpr std::uint32_t nobody = ~0u;
  // Of a product: the group that reads it first, and when the first of all others does.
  struct Readers {
    std::int32_t first = -1;
    std::uint32_t others = nobody;
  };

  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(graph_.nodes.size()); }
  std::uint32_t canonical(std::uint32_t node) const { return drafts_.canonical[node]; }
  const Value& value(std::uint32_t node) const { return drafts_.values[node]; }
  Group& group(std::int32_t index) { return grouping_.groups[static_cast<std::size_t>(index)]; }

  void find_products() {
    for (const Group& candidate : grouping_.groups) {
      if (candidate.anchor < 0 || !candidate.members.empty()) continue;
      const auto node = static_cast<std::uint32_t>(candidate.anchor);
      const bool product = graph_.ops[node] == Op::matmul || graph_.ops[node] == Op::quantised_matmul;
      if (product && at(node).count() > 0 && at(node).shape.back() % 2 == 0) readers_[node] = {};
    }
  }

  void find_readers() {
    for (auto output : graph_.outputs) note(canonical(output), -1, size());
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (canonical(node) != node || drafts_.uses[node] == 0) continue;
      for (auto edge : graph_.inputs_of(node)) {
        const auto input = canonical(edge);
        // What reads a view of a product is asked itself.
        if (op_kind(graph_.ops[node]) == OpKind::view && value(node).root == value(input).root) continue;
        const std::int32_t reader = grouping_.group_of[node];
        note(input, is_elementwise(graph_.ops[node]) ? reader : -1, reader < 0 ? node : group(reader).last);
      }
    }
  }

  void note(std::uint32_t input, std::int32_t reader, std::uint32_t when) {
    const auto found = readers_.find(value(input).root);
    if (found == readers_.end()) return;
    Readers& readers = found->second;
    if (reader >= 0 && reader == readers.first) return;
    if (reader >= 0 && (readers.first < 0 || when < group(readers.first).last)) {
      if (readers.first >= 0) readers.others = std::min(readers.others, group(readers.first).last);
      readers.first = reader;
    } else {
      readers.others = std::min(readers.others, when);
    }
  }

  static Shape half_of(Shape shape) {
    shape.back() /= 2;
    return shape;
  }

  // Whether all operands of a group's members have strides over a half of the product, and those that show
  // the product itself are its left and its right half.
  bool fits(std::uint32_t product, std::int32_t index, bool kept) {
    const Group& reader = group(index);
    const Shape domain = half_of(at(product).shape);
    if (reader.anchor >= 0 || reader.reduction >= 0 || element_count(reader.domain) != element_count(domain))
      return false;
    bool left = false, right = false;
    for (auto member : reader.members)
      for (auto edge : graph_.inputs_of(member)) {
        const auto operand = canonical(edge);
        if (grouping_.group_of[operand] == index || graph_.ops[operand] == Op::constant) continue;
        const auto& layout = value(operand).layout;
        const auto strides = strides_over(at(operand), layout.strides, at(member).shape, domain);
        if (!strides) return false;
        if (value(operand).root != product) continue;
        if (!steps_alike(domain, *strides, value(product).layout.strides)) return false;
        (layout.offset == 0 ? left : right) = true;
        if (layout.offset != 0 && layout.offset != domain.back()) return false;
      }
    return left && right && backend_.fuses_halves(product_step(graph_, drafts_, product), kept);
  }

  static bool steps_alike(const Shape& shape, const Strides& a, const Strides& b) {
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1 && a[i] != b[i]) return false;
    return true;
  }

  void join(std::uint32_t product, std::int32_t index, bool kept) {
    Group& alone = group(grouping_.group_of[product]);
    for (auto reshape : alone.reshapes) grouping_.group_of[reshape] = -1;
    alone = {};
    alone.open = false;
    grouping_.group_of[product] = index;
    group(index).anchor = product;
    group(index).halves = true;
    group(index).kept = kept;
    group(index).domain = half_of(at(product).shape);
  }

  const LinearGraph& graph_;
  const Drafts& drafts_;
  const Backend& backend_;
  Grouping& grouping_;
  std::map<std::uint32_t, Readers> readers_;  // per product, in graph order
};

}  // namespace

void join_halves(const LinearGraph& graph, const Drafts& drafts, const Backend& backend, Grouping& grouping) {
  Joiner(graph, drafts, backend, grouping).run();
}

}  // namespace hearth
