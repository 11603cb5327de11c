// Rows that are rounded for the product behind: what is stored for it, what the product makes of that, and
// plans that have such steps. Only sm_90 has them in its plans (gpu/few_rows.cpp); here other GPUs run their
// kernels, too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpu/block_planes.h"
#include "gpu_compare.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"
#include "hearth/kernel.h"
#include "hearth/quantise.h"
#include "rounded_rows.h"
#include "streamed_text.h"

namespace hearth {
namespace {

constexpr int threads = 128;

class GpuRoundedRows : public GpuComparison {
 protected:
  // Rounds x, each block `each` of its elements.
  static Tensor round(Device device, const Tensor& x, const Tensor* weights, std::uint32_t run,
                      std::uint32_t each) {
    const GpuKernel kernel = compile_kernel(
        fmt::format(
            "#include \"rounded_rows.h\"\n"
            "KERNEL_OF({0}) void round_rows(const f32* x, const f32* weights, u8* rows, u32 elements,\n"
            "                              u32 each) {{\n"
            "  __shared__ __align__(16) f32 kept[512], factors[512];\n"
            "  const u32 first = blockIdx.x * each;\n"
            "  const u32 count = elements - first < each ? elements - first : each;\n"
            "  for (u32 i = threadIdx.x; i < count; i += blockDim.x) {{\n"
            "    kept[i] = x[first + i];\n"
            "    factors[i] = weights[first + i];\n"
            "  }}\n"
            "  barrier();\n"
            "  rounded::give<{1}>(rows, elements, first, count, kept, {2});\n"
            "}}\n",
            threads, run, weights != nullptr ? "factors" : "nullptr"),
        "round_rows", device);
    const auto elements = static_cast<std::uint32_t>(x.nbytes() / sizeof(float));
    const Tensor rows = zeros({std::int64_t{elements + elements / run * 8}}, DType::u8).to(device).eval();
    const Tensor factors = (weights != nullptr ? *weights : x).to(device).eval();
    kernel.launch({.blocks = {(elements + each - 1) / each}, .threads = {threads}}, x.to(device).eval(),
                  factors, rows, elements, each);
    return rows;
  }

  // The product with rows that are rounded so. `epsilon` > 0: normed by the sums of squares.
  static std::string text(DType format, std::int64_t most_rows, std::uint32_t run, bool whole,
                          double epsilon) {
    std::string planes;
    for (const std::size_t size : gpu::plane_sizes(format)) planes += fmt::format(", {}", size);
    return fmt::format(
        "#include \"streamed.h\"\n"
        "using namespace quantised;\n"
        "{8}// How often each result was stored.\n"
        "struct Counted : Plain {{\n"
        "  u32* times;\n"
        "  DEVICE void operator()(i64 row, i64 column, const Packet<f32, 1>& sum) const {{\n"
        "    Plain::operator()(row, column, sum);\n"
        "    atomicAdd(times + row * columns + column, 1u);\n"
        "  }}\n"
        "}};\n"
        "using Work = streamed::BlockPortions<quantised::{0}, {1}, Neighbours<2>, {2}, {3}, {9}, {4}, "
        "16{5}>;\n"
        "KERNEL_OF({2}) void product(const u8* data, u64 count, const u8* x, f32* out, u32* times,\n"
        "                           u32 rows, u32 columns, u32 depth) {{\n"
        "  constexpr int slots = 2;\n"
        "  u8* const q = launched_shared<u8>() + {2} / WAVE * slots * Work::slot_bytes;\n"
        "  Rounding* const roundings = reinterpret_cast<Rounding*>(q + rows * depth);\n"
        "  const Blocks blocks{{data, count}};\n"
        "  const Work work(blocks, q, roundings, rows, columns, depth, 1);\n"
        "  __shared__ f32 squares[{1} * {2} / WAVE];\n"
        "  {6};\n"
        "  streamed::multiply<slots>(work, launched_shared<u8>(), [&] {{\n"
        "    streamed::take_rows<quantised::{0}, {7}>(x, rows, depth, prepare, q, roundings);\n"
        "    barrier();\n"
        "    return prepare.factor(lane() / Work::side);\n"
        "  }}, Counted{{{{out, columns}}, times}});\n"
        "}}\n",
        dtype_name(format), most_rows, threads, pairs_of(format), run == 16, planes,
        epsilon > 0 ? fmt::format("Normed<{}, {}, true> prepare{{nullptr, {}f, depth, squares}}", most_rows,
                                  threads, epsilon)
                    : std::string("AsItIs prepare; (void)squares"),
        run, plain_results, whole);
  }
  static int pairs_of(DType format) { return storage_bytes(format, 2048) <= 1280 ? 2 : 1; }

