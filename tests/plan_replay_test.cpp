// When a replay is believed, with replays that do wrong.
#include "plan/replay.h"

#include <gtest/gtest.h>

#include <optional>

#include "hearth/device.h"

namespace hearth {
namespace {

constexpr std::int64_t count = 5;

enum class Kind { faithful, idle, stale };

// Runs the steps as it was given them the first time, every time, or does nothing.
class FakeReplay final : public Replay {
 public:
  explicit FakeReplay(Kind kind) : kind_(kind) {}
  void run(std::span<const StepRun> steps) override {
    ++runs;
    if (kind_ == Kind::idle) return;
    if (!given_ || kind_ == Kind::faithful) given_ = places(steps);
    steps[0].kernel->run({&given_->first, &given_->second, nullptr});
  }
  bool unchanged(std::span<const StepRun> steps) const override { return given_ == places(steps); }
  std::size_t launches() const override { return 1; }

  static inline int runs = 0;

 private:
  using Places = std::pair<void*, void*>;
  static Places places(std::span<const StepRun> steps) {
    return {steps[0].arguments.inputs[0], steps[0].arguments.outputs[0]};
  }
  Kind kind_;
  std::optional<Places> given_;
};

// A plan of one step, -x.
class PlanOfOne {
 public:
  explicit PlanOfOne(Kind kind) : replay_(std::make_unique<FakeReplay>(kind)) {
    Step step;
    step.op = Op::copy;
    step.domain = {count};
    step.inputs = step.outputs = {{DType::f32, {count}, {1}}};
    step.expression.inputs = {DType::f32};
    step.expression.instructions = {{Op::neg, DType::f32, DType::f32, {0, 0, 0}}};
    step.expression.outputs = {1};
    kernel_ = backend_.prepare(step);
    FakeReplay::runs = 0;
  }

  // With memory of its own for `place`; the result must be right whatever the replay does.
  void run(std::size_t place, float x) {
    while (buffers_.size() <= place)
      buffers_.push_back({backend_.allocate(count * sizeof(float), MemoryPurpose::results),
                          backend_.allocate(count * sizeof(float), MemoryPurpose::results)});
    auto& [in, out] = buffers_[place];
    std::fill_n(static_cast<float*>(in->data), count, x);
    const StepRun step{kernel_.get(), {&in->data, &out->data, nullptr}, 1, 1, 0};
    replay_.run({&step, 1}, {{out.get(), count * sizeof(float), false}}, backend_);
    for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(static_cast<float*>(out->data)[i], -x) << place;
  }
  std::string describe() const { return replay_.describe(); }

 private:
  Backend& backend_ = backend(Device{});
  std::unique_ptr<Kernel> kernel_;
  PlanReplay replay_;
  std::vector<std::pair<std::shared_ptr<Buffer>, std::shared_ptr<Buffer>>> buffers_;
};

TEST(PlanReplay, AFaithfulOneIsUsedFromTheSecondRunOn) {
  PlanOfOne plan(Kind::faithful);
  EXPECT_EQ(plan.describe(), "replay: from the third run on");
  for (int i = 0; i < 4; ++i) plan.run(static_cast<std::size_t>(i) % 2, static_cast<float>(i));
  EXPECT_EQ(FakeReplay::runs, 3);
  EXPECT_EQ(plan.describe(), "replay: 1 launches as one graph");
}

TEST(PlanReplay, OneThatDoesNothingIsNotBelieved) {
  PlanOfOne plan(Kind::idle);
  for (int i = 0; i < 4; ++i) plan.run(0, static_cast<float>(i));
  EXPECT_EQ(FakeReplay::runs, 1);
  EXPECT_EQ(plan.describe(), "replay: not used: its results differ from those of the steps");
}

TEST(PlanReplay, OneThatKeepsItsArgumentsIsFoundOutWhenTheyChange) {
  PlanOfOne plan(Kind::stale);
  for (int i = 0; i < 4; ++i) plan.run(0, static_cast<float>(i));
  EXPECT_EQ(FakeReplay::runs, 3);
  for (int i = 0; i < 4; ++i) plan.run(1, static_cast<float>(i));
  EXPECT_EQ(FakeReplay::runs, 4);
  EXPECT_EQ(plan.describe(), "replay: not used: its results differ from those of the steps");
}

}  // namespace
}  // namespace hearth
