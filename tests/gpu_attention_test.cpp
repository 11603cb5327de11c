// Attention's kernels against plain operations on the CPU, on every GPU that is there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "hearth/hearth.h"
#include "test_devices.h"

namespace hearth {
namespace {

struct Case {
  std::int64_t batch = 1, heads = 1, groups = 1, queries = 1, keys = 1, features = 64;
  AttentionOptions options{};
  DType dtype = DType::f32;
};

double tolerance(DType dtype) { return dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 4e-3 : 3e-2; }

std::vector<double> to_doubles(const Tensor& tensor) {
  return tensor.to(Device{}).to(DType::f64).to_vector<double>();
}

void expect_close(const Tensor& got, const Tensor& expected, double allowed, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const auto a = to_doubles(got), b = to_doubles(expected);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_LE(std::abs(a[i] - b[i]), allowed * std::max(1.0, std::abs(b[i])))
        << what << " element " << i << ": " << a[i] << " instead of " << b[i];
}

std::string name_of(const Case& c) {
  return to_string(Shape{c.batch, c.heads, c.groups, c.queries, c.keys, c.features}) +
         (c.options.causal ? " causal " : " ") + "window " + std::to_string(c.options.window) + " " +
         std::string(dtype_name(c.dtype));
}

class GpuAttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    manual_seed(7);
    const char* wanted = std::getenv("HEARTH_TEST_DEVICES");
    for (const Device device : devices())
      if (device.kind != DeviceKind::cpu && (wanted == nullptr || to_string(device).starts_with(wanted)))
        gpus_.push_back(device);
    if (!gpus_.empty()) return;
    if (wanted != nullptr) FAIL() << "no device " << wanted;
    GTEST_SKIP() << "no GPU";
  }

  // The reference is computed in f32 from the values that the GPU gets.
  void compare(const Case& c) {
    const Tensor q = randn({c.batch, c.heads, c.queries, c.features}).to(c.dtype).eval();
    const Tensor k = randn({c.batch, c.groups, c.keys, c.features}).to(c.dtype).eval();
    const Tensor v = randn({c.batch, c.groups, c.keys, c.features}).to(c.dtype).eval();
    const Tensor expected = attention(q.to(DType::f32), k.to(DType::f32), v.to(DType::f32), c.options);
    for (const Device device : gpus_) {
      const Tensor got = attention(q.to(device), k.to(device), v.to(device), c.options);
      EXPECT_EQ(got.dtype(), c.dtype);
      expect_close(got, expected, tolerance(c.dtype), name_of(c));
    }
  }

  // The result too.
  void compare_gradients(const Case& c) {
    const auto random = [&](std::int64_t heads, std::int64_t rows) {
      return randn({c.batch, heads, rows, c.features}).to(c.dtype).eval();
    };
    const std::vector<Tensor> inputs{random(c.heads, c.queries), random(c.groups, c.keys),
                                     random(c.groups, c.keys)};
    const Tensor seed = random(c.heads, c.queries);
    const auto compute = [&](Device device, DType dtype) {
      std::vector<Tensor> leaves;
      for (const Tensor& input : inputs)
        leaves.push_back(input.to(dtype).to(device).detach().requires_grad_());
      const Tensor y = attention(leaves[0], leaves[1], leaves[2], c.options);
      auto results = gradients(y, leaves, seed.to(dtype).to(device));
      results.push_back(y);
      return results;
    };
    const auto expected = compute(Device{}, DType::f32);
    for (const Device device : gpus_) {
      const auto got = compute(device, c.dtype);
      for (std::size_t i = 0; i < 3; ++i)
        expect_close(got[i], expected[i], 2 * tolerance(c.dtype), name_of(c) + " gradient " + "qkv"[i]);
      expect_close(got[3], expected[3], tolerance(c.dtype), name_of(c));
    }
  }

  std::vector<Device> gpus_;
};

constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16};

TEST_F(GpuAttentionTest, SizesAroundTiles) {
  for (const DType dtype : dtypes)
    for (const std::int64_t size : {1, 15, 16, 17, 63, 64, 65, 130})
      for (const bool causal : {false, true}) compare({1, 2, 2, size, size, 32, {.causal = causal}, dtype});
}

