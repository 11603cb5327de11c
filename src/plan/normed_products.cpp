// One pass to see who reads and who writes what, one over the norms.
#include "plan/normed_products.h"

#include <unordered_map>
#include <unordered_set>

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
  std::unordered_set<std::uint32_t> results;
  for (const auto output : graph.outputs) results.insert(drafts.values[drafts.canonical[output]].root);
  std::unordered_map<std::uint32_t, std::size_t> readers, writer;
  for (std::size_t step = 0; step < drafts.steps.size(); ++step) {
    for (const Source& input : drafts.steps[step].inputs) ++readers[input.root];
    for (const std::uint32_t output : drafts.steps[step].outputs) writer[output] = step;
  }
  std::vector<bool> gone(drafts.steps.size());
  for (std::size_t step = 0; step < drafts.steps.size(); ++step) {
    DraftStep& norm = drafts.steps[step];
    if (!norm_without_weight(norm)) continue;
    const Source& x = norm.inputs[0];
    const auto found = writer.find(x.root);
    if (found == writer.end() || x.offset != 0 || readers[x.root] != 1 || results.contains(x.root)) continue;
    DraftStep& product = drafts.steps[found->second];
    if (!gives_rows_of(product, norm) || !backend.norms_result(product.step)) continue;
    product.step.normed = std::get<NormAttributes>(norm.step.attributes).epsilon;
    product.outputs = norm.outputs;
    product.nodes += norm.nodes;
    gone[step] = true;
  }
  std::size_t index = 0;
  return std::erase_if(drafts.steps, [&](const DraftStep&) { return gone[index++]; });
}

}  // namespace hearth
