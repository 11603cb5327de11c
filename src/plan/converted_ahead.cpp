#include "plan/converted_ahead.h"

#include <map>
#include <tuple>

#include "plan/step_uses.h"

namespace hearth {
namespace {

// Weights that lie in memory before the plan runs, all of them.
bool waiting(const LinearGraph& graph, const Drafts& drafts, const DraftStep& product) {
  return graph.is_leaf(product.inputs[1].root) && reads_whole(drafts, product, 1);
}

void join(Drafts& drafts, DraftStep& earlier, DraftStep& later, DType dtype) {
  const Layout& weights = later.step.inputs[1];
  const Layout numbers{dtype, weights.shape, contiguous_strides(weights.shape)};
  earlier.step.converts = true;
  earlier.step.inputs.push_back(weights);
  earlier.inputs.push_back(later.inputs[1]);
  earlier.step.outputs.push_back(numbers);
  const auto root = static_cast<std::uint32_t>(drafts.held.size());
  drafts.held.push_back({dtype, element_count(numbers.shape)});
  earlier.outputs.push_back(root);
  later.step.inputs[1] = numbers;
  later.inputs[1] = {root, 0};
}

}  // namespace

std::size_t convert_ahead(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  if (!has_step(drafts.steps, Op::quantised_matmul)) return 0;
  std::size_t converted = 0;
  // By sizes and type of the product: the last step of that kind.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, DType>, DraftStep*> before;
  for (DraftStep& draft : drafts.steps) {
    if (draft.step.op != Op::quantised_matmul || !waiting(graph, drafts, draft)) continue;
    const auto dtype = backend.converts_weights(draft.step);
    if (!dtype) continue;
    const Shape &x = draft.step.inputs[0].shape, &weights = draft.step.inputs[1].shape;
    DraftStep*& last = before[{x[0], weights[0], weights[1], *dtype}];
    if (last != nullptr) {
      join(drafts, *last, draft, *dtype);
      ++converted;
    }
    last = &draft;
  }
  return converted;
}

}  // namespace hearth
