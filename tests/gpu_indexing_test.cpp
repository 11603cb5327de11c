// Movement, indexing, scans, random numbers and pooling on GPUs, against the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "hearth/hearth.h"

namespace hearth {
namespace {

const char* demanded() { return std::getenv("HEARTH_TEST_DEVICES"); }

std::vector<Device> gpus() {
  std::vector<Device> found;
  for (const Device device : devices())
    if (device.kind != DeviceKind::cpu &&
        (demanded() == nullptr || to_string(device).starts_with(demanded())))
      found.push_back(device);
  return found;
}

using Tensors = std::vector<Tensor>;

class GpuIndexingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpus().empty()) return;
    if (demanded() != nullptr) FAIL() << "no device " << demanded();
    GTEST_SKIP() << "no GPU";
  }

  static std::vector<double> to_doubles(const Tensor& tensor) {
    return tensor.to(Device{}).to(DType::f64).to_vector<double>();
  }

  // `compute` on the CPU and on each GPU, from the same inputs; the same bits each time on a GPU.
  static void compare(const Tensors& inputs, double tolerance,
                      const std::function<Tensor(const Tensors&)>& compute) {
    const Tensor expected = compute(inputs);
    const std::vector<double> reference = to_doubles(expected);
    for (const Device device : gpus()) {
      Tensors moved;
      for (const Tensor& input : inputs) moved.push_back(input.to(device));
      const Tensor result = compute(moved);
      ASSERT_EQ(result.device(), device);
      ASSERT_EQ(result.shape(), expected.shape());
      ASSERT_EQ(result.dtype(), expected.dtype());
      const std::vector<double> values = to_doubles(result);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(reference[i]) && std::isnan(values[i])) continue;
        const double allowed =
            std::isinf(reference[i]) ? 0 : tolerance * std::max(1.0, std::abs(reference[i]));
        ASSERT_TRUE(values[i] == reference[i] || std::abs(values[i] - reference[i]) <= allowed)
            << to_string(device) << " element " << i << ": " << values[i] << " instead of " << reference[i];
      }
    }
  }
};

