// From a graph to a plan: steps (drafts.h), memory (places.h), kernels.
#include <fmt/format.h>

#include "hearth/config.h"
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
  return fmt::format("{:<40} {} -> {} output{}", text, to_string(draft.step.domain), draft.outputs.size(),
                     draft.outputs.size() == 1 ? "" : "s");
}

// The backend makes each step ready; the places it reads and writes go to one list.
void prepare_kernels(const Drafts& drafts, const std::vector<Place>& places, const LinearGraph& graph,
                     Backend& backend, bool describe_steps, Plan& plan) {
  for (const auto& draft : drafts.steps) {
    PlannedStep step;
    step.kernel = backend.prepare(draft.step);
    step.op = draft.step.op;
    step.nodes = draft.nodes;
    step.places_begin = static_cast<std::uint32_t>(plan.places.size());
    step.inputs = static_cast<std::uint32_t>(draft.inputs.size());
    step.outputs = static_cast<std::uint32_t>(draft.outputs.size());
    step.numbers_begin = static_cast<std::uint32_t>(plan.numbers.size());
    for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
      const DType dtype = draft.step.inputs[i].dtype;
      Place place = places[draft.inputs[i].root];
      place.bytes += draft.inputs[i].offset * static_cast<std::int64_t>(dtype_size(dtype));
      plan.places.push_back(place);
      plan.elements.push_back({dtype, element_count(draft.step.inputs[i].shape)});
    }
    for (auto node : draft.outputs) {
      plan.places.push_back(places[node]);
      plan.elements.push_back({graph.nodes[node]->dtype, graph.nodes[node]->count()});
    }
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
  return {optimize && current.enable_operator_fusion, optimize,
          current.optimization_level == OptimizationLevel::aggressive, false};
}

std::shared_ptr<const Plan> build_plan(const LinearGraph& graph, Backend& backend, const PlanOptions& options,
                                       const std::vector<Replacement>& replacements) {
  auto plan = std::make_shared<Plan>();
  plan->device = backend.info().device;
  plan->stats.nodes = graph.nodes.size();
  const Drafts drafts = draft_steps(graph, backend, options);
  const Placement placement = place_values(graph, drafts, replacements, *plan);
  prepare_kernels(drafts, placement.places, graph, backend, options.describe_steps, *plan);
  summarize(drafts, placement, options, *plan);
  return plan;
}

std::string Plan::describe() const {
  std::string text = fmt::format("{} nodes, {} steps on {}\n", stats.nodes, steps.size(), to_string(device));
  for (const auto& pass : passes) text += "  " + pass + "\n";
  for (std::size_t i = 0; i < step_descriptions.size(); ++i)
    text += fmt::format("  step {:<4} {}\n", i, step_descriptions[i]);
  return text;
}

}  // namespace hearth
