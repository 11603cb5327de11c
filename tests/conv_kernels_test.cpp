// The CPU convolution kernels against the definition, written as loops over every index in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/conv.h"
#include "cpu/conv_gemm.h"

extern "C" int openblas_get_num_threads();

namespace hearth::cpu {
namespace {

using std::int64_t;
using Values = std::vector<float>;

struct Case {
  const char* name;
  ConvShape shape;
};

int64_t volume(const int64_t (&extents)[3]) { return extents[0] * extents[1] * extents[2]; }
int64_t x_size(const ConvShape& s) { return s.batch * s.in_channels * volume(s.in); }
int64_t y_size(const ConvShape& s) { return s.batch * s.out_channels * volume(s.out); }
int64_t w_size(const ConvShape& s) { return s.out_channels * (s.in_channels / s.groups) * volume(s.kernel); }

// Output extents follow from symmetrical padding, plus `extra` (what a transposed convolution's output
// padding asks for).
ConvShape conv3d(int64_t batch, int64_t groups, int64_t c, int64_t o, const std::vector<int64_t>& in,
                 const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                 const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation,
                 int64_t extra = 0) {
  ConvShape s{batch, groups, c, o, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
  const std::size_t rank = in.size();
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = 3 - rank + i;
    s.in[axis] = in[i];
    s.kernel[axis] = kernel[i];
    s.stride[axis] = stride[i];
    s.padding[axis] = padding[i];
    s.dilation[axis] = dilation[i];
    const int64_t room = in[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
    s.out[axis] = (room < 0 ? 0 : room / stride[i] + 1) + extra;
  }
  return s;
}

ConvShape conv2d(int64_t batch, int64_t groups, int64_t c, int64_t o, int64_t h, int64_t w, int64_t kernel,
                 int64_t stride, int64_t padding, int64_t dilation = 1) {
  return conv3d(batch, groups, c, o, {h, w}, {kernel, kernel}, {stride, stride}, {padding, padding},
                {dilation, dilation});
}

std::vector<Case> cases() {
  return {
      {"3x3", conv2d(2, 1, 5, 7, 9, 11, 3, 1, 1)},
      {"only padding", conv3d(2, 1, 3, 4, {1}, {1}, {2}, {1}, {1})},
      {"3x3 no padding", conv2d(3, 1, 8, 16, 7, 7, 3, 1, 0)},
      {"3x3 wide", conv2d(2, 1, 16, 24, 20, 37, 3, 1, 1)},
      {"3x3 one row of output", conv2d(1, 1, 3, 4, 3, 50, 3, 1, 0)},
      {"3x3 many channels", conv2d(2, 1, 130, 70, 7, 7, 3, 1, 1)},
      {"3x3 tall stripe", conv2d(1, 1, 40, 9, 100, 33, 3, 1, 1)},
      {"3x3 stride 2", conv2d(2, 1, 6, 10, 13, 16, 3, 2, 1)},
      {"3x3 stride 2 even", conv2d(2, 1, 16, 32, 16, 16, 3, 2, 1)},
      {"3x3 stride 3", conv2d(2, 1, 4, 5, 14, 17, 3, 3, 2)},
      {"3x3 stride larger than kernel", conv2d(2, 1, 4, 5, 19, 23, 3, 5, 1)},
      {"3x3 dilation 2", conv2d(2, 1, 4, 9, 12, 15, 3, 1, 2, 2)},
      {"3x3 dilation 3 stride 2", conv2d(2, 1, 4, 9, 17, 15, 3, 2, 2, 3)},
      {"2x2 dilation 2 stride 2", conv2d(2, 1, 4, 9, 17, 15, 2, 2, 1, 2)},
      {"padding larger than kernel", conv2d(2, 1, 3, 4, 5, 6, 3, 1, 5)},
      {"padding larger than kernel, stride 2", conv2d(2, 1, 3, 4, 5, 6, 2, 2, 4)},
      {"1x1", conv2d(3, 1, 12, 20, 6, 7, 1, 1, 0)},
      {"1x1 one pixel", conv2d(3, 1, 12, 20, 1, 1, 1, 1, 0)},
      {"1x1 many channels", conv2d(3, 1, 130, 120, 6, 7, 1, 1, 0)},
      {"1x1 many channels, groups", conv2d(3, 2, 260, 240, 6, 7, 1, 1, 0)},
      {"kernel as large as the input, groups", conv2d(5, 2, 6, 8, 4, 4, 4, 1, 0)},
      {"1x1 groups", conv2d(3, 4, 12, 20, 6, 7, 1, 1, 0)},
      {"1x1 padded", conv2d(2, 1, 3, 5, 6, 7, 1, 1, 1)},
      {"1x1 stride 2", conv2d(2, 1, 16, 32, 9, 8, 1, 2, 0)},
      {"5x5", conv2d(2, 1, 3, 6, 12, 13, 5, 1, 2)},
      {"7x7 stride 2", conv2d(2, 1, 3, 18, 31, 30, 7, 2, 3)},
      {"11x11 stride 4", conv2d(1, 1, 3, 8, 40, 41, 11, 4, 2)},
      {"kernel as large as the input", conv2d(2, 1, 3, 6, 12, 12, 12, 1, 0)},
      {"kernel larger than the input", conv2d(2, 1, 3, 6, 2, 3, 7, 1, 3)},
      {"groups", conv2d(2, 3, 12, 18, 9, 10, 3, 1, 1)},
      {"groups stride 2", conv2d(2, 2, 32, 64, 9, 10, 3, 2, 1)},
      {"depthwise", conv2d(2, 13, 13, 13, 10, 11, 3, 1, 1)},
      {"depthwise stride 2", conv2d(2, 13, 13, 13, 10, 11, 5, 2, 2)},
      {"depthwise with multiplier", conv2d(2, 6, 6, 18, 10, 33, 3, 1, 1)},
      {"1-D", conv3d(2, 1, 7, 9, {101}, {5}, {1}, {2}, {1})},
      {"1-D long", conv3d(1, 1, 3, 9, {70001}, {5}, {2}, {2}, {3})},
      {"1-D causal", conv3d(2, 4, 8, 8, {29}, {4}, {1}, {3}, {1})},
      {"3-D", conv3d(2, 1, 3, 5, {5, 6, 7}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1})},
      {"3-D uneven", conv3d(2, 2, 4, 6, {7, 6, 9}, {2, 3, 4}, {2, 1, 3}, {1, 0, 2}, {1, 2, 1})},
      {"3-D deep", conv3d(1, 1, 20, 9, {30, 12, 13}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1})},
      {"zeros on the high side", conv3d(2, 1, 3, 9, {8, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 3)},
      {"zeros on the high side, stride 2", conv3d(2, 1, 3, 9, {8, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 2)},
      {"output smaller than it could be", conv3d(2, 1, 3, 9, {18, 19}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, -3)},
      {"negative padding", conv2d(2, 1, 3, 4, 15, 16, 3, 1, -2)},
      {"no images", conv2d(0, 1, 3, 4, 5, 6, 3, 1, 1)},
      {"no input channels", conv2d(2, 1, 0, 4, 5, 6, 3, 1, 1)},
      {"no output channels", conv2d(2, 1, 4, 0, 5, 6, 3, 1, 1)},
      {"no output", conv2d(2, 1, 4, 3, 2, 2, 5, 1, 0)},
      {"no input", conv2d(2, 1, 4, 3, 0, 5, 3, 1, 1)},
      {"odd batch of small planes", conv2d(37, 1, 9, 17, 4, 4, 3, 1, 1)},
      {"CIFAR block", conv2d(9, 1, 64, 64, 8, 8, 3, 1, 1)},
  };
}

Values random_values(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  Values values(static_cast<std::size_t>(count));
  for (float& value : values) value = distribution(generator);
  return values;
}

// Calls f(x index, w index, y index) for every product of the convolution.
template <typename F>
void for_each_product(const ConvShape& s, F&& f) {
  const int64_t group_in = s.groups ? s.in_channels / s.groups : 0, group_out = s.out_channels / s.groups;
  int64_t y = 0;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (int64_t p = 0; p < volume(s.out); ++p, ++y)
        for (int64_t k = 0; k < volume(s.kernel); ++k) {
          const int64_t at[3] = {p / (s.out[1] * s.out[2]), p / s.out[2] % s.out[1], p % s.out[2]};
          const int64_t tap[3] = {k / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1],
                                  k % s.kernel[2]};
          int64_t offset = 0;
          bool inside = true;
          for (int axis = 0; axis < 3; ++axis) {
            const int64_t i = at[axis] * s.stride[axis] + tap[axis] * s.dilation[axis] - s.padding[axis];
            inside = inside && i >= 0 && i < s.in[axis];
            offset = offset * s.in[axis] + i;
          }
          if (!inside) continue;
          for (int64_t c = 0; c < group_in; ++c) {
            const int64_t channel = o / group_out * group_in + c;
            f((n * s.in_channels + channel) * volume(s.in) + offset,
              (o * group_in + c) * volume(s.kernel) + k, y);
          }
        }
}

// The error allowed is relative to the sum of magnitudes, which is what bounds rounding in a sum of products.
void expect_close(const Values& got, const std::vector<double>& want, const std::vector<double>& magnitude) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 2e-6 * magnitude[i] + 1e-30) << "at element " << i;
}

