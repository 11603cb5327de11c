// From a graph to a plan: steps (drafts.h), memory (places.h), kernels.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "hearth/config.h"
#include "plan/added_gradients.h"
#include "plan/drafts.h"
#include "plan/places.h"
#include "plan/plan.h"

namespace hearth {
namespace {

std::string describe(const DraftStep& draft) {
  std::string text;
  if (draft.step.op != Op::copy || draft.step.expression.instructions.empty()) text = op_name(draft.step.op);
  for (const auto& instruction : draft.step.expression.instructions) {
    if (!text.empty()) text += ' ';
    text += op_name(instruction.op);
  }
  if (draft.step.stored) text += " rope store_rows";
  if (draft.step.turned) text += " rope";
  if (adds_gradient(draft.step)) text += " add";
  if (draft.step.normed) text += " rms_norm";
  if (draft.step.turned_parts) text = "rope concat";
  if (const auto& gradients = draft.step.attention_gradients)
    text = gradients->rope ? "attention_grads rope concat" : "attention_grads concat";
  if (draft.step.joined > 0) text += draft.step.halves ? " kept" : " concat";
  if (draft.step.converts) text += " converts";
  if (draft.step.rounds) text += " rounded";
  if (!draft.step.parts.empty()) text += fmt::format(" of {} values", draft.step.parts.size());
  return fmt::format("{:<40} {} -> {} output{}", text, to_string(draft.step.domain), draft.outputs.size(),
                     draft.outputs.size() == 1 ? "" : "s");
}

using Kernels = std::vector<std::shared_ptr<const Kernel>>;

// A leaf whose memory may become a result's is written to by the step that makes it; until then it is only
// read, as all others are. (place_values() gives no memory away that a later step reads.)
void mark_steady_inputs(const LinearGraph& graph, const std::vector<Replacement>& replacements,
                        Drafts& drafts) {
  std::unordered_map<std::uint32_t, std::size_t> made_by;  // root -> step
  for (std::size_t step = 0; step < drafts.steps.size(); ++step)
    for (const std::uint32_t root : drafts.steps[step].outputs) made_by.emplace(root, step);
  std::unordered_map<const Node*, std::size_t> written_by;
  for (const Replacement& replacement : replacements) {
    const auto made = made_by.find(drafts.values[drafts.canonical[graph.outputs[replacement.result]]].root);
    const std::size_t step = made != made_by.end() ? made->second : 0;
    const auto [known, is_new] = written_by.emplace(replacement.leaf, step);
    if (!is_new) known->second = std::min(known->second, step);
  }
  for (std::size_t index = 0; index < drafts.steps.size(); ++index) {
    DraftStep& draft = drafts.steps[index];
    const std::size_t count = std::min<std::size_t>(draft.inputs.size(), 32);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t root = draft.inputs[i].root;
      if (root >= graph.nodes.size()) continue;    // a step makes it
      if (graph.ops[root] != Op::value) continue;  // a number that is read as memory is written by a step
      const auto written = written_by.find(graph.nodes[root]);
      if (written == written_by.end() || index < written->second) draft.step.steady |= 1u << i;
    }
  }
}

Kernels prepare_kernels(const Drafts& drafts, Backend& backend) {
  Kernels kernels;
  for (const auto& draft : drafts.steps) kernels.push_back(backend.prepare(draft.step));
  return kernels;
}

// The places that each step reads and writes go to one list.
void add_steps(const Drafts& drafts, Kernels& kernels, const Placement& placement, bool describe_steps,
               Plan& plan) {
  const std::vector<Place>& places = placement.places;
  for (std::size_t index = 0; index < drafts.steps.size(); ++index) {
    const DraftStep& draft = drafts.steps[index];
    PlannedStep step;
    step.kernel = std::move(kernels[index]);
    step.scratch = placement.scratch[index];
    step.op = draft.step.op;
    step.nodes = draft.nodes;
    step.places_begin = static_cast<std::uint32_t>(plan.places.size());
    step.inputs = static_cast<std::uint32_t>(draft.inputs.size());
    step.outputs = static_cast<std::uint32_t>(draft.outputs.size());
    step.numbers_begin = static_cast<std::uint32_t>(plan.numbers.size());
    for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
      const DType dtype = draft.step.inputs[i].dtype;
      Place place = places[draft.inputs[i].root];
      place.bytes += storage_bytes(dtype, draft.inputs[i].offset);
      plan.places.push_back(place);
      plan.elements.push_back({dtype, element_count(draft.step.inputs[i].shape)});
    }
    for (std::size_t k = 0; k < draft.outputs.size(); ++k) {
      const std::uint32_t node = draft.outputs[k];
      plan.places.push_back(places[node]);
      Elements elements = drafts.held[node];
      if (const auto& heads = draft.step.stored; heads && k == 0)  // only queries, which come first
        elements.count = heads->heads * draft.step.domain[0] * heads->size;
      plan.elements.push_back(elements);
    }
    step.numbers = static_cast<std::uint32_t>(draft.numbers.size());
    plan.numbers.insert(plan.numbers.end(), draft.numbers.begin(), draft.numbers.end());
    plan.steps.push_back(std::move(step));
    if (describe_steps) plan.step_descriptions.push_back(describe(draft));
  }
}

