// Who writes and who reads what, among drafted steps: for passes that make some of them parts of others.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

class StepUses {
 public:
  StepUses(const LinearGraph& graph, const Drafts& drafts);

  // Whether a result of the graph shows this root.
  bool asked_for(std::uint32_t root) const { return results_.contains(root); }
  // Steps, each once for every input that shows the root.
  const std::vector<std::size_t>& readers(std::uint32_t root) const;
  // Nothing for leaves.
  std::optional<std::size_t> writer(std::uint32_t root) const;

 private:
  std::unordered_set<std::uint32_t> results_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> readers_;
  std::unordered_map<std::uint32_t, std::size_t> writer_;
};

// What such a pass works with, where it removes the steps that became parts of others at its end.
class StepJoiner {
 public:
  StepJoiner(const LinearGraph& graph, const Backend& backend, Drafts& drafts)
      : backend_(backend), steps_(drafts.steps), uses_(graph, drafts), gone_(drafts.steps.size()) {}

 protected:
  void remove(const DraftStep& step) { gone_[static_cast<std::size_t>(&step - steps_.data())] = true; }
  std::size_t remove_all();  // how many there were

  const Backend& backend_;
  std::vector<DraftStep>& steps_;
  const StepUses uses_;

 private:
  std::vector<bool> gone_;
};

// Whether there is one of this operation: else such a pass has nothing to do.
bool has_step(const std::vector<DraftStep>& steps, Op op);
// Returns how many there were.
std::size_t remove_steps(std::vector<DraftStep>& steps, const std::vector<bool>& gone);

}  // namespace hearth