struct Expected {
  std::vector<double> value, magnitude;
  explicit Expected(int64_t count) : value(static_cast<std::size_t>(count)), magnitude(value) {}
  void add(int64_t at, double product) {
    value[static_cast<std::size_t>(at)] += product;
    magnitude[static_cast<std::size_t>(at)] += std::abs(product);
  }
};

class ConvKernels : public testing::TestWithParam<Case> {
 protected:
  const ConvShape& s = GetParam().shape;
  const Values x = random_values(x_size(s), 1), w = random_values(w_size(s), 2),
               dy = random_values(y_size(s), 3);
  const Values bias = random_values(s.out_channels, 4);

  static double at(const Values& values, int64_t i) { return values[static_cast<std::size_t>(i)]; }

  // Runs it on 1 and on 2 threads, twice each, into memory that holds NaN; all results must have the same
  // bits.
  static Values run(int64_t count, const std::function<void(float*)>& kernel) {
    Values first;
    for (int threads : {1, 2, 2, 1}) {
      set_thread_count(threads);
      Values result(static_cast<std::size_t>(count), std::nanf(""));
      kernel(result.data());
      if (first.empty()) first = result;
      if (count > 0) {
        EXPECT_EQ(std::memcmp(first.data(), result.data(), result.size() * sizeof(float)), 0);
      }
    }
    set_thread_count(0);
    return first;
  }
};