void summarize(const Drafts& drafts, const Placement& placement, const PlanOptions& options, Plan& plan) {
  plan.stats.steps = plan.steps.size();
  plan.stats.fused_nodes = drafts.fused_nodes;
  for (auto bytes : plan.output_bytes) plan.stats.output_bytes += bytes;
  auto& passes = plan.passes;
  if (options.eliminate_common)
    passes.push_back(fmt::format("common subexpressions: {} nodes merged", drafts.merged));
  if (options.fuse)
    passes.push_back(fmt::format("fusion: {} of {} nodes share a step; {} steps", drafts.fused_nodes,
                                 plan.stats.nodes, plan.steps.size()));
  if (drafts.batched > 0)
    passes.push_back(fmt::format("batches: {} small steps are parts of another", drafts.batched));
  if (drafts.rounded > 0)
    passes.push_back(
        fmt::format("rounding: {} operands of products are stored as those need them", drafts.rounded));
  if (drafts.converted > 0)
    passes.push_back(
        fmt::format("conversion: {} matrices of weights beside an earlier product", drafts.converted));
  if (drafts.rounded_ahead > 0)
    passes.push_back(
        fmt::format("rounding ahead: {} operands of products by the step before", drafts.rounded_ahead));
  if (options.multiply_by_reciprocals)
    passes.push_back(
        fmt::format("reciprocals: {} divisions by a number are multiplications", drafts.divisions));
  passes.push_back(fmt::format("layout: {} views need a copy", drafts.copies));
  passes.push_back(
      fmt::format("memory: {} bytes of intermediate values in an arena of {} ({} required), {} in place",
                  placement.bytes, plan.arena_bytes, plan.stats.required_bytes, placement.in_place));
}

}  // namespace

PlanOptions plan_options() {
  const Config current = config();
  const bool optimize = current.optimization_level != OptimizationLevel::conservative;
  return {optimize && current.enable_operator_fusion,
          optimize,
          current.optimization_level == OptimizationLevel::aggressive,
          false,
          optimize && current.enable_graph_replay,
          current.enable_matrix_cores,
          current.vendor_blas_enabled,
          current.vendor_dnn_enabled,
          current.enable_tuning};
}

std::shared_ptr<const Plan> build_plan(const LinearGraph& graph, Backend& backend, const PlanOptions& options,
                                       const std::vector<Replacement>& replacements) {
  auto plan = std::make_shared<Plan>();
  plan->device = backend.info().device;
  plan->stats.nodes = graph.nodes.size();
  Drafts drafts = draft_steps(graph, backend, options);
  mark_steady_inputs(graph, replacements, drafts);
  Kernels kernels = prepare_kernels(drafts, backend);
  std::vector<std::size_t> scratch_bytes;
  for (const auto& kernel : kernels) scratch_bytes.push_back(kernel->scratch_bytes());
  const Placement placement = place_values(graph, drafts, scratch_bytes, replacements, *plan);
  add_steps(drafts, kernels, placement, options.describe_steps, *plan);
  summarize(drafts, placement, options, *plan);
  constexpr std::size_t worth_replaying = 4;
  if (options.replay && plan->steps.size() >= worth_replaying)
    if (auto replay = backend.make_replay()) plan->replay = std::make_unique<PlanReplay>(std::move(replay));
  return plan;
}

std::string Plan::describe() const {
  std::string text = fmt::format("{} nodes, {} steps on {}\n", stats.nodes, steps.size(), to_string(device));
  for (const auto& pass : passes) text += "  " + pass + "\n";
  if (replay) text += "  " + replay->describe() + "\n";
  for (std::size_t i = 0; i < step_descriptions.size(); ++i)
    text += fmt::format("  step {:<4} {}\n", i, step_descriptions[i]);
  return text;
}

}  // namespace hearth
