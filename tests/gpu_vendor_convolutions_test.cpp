// Convolutions by the vendors' libraries that are there: real ones, or in CI stand-ins with their ABI, which
// can be told to misbehave. Whatever they do, the result is right.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "gpu/convolution.h"
#include "gpu/convolution_choice.h"
#include "gpu/driver/library.h"
#include "gpu/replay.h"
#include "gpu/tuner.h"
#include "gpu/vendor/vendor_library.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"
#include "temporary_folder.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

struct Geometry {
  Shape x, w;  // (N, C, spatial...), (O, C / groups, kernel...)
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
// Large enough that it is asked which way is best.
const Geometry large{{2, 16, 24, 24}, {16, 16, 3, 3}, 1, 1};

struct Problem {
  std::vector<Array> inputs;
  Step step;
  Array expected;  // by our own kernel
  std::string text() const { return plain_convolution(step)->text(); }
};

Problem problem_of(Op op, const WindowAttributes& window, std::vector<Array> inputs, const Shape& shape) {
  Problem problem;
  problem.inputs = std::move(inputs);
  problem.step =
      step_of(op, window, problem.inputs, cpu::empty_array(problem.inputs[0].layout.dtype, shape).layout);
  problem.expected =
      run_on_gpu(*test_gpu(), problem.step, *make_own_convolution(*test_gpu(), problem.step), problem.inputs);
  return problem;
}

using Fill = Array (*)(DType dtype, const Shape& shape, unsigned seed);
Array whole_numbers(DType dtype, const Shape& shape, unsigned seed) {
  return random_array(dtype, shape, Lay::dense, seed, -3, 3);
}
Array fractions(DType dtype, const Shape& shape, unsigned seed) {
  return cpu::normal_array(dtype, shape, Lay::dense, seed);
}

// The convolution and its gradients.
std::vector<Problem> problems(DType dtype, const Geometry& g, Fill fill = whole_numbers) {
  WindowAttributes window;
  Shape y{g.x[0], g.w[0]};
  for (std::size_t i = 2; i < g.x.size(); ++i) {
    window.kernel.push_back(g.w[i]);
    window.stride.push_back(g.stride);
    window.padding.push_back(g.padding);
    window.dilation.push_back(g.dilation);
    y.push_back((g.x[i] + 2 * g.padding - g.dilation * (g.w[i] - 1) - 1) / g.stride + 1);
  }
  window.groups = g.groups;
  const Array x = fill(dtype, g.x, 1), w = fill(dtype, g.w, 2), dy = fill(dtype, y, 3);
  std::vector<Problem> all;
  all.push_back(problem_of(Op::conv, window, {x, w}, y));
  all.push_back(problem_of(Op::conv_input_grad, window, {dy, w}, g.x));
  all.push_back(problem_of(Op::conv_weight_grad, window, {x, dy}, g.w));
  return all;
}

// Of sums of whole numbers: what is wrong is wrong by 1 at least, what is rounded on the way by less.
// With 16 bits that may lead to the next number that they can hold.
void check(const Problem& problem, const Kernel& kernel) {
  const DType dtype = problem.expected.layout.dtype;
  const double tolerance = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 1e-3;
  expect_close(run_on_gpu(*test_gpu(), problem.step, kernel, problem.inputs), problem.expected, tolerance);
}

// Whether an installation with stand-ins is under test.
bool test_installation(std::string_view wanted) {
  const char* given = std::getenv("HEARTH_TEST_LIBRARIES");
  return given != nullptr && given == wanted;
}

class GpuVendorConvolutions : public testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu() == nullptr) GTEST_SKIP() << "no GPU";
    before_ = config();
    set({});
    if (test_installation("incomplete")) GTEST_SKIP() << "an installation without a whole library";
    libraries_ = convolution_libraries(*test_gpu());
    if (test_installation("1")) {
      ASSERT_EQ(libraries_.size(), 1u) << reasons();
    }
    if (libraries_.empty()) GTEST_SKIP() << "no library of a vendor\n" << reasons();
  }
  void TearDown() override {
    unsetenv("FAKE_MIOPEN");
    if (test_gpu() != nullptr) set_config(before_);
  }
  void set(std::map<std::string, std::string> options) {
    options["tuning_file"] = file_.string();
    set_config(config_from_text(options, before_));
  }
  static std::string reasons() {
    std::string text;
    for (const OpenAttempt& attempt : library_attempts())
      text += attempt.name + ": " + attempt.problem + "\n";
    return text;
  }
  // What was remembered of a problem; empty without anything.
  static TuningEntry entry_of(const Problem& problem) {
    for (const auto& [name, entry] : tuner().entries())
      if (name.ends_with(" " + problem.text())) return entry;
    return {};
  }

  // All that a library offers for a problem.
  static std::vector<std::unique_ptr<Kernel>> ways(const ConvolutionLibrary& library,
                                                   const Problem& problem) {
    LibraryCalls calls;
    try {
      calls = library.calls(*plain_convolution(problem.step), most_calls);
    } catch (const DnnError&) {  // not a dtype or a geometry that it knows
    }
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (const auto& call : calls) {
      EXPECT_LE(call->workspace_bytes(), convolution_workspace);
      kernels.push_back(make_convolution(*test_gpu(), problem.step, library.name() + " " + call->name()));
      EXPECT_NE(kernels.back(), nullptr) << call->name();
    }
    return kernels;
  }
  // A call that fails leaves the work to our own kernel, so that the result does not show it.
  static void expect_no_failure() {
    for (const auto& [problem, entry] : tuner().entries())
      for (const auto& [way, reason] : entry.refused)
        ADD_FAILURE() << problem << ": " << way << ": " << reason;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "tuning.json";
  Config before_;
  std::vector<const ConvolutionLibrary*> libraries_;
};