TEST_P(ConvKernels, Forward) {
  Expected expected(y_size(s));
  for_each_product(s, [&](int64_t i, int64_t j, int64_t k) { expected.add(k, at(x, i) * at(w, j)); });
  const Values plain = run(y_size(s), [&](float* y) { conv_forward(s, x.data(), w.data(), nullptr, y); });
  expect_close(plain, expected.value, expected.magnitude);

  for (int64_t k = 0; k < y_size(s); ++k) expected.add(k, at(bias, k / volume(s.out) % s.out_channels));
  const Values biased =
      run(y_size(s), [&](float* y) { conv_forward(s, x.data(), w.data(), bias.data(), y); });
  expect_close(biased, expected.value, expected.magnitude);
}

TEST_P(ConvKernels, InputGradient) {
  Expected expected(x_size(s));
  for_each_product(s, [&](int64_t i, int64_t j, int64_t k) { expected.add(i, at(dy, k) * at(w, j)); });
  const Values dx = run(x_size(s), [&](float* out) { conv_input_gradient(s, dy.data(), w.data(), out); });
  expect_close(dx, expected.value, expected.magnitude);
}

TEST_P(ConvKernels, WeightGradient) {
  Expected expected(w_size(s));
  for_each_product(s, [&](int64_t i, int64_t j, int64_t k) { expected.add(j, at(dy, k) * at(x, i)); });
  const Values dw = run(w_size(s), [&](float* out) { conv_weight_gradient(s, x.data(), dy.data(), out); });
  expect_close(dw, expected.value, expected.magnitude);
}

TEST_P(ConvKernels, DoublePrecision) {
  const std::vector<double> xd(x.begin(), x.end()), wd(w.begin(), w.end()), dyd(dy.begin(), dy.end());
  Expected y(y_size(s)), dx(x_size(s)), dw(w_size(s));
  for_each_product(s, [&](int64_t i, int64_t j, int64_t k) {
    y.add(k, at(x, i) * at(w, j));
    dx.add(i, at(dy, k) * at(w, j));
    dw.add(j, at(dy, k) * at(x, i));
  });
  const auto check = [](const Expected& want, const std::vector<double>& got) {
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want.value[i], 1e-13 * want.magnitude[i]);
  };
  std::vector<double> result(y.value.size(), std::nan(""));
  conv_forward(s, xd.data(), wd.data(), nullptr, result.data());
  check(y, result);
  result.assign(dx.value.size(), std::nan(""));
  conv_input_gradient(s, dyd.data(), wd.data(), result.data());
  check(dx, result);
  result.assign(dw.value.size(), std::nan(""));
  conv_weight_gradient(s, xd.data(), dyd.data(), result.data());
  check(dw, result);
}

// Its own threads would take the cores from ours, and cut products in other places.
TEST(ConvGemm, KeepsTheBlasOnOneThread) {
  const ConvShape shape = conv2d(1, 1, 128, 128, 4, 4, 1, 1, 0);
  ASSERT_TRUE(pointwise::applies(shape));
  const Values x = random_values(x_size(shape), 1), w = random_values(w_size(shape), 2);
  Values y(static_cast<std::size_t>(y_size(shape)));
  conv_forward(shape, x.data(), w.data(), nullptr, y.data());
  EXPECT_EQ(openblas_get_num_threads(), 1);
}

// Sizes that the BLAS cannot count are not given to it.
TEST(ConvGemm, AppliesUpToTheSizesOfTheBlas) {
  constexpr int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const int64_t beyond : {0, 1}) {
    EXPECT_EQ(pointwise::applies(conv3d(1, 1, 1, 1, {most + beyond}, {1}, {1}, {0}, {1})), beyond == 0);
    EXPECT_EQ(linear::applies(conv3d(most + beyond, 1, 1, 1, {2}, {2}, {1}, {0}, {1})), beyond == 0);
    EXPECT_EQ(linear::applies(conv3d(1, 1, 1, 1, {most + beyond}, {most + beyond}, {1}, {0}, {1})),
              beyond == 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvKernels, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace hearth::cpu
