// Ropes of a product's columns are collected first, then all who read the product are asked: nobody may want
// the columns as they were, and nobody may read before the last rope, in whose place the product runs.
#include "plan/turned_heads.h"

#include <algorithm>
#include <optional>

namespace hearth {
namespace {

class Finder {
 public:
  Finder(const LinearGraph& graph, const Drafts& drafts, const Backend& backend)
      : graph_(graph), drafts_(drafts), backend_(backend) {}

  TurnedProducts run() {
    for (std::uint32_t node = 0; node < size(); ++node)
      if (alive(node) && graph_.ops[node] == Op::rope) add_rope(node);
    if (found_.empty()) return {};
    for (std::uint32_t node = 0; node < size(); ++node)
      if (alive(node)) ask_reader(node);
    for (auto output : graph_.outputs) reject_result(drafts_.canonical[output]);
    TurnedProducts result;
    for (auto& [product, found] : found_) {
      if (!found.fits || !backend_.turns_heads(product_step(graph_, drafts_, product), found.heads)) continue;
      for (auto rope : found.ropes) result.ropes[rope] = product;
      result.products[product] = {found.heads, static_cast<std::uint32_t>(found.ropes.size())};
    }
    return result;
  }

 private:
  struct Found {
    TurnedHeads heads;
    std::vector<std::uint32_t> ropes;  // in graph order
    bool fits = true;
  };

  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(graph_.nodes.size()); }
  bool alive(std::uint32_t node) const { return drafts_.canonical[node] == node && drafts_.uses[node] > 0; }
  std::uint32_t input(std::uint32_t node, std::size_t i) const {
    return drafts_.canonical[graph_.inputs_of(node)[i]];
  }
  const Value& value(std::uint32_t node) const { return drafts_.values[node]; }

  // The product of a root that is one, or whose rope it is.
  void reject(std::uint32_t root) {
    if (const auto rope = product_of_.find(root); rope != product_of_.end()) root = rope->second;
    if (const auto found = found_.find(root); found != found_.end()) found->second.fits = false;
  }

  // Turned heads that are asked for get dense memory, as they do through a reshape that copies them.
  void reject_result(std::uint32_t node) {
    while (op_kind(graph_.ops[node]) == OpKind::view) {
      reject(value(node).root);
      node = input(node, 0);
    }
    reject(value(node).root);
  }

  void add_rope(std::uint32_t rope) {
    const std::uint32_t product = value(input(rope, 0)).root;
    if (graph_.ops[product] != Op::matmul || at(product).shape.size() != 2 || at(product).count() == 0)
      return;
    const auto heads = heads_of(rope, product);
    Found& found = found_[product];
    product_of_[rope] = product;
    if (!heads || !joins(found, *heads, rope)) {
      found.fits = false;
      return;
    }
    if (found.ropes.empty()) {
      found.heads = *heads;
    } else {
      found.heads.begin = std::min(found.heads.begin, heads->begin);
      found.heads.end = std::max(found.heads.end, heads->end);
    }
    found.ropes.push_back(rope);
  }

  // Nothing where what the rope turns is not whole columns of the product.
  std::optional<TurnedHeads> heads_of(std::uint32_t rope, std::uint32_t product) const {
    const std::uint32_t x = input(rope, 0);
    const Shape& shape = at(x).shape;
    const ViewLayout& layout = value(x).layout;
    if (at(x).count() == 0) return std::nullopt;
    const std::int64_t rows = at(product).shape[0], columns = at(product).shape[1];
    const std::size_t last = shape.size() - 1;
    TurnedHeads heads{std::get<RopeAttributes>(*at(rope).attributes), shape[last - 1], shape[last],
                      layout.offset, 0};
    if (heads.rope.inverse || layout.offset >= columns || layout.offset % heads.size != 0 ||
        layout.strides[last] != 1 || (heads.time > 1 && layout.strides[last - 1] != columns))
      return std::nullopt;
    std::int64_t sequences = 1, count = 1;
    for (std::size_t axis = 0; axis + 1 < last; ++axis) {
      if (shape[axis] == 1) continue;
      if (layout.strides[axis] == heads.size && count == 1)
        count = shape[axis];
      else if (layout.strides[axis] == heads.time * columns && sequences == 1)
        sequences = shape[axis];
      else
        return std::nullopt;
    }
    heads.end = heads.begin + count * heads.size;
    if (sequences * heads.time != rows || heads.end > columns) return std::nullopt;
    return heads;
  }

  // By the same angles, side by side.
  bool joins(const Found& found, const TurnedHeads& heads, std::uint32_t rope) const {
    if (found.ropes.empty()) return true;
    const auto before = graph_.inputs_of(found.ropes[0]), now = graph_.inputs_of(rope);
    if (before.size() != now.size()) return false;
    for (std::size_t i = 1; i < now.size(); ++i)
      if (input(found.ropes[0], i) != input(rope, i)) return false;
    return heads.rope.fields() == found.heads.rope.fields() && heads.time == found.heads.time &&
           heads.size == found.heads.size &&
           (heads.begin == found.heads.end || heads.end == found.heads.begin);
  }

  void ask_reader(std::uint32_t node) {
    const bool is_view = op_kind(graph_.ops[node]) == OpKind::view && value(node).root != node;
    for (std::size_t i = 0; i < graph_.inputs_of(node).size(); ++i) {
      const std::uint32_t source = input(node, i), root = value(source).root;
      if (is_view) {
        // Memory with gaps has no strides for some reshapes: they would become copies.
        if (graph_.ops[node] == Op::reshape && product_of_.contains(root)) reject(root);
        continue;
      }
      const auto rope = product_of_.find(root);
      const bool reads_turned = rope != product_of_.end();
      const auto found = found_.find(reads_turned ? rope->second : root);
      if (found == found_.end() || !found->second.fits) continue;
      const auto& ropes = found->second.ropes;
      const bool is_rope = std::find(ropes.begin(), ropes.end(), node) != ropes.end();
      if (is_rope && i == 0 && !reads_turned) continue;
      if (node <= ropes.back()) found->second.fits = false;
      if (!reads_turned && !beside(found->second.heads, source, at(root).shape[1]))
        found->second.fits = false;
    }
  }

  // Whether a view of a product shows none of the columns that are turned.
  bool beside(const TurnedHeads& heads, std::uint32_t view, std::int64_t columns) const {
    const ViewLayout& layout = value(view).layout;
    const std::int64_t first = layout.offset % columns;
    std::int64_t last = first;
    for (std::size_t axis = 0; axis < layout.strides.size(); ++axis) {
      const std::int64_t stride = layout.strides[axis], steps = at(view).shape[axis] - 1;
      if (steps <= 0 || stride % columns == 0) continue;
      if (stride < 0) return false;
      last += stride * steps;
    }
    return last < columns && (last < heads.begin || first >= heads.end);
  }

  const LinearGraph& graph_;
  const Drafts& drafts_;
  const Backend& backend_;
  std::unordered_map<std::uint32_t, Found> found_;               // per product
  std::unordered_map<std::uint32_t, std::uint32_t> product_of_;  // of a rope
};

}  // namespace

TurnedProducts find_turned_heads(const LinearGraph& graph, const Drafts& drafts, const Backend& backend) {
  return Finder(graph, drafts, backend).run();
}

}  // namespace hearth