TEST_F(GpuVendorConvolutions, AgreeWithOurOwn) {
  const Geometry geometries[] = {
      {{2, 8, 7, 8}, {16, 8, 3, 3}, 1, 1},
      {{1, 8, 9, 10}, {12, 8, 3, 2}, 2, 1},
      {{1, 8, 12, 11}, {9, 8, 3, 3}, 1, 2, 2},     // dilation
      {{2, 16, 5, 5}, {24, 8, 3, 3}, 1, 1, 1, 2},  // groups
      {{1, 8, 6, 5}, {16, 1, 3, 3}, 2, 1, 1, 8},   // each channel by itself, two results of each
      {{2, 9, 40}, {11, 9, 5}, 2, 2},              // one axis
      {{1, 8, 5, 4, 6}, {9, 8, 2, 3, 2}, 1, 1},    // three axes
  };
  int computed = 0;
  for (const ConvolutionLibrary* library : libraries_)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Geometry& geometry : geometries)
        for (const Problem& p : problems(dtype, geometry)) {
          SCOPED_TRACE(library->name() + " " + p.text());
          for (const auto& kernel : ways(*library, p)) {
            check(p, *kernel);
            ++computed;
          }
        }
  EXPECT_GT(computed, 2 * 7 * 3);
  expect_no_failure();
}

// Operands of 11 bits, as matrix units may round them to, would be off by a hundredth: 5e-4 of products of
// about 2, over a hundred of them and more. Ways that transform tiles lose a few bits of f32.
TEST_F(GpuVendorConvolutions, RoundF32AsF32) {
  for (const ConvolutionLibrary* library : libraries_)
    for (const Problem& p : problems(DType::f32, large, fractions)) {
      SCOPED_TRACE(library->name() + " " + p.text());
      const auto kernels = ways(*library, p);
      EXPECT_FALSE(kernels.empty());
      for (const auto& kernel : kernels)
        expect_close(run_on_gpu(*test_gpu(), p.step, *kernel, p.inputs), p.expected, 1e-3);
    }
  expect_no_failure();
}

TEST_F(GpuVendorConvolutions, GiveTheSameBitsEachTime) {
  for (const ConvolutionLibrary* library : libraries_)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Problem& p : problems(dtype, large, fractions)) {
        SCOPED_TRACE(library->name() + " " + p.text());
        for (const auto& kernel : ways(*library, p)) {
          const Array first = run_on_gpu(*test_gpu(), p.step, *kernel, p.inputs);
          for (int run = 0; run < 2; ++run)
            EXPECT_TRUE(run_on_gpu(*test_gpu(), p.step, *kernel, p.inputs).memory == first.memory);
        }
      }
  expect_no_failure();
}

