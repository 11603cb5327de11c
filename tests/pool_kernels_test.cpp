// The CPU pooling kernels against the definition, written as loops over every window.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cpu/pool.h"

namespace hearth::cpu {
namespace {

using std::int64_t;

int64_t volume(const int64_t (&extents)[3]) { return extents[0] * extents[1] * extents[2]; }

PoolShape pool2d(int64_t planes, int64_t h, int64_t w, int64_t kernel, int64_t stride, int64_t padding,
                 int64_t extra = 0) {
  const auto out = [&](int64_t in) { return (in + 2 * padding - kernel) / stride + 1 + extra; };
  return {planes,
          {1, h, w},
          {1, kernel, kernel},
          {1, out(h), out(w)},
          {1, stride, stride},
          {0, padding, padding}};
}

std::vector<PoolShape> shapes() {
  return {
      pool2d(5, 8, 8, 2, 2, 0),
      pool2d(5, 9, 11, 2, 2, 0),
      pool2d(3, 9, 11, 2, 2, 0, 1),  // as with ceil_mode: the last windows overhang
      pool2d(7, 13, 37, 3, 2, 1),
      pool2d(2, 12, 12, 3, 2, 0),
      pool2d(2, 12, 15, 3, 1, 1),
      pool2d(2, 7, 7, 7, 1, 0),
      pool2d(2, 10, 9, 5, 3, 2),
      pool2d(1, 2, 2, 2, 5, 0),
      pool2d(0, 8, 8, 2, 2, 0),
      {4, {1, 1, 23}, {1, 1, 4}, {1, 1, 11}, {1, 1, 2}, {0, 0, 1}},
      {3, {5, 6, 7}, {2, 3, 2}, {3, 3, 3}, {2, 2, 2}, {1, 1, 0}},
      {2, {1, 0, 4}, {1, 2, 2}, {1, 1, 3}, {1, 1, 1}, {0, 1, 0}},  // no input: windows hold padding only
  };
}

std::vector<double> random_values(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> distribution(-20, 20);  // few distinct values: ties are common
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(generator) / 4.0;
  return values;
}

// Calls f(output index, the input indices in its window in order, the number of positions with padding
// counted).
template <typename F>
void for_each_window(const PoolShape& s, F&& f) {
  for (int64_t p = 0, y = 0; p < s.planes; ++p)
    for (int64_t o = 0; o < volume(s.out); ++o, ++y) {
      const int64_t at[3] = {o / (s.out[1] * s.out[2]), o / s.out[2] % s.out[1], o % s.out[2]};
      std::vector<std::size_t> members;
      int64_t padded = 0;
      for (int64_t k = 0; k < volume(s.kernel); ++k) {
        const int64_t tap[3] = {k / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1],
                                k % s.kernel[2]};
        int64_t offset = 0;
        bool inside = true, counted = true;
        for (int axis = 0; axis < 3; ++axis) {
          const int64_t i = at[axis] * s.stride[axis] - s.padding[axis] + tap[axis];
          inside = inside && i >= 0 && i < s.in[axis];
          counted = counted && i < s.in[axis] + s.padding[axis];
          offset = offset * s.in[axis] + i;
        }
        padded += counted;
        if (inside) members.push_back(static_cast<std::size_t>(p * volume(s.in) + offset));
      }
      f(static_cast<std::size_t>(y), members, padded);
    }
}

template <typename T>
class PoolKernels : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(PoolKernels, Types);

template <typename T>
void expect_near(const std::vector<T>& got, const std::vector<T>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) || std::isinf(want[i]))
      ASSERT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i]) << "at element " << i;
    else
      ASSERT_NEAR(got[i], want[i], 1e-5) << "at element " << i;
  }
}

template <typename T>
void check_max(const PoolShape& s, const std::vector<T>& x) {
  const auto gradients = random_values(s.planes * volume(s.out), 2);
  const std::vector<T> dy(gradients.begin(), gradients.end());
  std::vector<T> y(dy.size(), T(7)), dx(x.size(), T(7)), want_y(dy.size()), want_dx(x.size());
  for_each_window(s, [&](std::size_t out, const std::vector<std::size_t>& members, int64_t) {
    T best = -std::numeric_limits<T>::infinity();
    std::size_t where = members.empty() ? 0 : members.front();
    for (std::size_t i : members)
      if (x[i] > best || std::isnan(x[i])) best = x[i], where = i;
    want_y[out] = best;
    if (!members.empty()) want_dx[where] += dy[out];
  });
  max_pool_forward(s, x.data(), y.data());
  expect_near(y, want_y);
  max_pool_backward(s, x.data(), dy.data(), dx.data());
  expect_near(dx, want_dx);
}

TYPED_TEST(PoolKernels, Max) {
  for (const PoolShape& s : shapes()) {
    const auto values = random_values(s.planes * volume(s.in), 1);
    std::vector<TypeParam> x(values.begin(), values.end());
    check_max(s, x);
    for (std::size_t i = 0; i < x.size(); i += 5) x[i] = std::numeric_limits<TypeParam>::quiet_NaN();
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -std::numeric_limits<TypeParam>::infinity();
    check_max(s, x);
  }
}

TYPED_TEST(PoolKernels, Average) {
  for (const PoolShape& s : shapes())
    for (bool include_pad : {false, true}) {
      const auto values = random_values(s.planes * volume(s.in), 1);
      const auto gradients = random_values(s.planes * volume(s.out), 2);
      const std::vector<TypeParam> x(values.begin(), values.end()), dy(gradients.begin(), gradients.end());
      std::vector<TypeParam> y(dy.size(), 7), dx(x.size(), 7), want_y(dy.size()), want_dx(x.size());
      for_each_window(s, [&](std::size_t out, const std::vector<std::size_t>& members, int64_t padded) {
        const auto counted =
            static_cast<TypeParam>(include_pad ? padded : static_cast<int64_t>(members.size()));
        for (std::size_t i : members) {
          want_y[out] += x[i] / counted;
          want_dx[i] += dy[out] / counted;
        }
      });
      avg_pool_forward(s, include_pad, x.data(), y.data());
      expect_near(y, want_y);
      avg_pool_backward(s, include_pad, dy.data(), dx.data());
      expect_near(dx, want_dx);
    }
}

}  // namespace
}  // namespace hearth::cpu
