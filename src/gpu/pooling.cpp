// Pooling: max, avg and their gradients.
#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "gpu/nest.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

// Spatial values as three axes, the missing leading ones filled up.
template <class T>
void spread(const std::int64_t* values, std::size_t axes, std::int64_t missing, T (&out)[3]) {
  for (std::size_t i = 0; i < 3; ++i) out[i] = T(i + axes < 3 ? missing : values[i + axes - 3]);
}

// The axes before the spatial ones, one after another.
Nest<1> planes_of(const Layout& layout, std::size_t axes) {
  const std::size_t lead = layout.shape.size() - axes;
  return Nest<1>(collapse(Shape(layout.shape.begin(), layout.shape.begin() + lead),
                          {Strides(layout.strides.begin(), layout.strides.begin() + lead)}));
}

// As kernels/pooling.h has it.
struct Pool {
  std::int64_t kernel[3], padding[3];
  Divisor in[3], out[3], stride[3];
  Nest<1> planes;
  std::int64_t step[3];
  Nest<1> dy_planes;
  std::int64_t dy_step[3];
  std::uint64_t include_padding;

  // `first` and `dy`: the arrays that planes and dy_planes are of.
  Pool(const Shape& x, const Shape& y, const WindowAttributes& window, const Layout& first, const Layout& dy)
      : planes(planes_of(first, window.kernel.size())),
        dy_planes(planes_of(dy, window.kernel.size())),
        include_padding(window.count_include_pad) {
    const std::size_t axes = window.kernel.size(), lead = x.size() - axes;
    spread(x.data() + lead, axes, 1, in);
    spread(y.data() + lead, axes, 1, out);
    spread(window.kernel.data(), axes, 1, kernel);
    spread(window.stride.data(), axes, 1, stride);
    spread(window.padding.data(), axes, 0, padding);
    spread(first.strides.data() + lead, axes, 0, step);
    spread(dy.strides.data() + lead, axes, 0, dy_step);
  }

  std::uint64_t plane() const { return in[0].value * in[1].value * in[2].value; }
  // The type that numbers elements, `count` at most; positions beside the input must fit, too.
  std::string_view index(std::int64_t count) const {
    for (std::size_t axis = 0; axis < 3; ++axis)
      count = std::max(count, 2 * (static_cast<std::int64_t>(in[axis].value + stride[axis].value) +
                                   padding[axis] + kernel[axis]));
    return index_type(count);
  }
};

KernelSource pool_source(std::string_view function, DType dtype, std::string_view index) {
  return {std::string(function),
          fmt::format("#include \"pooling.h\"\n"
                      "KERNEL void pool(const {0}* from, {0}* to, Pool pool, u64 count) {{\n"
                      "  {1}<{2}>(from, to, pool, count);\n}}\n",
                      storage_type(dtype), function, index),
          {}};
}

class PoolKernel final : public Kernel {
 public:
  PoolKernel(GpuDevice& device, const Step& step, const Pool& pool)
      : device_(device),
        pool_(pool),
        count_(static_cast<std::uint64_t>(element_count(step.outputs[0].shape))),
        function_(device.function(pool_source(op_name(step.op), step.outputs[0].dtype,
                                              pool.index(std::max(element_count(step.inputs[0].shape),
                                                                  element_count(step.outputs[0].shape)))),
                                  "pool")) {}

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    device_.launch(function_, {.x = device_.grid_for(count_, threads), .threads = threads},
                   arguments.inputs[0], arguments.outputs[0], pool_, count_);
  }

 private:
  GpuDevice& device_;
  Pool pool_;
  std::uint64_t count_;
  Function function_;
};

KernelSource max_grad_source(DType dtype, std::string_view number, std::string_view index) {
  return {"max_pool_grad",
          fmt::format("#include \"pooling.h\"\n"
                      "KERNEL void winners(const {0}* x, {1}* winners, Pool pool, u64 count) {{\n"
                      "  max_pool_winners<{2}>(x, winners, pool, count);\n}}\n"
                      "KERNEL void gradient(const {1}* winners, const {0}* dy, {0}* dx, Pool pool,\n"
                      "                     u64 count) {{\n"
                      "  max_pool_grad<{2}>(winners, dy, dx, pool, count);\n}}\n",
                      storage_type(dtype), number, index),
          {}};
}

// First where each window's maximum is, then what each element of the input gets.
class MaxPoolGradKernel final : public Kernel {
 public:
  MaxPoolGradKernel(GpuDevice& device, const Step& step, const Pool& pool)
      : device_(device),
        pool_(pool),
        inputs_(static_cast<std::uint64_t>(element_count(step.outputs[0].shape))),
        outputs_(static_cast<std::uint64_t>(element_count(step.inputs[1].shape))) {
    number_bytes_ = pool.plane() < (1ull << 31) ? 4 : 8;
    const KernelSource text =
        max_grad_source(step.outputs[0].dtype, number_bytes_ == 4 ? "i32" : "i64",
                        pool.index(static_cast<std::int64_t>(std::max(inputs_, outputs_))));
    winners_ = device.function(text, "winners");
    gradient_ = device.function(text, "gradient");
  }

  std::size_t scratch_bytes() const override { return outputs_ * number_bytes_; }

  void run(const KernelArguments& arguments) const override {
    if (inputs_ == 0) return;
    if (outputs_ > 0)
      device_.launch(winners_, {.x = device_.grid_for(outputs_, threads), .threads = threads},
                     arguments.inputs[0], arguments.scratch, pool_, outputs_);
    device_.launch(gradient_, {.x = device_.grid_for(inputs_, threads), .threads = threads},
                   arguments.scratch, arguments.inputs[1], arguments.outputs[0], pool_, inputs_);
  }

 private:
  GpuDevice& device_;
  Pool pool_;
  std::uint64_t inputs_, outputs_;  // elements of x and of y
  std::size_t number_bytes_;
  Function winners_, gradient_;
};

}  // namespace

std::unique_ptr<Kernel> make_pooling(GpuDevice& device, const Step& step) {
  const auto& window = std::get<WindowAttributes>(step.attributes);
  const Layout &first = step.inputs[0], &out = step.outputs[0];
  if (!is_floating(out.dtype))
    throw DTypeError(fmt::format("[{}] no kernel for {}", op_name(step.op), dtype_name(out.dtype)));
  switch (step.op) {
    case Op::max_pool:
    case Op::avg_pool:
      return std::make_unique<PoolKernel>(device, step, Pool(first.shape, out.shape, window, first, first));
    case Op::max_pool_grad:
      return std::make_unique<MaxPoolGradKernel>(
          device, step, Pool(out.shape, step.inputs[1].shape, window, first, step.inputs[1]));
    default:
      return std::make_unique<PoolKernel>(device, step, Pool(out.shape, first.shape, window, first, first));
  }
}

}  // namespace hearth::gpu
