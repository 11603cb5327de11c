// The product of a mixture of experts.
#include <fmt/format.h>

#include "gpu/expression_source.h"
#include "gpu/kernel_arguments.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {

#include "gpu/kernels/expert_matmul_arguments.h"

namespace {

constexpr unsigned threads = 256;

class ExpertKernel final : public Kernel {
 public:
  ExpertKernel(GpuDevice& device, const Step& step) : device_(device) {
    const Layout &x = step.inputs[0], &weight = step.inputs[1], &chosen = step.inputs[2];
    if (!weight.contiguous()) throw KernelError("[expert_matmul] weights must be dense");
    const auto size = [](std::int64_t value) { return static_cast<unsigned long long>(value); };
    shape_ = {.experts = size(weight.shape[0]),
              .columns = size(weight.shape[1]),
              .depth = size(weight.shape[2]),
              .rows = size(chosen.shape[0]),
              .chosen = size(chosen.shape[1]),
              .x_row = x.strides[0],
              .x_choice = x.shape[1] == 1 ? 0 : x.strides[1],
              .x_step = x.strides[2],
              .chosen_row = chosen.strides[0],
              .chosen_step = chosen.strides[1]};
    quantised_ = is_quantised(weight.dtype);
    if (quantised_)
      blocks_ = static_cast<std::uint64_t>(element_count(weight.shape) / block_elements(weight.dtype));
    const std::string parameter = quantised_ ? "quantised::Blocks"
                                             : fmt::format("const {}*", storage_type(weight.dtype)),
                      weights = quantised_ ? fmt::format("InBlocks<quantised::{}>", dtype_name(weight.dtype))
                                           : fmt::format("Plain<{}>", storage_type(weight.dtype));
    const std::string text = fmt::format(
        "#include \"expert_matmul.h\"\n"
        "KERNEL void expert_matmul(ExpertShape shape, const {0}* x, {1} weights, const i64* chosen, {0}* "
        "out,\n"
        "    Fault fault) {{\n"
        "  experts::multiply(shape, x, experts::{2}{{weights}}, chosen, out, fault);\n}}\n",
        storage_type(x.dtype), parameter, weights);
    function_ = device.function({"expert_matmul", text, {}}, "expert_matmul");
  }

  void run(const KernelArguments& arguments) const override {
    const std::uint64_t results = shape_.rows * shape_.chosen * shape_.columns;
    if (results == 0) return;
    const LaunchShape launch{
        .x = device_.grid_for(results * static_cast<std::uint64_t>(device_.wave_size()), threads),
        .threads = threads};
    const Fault fault{device_.fault(), static_cast<std::uint64_t>(Op::expert_matmul)};
    void* const* in = arguments.inputs;
    if (quantised_)
      device_.launch(function_, launch, shape_, in[0], Blocks{in[1], blocks_}, in[2], arguments.outputs[0],
                     fault);
    else
      device_.launch(function_, launch, shape_, in[0], in[1], in[2], arguments.outputs[0], fault);
  }

 private:
  GpuDevice& device_;
  ExpertShape shape_{};
  bool quantised_ = false;
  std::uint64_t blocks_ = 0;
  Function function_;
};

}  // namespace

std::unique_ptr<Kernel> make_expert_matmul(GpuDevice& device, const Step& step) {
  return std::make_unique<ExpertKernel>(device, step);
}

}  // namespace hearth::gpu
