// The GPU backend against the CPU, on every GPU that is there: a real one, or the emulated AMD chips in CI.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "gpu/compiler.h"
#include "hearth/hearth.h"

namespace hearth {
namespace {

// Only devices whose name begins with this are tested, and there must be one: "rocm" for the emulated chips.
const char* demanded() { return std::getenv("HEARTH_TEST_DEVICES"); }

std::vector<Device> gpus() {
  std::vector<Device> found;
  for (const Device device : devices())
    if (device.kind != DeviceKind::cpu &&
        (demanded() == nullptr || to_string(device).starts_with(demanded())))
      found.push_back(device);
  return found;
}

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpus().empty()) return;
    if (demanded() != nullptr) FAIL() << "no device " << demanded();
    GTEST_SKIP() << "no GPU";
  }

  // `compute` on the CPU and on each GPU, from the same inputs.
  static void compare(const std::vector<Tensor>& inputs, double tolerance,
                      const std::function<Tensor(const std::vector<Tensor>&)>& compute) {
    const Tensor expected = compute(inputs);
    const std::vector<double> reference = to_doubles(expected);
    for (const Device device : gpus()) {
      std::vector<Tensor> moved;
      for (const Tensor& input : inputs) moved.push_back(input.to(device));
      const Tensor result = compute(moved);
      EXPECT_EQ(result.device(), device);
      EXPECT_EQ(result.shape(), expected.shape());
      EXPECT_EQ(result.dtype(), expected.dtype());
      const std::vector<double> values = to_doubles(result);
      ASSERT_EQ(values.size(), reference.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(reference[i])) {
          ASSERT_TRUE(std::isnan(values[i])) << to_string(device) << " element " << i;
          continue;
        }
        const double allowed =
            std::isinf(reference[i]) ? 0 : tolerance * std::max(1.0, std::abs(reference[i]));
        ASSERT_TRUE(values[i] == reference[i] || std::abs(values[i] - reference[i]) <= allowed)
            << to_string(device) << " element " << i << ": " << values[i] << " instead of " << reference[i];
      }
    }
  }

  static std::vector<double> to_doubles(const Tensor& tensor) {
    return tensor.to(Device{}).to(DType::f64).to_vector<double>();
  }
};

TEST_F(GpuTest, DevicesSayWhatTheyAre) {
  for (const Device device : gpus()) {
    const DeviceInfo info = device_info(device);
    EXPECT_FALSE(info.name.empty());
    EXPECT_TRUE(info.architecture.starts_with("gfx") || info.architecture.starts_with("sm_"))
        << info.architecture;
    EXPECT_GT(info.total_memory, 0u);
    EXPECT_GT(info.compute_units, 0);
  }
}

TEST_F(GpuTest, CopiesThereAndBack) {
  compare({randn({1000})}, 0, [](const auto& in) { return in[0]; });
  compare({arange(0, 100, 1).to(DType::i64)}, 0, [](const auto& in) { return in[0]; });
}

TEST_F(GpuTest, FusedChain) {
  compare({randn({1003}), randn({1003})}, 1e-6,
          [](const auto& in) { return tanh(in[0] * 2.0 + in[1]) - exp(in[1] * 0.25) / 3.0; });
}

TEST_F(GpuTest, HalfPrecisionIsRoundedAtEachOperation) {
  for (const DType dtype : {DType::f16, DType::bf16})
    compare({randn({777}).to(dtype), randn({777}).to(dtype)}, 0,
            [](const auto& in) { return (in[0] * in[1] + in[0]) * in[1] - in[0]; });
}

TEST_F(GpuTest, Integers) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64})
    compare({randint(0, 100, {500}).to(dtype), randint(1, 60, {500}).to(dtype)}, 0,
            [](const auto& in) { return (in[0] * in[1] + in[0]) - in[1]; });
}

TEST_F(GpuTest, ComparisonsAndWhere) {
  compare({randn({513}), randn({513})}, 0,
          [](const auto& in) { return where(in[0] > in[1], in[0], in[1] * -1.0); });
}

TEST_F(GpuTest, BroadcastAndStrides) {
  compare({randn({7, 1, 33}), randn({5, 33})}, 1e-6, [](const auto& in) { return in[0] + in[1] * 2.0; });
  compare({randn({31, 65})}, 1e-6, [](const auto& in) { return in[0].transpose(0, 1) * 3.0 + 1.0; });
  compare({randn({100})}, 1e-6, [](const auto& in) { return in[0].slice({{1, 98}}) * 2.0; });  // not aligned
}

