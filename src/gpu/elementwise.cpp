// Elementwise steps: one generated kernel per expression.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/strided.h"
#include "gpu/elementwise_source.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;
constexpr std::size_t most_axes = 12;

// Every argument runs through memory in one direction, or is a single element: whole packets can be moved.
// Otherwise each element finds its place from its index.
class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(GpuDevice& device, const Step& step)
      : device_(device),
        expression_(step.expression),
        loop_(merged(step)),
        count_(element_count(step.domain)) {
    linear_ = loop_.shape.size() == 1;
    for (std::size_t i = 0; i < step.inputs.size() && linear_; ++i)
      linear_ = loop_.strides[i][0] == 1 || loop_.strides[i][0] == 0;
    for (const Layout& input : step.inputs) inputs_.push_back(input.dtype);
    for (const Layout& output : step.outputs) outputs_.push_back(output.dtype);
    if (loop_.shape.size() > most_axes)
      throw KernelError(fmt::format("[elementwise] {} axes that cannot be merged, at most {} are supported",
                                    loop_.shape.size(), most_axes));
    if (linear_) packet_ = packet_length(variant(1));
  }

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    const int packet = linear_ && aligned(arguments) ? packet_ : 1;
    const auto make_source = [&] { return elementwise_source(expression_, variant(packet)); };
    const Function& function =
        (packet > 1 ? in_packets_ : by_element_).get(device_, make_source, "elementwise");
    Arguments values;
    for (std::size_t i = 0; i < inputs_.size(); ++i) values.add(arguments.inputs[i]);
    for (std::size_t k = 0; k < outputs_.size(); ++k) values.add(arguments.outputs[k]);
    std::vector<Constant> constants(expression_.immediates.size());
    for (std::size_t i = 0; i < constants.size(); ++i) {
      constants[i].set(expression_.immediates[i], arguments.numbers[i]);
      values.add(constants[i]);
    }
    const std::uint64_t count = static_cast<std::uint64_t>(count_);
    values.add(count);
    if (!linear_) {
      for (const auto& size : loop_.shape) values.add(size);
      for (std::size_t i = 0; i < inputs_.size(); ++i)
        for (const auto& stride : loop_.strides[i]) values.add(stride);
    }
    const std::uint64_t items = (count + static_cast<unsigned>(packet) - 1) / static_cast<unsigned>(packet);
    device_.launch(function, {.x = device_.grid_for(items, threads), .threads = threads}, values);
  }

 private:
  // A number in the type that it is computed in; all are at the start.
  struct Constant {
    alignas(8) unsigned char bytes[8] = {};
    void set(DType dtype, const Number& number) {
      const auto type = compute_type(dtype);
      if (type == "f64") return put(number.real);
      if (type == "f32") return put(static_cast<float>(number.real));
      if (type == "i64") return put(number.integer);
      put(static_cast<std::int32_t>(number.integer));
    }
    template <class T>
    void put(T value) {
      std::memcpy(bytes, &value, sizeof value);
    }
  };

  static StridedLoop merged(const Step& step) {
    std::vector<Strides> strides;
    for (const Layout& input : step.inputs) strides.push_back(input.strides);
    strides.push_back(contiguous_strides(step.domain));
    return collapse(step.domain, strides);
  }

  ElementwiseVariant variant(int packet) const {
    ElementwiseVariant variant{.inputs = inputs_,
                               .single = {},
                               .outputs = outputs_,
                               .axes = linear_ ? 0 : loop_.shape.size(),
                               .packet = packet};
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      variant.single.push_back(linear_ && loop_.strides[i][0] == 0);
    return variant;
  }

  bool aligned(const KernelArguments& arguments) const {
    const auto fits = [&](const void* pointer, DType dtype) {
      const std::size_t bytes =
          std::min<std::size_t>(16, dtype_size(dtype) * static_cast<std::size_t>(packet_));
      return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (loop_.strides[i][0] != 0 && !fits(arguments.inputs[i], inputs_[i])) return false;
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      if (!fits(arguments.outputs[k], outputs_[k])) return false;
    return true;
  }

  GpuDevice& device_;
  Expression expression_;
  StridedLoop loop_;
  std::int64_t count_;
  bool linear_ = false;
  int packet_ = 1;
  std::vector<DType> inputs_, outputs_;
  LazyFunction in_packets_, by_element_;
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(GpuDevice& device, const Step& step) {
  return std::make_unique<ElementwiseKernel>(device, step);
}

}  // namespace hearth::gpu
