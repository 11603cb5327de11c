// Steps one by one, or the backend's replay of them once it has proved itself.
#include "plan/replay.h"

#include <fmt/format.h>

#include "hearth/error.h"

namespace hearth {
namespace {

void run_steps(std::span<const StepRun> steps) {
  for (const StepRun& step : steps) step.kernel->run(step.arguments);
}

using Snapshot = std::vector<std::vector<std::byte>>;  // of all outputs, on the host

Snapshot read(const std::vector<ReplayOutput>& outputs, Backend& backend) {
  Snapshot snapshot;
  for (const ReplayOutput& output : outputs) {
    auto& bytes = snapshot.emplace_back(output.bytes);
    backend.copy_to_host(bytes.data(), *output.buffer, 0, output.bytes);
  }
  return snapshot;
}

void write(const std::vector<ReplayOutput>& outputs, const Snapshot& snapshot, Backend& backend) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    backend.copy_from_host(*outputs[i].buffer, 0, snapshot[i].data(), outputs[i].bytes);
}

}  // namespace

void PlanReplay::run(std::span<const StepRun> steps, const std::vector<ReplayOutput>& outputs,
                     Backend& backend) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || state_ == State::refused) return run_steps(steps);
  switch (state_) {
    case State::new_plan:
      state_ = State::unchecked;
      return run_steps(steps);
    case State::unchecked:
      return compare(steps, outputs, backend);
    default:
      return replay_->run(steps);
  }
}

void PlanReplay::compare(std::span<const StepRun> steps, const std::vector<ReplayOutput>& outputs,
                         Backend& backend) {
  Snapshot before(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].donated) continue;
    before[i].resize(outputs[i].bytes);
    backend.copy_to_host(before[i].data(), *outputs[i].buffer, 0, outputs[i].bytes);
  }
  run_steps(steps);
  const Snapshot expected = read(outputs, backend);
  try {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].donated)
        backend.copy_from_host(*outputs[i].buffer, 0, before[i].data(), outputs[i].bytes);
    replay_->run(steps);
    if (read(outputs, backend) == expected) {
      state_ = State::trusted;
      return;
    }
    refusal_ = "its results differ from those of the steps";
  } catch (const Error& error) {
    refusal_ = error.what();
  }
  state_ = State::refused;
  write(outputs, expected, backend);
}

std::string PlanReplay::describe() const {
  const std::lock_guard lock(mutex_);
  switch (state_) {
    case State::trusted:
      return fmt::format("replay: {} launches as one graph", replay_->launches());
    case State::refused:
      return "replay: not used: " + refusal_;
    default:
      return "replay: from the third run on";
  }
}

}  // namespace hearth
