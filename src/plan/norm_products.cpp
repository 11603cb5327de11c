// One pass to see who reads what, one over the norms.
#include "plan/norm_products.h"

#include <unordered_map>
#include <unordered_set>

namespace hearth {
namespace {

// Whether the step is a norm with a weight and nothing more.
bool plain_norm(const DraftStep& draft) {
  return draft.step.op == Op::rms_norm && draft.step.inputs.size() == 2 && draft.outputs.size() == 1 &&
         draft.step.expression.instructions.empty();
}

void join(DraftStep& product, DraftStep& norm) {
  product.step.inputs[0] = norm.step.inputs[0];
  product.inputs[0] = norm.inputs[0];
  product.step.inputs.push_back(norm.step.inputs[1]);
  product.inputs.push_back(norm.inputs[1]);
  product.step.attributes = norm.step.attributes;
  product.nodes += norm.nodes;
}

}  // namespace

std::size_t join_norms(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  std::unordered_set<std::uint32_t> results;
  for (const auto output : graph.outputs) results.insert(drafts.values[drafts.canonical[output]].root);
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> readers;  // of a root: steps
  for (std::size_t step = 0; step < drafts.steps.size(); ++step)
    for (const Source& input : drafts.steps[step].inputs) readers[input.root].push_back(step);

  std::vector<bool> joined(drafts.steps.size());
  for (std::size_t step = 0; step < drafts.steps.size(); ++step) {
    DraftStep& norm = drafts.steps[step];
    if (!plain_norm(norm) || results.contains(norm.outputs[0])) continue;
    const auto& reading = readers[norm.outputs[0]];
    if (reading.size() != 1) continue;
    DraftStep& product = drafts.steps[reading[0]];
    const Source& x = product.inputs[0];
    if (x.root != norm.outputs[0] || x.offset != 0 || !product.step.inputs[0].contiguous() ||
        product.step.inputs[0].shape != norm.step.inputs[0].shape ||
        !backend.takes_norm(product.step, norm.step))
      continue;
    join(product, norm);
    joined[step] = true;
  }
  std::size_t kept = 0;
  for (std::size_t step = 0; step < drafts.steps.size(); ++step) {
    if (joined[step]) continue;
    if (kept != step) drafts.steps[kept] = std::move(drafts.steps[step]);
    ++kept;
  }
  const std::size_t gone = drafts.steps.size() - kept;
  drafts.steps.erase(drafts.steps.begin() + static_cast<std::ptrdiff_t>(kept), drafts.steps.end());
  return gone;
}

}  // namespace hearth