  static std::vector<float> host(const Tensor& x) { return x.to(Device{}).to_vector<float>(); }

  static void check(DType format, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                    std::uint32_t run, double epsilon = 0) {
    for (const Device device : gpus()) {
      SCOPED_TRACE(fmt::format("{}, {} x {} x {}, runs of {}, on {}", dtype_name(format), rows, columns,
                               depth, run, to_string(device)));
      const Tensor x = randn({rows, depth}).eval(), weights = randn({rows, depth}).eval();
      const Tensor* const factors = epsilon > 0 ? &weights : nullptr;
      const Tensor stored = round(device, x, factors, run, 480);
      const auto bytes = stored.to(Device{}).to_vector<std::uint8_t>();
      const auto elements = static_cast<std::size_t>(rows * depth);
      const Rounded rounded(bytes.data(), elements, run);
      rounded.expect_of(host(x), factors != nullptr ? host(weights) : std::vector<float>(elements, 1.0f));

      const Tensor weight = quantise(randn({columns, depth}), format).to(device).eval();
      const Tensor out = full({rows, columns}, NAN).to(device).eval();
      const Tensor times = zeros({rows, columns}, DType::i32).to(device).eval();
      const bool whole = depth % (device_info(device).wave_size * 32 * pairs_of(format)) == 0;
      compile_kernel(text(format, rows, run, whole, epsilon), "product", device)
          .launch({.blocks = {3}, .threads = {threads}, .shared_bytes = 40 << 10}, weight,
                  std::uint64_t{weight.nbytes() / block_bytes(format)}, stored, out, times,
                  static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns),
                  static_cast<std::uint32_t>(depth));
      std::vector<float> numbers;
      for (std::size_t i = 0; i < elements; ++i) numbers.push_back(rounded.number(i));
      Tensor expected =
          matmul(tensor(numbers).reshape({rows, depth}), dequantise(weight.to(Device{})).transpose(0, 1));
      if (epsilon > 0) expected = expected * rsqrt(mean(x * x, {1}, true) + epsilon);
      const float most = max(abs(expected)).item<float>();
      EXPECT_LE(max(abs(expected - out.to(Device{}))).item<float>(), 1e-5f * most);
      EXPECT_TRUE(all(times.to(Device{}) == 1).item<bool>());
    }
  }
};

// Blocks with columns that are left over, one that is spare, and two rows.
TEST_F(GpuRoundedRows, AreMultiplied) {
  for (const DType format : {DType::q4_0, DType::q8_0, DType::mxfp4}) {
    check(format, 1, 21, 3072, 32);
    check(format, 1, 32, 1024, 16);
    check(format, 1, 21, 4096, 16);
    check(format, 2, 48, 1024, 32);
  }
  for (const DType format : {DType::q4_k, DType::q6_k}) {
    check(format, 1, 21, 4096, 16);
    check(format, 1, 21, 4096, 32);
    check(format, 2, 33, 2048, 16);
    check(format, 2, 33, 2048, 32);
  }
}
TEST_F(GpuRoundedRows, GoThroughANorm) {
  check(DType::q4_0, 1, 20, 2048, 32, 0.5);
  check(DType::q8_0, 1, 20, 2048, 16, 0.5);
  check(DType::q4_k, 2, 20, 2048, 16, 0.5);
}

TEST_F(GpuRoundedRows, AreWhatNumbersAre) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> numbers(192);
  for (std::size_t i = 0; i < 128; ++i) numbers[i] = static_cast<float>(i % 32) * 0.25f - 3;
  numbers[5] = NAN, numbers[40] = infinity, numbers[70] = -infinity;
  numbers[100] = 1e18f;
  for (std::size_t i = 128; i < 160; ++i) numbers[i] = 0;  // the last 32 are zeros, too
  for (const Device device : gpus())
    for (const std::uint32_t run : {16u, 32u}) {
      const Tensor x = tensor(numbers);
      const auto bytes = round(device, x, nullptr, run, 64).to(Device{}).to_vector<std::uint8_t>();
      Rounded(bytes.data(), numbers.size(), run).expect_of(numbers, std::vector<float>(numbers.size(), 1.0f));
    }
}