TEST_F(GpuTest, RowsInPackets) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    compare({randn({7, 1, 64}).to(dtype), randn({5, 64}).to(dtype)}, 1e-6,
            [](const auto& in) { return in[0] * 2.0 + in[1]; });
    compare({randn({70, 1}).to(dtype), randn({32}).to(dtype)}, 1e-6,
            [](const auto& in) { return in[0] + in[1]; });
    compare({randn({20, 80}).to(dtype)}, 1e-6, [](const auto& in) {
      return in[0].slice({{0, 20}, {8, 72}}) + 1.0;
    });
  }
}

TEST_F(GpuTest, TransposedTiles) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::u8}) {
    const auto numbers = [&](const Shape& shape) { return randint(0, 100, shape).to(dtype); };
    compare({numbers({100, 70})}, 0,
            [](const auto& in) { return in[0].transpose(0, 1) + in[0].transpose(0, 1); });
    compare({numbers({100, 70}), numbers({70, 100})}, 0,
            [](const auto& in) { return in[0].transpose(0, 1) + in[1]; });
    compare({numbers({3, 40, 5, 50}), numbers({50})}, 0, [](const auto& in) {
      return in[0].permute({0, 3, 2, 1}) + in[1].reshape({50, 1, 1});
    });
    compare({numbers({65, 129})}, 0,
            [](const auto& in) { return flip(in[0], {0}).transpose(0, 1) + in[0].transpose(0, 1); });
  }
}

TEST_F(GpuTest, NothingAndOne) {
  compare({zeros({0, 3})}, 0, [](const auto& in) { return in[0] + 1.0; });
  compare({full({}, 2.0)}, 0, [](const auto& in) { return in[0] * in[0]; });
}

TEST_F(GpuTest, NotANumberAndInfinity) {
  compare({tensor(std::vector<float>{NAN, INFINITY, -INFINITY, 0.0f, -0.0f})}, 1e-6,
          [](const auto& in) { return maximum(in[0], full({5}, 1.0).to(in[0].device())); });
}

TEST_F(GpuTest, StrictValidationFindsInfinity) {
  const Config before = config();
  Config strict = before;
  strict.enable_strict_validation = true;
  set_config(strict);
  for (const Device device : gpus()) {
    EXPECT_NO_THROW((randn({10}).to(device) * 2.0).eval());
    EXPECT_THROW((full({10}, 1.0).to(device) / 0.0).eval(), KernelError);
  }
  set_config(before);
}

TEST_F(GpuTest, KernelsOfTheUsersOwn) {
  const std::string source = R"(
    extern "C" __global__ void fill(float* out, float from, int width, int height) {
      int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
      if (x < width && y < height) out[y * width + x] = from + x + 100 * y;
    })";
  for (const Device device : gpus()) {
    const auto fill = compile_kernel(source, "fill", device);
    EXPECT_GT(fill.registers(), 0);
    EXPECT_EQ(fill.spilled_bytes(), 0);
    const Tensor out = zeros({5, 20}).to(device).eval();
    fill.launch({.blocks = {2, 2}, .threads = {16, 4}}, out, 0.5f, 20, 5);
    const auto values = to_doubles(out);
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 20; ++x) ASSERT_EQ(values[static_cast<std::size_t>(y * 20 + x)], 0.5 + x + 100 * y);
    EXPECT_THROW(fill.launch({.threads = {4096}}, out, 0.5f, 20, 5), ValueError);
    EXPECT_THROW(fill.launch({.threads = {64}}, zeros({5, 20}).to(Device{}), 0.5f, 20, 5), DeviceError);
    EXPECT_THROW(fill.launch({.threads = {64}}, out.transpose(0, 1), 0.5f, 20, 5), ShapeError);
  }
}

