// Steps one by one, or the backend's replay of them once it has proved itself.
#include "plan/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"

namespace hearth {
namespace {

void run_steps(std::span<const StepRun> steps) {
  for (const StepRun& step : steps) step.kernel->run(step.arguments);
}

// Memory as numbers of 8 bytes, or as bytes where it is not a whole number of them.
Layout numbers_of(std::size_t bytes) {
  const auto count = static_cast<std::int64_t>(bytes % 8 == 0 ? bytes / 8 : bytes);
  return {bytes % 8 == 0 ? DType::i64 : DType::u8, {count}, {1}};
}

// `inverted`: every bit of it.
void copy(void* from, void* to, std::size_t bytes, Backend& backend, bool inverted = false) {
  Step step;
  step.op = Op::copy;
  const Layout numbers = numbers_of(bytes);
  step.domain = numbers.shape;
  step.inputs = step.outputs = {numbers};
  step.expression.inputs = {numbers.dtype};
  step.expression.outputs = {0};
  if (inverted) {
    step.expression.instructions = {{Op::bitwise_not, numbers.dtype, numbers.dtype, {0, 0, 0}}};
    step.expression.outputs = {1};
  }
  backend.prepare(step)->run({&from, &to, nullptr});
}

bool same(void* a, void* b, std::size_t bytes, Backend& backend) {
  Step step;
  step.op = Op::any;
  const Layout numbers = numbers_of(bytes);
  step.domain = numbers.shape;
  step.attributes = ReduceAttributes{{0}};
  step.inputs = {numbers, numbers};
  step.outputs = {{DType::bool_, {1}, {1}}};
  step.expression.inputs = {numbers.dtype, numbers.dtype};
  step.expression.instructions = {{Op::ne, numbers.dtype, DType::bool_, {0, 1, 0}}};
  step.expression.outputs = {2};
  const auto kernel = backend.prepare(step);
  const auto differs = backend.allocate(1, MemoryPurpose::results),
             scratch = backend.allocate(kernel->scratch_bytes(), MemoryPurpose::arenas);
  void* const inputs[] = {a, b};
  kernel->run({inputs, &differs->data, nullptr, scratch->data});
  bool result = true;
  backend.copy_to_host(&result, *differs, 0, 1);
  return !result;
}

// The bytes of an output at one moment: on the device, or on the host where the device has no room for them.
class Saved {
 public:
  Saved(const ReplayOutput& output, Backend& backend) : output_(output), backend_(backend) {
    if (output.bytes == 0) return;
    try {
      device_ = backend.allocate(output.bytes, MemoryPurpose::results);
    } catch (const OutOfMemory&) {
      host_.resize(output.bytes);
      backend.copy_to_host(host_.data(), *output.buffer, 0, output.bytes);
      return;
    }
    copy(output.buffer->data, device_->data, output.bytes, backend);
  }
  void restore() const {
    if (device_)
      copy(device_->data, output_.buffer->data, output_.bytes, backend_);
    else if (output_.bytes > 0)
      backend_.copy_from_host(*output_.buffer, 0, host_.data(), output_.bytes);
  }
  // Leaves something else there.
  void overwrite() const {
    if (device_) {
      copy(device_->data, output_.buffer->data, output_.bytes, backend_, true);
    } else if (output_.bytes > 0) {
      std::vector<std::byte> inverted = host_;
      for (std::byte& each : inverted) each = ~each;
      backend_.copy_from_host(*output_.buffer, 0, inverted.data(), output_.bytes);
    }
  }
  bool still_there() const {
    if (output_.bytes == 0) return true;
    if (device_) return same(device_->data, output_.buffer->data, output_.bytes, backend_);
    std::vector<std::byte> now(output_.bytes);
    backend_.copy_to_host(now.data(), *output_.buffer, 0, output_.bytes);
    return now == host_;
  }

 private:
  const ReplayOutput& output_;
  Backend& backend_;
  std::shared_ptr<Buffer> device_;
  std::vector<std::byte> host_;
};

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
      return compare(steps, outputs, backend, State::right_once);
    case State::right_once:
      if (!replay_->unchanged(steps)) return compare(steps, outputs, backend, State::trusted);
      return replay_->run(steps);
    default:
      return replay_->run(steps);
  }
}

void PlanReplay::compare(std::span<const StepRun> steps, const std::vector<ReplayOutput>& outputs,
                         Backend& backend, State if_right) {
  std::vector<Saved> before, expected;
  for (const ReplayOutput& output : outputs)
    if (output.donated) before.emplace_back(output, backend);
  run_steps(steps);
  for (const ReplayOutput& output : outputs) expected.emplace_back(output, backend);
  backend
      .synchronize();  // an error of the steps themselves comes here, and is no reason to refuse the replay
  try {
    // What the steps left must not be taken for the work of a replay that does nothing.
    for (const Saved& value : expected) value.overwrite();
    for (const Saved& value : before) value.restore();
    replay_->run(steps);
    if (std::all_of(expected.begin(), expected.end(),
                    [](const Saved& value) { return value.still_there(); })) {
      state_ = if_right;
      return;
    }
    refusal_ = "its results differ from those of the steps";
  } catch (const Error& error) {
    refusal_ = error.what();
  }
  state_ = State::refused;
  for (const Saved& value : expected) value.restore();
}

std::string PlanReplay::describe() const {
  const std::lock_guard lock(mutex_);
  switch (state_) {
    case State::right_once:
    case State::trusted:
      return fmt::format("replay: {} launches as one graph", replay_->launches());
    case State::refused:
      return "replay: not used: " + refusal_;
    default:
      return "replay: from the third run on";
  }
}

}  // namespace hearth
