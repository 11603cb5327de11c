// Normalisation kernels over the last axis: softmax, log_softmax, layer_norm, rms_norm, their gradients; and
// rope.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/thread_pool.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/normalisation_kernels.h"
#include "cpu/rope.h"
#include "cpu/scratch.h"
#include "cpu/strided_copy.h"

namespace hearth::cpu {
namespace {

constexpr std::int64_t row_grain = 16384;  // elements a thread should get at least

struct Choice {
  NormalisationFunction run;
  bool gradient;
};

Choice choose(Op op, DType dtype) {
  const NormalisationKernels& kernels = normalisation_kernels();
  if (is_floating(dtype)) {
    const int at = static_cast<int>(dtype) - static_cast<int>(DType::f16);
    switch (op) {
      case Op::softmax:
        return {kernels.softmax[at], false};
      case Op::softmax_grad:
        return {kernels.softmax_grad[at], true};
      case Op::log_softmax:
        return {kernels.log_softmax[at], false};
      case Op::log_softmax_grad:
        return {kernels.log_softmax_grad[at], true};
      case Op::layer_norm:
        return {kernels.layer_norm[at], false};
      case Op::layer_norm_grad:
        return {kernels.layer_norm_grad[at], true};
      case Op::rms_norm:
        return {kernels.rms_norm[at], false};
      case Op::rms_norm_grad:
        return {kernels.rms_norm_grad[at], true};
      default:
        break;
    }
  }
  throw DTypeError(fmt::format("[{}] no kernel for {}", op_name(op), dtype_name(dtype)));
}

// A weight or bias as a dense row of the compute type: the input itself where it is that, else a copy.
template <typename C>
struct Parameter {
  std::unique_ptr<C[]> copy;
  const C* data = nullptr;

  Parameter(const Layout* layout, const void* input) {
    if (!layout) return;
    if (layout->dtype == dtype_of<C> && layout->contiguous()) {
      data = static_cast<const C*>(input);
      return;
    }
    const std::int64_t size = element_count(layout->shape), stride = layout->strides.back();
    copy = std::make_unique_for_overwrite<C[]>(static_cast<std::size_t>(size));
    data = copy.get();
    dispatch(layout->dtype, [&]<typename T>(std::type_identity<T>) {
      const T* from = static_cast<const T*>(input);
      for (std::int64_t i = 0; i < size; ++i)
        copy[static_cast<std::size_t>(i)] = static_cast<C>(from[i * stride]);
    });
  }
};

// Gives dense rows of an input: in place, or copied a few at a time.
template <typename S>
class RowReader {
 public:
  static constexpr std::int64_t max_rows = 16;

  RowReader(std::int64_t size, std::int64_t row_stride, std::int64_t element_stride)
      : size_(size), row_stride_(row_stride), element_stride_(element_stride) {
    if (copies()) buffer_ = std::make_unique_for_overwrite<S[]>(static_cast<std::size_t>(size * max_rows));
  }

  bool copies() const { return element_stride_ != 1 && size_ > 1; }
  std::int64_t row_stride() const { return copies() ? size_ : row_stride_; }

  // `rows` rows from `source` on, valid until the next call; at most max_rows if they are copied.
  const S* read(const S* source, std::int64_t rows) {
    if (!copies()) return source;
    if (std::abs(row_stride_) < std::abs(element_stride_)) {
      for (std::int64_t i = 0; i < size_; ++i)
        copy_run(source + i * element_stride_, row_stride_, buffer_.get() + i, size_, rows);
    } else {
      for (std::int64_t r = 0; r < rows; ++r)
        copy_run(source + r * row_stride_, element_stride_, buffer_.get() + r * size_, 1, size_);
    }
    return buffer_.get();
  }

 private:
  std::int64_t size_, row_stride_, element_stride_;
  std::unique_ptr<S[]> buffer_;
};

Layout at_least_one_axis(Layout layout) {
  if (layout.shape.empty()) {
    layout.shape = {1};
    layout.strides = {1};
  }
  return layout;
}

Shape without_last(Shape sizes) {
  sizes.pop_back();
  return sizes;
}

template <typename S>
std::unique_ptr<Kernel> make_rows(const Step& step) {
  using C = std::conditional_t<std::is_same_v<S, double>, double, float>;
  const Choice choice = choose(step.op, step.inputs[0].dtype);
  const Layout x = at_least_one_axis(step.inputs[0]);
  const Layout dy = choice.gradient ? at_least_one_axis(step.inputs[1]) : x;
  const StridedLoop loop =
      collapse(without_last(x.shape), {without_last(x.strides), without_last(dy.strides)});
  const std::int64_t size = x.shape.back();
  const std::size_t first_parameter = choice.gradient ? 2 : 1;
  const std::vector<Layout> parameters(
      step.inputs.begin() + static_cast<std::ptrdiff_t>(std::min(first_parameter, step.inputs.size())),
      step.inputs.end());
  const auto* attributes = std::get_if<NormAttributes>(&step.attributes);
  const double epsilon = attributes ? attributes->epsilon : 0;
  const auto x_step = x.strides.back(), dy_step = dy.strides.back();

  return kernel([=](const KernelArguments& arguments) {
    const S* x_data = static_cast<const S*>(arguments.inputs[0]);
    const S* dy_data = static_cast<const S*>(arguments.inputs[choice.gradient ? 1 : 0]);
    S* out = static_cast<S*>(arguments.outputs[0]);
    if (size == 0) return;
    const auto parameter = [&](std::size_t k) {
      const bool given = k < parameters.size();
      return Parameter<C>(given ? &parameters[k] : nullptr,
                          given ? arguments.inputs[first_parameter + k] : nullptr);
    };
    const Parameter<C> weight = parameter(0), bias = parameter(1);
    const std::int64_t grain = std::max<std::int64_t>(1, row_grain / size);
    parallel_for(loop.count(), grain, [&](std::int64_t begin, std::int64_t end) {
      RowReader<S> x_rows(size, loop.inner_stride(0), x_step);
      RowReader<S> dy_rows(size, loop.inner_stride(1), choice.gradient ? dy_step : 1);
      const Scratch scratch((is_half<S> ? 3 : 1) * size *
                            static_cast<std::int64_t>(sizeof(C) / sizeof(float)));
      NormalisationRows rows{};
      rows.size = size;
      rows.x_stride = x_rows.row_stride();
      rows.dy_stride = dy_rows.row_stride();
      rows.weight = weight.data;
      rows.bias = bias.data;
      rows.epsilon = epsilon;
      rows.scratch = scratch.data();
      const bool copies = x_rows.copies() || dy_rows.copies();
      S* target = out + begin * size;
      for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t length) {
        const std::int64_t most = copies ? RowReader<S>::max_rows : length;
        for (std::int64_t r = 0; r < length; r += most) {
          rows.rows = std::min(most, length - r);
          rows.x = x_rows.read(x_data + offsets[0] + r * loop.inner_stride(0), rows.rows);
          rows.dy = dy_rows.read(dy_data + offsets[1] + r * loop.inner_stride(1), rows.rows);
          rows.out = target;
          choice.run(rows);
          target += rows.rows * size;
        }
      });
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_normalisation(const Step& step) {
  if (step.op == Op::rope) return make_rope(step);
  switch (step.inputs[0].dtype) {
    case DType::f16:
      return make_rows<float16>(step);
    case DType::bf16:
      return make_rows<bfloat16>(step);
    case DType::f64:
      return make_rows<double>(step);
    default:
      return make_rows<float>(step);  // throws unless it is f32
  }
}

}  // namespace hearth::cpu
