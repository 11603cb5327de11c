// Quantised weights as numbers, and rows of them.
#include <fmt/format.h>

#include "gpu/expression_source.h"
#include "gpu/kernel_arguments.h"
#include "gpu/kernels.h"
#include "gpu/nest.h"
#include "hearth/error.h"

namespace hearth::gpu {

namespace {

constexpr unsigned threads = 256;

std::uint64_t block_count(const Layout& weight) {
  return static_cast<std::uint64_t>(element_count(weight.shape) / block_elements(weight.dtype));
}

std::string kernel_text(std::string_view body) {
  return fmt::format("#include \"quantised.h\"\nusing namespace quantised;\n{}", body);
}

// ---- numbers

class DequantiseKernel final : public Kernel {
 public:
  DequantiseKernel(GpuDevice& device, const Step& step)
      : device_(device),
        count_(block_count(step.inputs[0])),
        runs_(count_ * block_elements(step.inputs[0].dtype) / 16) {
    const std::string text = fmt::format(
        "KERNEL void dequantise_blocks(Blocks blocks, {1}* out) {{\n"
        "  after_previous();\n"
        "  dequantise<quantised::{0}>(blocks, out);\n}}\n",
        dtype_name(step.inputs[0].dtype), storage_type(step.outputs[0].dtype));
    function_ = device.function({"dequantise", kernel_text(text), {}, 16}, "dequantise_blocks");
  }
  void run(const KernelArguments& arguments) const override {
    if (runs_ == 0) return;
    device_.launch(function_, {.x = device_.grid_for(runs_, threads), .threads = threads},
                   Blocks{arguments.inputs[0], count_}, arguments.outputs[0]);
  }

 private:
  GpuDevice& device_;
  std::uint64_t count_, runs_;
  Function function_;
};

class TakeKernel final : public Kernel {
 public:
  TakeKernel(GpuDevice& device, const Step& step)
      : device_(device),
        blocks_(block_count(step.inputs[0])),
        rows_(step.inputs[0].shape[0]),
        runs_(static_cast<std::uint64_t>(step.inputs[0].shape[1] / 16)),
        loop_(collapse(step.inputs[1].shape, {step.inputs[1].strides})) {
    const std::string text = fmt::format(
        "KERNEL void take_rows(Blocks blocks, const i64* indices, {1}* out, Nest<1> places, u64 runs, i64 "
        "rows,\n"
        "                      u64 count, Fault fault) {{\n  after_previous();\n"
        "  take<quantised::{0}>(blocks, indices, places, runs, rows, count, out, fault);\n}}\n",
        dtype_name(step.inputs[0].dtype), storage_type(step.outputs[0].dtype));
    function_ = device.function({"quantised_take", kernel_text(text), {}, 16}, "take_rows");
  }
  void run(const KernelArguments& arguments) const override {
    const auto count = static_cast<std::uint64_t>(loop_.count());
    if (count * runs_ == 0) return;
    device_.launch(function_, {.x = device_.grid_for(count * runs_, threads), .threads = threads},
                   Blocks{arguments.inputs[0], blocks_}, arguments.inputs[1], arguments.outputs[0],
                   Nest<1>(loop_), runs_, rows_, count,
                   Fault{device_.fault(), static_cast<std::uint64_t>(Op::quantised_take)});
  }

 private:
  GpuDevice& device_;
  std::uint64_t blocks_;
  std::int64_t rows_;
  std::uint64_t runs_;
  StridedLoop loop_;
  Function function_;
};

// The bytes of blocks, whatever their order.
std::unique_ptr<Kernel> make_copy(GpuDevice& device, const Step& step) {
  const Layout& blocks = step.outputs[0];
  const Shape shape{storage_bytes(blocks.dtype, element_count(blocks.shape))};
  const Layout bytes{DType::u8, shape, contiguous_strides(shape)};
  Step copy;
  copy.op = Op::copy;
  copy.domain = shape;
  copy.inputs = copy.outputs = {bytes};
  copy.expression.inputs = {DType::u8};
  copy.expression.outputs = {0};
  return make_elementwise(device, copy);
}

}  // namespace

std::unique_ptr<Kernel> make_quantised(GpuDevice& device, const Step& step) {
  switch (step.op) {
    case Op::copy:
      return make_copy(device, step);
    case Op::dequantise:
      return std::make_unique<DequantiseKernel>(device, step);
    case Op::quantised_take:
      return std::make_unique<TakeKernel>(device, step);
    case Op::quantised_matmul:
      return make_quantised_matmul(device, step);
    default:
      throw DTypeError(fmt::format("[{}] {} is a storage format; dequantise first", op_name(step.op),
                                   dtype_name(step.outputs[0].dtype)));
  }
}

}  // namespace hearth::gpu
