// Products whose weights are on their way through shared memory. Only sm_90 has them in its plans
// (gpu/few_rows.cpp); here other GPUs run their kernels, too, with smaller blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "gpu/block_planes.h"
#include "gpu_compare.h"
#include "hearth/hearth.h"
#include "hearth/kernel.h"
#include "hearth/quantise.h"
#include "streamed_text.h"

namespace hearth {
namespace {

constexpr int threads = 128;

class GpuStreamedProducts : public GpuComparison {
 protected:
  struct Sizes {
    std::int64_t rows, columns, depth;
    unsigned blocks, parts;  // parts: waves that share columns
  };
  static constexpr int few_slots = 2, more_slots = 3;  // of a wave

  // `work`: the type that has a wave's columns; `weights`: what it is made of; `prepare`: of x, into `held`.
  static std::string text(std::string_view work, std::string_view weights, std::string_view prepare,
                          int slots) {
    return fmt::format(
        "#include \"streamed.h\"\n"
        "using namespace quantised;\n"
        "{5}using Work = {0};\n"
        "KERNEL_OF({1}) void streamed_product(const u8* data, u64 count, const f32* x, f32* out, u32 rows,\n"
        "                                    u32 columns, u32 depth, u32 parts) {{\n"
        "  constexpr int slots = {4};\n"
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
        work, threads, weights, prepare, slots, plain_results);
  }
  // Of a lane's pairs of runs that it takes from a portion.
  static int pairs_of(DType format) { return storage_bytes(format, 2048) <= 1280 ? 2 : 1; }
  // Whether rows are whole portions there: kernels of blocks then look at nothing else.
  static bool whole_portions(Device device, DType format, std::int64_t depth) {
    return is_quantised(format) && depth % (device_info(device).wave_size * 32 * pairs_of(format)) == 0;
  }
  static std::string text(DType format, std::int64_t most_rows, int slots, bool whole,
                          std::string_view pairing = "Neighbours<2>") {
    if (!is_quantised(format)) {
      const std::string_view type = dtype_name(format);
      return text(
          fmt::format("streamed::HalfPortions<{}, true, {}, {}, {}>", type, most_rows, pairing, threads),
          fmt::format("f32* const numbers = reinterpret_cast<f32*>(held);\n"
                      "  const Work work(reinterpret_cast<const {}*>(data), depth, numbers, rows, columns, "
                      "depth, parts);",
                      type),
          "streamed::place_rows(operand, prepare, numbers)", slots);
    }
    std::string planes;
    for (const std::size_t size : gpu::plane_sizes(format)) planes += fmt::format(", {}", size);
    return text(
        fmt::format("streamed::BlockPortions<quantised::{}, {}, {}, {}, {}, {}, false, 1{}>",
                    dtype_name(format), most_rows, pairing, threads, pairs_of(format), whole, planes),
        "u8* const q = held;\n"
        "  Rounding* const roundings = reinterpret_cast<Rounding*>(q + rows * depth);\n"
        "  const Blocks blocks{data, count};\n"
        "  const Work work(blocks, q, roundings, rows, columns, depth, parts);",
        fmt::format("round_rows<quantised::{}>(operand, prepare, q, roundings, threadIdx.x, blockDim.x)",
                    dtype_name(format)),
        slots);
  }

  // Into shared memory, by themselves; AMD's kernels do without.
  static bool has_copies(Device device) {
    const std::string chip = device_info(device).architecture;
    return !chip.starts_with("sm_") || chip >= "sm_80" || chip.size() > 5;
  }

