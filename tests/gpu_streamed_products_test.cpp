// Products whose weights are on their way through shared memory. Only sm_90 has them in its plans
// (gpu/few_rows.cpp); here other GPUs run their kernels, too, with smaller blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu/block_planes.h"
#include "gpu_compare.h"
#include "hearth/hearth.h"
#include "hearth/kernel.h"
#include "hearth/quantise.h"

namespace hearth {
namespace {

constexpr int threads = 128;

class GpuStreamedProducts : public GpuComparison {
 protected:
  struct Sizes {
    std::int64_t rows, columns, depth;
    unsigned blocks, parts;  // parts: waves that share columns
  };

  // `work`: the type that has a wave's columns; `weights`: what it is made of; `prepare`: of x, into `held`.
  static std::string text(std::string_view work, std::string_view weights, std::string_view prepare) {
    return fmt::format(
        "#include \"streamed.h\"\n"
        "using namespace quantised;\n"
        "struct Plain {{\n"
        "  f32* out;\n"
        "  u32 columns;\n"
        "  DEVICE void start(u64, u32) const {{}}\n"
        "  DEVICE void operator()(i64 row, i64 column, const Packet<f32, 1>& sum) const {{\n"
        "    out[row * columns + column] = sum.element[0];\n"
        "  }}\n"
        "}};\n"
        "using Work = {0};\n"
        "KERNEL_OF({1}) void streamed_product(const u8* data, u64 count, const f32* x, f32* out, u32 rows,\n"
        "                                    u32 columns, u32 depth, u32 parts) {{\n"
        "  constexpr int slots = 2;\n"
        "  u8* const held = launched_shared<u8>() + {1} / WAVE * slots * Work::slot_bytes;\n"
        "  const Operand<f32, true> operand{{x, depth, 1, rows, depth}};\n"
        "  {2}\n"
        "  AsItIs prepare;\n"
        "  streamed::multiply<slots>(work, launched_shared<u8>(), [&] {{\n"
        "    {3};\n"
        "    barrier();\n"
        "    return 1.0f;\n"
        "  }}, Plain{{out, columns}});\n"
        "}}\n",
        work, threads, weights, prepare);
  }
  static std::string text(DType format, std::int64_t most_rows) {
    if (!is_quantised(format)) {
      const std::string_view type = dtype_name(format);
      return text(
          fmt::format("streamed::HalfPortions<{}, true, {}, Neighbours<2>, {}>", type, most_rows, threads),
          fmt::format("f32* const numbers = reinterpret_cast<f32*>(held);\n"
                      "  const Work work(reinterpret_cast<const {}*>(data), depth, numbers, rows, columns, "
                      "depth, parts);",
                      type),
          "streamed::place_rows(operand, prepare, numbers)");
    }
    std::string planes;
    for (const std::size_t size : gpu::plane_sizes(format)) planes += fmt::format(", {}", size);
    const int pairs = storage_bytes(format, 2048) <= 1280 ? 2 : 1;
    return text(
        fmt::format("streamed::BlockPortions<quantised::{}, {}, Neighbours<2>, {}, {}{}>", dtype_name(format),
                    most_rows, threads, pairs, planes),
        "u8* const q = held;\n"
        "  Rounding* const roundings = reinterpret_cast<Rounding*>(q + rows * depth);\n"
        "  const Blocks blocks{data, count};\n"
        "  const Work work(blocks, q, roundings, rows, columns, depth, parts);",
        fmt::format("round_rows<quantised::{}>(operand, prepare, q, roundings, threadIdx.x, blockDim.x)",
                    dtype_name(format)));
  }

  // As other kernels multiply what is rounded in the same way.
  static void check(DType format, std::int64_t most_rows, const std::vector<Sizes>& all) {
    for (const Device device : gpus()) {
      const std::string chip = device_info(device).architecture;
      if (chip.starts_with("sm_") && chip < "sm_80" && chip.size() == 5) continue;  // has no such copies
      const GpuKernel kernel = compile_kernel(text(format, most_rows), "streamed_product", device);
      for (const Sizes& s : all) {
        const Tensor numbers = randn({s.columns, s.depth});
        const Tensor weight =
            (is_quantised(format) ? quantise(numbers, format) : numbers.to(format)).to(device).eval();
        const Tensor x = randn({s.rows, s.depth}).to(device).eval();
        const Tensor out = full({s.rows, s.columns}, NAN).to(device).eval();
        const std::uint64_t blocks = is_quantised(format) ? weight.nbytes() / block_bytes(format) : 0;
        kernel.launch({.blocks = {s.blocks}, .threads = {threads}, .shared_bytes = 40 << 10}, weight, blocks,
                      x, out, static_cast<std::uint32_t>(s.rows), static_cast<std::uint32_t>(s.columns),
                      static_cast<std::uint32_t>(s.depth), s.parts);
        const Tensor expected = is_quantised(format) ? quantised_matmul(x, weight)
                                                     : matmul(x, weight.to(DType::f32).transpose(0, 1));
        const float most = max(abs(expected)).item<float>();
        EXPECT_LE(max(abs(expected - out)).item<float>(), 1e-5f * most)
            << dtype_name(format) << ", " << s.rows << " x " << s.columns << " x " << s.depth << ", "
            << s.blocks << " blocks, " << s.parts << " parts on " << to_string(device);
      }
    }
  }
};

// With columns that are left over, and the last portion of a row where it need not be whole.
TEST_F(GpuStreamedProducts, OfEachFormat) {
  for (const DType format :
       {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k,
        DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl, DType::mxfp4, DType::bf16, DType::f16}) {
    const bool whole = format == DType::q3_k || format == DType::q6_k;
    const std::int64_t depth = whole ? 4096 : 3072;
    check(format, 1, {{1, 21, depth, 2, 1}, {1, 14, depth, 1, 2}});
  }
}
TEST_F(GpuStreamedProducts, OfSeveralRows) {
  for (const DType format : {DType::q4_0, DType::q8_0, DType::q4_k, DType::bf16})
    check(format, 4, {{3, 9, 2048, 2, 1}, {4, 6, 1024, 1, 2}});
}

}  // namespace
}  // namespace hearth
