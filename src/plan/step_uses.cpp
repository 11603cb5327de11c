#include "plan/step_uses.h"

#include <algorithm>

namespace hearth {

StepUses::StepUses(const LinearGraph& graph, const Drafts& drafts) {
  for (const auto output : graph.outputs) results_.insert(drafts.values[drafts.canonical[output]].root);
  for (std::size_t step = 0; step < drafts.steps.size(); ++step) {
    for (const Source& input : drafts.steps[step].inputs) readers_[input.root].push_back(step);
    for (const std::uint32_t output : drafts.steps[step].outputs) writer_[output] = step;
  }
}

const std::vector<std::size_t>& StepUses::readers(std::uint32_t root) const {
  static const std::vector<std::size_t> nobody;
  const auto found = readers_.find(root);
  return found == readers_.end() ? nobody : found->second;
}

std::optional<std::size_t> StepUses::writer(std::uint32_t root) const {
  const auto found = writer_.find(root);
  return found == writer_.end() ? std::nullopt : std::optional(found->second);
}

bool has_step(const std::vector<DraftStep>& steps, Op op) {
  return std::any_of(steps.begin(), steps.end(), [&](const DraftStep& step) { return step.step.op == op; });
}

std::size_t remove_steps(std::vector<DraftStep>& steps, const std::vector<bool>& gone) {
  std::size_t index = 0;
  return std::erase_if(steps, [&](const DraftStep&) { return gone[index++]; });
}

std::size_t StepJoiner::remove_all() { return remove_steps(steps_, gone_); }

}  // namespace hearth
