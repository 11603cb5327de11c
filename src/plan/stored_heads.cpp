//   product (n, columns): queries and keys -> rope; values -> store_rows, second part
//   rope (heads + groups, n, size): queries -> whoever reads them; keys -> store_rows, first part
#include "plan/stored_heads.h"

#include <algorithm>
#include <optional>

#include "plan/step_uses.h"

namespace hearth {
namespace {

// Inputs of store_rows, for each part: the cache, where rows go, the rows.
enum StoreInput : std::size_t { cache_input, slots_input, rows_input, store_inputs };

class HeadStorer {
 public:
  HeadStorer(const LinearGraph& graph, const Backend& backend, Drafts& drafts)
      : backend_(backend), drafts_(drafts), uses_(graph, drafts) {}

  std::size_t run() {
    std::vector<bool> gone(drafts_.steps.size());
    for (std::size_t rope = 0; rope < drafts_.steps.size(); ++rope) {
      const auto found = find(rope);
      if (!found) continue;
      join(*found);
      gone[found->product] = gone[found->rope] = true;
    }
    return remove_steps(drafts_.steps, gone);
  }

 private:
  struct Found {
    std::size_t product, rope, store;
    StoredHeads heads;
  };

  const DraftStep& at(std::size_t step) const { return drafts_.steps[step]; }

  std::optional<Found> find(std::size_t rope) {
    const DraftStep& turn = at(rope);
    if (turn.step.op != Op::rope || turn.inputs.empty()) return std::nullopt;
    const auto writer = uses_.writer(turn.inputs[0].root);
    if (!writer) return std::nullopt;
    const auto store = store_of(turn);
    if (!store) return std::nullopt;
    Found found{*writer, rope, *store, {}};
    if (!shapes_fit(found) || !readers_fit(found)) return std::nullopt;
    if (!backend_.stores_heads(at(found.product).step, at(found.store).step, found.heads))
      return std::nullopt;
    return found;
  }

  std::optional<std::size_t> store_of(const DraftStep& turn) {
    for (const std::size_t reader : uses_.readers(turn.outputs[0]))
      if (at(reader).step.op == Op::store_rows && at(reader).outputs.size() == 2) return reader;
    return std::nullopt;
  }

  // Whether an input shows (n, heads, size) of a root from `offset` on.
  static bool shows(const DraftStep& step, std::size_t input, std::uint32_t root, std::int64_t offset,
                    const Shape& shape, const Strides& strides) {
    const Layout& layout = step.step.inputs[input];
    if (step.inputs[input].root != root || step.inputs[input].offset != offset || layout.shape != shape)
      return false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] != 1 && layout.strides[axis] != strides[axis]) return false;
    return true;
  }

  bool shapes_fit(Found& found) const {
    const DraftStep &product = at(found.product), &rope = at(found.rope), &store = at(found.store);
    const auto& attributes = std::get<RopeAttributes>(rope.step.attributes);
    if (product.step.op != Op::quantised_matmul || product.step.halves || product.step.stored ||
        !product.step.expression.instructions.empty() || product.outputs.size() != 1 || attributes.inverse)
      return false;
    const Shape& turned = rope.step.inputs[0].shape;
    const Shape& cache = store.step.inputs[cache_input].shape;
    if (turned.size() != 3 || cache.size() != 3) return false;
    const std::int64_t n = product.step.domain[0], columns = product.step.domain[1];
    const std::int64_t groups = cache[1], size = cache[2], heads = turned[0] - groups;
    found.heads = {attributes, heads, groups, size, 0, 0};
    const std::uint32_t from = product.outputs[0];
    const Shape rows{n, groups, size};
    return heads > 0 && columns == (heads + 2 * groups) * size && size % 2 == 0 &&
           shows(rope, 0, from, 0, {heads + groups, n, size}, {size, columns, 1}) &&
           shows(store, rows_input, rope.outputs[0], heads * n * size, rows, {size, n * size, 1}) &&
           shows(store, store_inputs + rows_input, from, (heads + groups) * size, rows, {columns, size, 1});
  }

  // Nobody else reads the product, and of what the rope gives only queries, after the rows are stored.
  bool readers_fit(const Found& found) {
    const std::uint32_t product = at(found.product).outputs[0], turned = at(found.rope).outputs[0];
    if (uses_.asked_for(product) || uses_.asked_for(turned)) return false;
    for (const std::size_t reader : uses_.readers(product))
      if (reader != found.rope && reader != found.store) return false;
    const std::int64_t queries = found.heads.heads * at(found.product).step.domain[0] * found.heads.size;
    for (const std::size_t reader : uses_.readers(turned)) {
      if (reader == found.store) continue;
      if (reader < found.store) return false;
      const DraftStep& step = at(reader);
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        if (step.inputs[i].root == turned && end_of(step.step.inputs[i], step.inputs[i].offset) > queries)
          return false;
    }
    return true;
  }

  static std::int64_t end_of(const Layout& layout, std::int64_t offset) {
    std::int64_t last = offset;
    for (std::size_t axis = 0; axis < layout.shape.size(); ++axis) {
      if (layout.shape[axis] == 0) return offset;
      last += (layout.shape[axis] - 1) * std::max<std::int64_t>(layout.strides[axis], 0);
    }
    return last + 1;
  }

  // In place of the store, the last of the three. Inputs: those of the product without a norm's weight, those
  // of the rope without what it turns, a cache and slots for keys and for values, the norm's weight.
  void join(const Found& found) {
    DraftStep &product = drafts_.steps[found.product], &rope = drafts_.steps[found.rope],
              &store = drafts_.steps[found.store];
    DraftStep all;
    all.step = product.step;
    all.step.inputs.resize(2);
    all.inputs = {product.inputs[0], product.inputs[1]};
    const auto add = [&](const DraftStep& step, std::size_t input) {
      all.step.inputs.push_back(step.step.inputs[input]);
      all.inputs.push_back(step.inputs[input]);
    };
    for (std::size_t i = 1; i < rope.inputs.size(); ++i) add(rope, i);
    StoredHeads heads = found.heads;
    heads.keys = all.inputs.size();
    add(store, cache_input);
    add(store, slots_input);
    heads.values = all.inputs.size();
    add(store, store_inputs + cache_input);
    add(store, store_inputs + slots_input);
    for (std::size_t i = 2; i < product.inputs.size(); ++i) add(product, i);
    all.step.stored = heads;
    all.step.outputs = {rope.step.outputs[0], store.step.outputs[0], store.step.outputs[1]};
    all.outputs = {rope.outputs[0], store.outputs[0], store.outputs[1]};
    all.nodes = product.nodes + rope.nodes + store.nodes;
    store = std::move(all);
  }

  const Backend& backend_;
  Drafts& drafts_;
  const StepUses uses_;
};

}  // namespace

std::size_t join_stored_heads(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  return has_step(drafts.steps, Op::rope) ? HeadStorer(graph, backend, drafts).run() : 0;
}

}  // namespace hearth
