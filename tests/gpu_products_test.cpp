// Products by libraries: what they are told, and that a wrong, failing or slow one costs nobody a result.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "gpu/library_kernel.h"
#include "gpu/product_choice.h"
#include "gpu/tuner.h"
#include "gpu/vendor/installation.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"
#include "temporary_folder.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

enum class Conduct { right, wrong, failing };

// Computes on the host what it is told of a product, so that the description itself is tested.
class HostCall final : public LibraryCall {
 public:
  HostCall(GpuDevice& device, const PlainProduct& product, const std::atomic<Conduct>& conduct,
           std::atomic<int>& runs)
      : device_(device), product_(product), conduct_(conduct), runs_(runs) {}
  std::string name() const override { return "#0"; }
  std::size_t workspace_bytes() const override { return 1000; }

  void run(StreamHandle stream, const void* a, const void* b, void* result, void*) const override {
    ++runs_;
    if (conduct_ == Conduct::failing) throw BlasError("[host] status 7");
    const PlainProduct& p = product_;
    const auto left = fetch(a, p.a, p.rows, p.depth, stream),
               right = fetch(b, p.b, p.depth, p.columns, stream);
    std::vector<float> values;
    for (std::int64_t n = 0; n < p.count; ++n)
      for (std::int64_t i = 0; i < p.rows; ++i)
        for (std::int64_t j = 0; j < p.columns; ++j) {
          float sum = 0;
          for (std::int64_t k = 0; k < p.depth; ++k) sum += at(left, p.a, n, i, k) * at(right, p.b, n, k, j);
          values.push_back(sum);
        }
    if (conduct_ == Conduct::wrong) values[values.size() / 2] += 3;
    device_.driver().check(
        device_.driver().call.copy_to_device(result, values.data(), values.size() * 4, stream), "copying");
    device_.driver().check(device_.driver().call.stream_synchronize(stream), "waiting");
  }

 private:
  static float at(const std::vector<float>& memory, const PlainMatrix& matrix, std::int64_t n,
                  std::int64_t row, std::int64_t column) {
    if (matrix.transposed) std::swap(row, column);
    return memory[static_cast<std::size_t>(n * matrix.stride + row * matrix.leading + column)];
  }
  std::vector<float> fetch(const void* from, const PlainMatrix& matrix, std::int64_t rows,
                           std::int64_t columns, StreamHandle stream) const {
    if (matrix.transposed) std::swap(rows, columns);
    std::vector<float> memory(static_cast<std::size_t>((product_.count - 1) * matrix.stride +
                                                       (rows - 1) * matrix.leading + columns));
    device_.driver().check(device_.driver().call.copy_to_host(memory.data(), from, memory.size() * 4, stream),
                           "copying");
    device_.driver().check(device_.driver().call.stream_synchronize(stream), "waiting");
    return memory;
  }

  GpuDevice& device_;
  PlainProduct product_;
  const std::atomic<Conduct>& conduct_;
  std::atomic<int>& runs_;
};

class HostLibrary final : public ProductLibrary {
 public:
  explicit HostLibrary(GpuDevice& device) : device_(device) {}
  const std::string& name() const override { return name_; }
  bool by_default() const override { return true; }
  LibraryCalls calls(const PlainProduct& product, int) const override {
    LibraryCalls calls;
    if (product.dtype == DType::f32)
      calls.push_back(std::make_unique<HostCall>(device_, product, conduct, runs));
    return calls;
  }
  std::atomic<Conduct> conduct = Conduct::right;
  mutable std::atomic<int> runs = 0;

 private:
  GpuDevice& device_;
  std::string name_ = "host 1.0";
};

class GpuProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu() == nullptr) {
      if (std::getenv("HEARTH_TEST_DEVICES") != nullptr) FAIL() << "no such device";
      GTEST_SKIP() << "no GPU";
    }
    before_ = config();
    set({});
    static HostLibrary* const one = [] {
      auto owned = std::make_unique<HostLibrary>(*test_gpu());
      HostLibrary* library = owned.get();
      add_product_library(*test_gpu(), std::move(owned));
      return library;
    }();
    library_ = one;
    library_->conduct = Conduct::right;
    library_->runs = 0;
  }
  void TearDown() override {
    if (test_gpu() != nullptr) set_config(before_);
  }
  void set(std::map<std::string, std::string> options) {
    options["tuning_file"] = (folder_ / "tuning.json").string();
    set_config(config_from_text(options, before_));
  }

  struct Problem {
    std::vector<Array> inputs;
    Array expected;
    Step step;
  };
  static Problem problem(const Shape& a, const Shape& b, Lay lay_a = Lay::dense, Lay lay_b = Lay::dense) {
    return problem_of(
        {random_array(DType::f32, a, lay_a, 1, -4, 4), random_array(DType::f32, b, lay_b, 2, -4, 4)});
  }
  static Problem problem_of(std::vector<Array> inputs) {
    Problem made;
    made.inputs = std::move(inputs);
    const Shape& a = made.inputs[0].layout.shape;
    Shape shape(a.begin(), a.end() - 1);
    shape.push_back(made.inputs[1].layout.shape.back());
    made.expected = cpu::run_step(cpu::make_matmul, Op::matmul, {}, made.inputs, DType::f32, shape);
    made.step = step_of(Op::matmul, {}, made.inputs, made.expected.layout);
    return made;
  }
  void check(const Problem& p, const Kernel& kernel) {
    expect_close(run_on_gpu(*test_gpu(), p.step, kernel, p.inputs), p.expected, 0);
  }

  test::TemporaryFolder folder_;
  Config before_;
  HostLibrary* library_ = nullptr;
};

TEST_F(GpuProducts, LibrariesAreToldHowMatricesLie) {
  const auto by_library = [&](const Problem& p) {
    const auto kernel = make_product(*test_gpu(), p.step, "host 1.0 #0");
    ASSERT_NE(kernel, nullptr);
    library_->runs = 0;
    check(p, *kernel);
    EXPECT_EQ(library_->runs, 1);
  };
  for (const Lay a : {Lay::dense, Lay::transposed})
    for (const Lay b : {Lay::dense, Lay::transposed}) {
      by_library(problem({12, 20}, {20, 28}, a, b));
    }
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      const auto stack = [](std::int64_t rows, std::int64_t columns, bool transposed, unsigned seed) {
        if (!transposed) return random_array(DType::f32, {3, rows, columns}, Lay::dense, seed, -4, 4);
        Array array = random_array(DType::f32, {3, columns, rows}, Lay::dense, seed, -4, 4);
        array.layout.shape = {3, rows, columns};
        array.layout.strides = {rows * columns, 1, rows};
        return array;
      };
      by_library(problem_of({stack(12, 20, a, 1), stack(20, 28, b, 2)}));
    }
  by_library(problem({1, 20}, {20, 28}));
  by_library(problem({12, 1}, {1, 28}));
  by_library(problem({12, 20}, {20, 1}, Lay::dense, Lay::transposed));
  by_library(problem({2, 3, 12, 20}, {2, 3, 20, 28}));
}

// A library multiplies, and what brings the halves of its result together follows.
TEST_F(GpuProducts, HalvesByALibrary) {
  Problem p = problem({3, 12, 20}, {3, 20, 28});
  p.inputs[1].layout.strides = {20 * 28, 1, 20};
  p = problem_of(p.inputs);
  const Array product = p.expected;
  p.step.halves = true;
  p.step.domain = {3, 12, 14};
  p.step.outputs = {{DType::f32, p.step.domain, contiguous_strides(p.step.domain)}};
  p.step.expression.inputs = {DType::f32, DType::f32};
  p.step.expression.instructions = {{Op::sub, DType::f32, DType::f32, {0, 1, 0}}};
  p.step.expression.outputs = {2};
  p.expected = cpu::empty_array(DType::f32, p.step.domain);
  for (std::int64_t i = 0; i < p.expected.count(); ++i) {
    const std::int64_t left = i / 14 * 28 + i % 14;
    p.expected.set(i, product.get(left) - product.get(left + 14));
  }
  for (const char* way : {"host 1.0 #0", "own"}) {
    const auto kernel = make_product(*test_gpu(), p.step, way);
    ASSERT_NE(kernel, nullptr);
    check(p, *kernel);
  }
  EXPECT_EQ(library_->runs, 1);
}

