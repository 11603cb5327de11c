// When a plan is replayed instead of run step by step.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/backend.h"

namespace hearth {

// Memory that steps write to and that outlives the run.
struct ReplayOutput {
  Buffer* buffer = nullptr;
  std::size_t bytes = 0;
  bool donated = false;  // holds a value that the steps read before they write
};

// The first run goes step by step. In the second the replay is compared with the steps, bit by bit, and once
// more when arguments change for the first time: drivers have been seen to replay graphs with stale
// arguments. Otherwise it is replayed from the third on, unless it differed. Safe from any thread; a thread
// that finds the replay in use runs the steps.
class PlanReplay {
 public:
  explicit PlanReplay(std::unique_ptr<Replay> replay) : replay_(std::move(replay)) {}

  void run(std::span<const StepRun> steps, const std::vector<ReplayOutput>& outputs, Backend& backend);
  std::string describe() const;

 private:
  enum class State { new_plan, unchecked, right_once, trusted, refused };

  void compare(std::span<const StepRun> steps, const std::vector<ReplayOutput>& outputs, Backend& backend,
               State if_right);

  mutable std::mutex mutex_;
  std::unique_ptr<Replay> replay_;
  State state_ = State::new_plan;
  std::string refusal_;  // why it is not used
};

}  // namespace hearth