TEST_F(GpuVendorConvolutions, ArePartOfGraphsOrReplaced) {
  GpuDevice& device = *test_gpu();
  for (const Problem& p : problems(DType::f32, {{2, 8, 7, 8}, {16, 8, 3, 3}, 1, 1})) {
    const ConvolutionLibrary& library = *libraries_[0];
    SCOPED_TRACE(library.name() + " " + p.text());
    const auto calls = library.calls(*plain_convolution(p.step), 1);
    ASSERT_EQ(calls.size(), 1u);
    const auto kernel = make_convolution(device, p.step, library.name() + " " + calls[0]->name());
    const auto replay = make_replay(device);
    const OnGpu a(device, p.inputs[0], true), b(device, p.inputs[1], true);
    const auto scratch = device.pool().allocate(kernel->scratch_bytes());
    std::vector<std::unique_ptr<OnGpu>> kept;
    for (int run = 0; run < 3; ++run) {
      Array output = cpu::empty_array(DType::f32, p.expected.layout.shape);
      kept.push_back(std::make_unique<OnGpu>(device, output, false));
      void* inputs[] = {a.data(), b.data()};
      void* outputs[] = {kept.back()->data()};
      const StepRun steps[] = {{kernel.get(), {inputs, outputs, nullptr, scratch->data}, 2, 1, 0}};
      replay->run(steps);
      kept.back()->copy_back(output);
      expect_close(output, p.expected, 1e-3);
    }
  }
}

TEST_F(GpuVendorConvolutions, AreMeasuredAndRemembered) {
  set({{"enable_tuning", "true"}});
  const auto all = problems(DType::f32, large);
  for (const Problem& p : all) {
    SCOPED_TRACE(p.text());
    check(p, *choose_convolution(*test_gpu(), p.step));
    const TuningEntry entry = entry_of(p);
    EXPECT_TRUE(entry.seconds.contains("own"));
    EXPECT_GT(entry.seconds.size(), 1u);
    // Another process finds the same.
    std::string problem;
    const TuningRecord record = read_tuning_file(file_, problem);
    EXPECT_EQ(problem, "");
    const std::string key = test_gpu()->target().architecture + " " + p.text();
    ASSERT_TRUE(record.entries.contains(key));
    EXPECT_EQ(record.entries.at(key).seconds, entry.seconds);
    EXPECT_EQ(record.entries.at(key).verified, entry.verified);
  }
  EXPECT_EQ(tuning_stats().tuned, 3u);
  set({});
  for (const Problem& p : all) check(p, *choose_convolution(*test_gpu(), p.step));
  EXPECT_EQ(tuning_stats().tuned, 3u);
  EXPECT_EQ(tuning_stats().hits, 3u);
}

TEST_F(GpuVendorConvolutions, CanBeSwitchedOff) {
  set({{"enable_tuning", "true"}, {"vendor_dnn_enabled", "false"}});
  for (const Problem& p : problems(DType::f32, large)) {
    check(p, *choose_convolution(*test_gpu(), p.step));
    EXPECT_TRUE(entry_of(p).seconds.empty());  // there is nothing to choose
  }
}

TEST_F(GpuVendorConvolutions, WhatTheyCannotDescribeIsOurs) {
  Problem p = std::move(problems(DType::f32, large)[0]);
  p.inputs[0] = random_array(DType::f32, large.x, Lay::flipped, 1, -3, 3);
  p = problem_of(Op::conv, std::get<WindowAttributes>(p.step.attributes), p.inputs, p.expected.layout.shape);
  EXPECT_FALSE(plain_convolution(p.step));
  check(p, *choose_convolution(*test_gpu(), p.step));
  EXPECT_FALSE(plain_convolution(problems(DType::f64, large)[0].step));
  EXPECT_FALSE(plain_convolution(problems(DType::f32, {{0, 2, 4, 4}, {3, 2, 3, 3}, 1, 1})[0].step));
}