TEST_F(GpuAttentionTest, HeadSizes) {
  for (const DType dtype : dtypes)
    for (const std::int64_t features : {8, 12, 32, 40, 64, 72, 96, 128, 160, 192, 250, 256})
      compare({1, 1, 1, 35, 70, features, {.causal = true}, dtype});
}

TEST_F(GpuAttentionTest, QueriesAndKeysThatDiffer) {
  for (const DType dtype : dtypes)
    for (const bool causal : {false, true}) {
      compare({2, 1, 1, 40, 90, 32, {.causal = causal}, dtype});
      compare({2, 1, 1, 90, 40, 32, {.causal = causal}, dtype});  // the first queries see nothing
    }
}

TEST_F(GpuAttentionTest, Windows) {
  for (const DType dtype : dtypes)
    for (const std::int64_t window : {1, 7, 20, 64, 300}) {
      compare({1, 1, 1, 150, 150, 32, {.window = window}, dtype});
      compare({1, 1, 1, 30, 100, 32, {.causal = true, .window = window}, dtype});
    }
}

TEST_F(GpuAttentionTest, HeadsThatShareKeys) {
  for (const DType dtype : dtypes)
    for (const std::int64_t queries : {1, 3, 40})
      compare({2, 6, 2, queries, 50, 32, {.causal = true}, dtype});
}

TEST_F(GpuAttentionTest, FewQueriesAndManyKeys) {
  for (const DType dtype : dtypes) {
    compare({1, 2, 1, 1, 1500, 64, {.causal = true}, dtype});
    compare({1, 1, 1, 5, 1100, 40, {.causal = true, .window = 600}, dtype});
  }
}

TEST_F(GpuAttentionTest, AnyScale) {
  for (const DType dtype : dtypes)
    for (const double scale : {0.0, -0.5, 2.0})
      if (scale > 0) compare({1, 1, 1, 20, 20, 32, {.scale = scale}, dtype});
}

TEST_F(GpuAttentionTest, ViewsOfOneTensor) {
  for (const DType dtype : dtypes)
    for (const std::int64_t features : {32, 20, 64}) {
      const Tensor qkv = randn({2, 45, 3, 4, features}).to(dtype).eval();
      const auto compute = [](const Tensor& x) {
        const auto part = [&](std::int64_t i) {
          return permute(reshape(narrow(x, 2, i, 1), {2, 45, 4, x.size(4)}), {0, 2, 1, 3});
        };
        return attention(part(0), part(1), part(2), {.causal = true});
      };
      for (const Device device : gpus_)
        expect_close(compute(qkv.to(device)), compute(qkv.to(DType::f32)), tolerance(dtype), "views");
    }
}

TEST_F(GpuAttentionTest, FeaturesThatAreNotSideBySide) {
  const Tensor x = randn({1, 2, 32, 40}).eval();
  const auto compute = [](const Tensor& in) {
    return attention(in, transpose(transpose(in, 2, 3) * 1.0, 2, 3), in);
  };
  for (const Device device : gpus_) expect_close(compute(x.to(device)), compute(x), 2e-5, "transposed");
}

TEST_F(GpuAttentionTest, NothingAtAll) {
  compare({0, 2, 2, 5, 5, 32});
  compare({1, 2, 2, 0, 5, 32});
  compare_gradients({1, 2, 2, 0, 5, 64, {}, DType::bf16});
}

TEST_F(GpuAttentionTest, NotANumberStaysInItsRow) {
  Tensor q = randn({1, 1, 20, 32}).eval();
  const Tensor poison = where(arange(0, 20, 1).reshape({1, 1, 20, 1}) == 3, NAN, q);
  const Tensor k = randn({1, 1, 33, 32}).eval();
  for (const Device device : gpus_) {
    const auto got = to_doubles(attention(poison.to(device), k.to(device), k.to(device)));
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), i / 32 == 3) << i;
  }
}

TEST_F(GpuAttentionTest, GradientsOfSizesAroundTiles) {
  for (const DType dtype : dtypes)
    for (const std::int64_t size : {1, 15, 16, 17, 64, 65, 130})
      for (const bool causal : {false, true})
        compare_gradients({1, 2, 2, size, size, 32, {.causal = causal}, dtype});
}

TEST_F(GpuAttentionTest, GradientsOfHeadSizes) {
  for (const DType dtype : dtypes)
    for (const std::int64_t features : {8, 12, 40, 64, 72, 96, 128, 160, 192, 250, 256})
      compare_gradients({1, 1, 1, 35, 70, features, {.causal = true}, dtype});
}