  // As other kernels multiply what is rounded in the same way.
  static void check(DType format, std::int64_t most_rows, const std::vector<Sizes>& all,
                    int slots = few_slots) {
    for (const Device device : gpus()) {
      if (!has_copies(device)) continue;
      std::map<bool, GpuKernel> kernels;
      for (const Sizes& s : all) {
        const bool whole = whole_portions(device, format, s.depth);
        if (!kernels.contains(whole))
          kernels.emplace(whole,
                          compile_kernel(text(format, most_rows, slots, whole), "streamed_product", device));
        const Tensor numbers = randn({s.columns, s.depth});
        const Tensor weight =
            (is_quantised(format) ? quantise(numbers, format) : numbers.to(format)).to(device).eval();
        const Tensor x = randn({s.rows, s.depth}).to(device).eval();
        const Tensor out = full({s.rows, s.columns}, NAN).to(device).eval();
        const std::uint64_t blocks = is_quantised(format) ? weight.nbytes() / block_bytes(format) : 0;
        kernels.at(whole).launch({.blocks = {s.blocks}, .threads = {threads}, .shared_bytes = 40 << 10},
                                 weight, blocks, x, out, static_cast<std::uint32_t>(s.rows),
                                 static_cast<std::uint32_t>(s.columns), static_cast<std::uint32_t>(s.depth),
                                 s.parts);
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
  for (const DType format : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k,
                             DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_xs, DType::iq4_nl,
                             DType::mxfp4, DType::bf16, DType::f16}) {
    const std::int64_t whole = 4096;
    std::vector<Sizes> sizes = {{1, 21, whole, 2, 1}, {1, 14, whole, 1, 2}};
    if (format != DType::q3_k && format != DType::q6_k)
      for (const std::int64_t depth : {1024, 3072})
        sizes.insert(sizes.end(), {{1, 21, depth, 2, 1}, {1, 14, depth, 1, 2}});
    check(format, 1, sizes);
  }
}
TEST_F(GpuStreamedProducts, OfSeveralRows) {
  for (const DType format : {DType::q4_0, DType::q8_0, DType::q4_k, DType::bf16})
    check(format, 4, {{3, 9, 2048, 2, 1}, {4, 6, 1024, 1, 2}});
}
TEST_F(GpuStreamedProducts, OfMoreSlots) {
  for (const DType format : {DType::q8_0, DType::bf16})
    check(format, 1, {{1, 21, 3072, 2, 1}, {1, 14, 3072, 1, 2}}, more_slots);
}
// Results of two rows of the weights each: left + 3 right.
TEST_F(GpuStreamedProducts, OfPairs) {
  const std::uint32_t rows = 1, columns = 20, depth = 2048, parts = 1;
  struct Pairing {
    std::string_view type;
    std::int64_t (*left)(std::int64_t);
    std::int64_t apart;
  };
  const Pairing pairings[] = {
      {"LeftAndRight", [](std::int64_t c) { return c; }, columns},
      {"Turned<4, true>", [](std::int64_t c) { return 2 * c; }, 1},
      {"Turned<4, false>", [](std::int64_t c) { return c / 4 * 8 + c % 4; }, 4},
  };
  for (const Device device : gpus()) {
    if (!has_copies(device)) continue;
    for (const DType format : {DType::q4_0, DType::q4_k, DType::bf16})
      for (const Pairing& pairing : pairings) {
        const GpuKernel kernel =
            compile_kernel(text(format, 1, few_slots, whole_portions(device, format, depth), pairing.type),
                           "streamed_product", device);
        const Tensor numbers = randn({2 * columns, depth});
        const Tensor weight =
            (is_quantised(format) ? quantise(numbers, format) : numbers.to(format)).to(device).eval();
        const Tensor x = randn({rows, depth}).to(device).eval();
        const Tensor out = full({rows, columns}, NAN).to(device).eval();
        const std::uint64_t blocks = is_quantised(format) ? weight.nbytes() / block_bytes(format) : 0;
        kernel.launch({.blocks = {3}, .threads = {threads}, .shared_bytes = 40 << 10}, weight, blocks, x, out,
                      rows, columns, depth, parts);
        const Tensor product = is_quantised(format) ? quantised_matmul(x, weight)
                                                    : matmul(x, weight.to(DType::f32).transpose(0, 1));
        const auto all = product.to(Device{}).to_vector<float>(), got = out.to(Device{}).to_vector<float>();
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t left = pairing.left(c);
          const float expected =
              all[static_cast<std::size_t>(left)] + 3 * all[static_cast<std::size_t>(left + pairing.apart)];
          EXPECT_NEAR(got[static_cast<std::size_t>(c)], expected, 1e-2)
              << dtype_name(format) << " " << pairing.type << " " << c << " on " << to_string(device);
        }
      }
  }
}

}  // namespace
}  // namespace hearth