// ---- attention

using GpuRoundedAttention = gpu::OnTestGpu;

TEST_F(GpuRoundedAttention, IsItsResultRounded) {
  using cpu::Lay;
  using cpu::random_array;
  constexpr std::int64_t heads = 6, groups = 2, features = 32, page = 16, pages = 20;
  for (const std::int64_t queries : {1, 3})
    for (const std::int64_t keys : {5, 300})  // by one block, and by several that share them
      for (const std::uint32_t run : {16u, 32u}) {
        SCOPED_TRACE(fmt::format("{} queries, {} keys, runs of {}", queries, keys, run));
        std::vector<cpu::Array> inputs = {
            random_array(DType::f32, {queries, heads, features}, Lay::dense, 1, -2, 2),
            random_array(DType::f16, {page * pages, groups, features}, Lay::dense, 2, -2, 2),
            random_array(DType::f16, {page * pages, groups, features}, Lay::dense, 3, -2, 2),
            cpu::empty_array(DType::i64, {queries}),
            cpu::empty_array(DType::i64, {queries}),
            cpu::empty_array(DType::i64, {1, pages})};
        for (std::int64_t i = 0; i < queries; ++i) {
          inputs[3].set(i, 0);
          inputs[4].set(i, static_cast<double>(keys - 1 - i));
        }
        for (std::int64_t i = 0; i < pages; ++i) inputs[5].set(i, static_cast<double>(i));
        const Shape shape = {queries, heads, features};
        Step step = gpu::step_of(Op::cached_attention, CachedAttentionAttributes{.scale = 0.2, .page = page},
                                 inputs, {DType::f32, shape, contiguous_strides(shape)});
        const std::int64_t elements = queries * heads * features;
        const Shape bytes = {elements + elements / run * 8};
        step.outputs.push_back({DType::u8, bytes, contiguous_strides(bytes)});
        step.rounds = {run, false};
        const auto kernel = gpu::make_cached_attention(*gpu::test_gpu(), step);
        const auto results = gpu::run_all_on_gpu(*gpu::test_gpu(), step, *kernel, inputs);
        std::vector<float> numbers;
        for (const double number : results[0].values()) numbers.push_back(static_cast<float>(number));
        const auto* const stored = static_cast<const std::uint8_t*>(results[1].data());
        Rounded(stored, numbers.size(), run).expect_of(numbers, std::vector<float>(numbers.size(), 1.0f));
      }
}

// ---- plans

// Two layers as language models have them: fused as chips do, against one operation at a time.
TEST_F(GpuRoundedRows, GiveWhatPlansWithoutThemGive) {
  const Config before = config();
  for (const DType format : {DType::q4_0, DType::q8_0, DType::q4_k})
    for (const Device device : gpus()) {
      if (device_info(device).architecture != "sm_90") continue;  // others have no such plans
      constexpr std::int64_t size = 4096, inner = 6144;
      const auto weights = [&](std::int64_t columns, std::int64_t depth) {
        return quantise(randn({columns, depth}) / std::sqrt(static_cast<float>(depth)), format)
            .to(device)
            .eval();
      };
      const Tensor x = randn({1, size}).to(device).eval(), scale = randn({size}).to(device).eval();
      const Tensor both = weights(2 * inner, size), down = weights(size, inner);
      const auto compute = [&] {
        Tensor y = x;
        for (int layer = 0; layer < 2; ++layer) {
          const Tensor halves = quantised_matmul(rms_norm(y, scale, 1e-5), both);
          const auto parts = split(halves, inner, 1);
          y = y + quantised_matmul(silu(parts[0]) * parts[1], down);
        }
        return y;
      };
      EXPECT_NE(explain({compute()}).find("rounding ahead: 3"), std::string::npos) << explain({compute()});
      const Tensor fused = compute().eval();
      Config plain = before;
      plain.enable_operator_fusion = false;
      set_config(plain);
      const Tensor expected = compute().eval();
      set_config(before);
      const float most = max(abs(expected)).item<float>();
      EXPECT_LE(max(abs(expected - fused)).item<float>(), 0.03f * most)
          << dtype_name(format) << " on " << to_string(device);
    }
}

}  // namespace
}  // namespace hearth