TEST_F(GpuAttentionTest, GradientsOfQueriesAndKeysThatDiffer) {
  for (const DType dtype : dtypes)
    for (const bool causal : {false, true}) {
      compare_gradients({2, 1, 1, 40, 90, 32, {.causal = causal}, dtype});
      compare_gradients({2, 1, 1, 90, 40, 32, {.causal = causal}, dtype});
    }
}

TEST_F(GpuAttentionTest, GradientsOfWindows) {
  for (const DType dtype : dtypes)
    for (const std::int64_t window : {1, 20, 64, 300}) {
      compare_gradients({1, 1, 1, 150, 150, 32, {.window = window}, dtype});
      compare_gradients({1, 1, 1, 100, 30, 32, {.causal = true, .window = window}, dtype});
    }
}

TEST_F(GpuAttentionTest, GradientsOfHeadsThatShareKeys) {
  for (const DType dtype : dtypes) compare_gradients({2, 6, 2, 40, 50, 32, {.causal = true}, dtype});
}

// More tiles than are loaded ahead, the last one not full.
TEST_F(GpuAttentionTest, ManyTilesOfUsualHeads) {
  for (const std::int64_t features : {64, 128})
    for (const bool causal : {false, true})
      compare_gradients({1, 1, 1, 300, 300, features, {.causal = causal}, DType::bf16});
}

// Sequences that are one tile of a block, where there is a kernel for them.
TEST_F(GpuAttentionTest, SequencesOfATile) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const std::int64_t size : {1, 17, 32, 33, 64, 65, 96})
      compare({2, 4, 2, size, size, 64, {.causal = size % 2 == 0}, dtype});
  compare({1, 2, 2, 40, 90, 64, {.causal = true}, DType::bf16});
  compare({1, 2, 2, 90, 40, 64, {.causal = true}, DType::bf16});  // the first queries see nothing
  compare({1, 2, 2, 90, 90, 64, {.window = 20}, DType::bf16});
}

// On sm_90 a block has several short sequences, one after another; on a chip that is emulated, this many
// would take long.
TEST_F(GpuAttentionTest, ManyShortSequences) {
  const bool real = gpus_[0].kind == DeviceKind::cuda;
  const std::int64_t batch = real ? 45 : 1;
  const auto compare_all = [&](const Case& c) { real ? compare_gradients(c) : compare(c); };
  for (const std::int64_t features : {64, 128})
    for (const std::int64_t size : {97, 128, 300})
      for (const AttentionOptions& options :
           {AttentionOptions{}, AttentionOptions{.causal = true}, AttentionOptions{.window = 40}})
        compare_all({batch, 8, 4, size, size, features, options, DType::bf16});
  for (const std::int64_t features : {64, 128}) {  // tiles that see nothing, of queries and of keys
    compare_all({batch, 8, 8, 300, 77, features, {.causal = true}, DType::bf16});
    compare_all({batch, 8, 8, 100, 300, features, {.window = 40}, DType::bf16});
  }
}

TEST_F(GpuAttentionTest, GradientsAreTheSameEachTime) {
  for (const Device device : gpus_) {
    const Tensor x = randn({1, 4, 70, 64}).to(DType::bf16).to(device).eval();
    const auto compute = [&] {
      const Tensor leaf = x.detach().requires_grad_();
      return to_doubles(gradients(attention(leaf, leaf, leaf, {.causal = true}), {leaf}, x)[0]);
    };
    EXPECT_EQ(compute(), compute());
  }
}

TEST_F(GpuAttentionTest, GradientsOfGradients) {
  const Tensor x = randn({1, 2, 9, 8}).eval(), w = randn({1, 2, 9, 8}).eval();
  const auto compute = [&](Device device) {
    const Tensor leaf = x.to(device).detach().requires_grad_(), weights = w.to(device);
    const Tensor y = attention(leaf, leaf * 0.5, leaf + 1.0, {.causal = true});
    const Tensor first = gradients(y, {leaf}, weights, true)[0];
    return gradients(first, {leaf}, weights)[0];
  };
  for (const Device device : gpus_) expect_close(compute(device), compute(Device{}), 1e-4, "second gradient");
}

}  // namespace
}  // namespace hearth
