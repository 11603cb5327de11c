#include "plan/normed_products.h"

#include "plan/step_uses.h"

namespace hearth {
namespace {

// Whether the step is a norm without a weight, and nothing more.
bool norm_without_weight(const DraftStep& draft) {
  return draft.step.op == Op::rms_norm && draft.step.inputs.size() == 1 && draft.outputs.size() == 1 &&
         draft.step.inputs[0].contiguous() && draft.step.expression.instructions.empty() &&
         draft.step.inputs[0].dtype == draft.step.outputs[0].dtype;
}

// Whether the step is a product with one result, of the norm's rows.
bool gives_rows_of(const DraftStep& product, const DraftStep& norm) {
  const Step& step = product.step;
  return step.op == Op::matmul && product.outputs.size() == 1 && !step.halves && step.joined == 0 &&
         !step.turned && !step.normed && step.outputs[0].dtype == norm.step.outputs[0].dtype &&
         step.domain.back() == norm.step.domain.back() &&
         element_count(step.domain) == element_count(norm.step.domain);
}

}  // namespace

std::size_t join_norms_of_results(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  if (!has_step(drafts.steps, Op::rms_norm)) return 0;
  const StepUses uses(graph, drafts);
  std::vector<bool> gone(drafts.steps.size());
  for (std::size_t step = 0; step < drafts.steps.size(); ++step) {
    DraftStep& norm = drafts.steps[step];
    if (!norm_without_weight(norm)) continue;
    const Source& x = norm.inputs[0];
    const auto writer = uses.writer(x.root);
    if (!writer || x.offset != 0 || uses.readers(x.root).size() != 1 || uses.asked_for(x.root)) continue;
    DraftStep& product = drafts.steps[*writer];
    if (!gives_rows_of(product, norm) || !backend.norms_result(product.step)) continue;
    product.step.normed = std::get<NormAttributes>(norm.step.attributes).epsilon;
    product.outputs = norm.outputs;
    product.nodes += norm.nodes;
    gone[step] = true;
  }
  return remove_steps(drafts.steps, gone);
}

}  // namespace hearth