// A network is trained with them as without, also where its plan is replayed, from the third step on.
TEST_F(GpuVendorConvolutions, TakePartInTraining) {
  const Device default_before = default_device();
  set_default_device(test_gpu()->info().device);
  const auto loss_after_steps = [&](const char* libraries) {
    set({{"enable_tuning", "true"}, {"vendor_dnn_enabled", libraries}});
    manual_seed(5);
    const Tensor x = randn({4, 3, 20, 20}).eval(), target = randn({4, 16, 20, 20}).eval();
    Tensor first = (randn({16, 3, 3, 3}) * 0.2).eval(), second = (randn({16, 16, 3, 3}) * 0.1).eval();
    const auto step = value_and_grad([&](const std::vector<Tensor>& weights) {
      const Tensor hidden = relu(conv2d(x, weights[0], {}, {.padding = {1}}));
      return mse_loss(conv2d(hidden, weights[1], {}, {.padding = {1}}), target);
    });
    float value = 0;
    for (int i = 0; i < 5; ++i) {
      const auto [loss, gradient] = step({first, second});
      first = first - gradient[0] * 0.5;
      second = second - gradient[1] * 0.5;
      eval({first, second, loss});
      value = loss.item<float>();
    }
    return value;
  };
  const float own = loss_after_steps("false"), theirs = loss_after_steps("true");
  set_default_device(default_before);
  EXPECT_NEAR(theirs, own, 1e-4 * std::abs(own));
  int measured = 0;  // problems
  for (const auto& [problem, entry] : tuner().entries())
    for (const auto& [way, seconds] : entry.seconds)
      measured += way.starts_with(libraries_[0]->name()) && problem.find("conv") != std::string::npos;
  EXPECT_GE(measured, 3);  // the second layer, its gradients
}

