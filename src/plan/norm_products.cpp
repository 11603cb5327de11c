#include "plan/norm_products.h"

#include "plan/step_uses.h"

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
  if (!has_step(drafts.steps, Op::rms_norm)) return 0;
  const StepUses uses(graph, drafts);
  std::vector<bool> joined(drafts.steps.size());
  for (std::size_t step = 0; step < drafts.steps.size(); ++step) {
    DraftStep& norm = drafts.steps[step];
    if (!plain_norm(norm) || uses.asked_for(norm.outputs[0])) continue;
    const auto& reading = uses.readers(norm.outputs[0]);
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
  return remove_steps(drafts.steps, joined);
}

}  // namespace hearth
