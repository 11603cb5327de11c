// Random numbers: random_uniform, random_normal, random_bits.
#include "graph/random.h"

#include <fmt/format.h>

#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

KernelSource source(std::string_view distribution, DType dtype) {
  return {"random",
          fmt::format("#include \"random.h\"\n"
                      "KERNEL void random({0}* out, u64 seed, u64 offset, u64 count, bool aligned) {{\n"
                      "  fill_random<{1}<{0}>>(out, seed, offset, count, aligned);\n}}\n",
                      storage_type(dtype), distribution),
          {}};
}

std::string_view distribution_of(const Step& step) {
  const DType dtype = step.outputs[0].dtype;
  if (step.op == Op::random_bits && dtype == DType::i64) return "Bits";
  if (step.op == Op::random_uniform && is_floating(dtype)) return "Uniform";
  if (step.op == Op::random_normal && is_floating(dtype)) return "Normal";
  throw DTypeError(fmt::format("[{}] no kernel for {}", op_name(step.op), dtype_name(dtype)));
}

class RandomKernel final : public Kernel {
 public:
  RandomKernel(GpuDevice& device, const Step& step)
      : device_(device),
        count_(static_cast<std::uint64_t>(element_count(step.outputs[0].shape))),
        blocks_(random_blocks(step.op, step.outputs[0].dtype, element_count(step.outputs[0].shape))),
        function_(device.function(source(distribution_of(step), step.outputs[0].dtype), "random")) {}

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    const Number& number = arguments.numbers[0];
    const bool aligned = reinterpret_cast<std::uintptr_t>(arguments.outputs[0]) % 16 == 0;
    device_.launch(function_, {.x = device_.grid_for(blocks_, threads), .threads = threads},
                   arguments.outputs[0], number.seed, number.offset, count_, aligned);
  }

 private:
  GpuDevice& device_;
  std::uint64_t count_, blocks_;  // elements, blocks of the stream
  Function function_;
};

}  // namespace

std::unique_ptr<Kernel> make_random(GpuDevice& device, const Step& step) {
  return std::make_unique<RandomKernel>(device, step);
}

}  // namespace hearth::gpu