// The stand-in for MIOpen, told how to behave.
class GpuFakeMiopen : public GpuVendorConvolutions {
 protected:
  void SetUp() override {
    GpuVendorConvolutions::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!test_installation("1")) GTEST_SKIP() << "not the stand-in";
    set({{"enable_tuning", "true"}});
    void* library = dlopen(loaded_library("libMIOpen.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    runs_ = static_cast<int*>(dlsym(library, "fake_miopen_runs"));
    searches_ = static_cast<int*>(dlsym(library, "fake_miopen_searches"));
    *runs_ = *searches_ = 0;
    problem_ = std::move(problems(DType::f32, large)[0]);
  }
  static void behave(const char* how) { setenv("FAKE_MIOPEN", how, 1); }
  // Chooses and computes with tuning: the result is right, and both solutions are refused with that reason.
  void expect_refused(const char* how, const char* reason) {
    behave(how);
    check(problem_, *choose_convolution(*test_gpu(), problem_.step));
    const TuningEntry entry = entry_of(problem_);
    EXPECT_EQ(entry.ranking(), std::vector<std::string>{"own"});
    ASSERT_EQ(entry.refused.size(), 2u);
    for (const auto& [name, found] : entry.refused) EXPECT_NE(found.find(reason), std::string::npos) << found;
  }
  // What is chosen where a solution is remembered as the fastest: which one a trial finds so is chance.
  auto choose_with_solutions_first() {
    choose_convolution(*test_gpu(), problem_.step);
    TuningRecord record;
    TuningEntry& entry = record.entries[test_gpu()->target().architecture + " " + problem_.text()];
    entry = entry_of(problem_);
    for (auto& [way, seconds] : entry.seconds) seconds = way == "own" ? 1e-3 : 1e-6;
    file_ = folder_ / "solutions_first.json";
    write_tuning_file(file_, record);
    set({});
    return choose_convolution(*test_gpu(), problem_.step);
  }

  int *runs_ = nullptr, *searches_ = nullptr;
  Problem problem_;
};

TEST_F(GpuFakeMiopen, AFastOneIsUsed) {
  const auto kernel = choose_with_solutions_first();
  const TuningEntry entry = entry_of(problem_);
  EXPECT_EQ(entry.seconds.size(), 3u);  // one that wants too much memory is no way
  EXPECT_TRUE(entry.ranking().front().starts_with("MIOpen 3.9.1 solution ")) << entry.ranking().front();
  *runs_ = 0;
  check(problem_, *kernel);
  EXPECT_EQ(*runs_, 1);
}

TEST_F(GpuFakeMiopen, AWrongOneIsRefused) { expect_refused("wrong", "differs from our own kernel"); }
TEST_F(GpuFakeMiopen, AFailingOneIsRefused) { expect_refused("failing", "failed with status 5"); }
TEST_F(GpuFakeMiopen, OneThatLacksWorkspaceIsRefused) { expect_refused("greedy", "failed with status 3"); }

TEST_F(GpuFakeMiopen, OneThatFailsLaterIsReplaced) {
  const auto kernel = choose_with_solutions_first();
  const std::string used = entry_of(problem_).ranking().front();
  behave("failing");
  check(problem_, *kernel);
  behave("well");
  *runs_ = 0;
  check(problem_, *kernel);
  EXPECT_EQ(*runs_, 0);  // our own from then on
  EXPECT_EQ(entry_of(problem_).refused.count(used), 1u);
  EXPECT_EQ(entry_of(problem_).seconds.count(used), 0u);
}

TEST_F(GpuFakeMiopen, ASolutionThatItNoLongerKnowsIsPassedOver) {
  TuningRecord record;
  TuningEntry& entry = record.entries[test_gpu()->target().architecture + " " + problem_.text()];
  choose_convolution(*test_gpu(), problem_.step);
  entry.kernels = entry_of(problem_).kernels;
  entry.seconds = {{"MIOpen 3.9.1 solution 12", 1e-9}, {"MIOpen 3.9.1 solution x", 1e-8}, {"own", 1e-3}};
  file_ = folder_ / "other.json";
  write_tuning_file(file_, record);
  set({});
  *runs_ = 0;
  check(problem_, *choose_convolution(*test_gpu(), problem_.step));
  EXPECT_EQ(*runs_, 0);
}

TEST_F(GpuFakeMiopen, AnotherDtypeIsOurs) {
  const Problem half = std::move(problems(DType::f16, large)[0]);
  check(half, *choose_convolution(*test_gpu(), half.step));
  EXPECT_EQ(*runs_, 0);
}

TEST_F(GpuFakeMiopen, TheFindModeSaysWhetherItSearches) {
  const auto first_of = [&](const char* mode) {
    set({{"miopen_find_mode", mode}});
    return libraries_[0]->calls(*plain_convolution(problem_.step), 1).at(0)->name();
  };
  EXPECT_EQ(first_of("fast"), "solution 85");
  EXPECT_EQ(*searches_, 0);
  EXPECT_EQ(first_of("hybrid"), "solution 91");
  EXPECT_EQ(*searches_, 1);
  for (const Problem& p : problems(DType::f32, large)) {
    set({{"miopen_find_mode", "normal"}, {"enable_tuning", "true"}});
    check(p, *choose_convolution(*test_gpu(), p.step));
  }
  EXPECT_EQ(*searches_, 4);
}

TEST_F(GpuFakeMiopen, IsNamedWithItsVersion) {
  std::vector<OpenAttempt> attempts;
  EXPECT_EQ(installed_dnn_library(test_gpu()->driver(), attempts), "MIOpen 3.9.1");
  EXPECT_EQ(libraries_[0]->name(), "MIOpen 3.9.1");
}

TEST(GpuIncompleteMiopen, IsNotUsed) {
  if (!test_installation("incomplete")) GTEST_SKIP() << "not the installation with the incomplete stand-in";
  ASSERT_NE(test_gpu(), nullptr);
  const Config before = config();
  const test::TemporaryFolder folder;
  set_config(config_from_text({{"enable_tuning", "true"}, {"tuning_file", (folder / "tuning.json").string()}},
                              before));
  for (const Problem& p : problems(DType::f32, large)) check(p, *choose_convolution(*test_gpu(), p.step));
  EXPECT_TRUE(convolution_libraries(*test_gpu()).empty());
  const auto attempts = library_attempts();
  ASSERT_EQ(attempts.size(), 2u);  // opened, and then:
  EXPECT_TRUE(attempts[1].problem.starts_with("lacks miopenConvolutionBackwardWeightsGetSolution"))
      << attempts[1].problem;
  std::vector<OpenAttempt> again;
  EXPECT_EQ(installed_dnn_library(test_gpu()->driver(), again), "");
  set_config(before);
}

}  // namespace
}  // namespace hearth::gpu
