// Who reads each product, and when each group's values are needed first, is found in one pass over the graph.
//
// Groups that become one run when the last of them would have: what the others compute must not be needed
// before. If it is not, none of them depends on another by way of anything outside.
#include "plan/product_readers.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace hearth {
namespace {

class ReaderJoiner {
 public:
  ReaderJoiner(const LinearGraph& graph, const Drafts& drafts, const Backend& backend, Grouping& grouping)
      : graph_(graph), drafts_(drafts), backend_(backend), grouping_(grouping) {}

  void run() {
    find_products();
    if (readers_.empty()) return;
    find_readers();
    for (const auto& [product, readers] : readers_)
      if (readers.fit && readers.count > 1 && fits(product, readers.groups)) join(product, readers.groups);
    if (joined_.empty()) return;
    for (std::uint32_t node = 0; node < size(); ++node)
      if (canonical(node) == node && drafts_.uses[node] > 0 && graph_.ops[node] == Op::concat)
        join_results(node);
  }

 private:
  struct Readers {
    std::vector<std::int32_t> groups;  // each once
    std::size_t count = 0;             // how often it is read
    bool fit = true;                   // all of them are elementwise, over all elements in their order
  };

  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(graph_.nodes.size()); }
  std::uint32_t canonical(std::uint32_t node) const { return drafts_.canonical[node]; }
  const Value& value(std::uint32_t node) const { return drafts_.values[node]; }
  std::int32_t group_of(std::uint32_t node) const { return grouping_.group_of[node]; }
  Group& group(std::int32_t index) { return grouping_.groups[static_cast<std::size_t>(index)]; }
  bool is_view(std::uint32_t node) const {
    return op_kind(graph_.ops[node]) == OpKind::view && value(node).root != node;
  }

  void find_products() {
    for (const Group& candidate : grouping_.groups) {
      if (candidate.anchor < 0 || !candidate.members.empty()) continue;
      const auto node = static_cast<std::uint32_t>(candidate.anchor);
      if (graph_.ops[node] == Op::matmul && at(node).count() > 0 && !drafts_.turned.products.contains(node))
        readers_[node] = {};
    }
  }

