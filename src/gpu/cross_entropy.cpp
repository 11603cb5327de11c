// Cross entropy with class indices, and its gradient.
#include <fmt/format.h>

#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/kernel_arguments.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

KernelSource source_of(bool gradient, DType scores, DType classes, int packet) {
  const auto x = storage_type(scores), index = storage_type(classes);
  std::string text = "#include \"cross_entropy.h\"\n";
  if (gradient)
    text += fmt::format(
        "KERNEL_OF(256) void cross_entropy(const {0}* x, const {1}* classes, const f32* results, const f32* "
        "slopes,\n"
        "    {0}* dx, u64 rows, u64 size, i64 row_stride, i64 stride, i64 class_stride, i64 slope_stride) "
        "{{\n"
        "  row_loss_slopes<{0}, {2}>(x, classes, results, slopes, dx, rows, size, row_stride, stride, "
        "class_stride,\n"
        "                            slope_stride);\n}}\n",
        x, index, packet);
  else
    text += fmt::format(
        "KERNEL_OF(256) void cross_entropy(const {0}* x, const {1}* classes, f32* out, u64 rows, u64 size,\n"
        "    i64 row_stride, i64 stride, i64 class_stride, Fault fault) {{\n"
        "  row_losses<{0}, {2}>(x, classes, out, rows, size, row_stride, stride, class_stride, fault);\n}}\n",
        x, index, packet);
  return {"cross_entropy", text, {}, packet > 1 ? static_cast<std::size_t>(packet) * dtype_size(scores) : 0};
}

class CrossEntropyKernel final : public Kernel {
 public:
  CrossEntropyKernel(GpuDevice& device, const Step& step)
      : device_(device), gradient_(step.op == Op::cross_entropy_grad) {
    const Layout& x = step.inputs[0];
    x_ = x.dtype;
    classes_ = step.inputs[1].dtype;
    rows_ = static_cast<std::uint64_t>(x.shape[0]);
    size_ = static_cast<std::uint64_t>(x.shape[1]);
    row_stride_ = x.strides[0];
    stride_ = x.strides[1];
    class_stride_ = step.inputs[1].strides[0];
    if (gradient_) slope_stride_ = step.inputs[3].strides[0];
    packet_ = static_cast<int>(16 / dtype_size(x_));
    if (stride_ != 1 || x.shape[1] % packet_ != 0 || row_stride_ % packet_ != 0) packet_ = 1;
  }

  void run(const KernelArguments& arguments) const override {
    if (rows_ == 0 || size_ == 0) return;
    bool whole = packet_ > 1 && aligned(arguments.inputs[0], x_, packet_);
    if (gradient_) whole = whole && aligned(arguments.outputs[0], x_, packet_);
    const auto make_source = [&] { return source_of(gradient_, x_, classes_, whole ? packet_ : 1); };
    const Function& function = (whole ? in_packets_ : by_element_).get(device_, make_source, "cross_entropy");
    const LaunchShape shape{.x = static_cast<unsigned>(std::min(rows_, LaunchShape::most_blocks)),
                            .threads = 256};
    if (gradient_)
      device_.launch(function, shape, arguments.inputs[0], arguments.inputs[1], arguments.inputs[2],
                     arguments.inputs[3], arguments.outputs[0], rows_, size_, row_stride_, stride_,
                     class_stride_, slope_stride_);
    else
      device_.launch(function, shape, arguments.inputs[0], arguments.inputs[1], arguments.outputs[0], rows_,
                     size_, row_stride_, stride_, class_stride_,
                     Fault{device_.fault(), static_cast<std::uint64_t>(Op::cross_entropy)});
  }

 private:
  GpuDevice& device_;
  bool gradient_;
  DType x_ = DType::f32, classes_ = DType::i64;
  std::uint64_t rows_ = 0, size_ = 0;
  std::int64_t row_stride_ = 0, stride_ = 0, class_stride_ = 0, slope_stride_ = 0;
  int packet_ = 1;
  LazyFunction in_packets_, by_element_;
};

}  // namespace

std::unique_ptr<Kernel> make_cross_entropy(GpuDevice& device, const Step& step) {
  return std::make_unique<CrossEntropyKernel>(device, step);
}

}  // namespace hearth::gpu
