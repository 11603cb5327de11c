// A call of a library as a kernel.
#include "gpu/library_kernel.h"

#include <algorithm>

#include "hearth/error.h"

namespace hearth::gpu {
namespace {

Layout dense(DType dtype, const Shape& shape) { return {dtype, shape, contiguous_strides(shape)}; }

// Of the operation alone.
Shape result_shape(const Step& step) {
  Shape shape = step.domain;
  if (step.halves) shape.back() *= 2;
  return shape;
}

// The step's expression, over a dense result or over the halves of its columns.
Step expression_step(const Step& step) {
  Step rest = step;
  rest.op = Op::copy;
  rest.attributes = {};
  rest.halves = false;
  const Layout result = dense(step.inputs[0].dtype, result_shape(step));
  rest.inputs.assign(step.halves ? 2 : 1, {result.dtype, step.domain, result.strides});
  rest.inputs.insert(rest.inputs.end(), step.inputs.begin() + 2, step.inputs.end());
  return rest;
}

constexpr std::size_t alignment = 256;
std::size_t rounded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

class LibraryKernel final : public Kernel {
 public:
  LibraryKernel(GpuDevice& device, const Step& step, std::shared_ptr<const LibraryCall> call,
                std::unique_ptr<Kernel> own, std::function<void(const std::string&)> tell)
      : device_(device),
        call_(std::move(call)),
        own_(std::move(own)),
        tell_(std::move(tell)),
        further_inputs_(step.inputs.size() - 2) {
    if (step.expression.instructions.empty()) return;
    expression_ = make_elementwise(device, expression_step(step));
    const std::size_t size = dtype_size(step.inputs[0].dtype);
    result_bytes_ = rounded(static_cast<std::size_t>(element_count(result_shape(step))) * size);
    if (step.halves) half_bytes_ = static_cast<std::size_t>(step.domain.back()) * size;
  }

  // The result (where an expression follows), then what the call and the expression need; besides, our own
  // kernel must be able to take over.
  std::size_t scratch_bytes() const override {
    const std::size_t expression = expression_ ? expression_->scratch_bytes() : 0;
    return std::max(own_->scratch_bytes(),
                    alignment + result_bytes_ + std::max(call_->workspace_bytes(), expression));
  }

  void run(const KernelArguments& arguments) const override {
    const auto start = reinterpret_cast<std::uintptr_t>(arguments.scratch);
    auto* scratch = static_cast<char*>(arguments.scratch) + (rounded(start) - start);
    const void* a = arguments.inputs[0];
    const void* b = arguments.inputs[1];
    void* result = expression_ ? scratch : arguments.outputs[0];
    void* workspace = scratch + result_bytes_;
    if (failed_ || !aligned(a) || !aligned(b) || !aligned(result)) return own_->run(arguments);
    const void* const pointers[] = {a, b, result, workspace};
    try {
      device_.foreign(pointers, [=, this](StreamHandle stream) { call(stream, a, b, result, workspace); });
    } catch (const LibraryError&) {
      return own_->run(arguments);
    }
    if (!expression_) return;
    SmallVector<void*, 8> inputs;
    inputs.push_back(result);
    if (half_bytes_ > 0) inputs.push_back(static_cast<char*>(result) + half_bytes_);
    for (std::size_t i = 0; i < further_inputs_; ++i) inputs.push_back(arguments.inputs[i + 2]);
    expression_->run({inputs.data(), arguments.outputs, arguments.numbers, workspace});
  }

 private:
  static bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

  void call(StreamHandle stream, const void* a, const void* b, void* result, void* workspace) const {
    try {
      call_->run(stream, a, b, result, workspace);
    } catch (const LibraryError& error) {
      if (!failed_.exchange(true)) tell_(error.what());
      throw;
    }
  }

  GpuDevice& device_;
  std::shared_ptr<const LibraryCall> call_;
  std::unique_ptr<Kernel> own_, expression_;
  std::function<void(const std::string&)> tell_;
  std::size_t further_inputs_, result_bytes_ = 0;
  std::size_t half_bytes_ = 0;  // of a row, where the expression works on halves
  mutable std::atomic<bool> failed_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_library_kernel(GpuDevice& device, const Step& step,
                                            std::shared_ptr<const LibraryCall> call,
                                            std::unique_ptr<Kernel> own,
                                            std::function<void(const std::string&)> failed) {
  return std::make_unique<LibraryKernel>(device, step, std::move(call), std::move(own), std::move(failed));
}

Step without_expression(const Step& step) {
  Step plain = step;
  plain.halves = false;
  plain.domain = result_shape(step);
  plain.inputs.resize(2);
  plain.outputs = {dense(step.inputs[0].dtype, plain.domain)};
  plain.expression = {};
  return plain;
}

}  // namespace hearth::gpu