constexpr DType every_dtype[] = {DType::bool_, DType::u8,  DType::i8,   DType::i16, DType::i32,
                                 DType::i64,   DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr DType every_floating[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr std::int64_t o = Slice::open;

Tensor numbers(const Shape& shape, DType dtype) { return randint(0, 9, shape).to(dtype); }

// ---- movement

TEST_F(GpuIndexingTest, Concat) {
  for (const DType dtype : every_dtype)
    compare({numbers({5, 16}, dtype), numbers({3, 16}, dtype)}, 0, [](const Tensors& in) {
      return concat({in[0], in[1], in[0]}, 0);
    });
  for (const std::int64_t width : {1, 3, 4, 8, 63, 256})
    compare({randn({7, width}), randn({7, 4}), randn({7, 5})}, 0,
            [](const Tensors& in) { return concat(in, 1); });
  compare({randn({6, 9}), randn({9, 6})}, 0, [](const Tensors& in) {
    return concat({in[0].transpose(0, 1), in[1]}, 1);
  });
  compare({randn({4, 0, 3}), randn({4, 2, 3})}, 0, [](const Tensors& in) { return concat(in, 1); });
}

TEST_F(GpuIndexingTest, Pad) {
  for (const DType dtype : every_dtype)
    compare({numbers({3, 4, 8}, dtype)}, 0, [](const Tensors& in) {
      return pad(in[0], {{1, 2}, {0, 0}, {3, 1}}, 3);
    });
  compare({randn({3, 64, 16})}, 0,  // in whole units
          [](const Tensors& in) {
            return pad(in[0], {{0, 1}, {4, 4}, {8, 4}}, -INFINITY);
          });
  compare({randn({16, 3, 5})}, 0, [](const Tensors& in) {
    return pad(in[0].permute({2, 0, 1}), {{1, 1}, {2, 0}, {0, 3}}, 0.5);
  });
  compare({randn({})}, 0, [](const Tensors& in) { return pad(in[0], {}, 1); });
}

TEST_F(GpuIndexingTest, Unslice) {  // by the gradient of slice
  const auto gradient_of = [](const std::vector<Slice>& slices) {
    return [slices](const Tensors& in) {
      Tensor x = in[0].detach();
      x.requires_grad_();
      const Tensor y = slice(x, slices);
      y.backward(in[1].slice({{0, y.shape()[0]}, {0, y.shape()[1]}}));
      return x.grad();
    };
  };
  for (const auto& slices : std::vector<std::vector<Slice>>{{{1, 8}, {4, 12}},
                                                            {{1, o, 3}, {o, o, 2}},
                                                            {{o, o, -1}, {o, o, -3}},
                                                            {{8, 1, -2}, {o, o}},
                                                            {{2, 3}, {5, 6}}})
    compare({randn({10, 16}), randn({10, 16})}, 0, gradient_of(slices));
}

TEST_F(GpuIndexingTest, Arange) {
  for (const DType dtype : every_dtype)
    for (const Device device : gpus()) {
      const Tensor expected = arange(-3, 300.25, 0.75, dtype), whole = arange(5, 700, 3, dtype);
      set_default_device(device);
      const Tensor result = arange(-3, 300.25, 0.75, dtype), whole_result = arange(5, 700, 3, dtype);
      EXPECT_EQ(to_doubles(result), to_doubles(expected));
      EXPECT_EQ(to_doubles(whole_result), to_doubles(whole));
      set_default_device(Device{});
    }
}

// ---- indexing

TEST_F(GpuIndexingTest, TakeAndItsGradient) {
  const auto take_and_gradient = [](std::int64_t axis) {
    return [axis](const Tensors& in) {
      Tensor x = in[0].detach();
      x.requires_grad_();
      const Tensor y = take(x, in[1], axis);
      y.backward(y.detach() * 2.0);
      return concat({reshape(y, {-1}), reshape(x.grad(), {-1})}, 0);
    };
  };
  for (const DType dtype : every_floating)
    for (const std::int64_t axis : {0, 1, 2})
      compare({randn({11, 7, 16}).to(dtype), randint(-7, 7, {5, 30})}, 0, take_and_gradient(axis));
  for (const DType indices : {DType::i8, DType::i16, DType::i32, DType::i64})
    compare({randn({40, 33}), randint(-40, 40, {257}).to(indices)}, 0, take_and_gradient(0));
  compare({randn({9}), randint(0, 9, {5000})}, 0, take_and_gradient(0));  // more than a tile to sort
  compare({randn({3, 8}), zeros({4000}).to(DType::i64)}, 0, take_and_gradient(0));  // all for one
  // Many for some, which are added up in chunks: whole numbers, whose sums are the same in every order.
  for (const DType dtype : every_floating)
    for (const std::int64_t width : {1, 7, 24, 64}) {
      const Tensor few = randint(0, 3, {5000}), all = randint(-40, 40, {5000});
      const Tensor words = where(randint(0, 2, {5000}) == 0, few, all);
      compare({randint(-4, 5, {40, width}).to(dtype), words}, 0, take_and_gradient(0));
      compare({randint(-4, 5, {3, width}).to(dtype), zeros({4160}).to(DType::i64)}, 0, take_and_gradient(0));
    }
  compare({randn({3, 8}), zeros({0}).to(DType::i64)}, 0, take_and_gradient(0));
  compare({randn({8, 12}), randint(0, 8, {6, 4})}, 0,
          [&](const Tensors& in) { return take(in[0].transpose(0, 1), in[1].transpose(0, 1), 1); });
}

TEST_F(GpuIndexingTest, Gather) {
  for (const DType dtype : every_dtype)
    for (const std::int64_t axis : {0, 1, 2})
      compare({numbers({5, 6, 7}, dtype), randint(-5, 5, {5, 6, 7})}, 0,
              [axis](const Tensors& in) { return gather(in[0], axis, in[1]); });
  compare({randn({5, 9}), randint(0, 5, {3, 4})}, 0,
          [](const Tensors& in) { return gather(in[0], 1, in[1]); });
}

TEST_F(GpuIndexingTest, ScatterLastWins) {
  for (const DType dtype : every_dtype)
    for (const std::int64_t axis : {0, 1})
      compare({numbers({6, 10}, dtype), randint(-6, 6, {6, 10}), numbers({6, 10}, dtype)}, 0,
              [axis](const Tensors& in) { return scatter(in[0], axis, in[1], in[2]); });
  compare({randn({300}), randint(0, 300, {4000}), randn({4000})}, 0,
          [](const Tensors& in) { return scatter(in[0], 0, in[1], in[2]); });
  compare({randn({6, 10}), randint(0, 6, {4, 5}), randn({5, 4})}, 0,
          [](const Tensors& in) { return scatter(in[0], 1, in[1], in[2].transpose(0, 1)); });
}

TEST_F(GpuIndexingTest, ScatterAddKeepsTheOrder) {
  for (const DType dtype : every_dtype)
    for (const std::int64_t axis : {0, 1})
      compare({numbers({6, 10}, dtype), randint(-6, 6, {6, 10}), numbers({6, 10}, dtype)}, 0,
              [axis](const Tensors& in) { return scatter_add(in[0], axis, in[1], in[2]); });
  for (const DType dtype : every_floating) {
    compare({randn({50}).to(dtype), randint(0, 50, {2500}), randn({2500}).to(dtype)}, 0,
            [](const Tensors& in) { return scatter_add(in[0], 0, in[1], in[2]); });
    compare({randn({70, 9}).to(dtype), randint(0, 70, {40, 5}), randn({40, 5}).to(dtype)}, 0,
            [](const Tensors& in) { return scatter_add(in[0], 0, in[1], in[2]); });
  }
  compare({randn({4, 5}), zeros({4, 0}).to(DType::i64), zeros({4, 0})}, 0,
          [](const Tensors& in) { return scatter_add(in[0], 1, in[1], in[2]); });
}

TEST_F(GpuIndexingTest, AnIndexOutOfRangeIsNamed) {
  for (const Device device : gpus()) {
    const Tensor x = randn({4, 3}).to(device), bad = tensor(std::vector<std::int64_t>{0, 4, -4}).to(device);
    const Tensor square = randint(0, 3, {4, 3}) + 2;
    const std::vector<std::function<Tensor()>> computations = {
        [&] { return take(x, bad, 0); }, [&] { return gather(x, 1, square.to(device)); },
        [&] { return scatter(x, 1, square.to(device), x); },
        [&] { return scatter_add(x, 1, square.to(device), x); }};
    for (const auto& compute : computations) {
      const auto wait = [&] {
        Tensor result = compute();
        result.eval();
        synchronize(device);
      };
      EXPECT_THROW(wait(), IndexError);
      EXPECT_NO_THROW(synchronize(device));
    }
    try {
      take(x, bad, 0).to_vector<float>();
      FAIL() << "no error";
    } catch (const IndexError& error) {
      EXPECT_STREQ(error.what(), "[take] index 4 is out of range");
    }
    EXPECT_EQ(take(x, randint(0, 4, {5}).to(device), 0).to_vector<float>().size(), 15u);
  }
}

// ---- scans

TEST_F(GpuIndexingTest, RunningSumsAndProducts) {
  for (const std::int64_t length : {1, 31, 64, 65, 255, 1024, 1025, 5000})
    for (const std::int64_t lines : {1, 3, 40}) {
      const double tolerance = 1e-6;
      compare({randn({lines, length})}, tolerance, [](const Tensors& in) { return cumsum(in[0], 1); });
      compare({randn({length, lines})}, tolerance, [](const Tensors& in) { return cumsum(in[0], 0); });
    }
  for (const DType dtype : every_dtype) {
    const double tolerance = dtype == DType::bf16 ? 1e-2 : dtype == DType::f16 ? 1e-3 : 1e-6;
    compare({numbers({3, 1500}, dtype)}, tolerance, [](const Tensors& in) { return cumsum(in[0], 1); });
    compare({numbers({70, 20}, dtype)}, tolerance, [](const Tensors& in) { return cumsum(in[0], 0); });
    compare({(numbers({5, 40}, dtype) % 2 + 1).to(dtype)}, tolerance,
            [](const Tensors& in) { return cumprod(in[0], 1); });
  }
  compare({randn({30, 40, 3})}, 1e-6, [](const Tensors& in) {
    return cumsum(in[0].permute({2, 1, 0}).slice({{o, o, -1}, {1, o, 2}}), 2);
  });
  compare({tensor(std::vector<float>{1, INFINITY, 2, NAN, 3})}, 0,
          [](const Tensors& in) { return cumsum(in[0], 0); });
  compare({randn({0, 3})}, 0, [](const Tensors& in) { return cumsum(in[0], 1); });
  compare({randn({2500, 1})}, 1e-6, [](const Tensors& in) { return cumsum(in[0], 0); });
}

TEST_F(GpuIndexingTest, Argsort) {
  for (const std::int64_t length : {1, 2, 31, 33, 1000, 2048, 2049, 5000, 9001})
    for (const bool descending : {false, true})
      compare({randint(0, 500, {2, length}).to(DType::f32)}, 0,  // many equal ones
              [=](const Tensors& in) { return argsort(in[0], 1, descending); });
  for (const DType dtype : every_dtype)
    for (const bool descending : {false, true})
      compare({(randn({3, 2500}) * 50.0).to(dtype)}, 0,
              [=](const Tensors& in) { return argsort(in[0], 1, descending); });
  compare({tensor(std::vector<float>{NAN, 1, -0.0f, 0.0f, -INFINITY, NAN, INFINITY})}, 0,
          [](const Tensors& in) {
            return concat({argsort(in[0], 0), argsort(in[0], 0, true)}, 0);
          });
  compare({randn({7, 200, 3})}, 0, [](const Tensors& in) { return argsort(in[0], 1); });
  compare({randn({300, 5})}, 0, [](const Tensors& in) { return argsort(in[0], 1); });
}

TEST_F(GpuIndexingTest, TopKeepsOnlyWhatIsWanted) {
  for (const std::int64_t k : {1, 5, 3000})
    compare({randn({2, 7000})}, 0, [k](const Tensors& in) { return topk(in[0], k, 1).second; });
  compare({randn({40, 6})}, 0, [](const Tensors& in) { return topk(in[0], 3, 0).second; });
}

// ---- random numbers

TEST_F(GpuIndexingTest, RandomNumbersAreThoseOfTheCpu) {
  const auto draw = [](Device device, const std::function<Tensor()>& make) {
    set_default_device(device);
    manual_seed(0x123456789abull);
    const std::vector<double> first = to_doubles(make()), second = to_doubles(make());
    set_default_device(Device{});
    return std::pair(first, second);
  };
  for (const Device device : gpus()) {
    for (const std::int64_t count : {1, 4, 5, 1027}) {
      for (const DType dtype : every_floating) {
        const auto uniform = [=] { return rand({count}, dtype); };
        EXPECT_EQ(draw(device, uniform), draw(Device{}, uniform));
        const auto normal = [=] { return randn({count}, dtype); };
        const auto [values, more] = draw(device, normal);
        const auto [expected, more_expected] = draw(Device{}, normal);
        const double tolerance = dtype == DType::f64   ? 1e-14
                                 : dtype == DType::f32 ? 2e-6
                                 : dtype == DType::f16 ? 2e-3
                                                       : 2e-2;
        for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance);
        for (std::size_t i = 0; i < more.size(); ++i) ASSERT_NEAR(more[i], more_expected[i], tolerance);
      }
      const auto integers = [=] { return randint(0, 1000003, {count}); };
      EXPECT_EQ(draw(device, integers), draw(Device{}, integers));
    }
  }
}

// ---- pooling

TEST_F(GpuIndexingTest, PoolingAndItsGradient) {
  const auto with_gradient = [](const std::function<Tensor(const Tensor&)>& pool) {
    return [pool](const Tensors& in) {
      Tensor x = in[0].detach();
      x.requires_grad_();
      const Tensor y = pool(x);
      y.backward((y.detach() * 3.0 + 1.0).to(y.dtype()));
      return concat({reshape(y, {-1}), reshape(x.grad(), {-1})}, 0);
    };
  };
  for (const DType dtype : every_floating) {
    compare({randn({2, 3, 11, 13}).to(dtype)}, 0, with_gradient([](const Tensor& x) {
              return max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
            }));
    compare({randn({2, 3, 11, 13}).to(dtype)}, 1e-6, with_gradient([](const Tensor& x) {
              return avg_pool2d(x, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}});
            }));
  }
  compare({randn({2, 3, 17})}, 1e-6, with_gradient([](const Tensor& x) {
            return max_pool1d(x, {.kernel = {4}, .stride = {3}, .padding = {2}});
          }));
  compare({randint(0, 3, {2, 2, 5, 6, 7}).to(DType::f32)}, 1e-6,  // equal ones: the first wins
          with_gradient([](const Tensor& x) {
            return max_pool3d(x, {.kernel = {2, 3, 2}, .stride = {1, 2, 2}, .padding = {1, 1, 0}});
          }));
  compare({randn({2, 2, 5, 6, 7})}, 1e-6, with_gradient([](const Tensor& x) {
            return avg_pool3d(
                x,
                {.kernel = {2, 3, 2}, .stride = {1, 2, 2}, .padding = {1, 1, 0}, .count_include_pad = false});
          }));
  compare({randn({8, 9, 2, 3})}, 1e-6, [](const Tensors& in) {
    return max_pool2d(in[0].permute({2, 3, 0, 1}), {.kernel = {2, 2}});
  });
}

}  // namespace
}  // namespace hearth