TEST_F(GpuProducts, WhatLibrariesCannotDescribeIsOurs) {
  const Problem flipped = problem({12, 20}, {20, 28}, Lay::flipped);
  EXPECT_FALSE(plain_product(flipped.step));
  EXPECT_FALSE(plain_product(problem({12, 20}, {20, 28}, Lay::gapped).step));
  EXPECT_FALSE(plain_product(problem({0, 20}, {20, 28}).step));
  EXPECT_EQ(plain_product(problem({12, 20}, {20, 28}, Lay::dense, Lay::transposed).step)->text(),
            "f32 12x28x20 nt");
}

TEST_F(GpuProducts, RowsOfAStackAgainstOneMatrixAreOneProduct) {
  Problem p = problem({3, 12, 20}, {3, 20, 28});
  p.step.inputs[1].strides[0] = 0;
  const auto product = plain_product(p.step);
  ASSERT_TRUE(product);
  EXPECT_EQ(product->count, 1);
  EXPECT_EQ(product->rows, 36);
}

// Large enough that it is asked which way is best.
constexpr std::int64_t large = 130;

TEST_F(GpuProducts, TheFastestIsMeasuredAndUsed) {
  set({{"enable_tuning", "true"}});
  const Problem p = problem({large, large}, {large, large});
  check(p, *choose_product(*test_gpu(), p.step));
  const auto entries = tuner().entries();
  ASSERT_EQ(entries.size(), 1u);
  const TuningEntry& entry = entries.begin()->second;
  EXPECT_TRUE(entries.begin()->first.ends_with(" matmul f32 130x130x130 nn")) << entries.begin()->first;
  EXPECT_TRUE(entry.seconds.contains("own"));
  EXPECT_TRUE(entry.seconds.contains("host 1.0 #0"));
  EXPECT_EQ(tuning_stats().tuned, 1u);
  const int runs = library_->runs;
  choose_product(*test_gpu(), p.step);
  EXPECT_EQ(library_->runs, runs);  // known now
  EXPECT_EQ(tuning_stats().hits, 1u);
  set({});
  choose_product(*test_gpu(), p.step);
  EXPECT_EQ(tuning_stats().hits, 2u);
}

TEST_F(GpuProducts, AWrongLibraryIsRefused) {
  set({{"enable_tuning", "true"}});
  library_->conduct = Conduct::wrong;
  const Problem p = problem({large, large}, {large, large});
  check(p, *choose_product(*test_gpu(), p.step));
  const TuningEntry entry = tuner().entries().begin()->second;
  EXPECT_FALSE(entry.seconds.contains("host 1.0 #0"));
  EXPECT_NE(entry.refused.at("host 1.0 #0").find("differs"), std::string::npos);
}

TEST_F(GpuProducts, AFailingLibraryIsRefused) {
  set({{"enable_tuning", "true"}});
  library_->conduct = Conduct::failing;
  const Problem p = problem({large, large}, {large, large});
  check(p, *choose_product(*test_gpu(), p.step));
  EXPECT_NE(tuner().entries().begin()->second.refused.at("host 1.0 #0").find("status 7"), std::string::npos);
}

