// Rotary position embedding: a table of angles per position, then a rotation of every row.
#include "cpu/rope.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "base/thread_pool.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/normalisation_kernels.h"
#include "cpu/strided_copy.h"

namespace hearth::cpu {
namespace {

constexpr std::int64_t row_grain = 16384;

// Cosines and sines of every position, `half` of each in a row.
template <typename C>
struct AngleTable {
  std::unique_ptr<C[]> cosine, sine;

  AngleTable(const std::int64_t* positions, std::int64_t stride, std::int64_t count,
             const std::vector<double>& turns)
      : cosine(std::make_unique_for_overwrite<C[]>(static_cast<std::size_t>(count) * turns.size())),
        sine(std::make_unique_for_overwrite<C[]>(static_cast<std::size_t>(count) * turns.size())) {
    const auto half = static_cast<std::int64_t>(turns.size());
    const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, half));
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const double position = static_cast<double>(positions[t * stride]);
        C *cosines = cosine.get() + t * half, *sines = sine.get() + t * half;
        if constexpr (std::is_same_v<C, float>) {
          rope_kernels().angles(position, turns.data(), cosines, sines, half);
        } else {
          for (std::int64_t i = 0; i < half; ++i) {
            const double angle = position * turns[static_cast<std::size_t>(i)] * 2 * std::numbers::pi;
            cosines[i] = std::cos(angle);
            sines[i] = std::sin(angle);
          }
        }
      }
    });
  }
};

template <typename S>
std::unique_ptr<Kernel> make(const Step& step) {
  using C = std::conditional_t<std::is_same_v<S, double>, double, float>;
  const auto& attributes = std::get<RopeAttributes>(step.attributes);
  const Layout &x = step.inputs[0], &positions = step.inputs[1];
  const std::size_t last = x.shape.size() - 1;
  const std::int64_t size = x.shape[last], time = x.shape[last - 1], x_step = x.strides[last];
  const StridedLoop loop =
      collapse(Shape(x.shape.begin(), x.shape.end() - 1), {Strides(x.strides.begin(), x.strides.end() - 1)});

  // Turns per radian; backwards to undo a rotation.
  const double turn = (attributes.inverse ? -0.5 : 0.5) / std::numbers::pi;
  std::vector<double> turns_of_base;  // per position, of each pair
  for (std::int64_t i = 0; i < size / 2; ++i)
    turns_of_base.push_back(
        std::pow(attributes.base, -2.0 * static_cast<double>(i) / static_cast<double>(size)) * turn);
  const bool given = step.inputs.size() > 2;
  const std::int64_t frequency_stride = given ? step.inputs[2].strides[0] : 0;

  const RopeKernels& kernels = rope_kernels();
  const int at = static_cast<int>(x.dtype) - static_cast<int>(DType::f16);
  const auto rotate = attributes.interleaved ? kernels.rotate_interleaved[at] : kernels.rotate[at];
  return kernel([=, position_stride = positions.strides[0]](const KernelArguments& arguments) {
    const S* from = static_cast<const S*>(arguments.inputs[0]);
    S* to = static_cast<S*>(arguments.outputs[0]);
    if (size == 0) return;
    std::vector<double> turns = turns_of_base;
    if (given)
      for (std::int64_t i = 0; i < size / 2; ++i)
        turns[static_cast<std::size_t>(i)] =
            static_cast<const double*>(arguments.inputs[2])[i * frequency_stride] * turn;
    const AngleTable<C> table(static_cast<const std::int64_t*>(arguments.inputs[1]), position_stride, time,
                              turns);
    const std::int64_t grain = std::max<std::int64_t>(1, row_grain / size);
    parallel_for(loop.count(), grain, [&](std::int64_t begin, std::int64_t end) {
      std::unique_ptr<S[]> dense;
      if (x_step != 1) dense = std::make_unique_for_overwrite<S[]>(static_cast<std::size_t>(size));
      std::int64_t row = begin;
      for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t length) {
        for (std::int64_t r = 0; r < length; ++r, ++row) {
          const S* source = from + offsets[0] + r * loop.inner_stride(0);
          if (dense) {
            copy_run(source, x_step, dense.get(), 1, size);
            source = dense.get();
          }
          const std::int64_t angles = row % time * (size / 2);
          rotate(source, to + row * size, table.cosine.get() + angles, table.sine.get() + angles, size / 2);
        }
      });
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_rope(const Step& step) {
  if (step.inputs[1].dtype != DType::i64)
    throw DTypeError(fmt::format("[rope] positions are {}; i64 is needed", dtype_name(step.inputs[1].dtype)));
  switch (step.inputs[0].dtype) {
    case DType::f16:
      return make<float16>(step);
    case DType::bf16:
      return make<bfloat16>(step);
    case DType::f32:
      return make<float>(step);
    case DType::f64:
      return make<double>(step);
    default:
      throw DTypeError(fmt::format("[rope] no kernel for {}", dtype_name(step.inputs[0].dtype)));
  }
}

}  // namespace hearth::cpu