  void find_readers() {
    needed_.assign(grouping_.groups.size(), size());
    for (auto output : graph_.outputs) note(canonical(output), -1);
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (canonical(node) != node || drafts_.uses[node] == 0) continue;
      const std::int32_t reader = is_elementwise(graph_.ops[node]) ? group_of(node) : -1;
      for (auto edge : graph_.inputs_of(node)) {
        const auto input = canonical(edge);
        if (is_view(node)) {
          // A view's readers are asked themselves; a slice is not read as the expression reads.
          if (graph_.ops[node] != Op::reshape) note(input, -1);
          continue;
        }
        note(input, reader);
        const auto from = group_of(value(input).root);
        if (from < 0 || from == group_of(node)) continue;
        const std::uint32_t when = group_of(node) < 0 ? node : group(group_of(node)).last;
        auto& needed = needed_[static_cast<std::size_t>(from)];
        needed = std::min(needed, when);
      }
    }
  }

  void note(std::uint32_t input, std::int32_t reader) {
    const auto found = readers_.find(value(input).root);
    if (found == readers_.end()) return;
    Readers& readers = found->second;
    ++readers.count;
    if (reader < 0 || readers.groups.size() > max_members) {
      readers.fit = false;
    } else if (std::find(readers.groups.begin(), readers.groups.end(), reader) == readers.groups.end()) {
      readers.groups.push_back(reader);
    }
  }

  bool fits(std::uint32_t product, const std::vector<std::int32_t>& readers) {
    const Shape& domain = at(product).shape;
    std::size_t members = 0;
    std::uint32_t operands = 0, last = 0;
    for (const std::int32_t index : readers) {
      const Group& reader = group(index);
      // One that another product's readers took in is empty.
      if (reader.members.empty() || reader.anchor >= 0 || reader.reduction >= 0 ||
          element_count(reader.domain) != at(product).count())
        return false;
      members += reader.members.size();
      operands += reader.operands;
      last = std::max(last, reader.last);
    }
    if (members > max_members || operands > max_operands) return false;
    for (const std::int32_t index : readers) {
      if (group(index).last != last && needed_[static_cast<std::size_t>(index)] <= last) return false;
      for (auto member : group(index).members)
        if (!operands_fit(member, readers, product, domain)) return false;
    }
    return backend_.joins_readers(product_step(graph_, drafts_, product));
  }

  // Whether the operands of a member that come from elsewhere have strides over the product.
  bool operands_fit(std::uint32_t member, const std::vector<std::int32_t>& readers, std::uint32_t product,
                    const Shape& domain) const {
    for (auto edge : graph_.inputs_of(member)) {
      const auto operand = canonical(edge);
      if (graph_.ops[operand] == Op::constant || value(operand).root == product) continue;
      if (std::find(readers.begin(), readers.end(), group_of(operand)) != readers.end()) continue;
      if (!strides_over(at(operand), value(operand).layout.strides, at(member).shape, domain)) return false;
    }
    return true;
  }

  // The reader that runs last takes in the others and the product.
  void join(std::uint32_t product, const std::vector<std::int32_t>& readers) {
    const std::int32_t keep =
        *std::max_element(readers.begin(), readers.end(),
                          [&](std::int32_t a, std::int32_t b) { return group(a).last < group(b).last; });
    for (const std::int32_t index : readers)
      if (index != keep) take_in(keep, index);
    take_in(keep, group_of(product));
    Group& kept = group(keep);
    grouping_.group_of[product] = keep;
    kept.anchor = product;
    kept.domain = at(product).shape;
    kept.open = false;
    joined_.insert(keep);
  }

  void take_in(std::int32_t keep, std::int32_t gone) {
    absorb(grouping_, keep, gone);
    auto& needed = needed_[static_cast<std::size_t>(keep)];
    needed = std::min(needed, needed_[static_cast<std::size_t>(gone)]);
  }

  // Where all that a joined step gives are the parts of one concat along the last axis, it is that concat.
  void join_results(std::uint32_t concat) {
    const Node& whole = at(concat);
    const auto parts = graph_.inputs_of(concat);
    const std::int32_t index = group_of(canonical(parts[0]));
    if (!joined_.contains(index) || group(index).joined >= 0 ||
        whole.attribute<AxisAttributes>().axis != static_cast<std::int64_t>(whole.shape.size()) - 1)
      return;
    for (auto edge : parts) {
      const auto part = canonical(edge);
      if (group_of(part) != index || at(part).dtype != whole.dtype ||
          at(part).shape.back() != group(index).domain.back())
        return;
    }
    if (uses_outside(index) != parts.size()) return;
    group(group_of(concat)) = {};
    grouping_.group_of[concat] = index;
    group(index).joined = concat;
  }

  std::size_t uses_outside(std::int32_t index) {
    std::size_t all = 0, inside = 0;
    const auto count = [&](std::uint32_t node) {
      all += drafts_.uses[node];
      for (auto edge : graph_.inputs_of(node)) inside += group_of(canonical(edge)) == index;
    };
    for (auto member : group(index).members) count(member);
    for (auto reshape : group(index).reshapes) count(reshape);
    return all + drafts_.uses[static_cast<std::size_t>(group(index).anchor)] - inside;
  }

  const LinearGraph& graph_;
  const Drafts& drafts_;
  const Backend& backend_;
  Grouping& grouping_;
  std::map<std::uint32_t, Readers> readers_;  // per product, in graph order
  std::unordered_set<std::int32_t> joined_;   // groups that have a product now
  std::vector<std::uint32_t> needed_;         // per group: when one of its values is first read by another
};

}  // namespace

void join_product_readers(const LinearGraph& graph, const Drafts& drafts, const Backend& backend,
                          Grouping& grouping) {
  ReaderJoiner(graph, drafts, backend, grouping).run();
}

}  // namespace hearth
