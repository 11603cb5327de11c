#include "gpu/converted_product.h"

#include <algorithm>

#include "gpu/block_product.h"
#include "gpu/matmul.h"
#include "hearth/small_vector.h"

namespace hearth::gpu {
namespace {

Layout dense(DType dtype, const Shape& shape) { return {dtype, shape, contiguous_strides(shape)}; }

// What matmul is asked for when the operands are numbers of that type.
Step product_of(const Step& step, DType dtype) {
  Step product = step;
  for (std::size_t i = 0; i < 2; ++i)
    if (step.inputs[i].dtype != dtype || !step.inputs[i].contiguous())
      product.inputs[i] = dense(dtype, step.inputs[i].shape);
  return as_matmul(product);
}

// Operands go by way of scratch memory where they are not as matmul wants them.
class ConvertedProduct final : public Kernel {
 public:
  ConvertedProduct(GpuDevice& device, const Step& step, DType dtype) : inputs_(step.inputs.size()) {
    for (std::size_t i = 0; i < 2; ++i) {
      const Layout& from = step.inputs[i];
      if (from.dtype == dtype && from.contiguous()) continue;
      conversions_.push_back({i, scratch_, make_conversion(device, from, dense(dtype, from.shape))});
      const auto bytes = static_cast<std::size_t>(element_count(from.shape)) * dtype_size(dtype);
      scratch_ += (bytes + 63) / 64 * 64;
    }
    product_ = make_matmul(device, product_of(step, dtype), MatmulVariant::automatic);
  }

  std::size_t scratch_bytes() const override { return scratch_ + product_->scratch_bytes(); }

  void run(const KernelArguments& arguments) const override {
    char* const scratch = static_cast<char*>(arguments.scratch);
    SmallVector<void*, 8> inputs;
    for (std::size_t i = 0; i < inputs_; ++i) inputs.push_back(arguments.inputs[i]);
    for (const Conversion& one : conversions_) {
      void* const to = scratch + one.at;
      one.kernel->run({&inputs[one.input], &to, nullptr, nullptr});
      inputs[one.input] = to;
    }
    product_->run({inputs.data(), arguments.outputs, arguments.numbers, scratch + scratch_});
  }

 private:
  struct Conversion {
    std::size_t input, at;  // which; where in scratch memory
    std::unique_ptr<Kernel> kernel;
  };

  std::size_t inputs_;
  std::vector<Conversion> conversions_;
  std::size_t scratch_ = 0;  // bytes of converted operands
  std::unique_ptr<Kernel> product_;
};

}  // namespace

std::unique_ptr<Kernel> make_conversion(GpuDevice& device, const Layout& from, const Layout& to) {
  Step step;
  step.op = is_quantised(from.dtype) ? Op::dequantise : Op::copy;
  step.domain = from.shape;
  step.inputs = {from};
  step.outputs = {to};
  if (step.op == Op::dequantise) return make_quantised(device, step);
  step.expression.inputs = {from.dtype};
  step.expression.outputs = {0};
  if (from.dtype != to.dtype) {
    step.expression.instructions = {{Op::cast, from.dtype, to.dtype, {0, 0, 0}}};
    step.expression.outputs = {1};
  }
  return make_elementwise(device, step);
}

std::unique_ptr<Kernel> make_converted_product(GpuDevice& device, const Step& step, DType dtype) {
  return std::make_unique<ConvertedProduct>(device, step, dtype);
}

std::optional<DType> rounds_operand(const GpuDevice& device, const Step& step) {
  const auto dtype = converted_type(device, step);
  const bool rounds = dtype && step.inputs[0].dtype == DType::f32 && dtype_size(*dtype) == 2;
  return rounds ? dtype : std::nullopt;
}

std::optional<DType> converts_weights(const GpuDevice& device, const Step& step) {
  if (!is_quantised(step.inputs[1].dtype)) return std::nullopt;
  const auto dtype = converted_type(device, step);
  if (!dtype || !wgmma_is_best(device, product_of(step, *dtype))) return std::nullopt;
  // Numbers of two layers are in memory at once, of a few sizes: that must leave most of it to others.
  constexpr std::size_t share = 32;
  const auto bytes = static_cast<std::size_t>(element_count(step.inputs[1].shape)) * dtype_size(*dtype);
  const MemoryStats memory = device.pool().stats();
  const std::size_t most = std::min(memory.limit, device.total_memory());
  return bytes <= (most - std::min(most, memory.allocated)) / share ? dtype : std::nullopt;
}

bool converted_takes_halves(const GpuDevice& device, const Step& step) {
  const auto dtype = converted_type(device, step);
  return dtype && halves_fit(device, product_of(step, *dtype));
}

}  // namespace hearth::gpu
