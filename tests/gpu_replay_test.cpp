// Graphs of a plan's steps where a step does something else than launch our kernels, as vendors' libraries
// do.
#include <gtest/gtest.h>

#include "gpu/replay.h"
#include "gpu_steps.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

constexpr std::int64_t count = 300;

// Copies its input by a call of the driver, or fails; says how often it was asked.
class ForeignCopy final : public Kernel {
 public:
  ForeignCopy(GpuDevice& device, const Kernel& fallback) : device_(device), fallback_(fallback) {}

  void run(const KernelArguments& arguments) const override {
    if (failed) return fallback_.run(arguments);
    void* const from = arguments.inputs[0];
    void* const to = arguments.outputs[0];
    const void* const pointers[] = {from, to};
    device_.foreign(pointers, [this, from, to](StreamHandle stream) {
      ++calls;
      if (fails) {
        failed = true;
        throw BlasError("[test] no");
      }
      device_.driver().check(device_.driver().call.copy_on_device(to, from, count * sizeof(float), stream),
                             "copying");
    });
  }

  mutable int calls = 0;
  mutable bool failed = false;
  bool fails = false;

 private:
  GpuDevice& device_;
  const Kernel& fallback_;
};

class GpuReplay : public OnTestGpu {
 protected:
  // copy (by our own kernel), foreign copy, copy: from `input` to `output`.
  struct Chain {
    GpuDevice& device = *test_gpu();
    Step step = copy_step();
    std::unique_ptr<Kernel> plain = make_elementwise(device, step);
    ForeignCopy foreign{device, *plain};
    std::unique_ptr<Replay> replay = make_replay(device);

    static Step copy_step() {
      const std::vector<Array> inputs = {random_array(DType::f32, {count}, Lay::dense, 1, -4, 4)};
      Step step = step_of(Op::copy, {}, inputs, inputs[0].layout);
      step.expression.inputs = {DType::f32};
      step.expression.outputs = {0};
      return step;
    }

    void check(unsigned seed) {
      const Array input = random_array(DType::f32, {count}, Lay::dense, seed, -4, 4);
      Array output = cpu::empty_array(DType::f32, {count});
      kept.push_back(std::make_unique<OnGpu>(device, input, true));
      for (int i = 0; i < 3; ++i) kept.push_back(std::make_unique<OnGpu>(device, output, false));
      void* places[4];
      for (int i = 0; i < 4; ++i) places[i] = kept[kept.size() - 4 + static_cast<std::size_t>(i)]->data();
      const Kernel* kernels[] = {plain.get(), &foreign, plain.get()};
      std::vector<StepRun> runs;
      for (int i = 0; i < 3; ++i)
        runs.push_back({kernels[i], {&places[i], &places[i + 1], nullptr}, 1, 1, 0});
      for (int again = 0; again < 2; ++again) replay->run(runs);
      kept.back()->copy_back(output);
      expect_close(output, input, 0);
    }

    std::vector<std::unique_ptr<OnGpu>> kept;  // so that memory lies elsewhere each time
  };
};

TEST_F(GpuReplay, ForeignWorkIsPartOfTheGraph) {
  Chain chain;
  for (unsigned run = 0; run < 4; ++run) chain.check(run + 1);
  EXPECT_EQ(chain.replay->launches(), 3u);
  EXPECT_EQ(chain.foreign.calls, 4);  // once for each set of pointers
}

// HIP's graphs are made anew after so many changes (most_updates in replay.cpp).
TEST_F(GpuReplay, ArgumentsMayChangeManyTimes) {
  Chain chain;
  for (unsigned run = 0; run < 1500; ++run) {
    chain.check(run % 3);
    if (run % 100 == 99) chain.kept.clear();
  }
}

TEST_F(GpuReplay, AForeignFailureFallsBack) {
  Chain chain;
  chain.foreign.fails = true;
  chain.check(1);
  EXPECT_EQ(chain.foreign.calls, 1);
  chain.check(2);
  EXPECT_EQ(chain.foreign.calls, 1);
}

TEST_F(GpuReplay, ALaterForeignFailureFallsBackToo) {
  Chain chain;
  chain.check(1);
  chain.foreign.fails = true;
  chain.check(2);
  chain.check(3);
  EXPECT_EQ(chain.foreign.calls, 2);
}

TEST_F(GpuReplay, WithoutARecorderItHappensAtOnce) {
  Chain chain;
  const Array input = random_array(DType::f32, {count}, Lay::dense, 5, -4, 4);
  expect_close(run_on_gpu(chain.device, chain.step, chain.foreign, {input}), input, 0);
  EXPECT_EQ(chain.foreign.calls, 1);
}

}  // namespace
}  // namespace hearth::gpu