// Last by name of its suite, and in a process of its own: a device that failed stays so.
// Every number of 16 bits. Where results have 16 bits too, functions with fewer digits are used: the rounded
// results may differ from those of the exact values by one unit in the last place.
TEST_F(GpuTest, FunctionsOf16BitsAreRightForAllNumbers) {
  struct Function {
    const char* name;
    Tensor (*compute)(const Tensor&);
    double (*exact)(double);
  };
  const auto sigmoid_of = [](double x) {
    return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
  };
  static const auto exact_sigmoid = +sigmoid_of;
  const Function functions[] = {
      {"exp", [](const Tensor& x) { return exp(x); }, [](double x) { return std::exp(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }, [](double x) { return std::tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, exact_sigmoid},
      {"silu", [](const Tensor& x) { return silu(x); }, [](double x) { return x * exact_sigmoid(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); },
       [](double x) { return x * exact_sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)); }},
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    // Of bf16 those of a wide range. Functions of very negative numbers may be zero a little too soon.
    const double last_digit = dtype == DType::f16 ? 0x1p-10 : 0x1p-7,
                 smallest = dtype == DType::f16 ? 0x1p-24 : 0x1p-118;
    std::vector<float> numbers;
    const int digits = dtype == DType::f16 ? 10 : 7;
    for (int exponent = dtype == DType::f16 ? -14 : -60; exponent < 16; ++exponent)
      for (int fraction = 0; fraction < 1 << digits; ++fraction)
        for (const double sign : {1.0, -1.0})
          numbers.push_back(
              static_cast<float>(sign * std::ldexp(1 + std::ldexp(fraction, -digits), exponent)));
    const Tensor x = tensor(numbers).to(dtype);
    const double largest = dtype == DType::f16 ? 65504 : 3.38e38;
    for (const Device device : gpus())
      for (const Function& function : functions) {
        const std::vector<double> results = to_doubles(function.compute(x.to(device)));
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const double expected = function.exact(numbers[i]);
          if (std::abs(expected) > largest) {
            ASSERT_GE(std::abs(results[i]), largest) << function.name << ' ' << numbers[i];
            continue;
          }
          ASSERT_NEAR(results[i], expected, std::max(std::abs(expected) * last_digit, smallest))
              << function.name << ' ' << numbers[i] << ' ' << dtype_name(dtype);
        }
      }
  }
}

TEST(GpuDeathTest, AKernelThatFailsIsReportedFromThenOn) {
  if (gpus().empty()) GTEST_SKIP() << "no GPU";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Device device = gpus()[0];
        const auto bad = compile_kernel(
            "extern \"C\" __global__ void bad(int* p) { *(p + (1ll << 40)) = 1; }", "bad", device);
        const Tensor x = zeros({4}, DType::i32).to(device).eval();
        bad.launch({}, x);
        int errors = 0;
        for (int i = 0; i < 2; ++i) try {
            synchronize(device);
          } catch (const DeviceError& error) {
            ++errors;
            std::fprintf(stderr, "%s\n", error.what());
          }
        try {
          (x + 1).eval();
        } catch (const DeviceError&) {
          ++errors;
        }
        std::_Exit(errors == 3 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "cannot be used by this process any more");
}

TEST_F(GpuTest, AKernelThatDoesNotCompileShowsTheLog) {
  for (const Device device : gpus()) {
    try {
      compile_kernel("extern \"C\" __global__ void bad() { no_such_thing(); }", "bad", device);
      FAIL() << "compiled";
    } catch (const CompileError& error) {
      EXPECT_NE(error.log().find("no_such_thing"), std::string::npos) << error.log();
    }
  }
  EXPECT_THROW(compile_kernel("", "nothing", Device{}), DeviceError);
}

TEST_F(GpuTest, ReplayedPlansSeeWhatChanges) {
  const Config before = config();
  Config plain = before;
  plain.enable_operator_fusion = false;  // so that there are steps enough
  set_config(plain);
  for (const Device device : gpus()) {
    Tensor state = zeros({100}).to(device), expected_state = zeros({100});
    const auto step = [](Tensor& kept, const Tensor& x) {
      kept = kept * 0.5 + x;
      return tanh(kept * 3.0 - x) * 2.0;
    };
    auto compiled = compile([&](const std::vector<Tensor>& in) {
      Tensor kept = in[1];
      const Tensor result = step(kept, in[0]);
      return std::vector<Tensor>{result, kept};
    });
    std::vector<Tensor> kept_alive;  // so that buffers lie elsewhere each time
    for (int run = 0; run < 6; ++run) {
      const Tensor x = randn({100}).eval();
      const auto results = compiled({x.to(device), state});
      const Tensor expected = step(expected_state, x);
      state = results[1];
      kept_alive.push_back(results[0]);
      const auto got = to_doubles(results[0]), want = to_doubles(expected);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 1e-5) << to_string(device) << " run " << run << " element " << i;
    }
    EXPECT_NE(compiled.explain().find("launches as one graph"), std::string::npos) << compiled.explain();
  }
  set_config(before);
}

TEST_F(GpuTest, KernelsAreCompiledOnce) {
  const auto compute = [](const Tensor& x) { return (x * 1.5 + 0.25).eval(); };
  for (const Device device : gpus()) {
    const Tensor x = randn({64}).to(device);
    compute(x);
    const auto before = gpu::compiler_stats().compilations;
    compute(x);
    EXPECT_EQ(gpu::compiler_stats().compilations, before);
  }
}

}  // namespace
}  // namespace hearth
