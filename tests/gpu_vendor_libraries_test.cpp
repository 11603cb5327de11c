// The vendors' libraries that are there: real ones, or in CI stand-ins with their ABI.
#include <gtest/gtest.h>

#include "gpu/product_choice.h"
#include "gpu/replay.h"
#include "gpu/tuner.h"
#include "gpu/vendor/vendor_library.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

class GpuVendorLibraries : public testing::Test {
 protected:
  void SetUp() override {
    const bool demanded = std::getenv("HEARTH_TEST_LIBRARIES") != nullptr;
    if (test_gpu() != nullptr) libraries_ = product_libraries(*test_gpu());
    if (demanded) {
      ASSERT_EQ(libraries_.size(), 2u) << reasons();
    }
    if (libraries_.empty()) GTEST_SKIP() << "no library of a vendor";
    Config off = before_ = config();
    off.tuning_file = "off";
    set_config(off);
  }
  void TearDown() override {
    if (!libraries_.empty()) set_config(before_);
  }
  static std::string reasons() {
    std::string text;
    for (const OpenAttempt& attempt : library_attempts())
      text += attempt.name + ": " + attempt.problem + "\n";
    return text;
  }

  struct Problem {
    std::vector<Array> inputs;
    Step step;
    Array own;
  };
  static Problem problem_of(std::vector<Array> inputs) {
    Problem made;
    made.inputs = std::move(inputs);
    const Layout& a = made.inputs[0].layout;
    Shape shape(a.shape.begin(), a.shape.end() - 1);
    shape.push_back(made.inputs[1].layout.shape.back());
    made.step = step_of(Op::matmul, {}, made.inputs, cpu::empty_array(a.dtype, shape).layout);
    made.own = run_on_gpu(*test_gpu(), made.step, *make_product(*test_gpu(), made.step, "own"), made.inputs);
    return made;
  }
  // Multiples of 8 elements: pointers and leading dimensions that any library takes.
  static Array operand(DType dtype, std::int64_t count, std::int64_t rows, std::int64_t columns,
                       bool transposed, unsigned seed) {
    Shape lying = transposed ? Shape{columns, rows} : Shape{rows, columns};
    if (count > 1) lying.insert(0, count);
    Array array = random_array(dtype, lying, Lay::dense, seed, -4, 4);
    if (!transposed) return array;
    const std::size_t last = lying.size() - 1;
    std::swap(array.layout.shape[last], array.layout.shape[last - 1]);
    std::swap(array.layout.strides[last], array.layout.strides[last - 1]);
    return array;
  }

  std::vector<const ProductLibrary*> libraries_;
  Config before_;
};

TEST_F(GpuVendorLibraries, AgreeWithOurOwn) {
  for (const ProductLibrary* library : libraries_)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::int64_t count : {1, 3})
        for (const bool a : {false, true})
          for (const bool b : {false, true}) {
            const Problem p =
                problem_of({operand(dtype, count, 24, 40, a, 1), operand(dtype, count, 40, 16, b, 2)});
            SCOPED_TRACE(library->name() + " " + plain_product(p.step)->text());
            const auto calls = library->calls(*plain_product(p.step), 1);
            ASSERT_EQ(calls.size(), 1u);
            const auto kernel = make_product(*test_gpu(), p.step, library->name() + " #0");
            ASSERT_NE(kernel, nullptr);
            // Small whole numbers: every order of summation gives the same.
            expect_close(run_on_gpu(*test_gpu(), p.step, *kernel, p.inputs), p.own, 0);
          }
  EXPECT_EQ(tuning_stats().refused, 0u);
}

TEST_F(GpuVendorLibraries, ArePartOfGraphsOrReplaced) {
  GpuDevice& device = *test_gpu();
  const Problem p =
      problem_of({operand(DType::f32, 1, 24, 40, false, 1), operand(DType::f32, 1, 40, 16, false, 2)});
  for (const ProductLibrary* library : libraries_) {
    SCOPED_TRACE(library->name());
    const auto kernel = make_product(device, p.step, library->name() + " #0");
    const auto replay = make_replay(device);
    const OnGpu a(device, p.inputs[0], true), b(device, p.inputs[1], true);
    const auto scratch = device.pool().allocate(kernel->scratch_bytes());
    std::vector<std::unique_ptr<OnGpu>> kept;
    for (int run = 0; run < 3; ++run) {
      Array output = cpu::empty_array(DType::f32, {24, 16});
      kept.push_back(std::make_unique<OnGpu>(device, output, false));
      void* inputs[] = {a.data(), b.data()};
      void* outputs[] = {kept.back()->data()};
      const StepRun steps[] = {{kernel.get(), {inputs, outputs, nullptr, scratch->data}, 2, 1, 0}};
      replay->run(steps);
      kept.back()->copy_back(output);
      expect_close(output, p.own, 0);
    }
  }
}

TEST_F(GpuVendorLibraries, AreMeasured) {
  Config tuning = config();
  tuning.enable_tuning = true;
  set_config(tuning);
  const Problem p =
      problem_of({operand(DType::f32, 1, 136, 128, false, 1), operand(DType::f32, 1, 128, 136, true, 2)});
  const auto kernel = choose_product(*test_gpu(), p.step);
  expect_close(run_on_gpu(*test_gpu(), p.step, *kernel, p.inputs), p.own, 0);
  for (const auto& [problem, entry] : tuner().entries()) {
    if (problem.find("136x136x128 nt") == std::string::npos) continue;
    for (const ProductLibrary* library : libraries_)
      EXPECT_TRUE(entry.seconds.contains(library->name() + " #0")) << library->name();
    return;
  }
  ADD_FAILURE() << "nothing was remembered";
}

}  // namespace
}  // namespace hearth::gpu