TEST_F(GpuProducts, ALibraryThatFailsLaterIsReplaced) {
  const Problem p = problem({large, large}, {large, large});
  const auto kernel = make_product(*test_gpu(), p.step, "host 1.0 #0");
  check(p, *kernel);
  library_->conduct = Conduct::failing;
  check(p, *kernel);
  library_->conduct = Conduct::right;
  const int runs = library_->runs;
  check(p, *kernel);
  EXPECT_EQ(library_->runs, runs);  // our own from then on
  EXPECT_EQ(tuning_stats().refused, 1u);
}

TEST_F(GpuProducts, LibrariesCanBeSwitchedOff) {
  set({{"enable_tuning", "true"}, {"vendor_blas_enabled", "false"}});
  const Problem p = problem({large, large}, {large, large});
  check(p, *choose_product(*test_gpu(), p.step));
  EXPECT_EQ(library_->runs, 0);
  EXPECT_EQ(make_product(*test_gpu(), p.step, "host 1.0 #0"), nullptr);
}

TEST_F(GpuProducts, AnExpressionFollowsTheLibrary) {
  Problem p = problem({12, 20}, {20, 28});
  // (product + row) * 2
  const Array row = random_array(DType::f32, {28}, Lay::dense, 3, -4, 4);
  p.inputs.push_back(row);
  p.step.inputs.push_back({DType::f32, {12, 28}, {0, 1}});
  p.step.expression.inputs = {DType::f32, DType::f32};
  p.step.expression.immediates = {DType::f32};
  p.step.expression.instructions = {{Op::add, DType::f32, DType::f32, {0, 1, 0}},
                                    {Op::mul, DType::f32, DType::f32, {3, 2, 0}}};
  p.step.expression.outputs = {4};
  Number two{};
  two.real = 2;
  const auto kernel = make_product(*test_gpu(), p.step, "host 1.0 #0");
  ASSERT_NE(kernel, nullptr);
  const Array got = run_on_gpu(*test_gpu(), p.step, *kernel, p.inputs, &two);
  EXPECT_EQ(library_->runs, 1);
  const Array own =
      run_on_gpu(*test_gpu(), p.step, *make_product(*test_gpu(), p.step, "own"), p.inputs, &two);
  expect_close(got, own, 0);
  for (std::int64_t i = 0; i < got.count(); ++i)
    ASSERT_EQ(got.get(i), (p.expected.get(i) + row.get(i % 28)) * 2);
}

TEST_F(GpuProducts, MatrixCoresCanBeSwitchedOff) {
  const MatrixUnit unit = test_gpu()->target().matrix;
  set({{"enable_matrix_cores", "false"}});
  EXPECT_EQ(test_gpu()->target().matrix, MatrixUnit::none);
  EXPECT_EQ(test_gpu()->target().wave_size, test_gpu()->wave_size());
  const Problem p = problem({large, large}, {large, large});
  EXPECT_EQ(make_product(*test_gpu(), p.step, "host 1.0 #0"), nullptr);
  set({});
  EXPECT_EQ(test_gpu()->target().matrix, unit);
}

TEST_F(GpuProducts, KernelFilesAreSeenBeforeALibraryIsCalled) {
  const auto folder = folder_ / "library";
  std::filesystem::create_directories(folder);
  EXPECT_FALSE(has_kernels_for(folder, "gfx1100"));
  std::ofstream(folder / "TensileLibrary_Type_HH_gfx1100.co");
  std::ofstream(folder / "TensileLibrary_lazy_gfx90a.dat");
  EXPECT_FALSE(has_kernels_for(folder, "gfx1100"));
  EXPECT_FALSE(has_kernels_for(folder, "gfx90"));
  EXPECT_TRUE(has_kernels_for(folder, "gfx90a"));
  std::filesystem::create_directories(folder / "gfx1100");
  EXPECT_TRUE(has_kernels_for(folder, "gfx1100"));
  EXPECT_FALSE(has_kernels_for(folder / "none", "gfx1100"));
}

}  // namespace
}  // namespace hearth::gpu
