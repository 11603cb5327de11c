// Kernels along one axis: argmax, argmin, cumsum, cumprod, argsort.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

#include "base/thread_pool.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "device/strided.h"

namespace hearth::cpu {
namespace {

constexpr std::int64_t scan_grain = 8192;  // elements a thread should get at least

std::size_t axis_of(const Step& step) {
  return static_cast<std::size_t>(std::get<AxisAttributes>(step.attributes).axis);
}

// A scalar has one line of one element.
AxisLoop lines_along_axis(const Step& step, const Shape& shape) {
  const Layout &input = step.inputs[0], &output = step.outputs[0];
  if (shape.empty()) return split_axis({1}, 0, {{0}, {0}});
  return split_axis(shape, axis_of(step), {input.strides, output.strides});
}

std::int64_t grain_of(const AxisLoop& loop) {
  return std::max<std::int64_t>(1, scan_grain / std::max<std::int64_t>(1, loop.length));
}

// ---- argmax, argmin

// The value to compare halves by is a float.
template <typename T>
using Comparable = std::conditional_t<is_half<T>, float, T>;

template <bool largest, typename C>
bool better(C candidate, C best) {  // true for NaN, too
  return largest ? !(candidate <= best) : !(candidate >= best);
}

template <bool largest, typename T>
std::int64_t extreme_of_line(const T* x, std::int64_t step, std::int64_t length) {
  Comparable<T> best = x[0];
  std::int64_t at = 0;
  for (std::int64_t k = 1; k < length && best == best; ++k) {
    const Comparable<T> candidate = x[k * step];
    if (better<largest>(candidate, best)) {
      best = candidate;
      at = k;
    }
  }
  return at;
}

template <bool largest, typename T>
void extremes_of_lines(const T* x, std::int64_t step, std::int64_t across, std::int64_t length,
                       std::int64_t width, std::int64_t* at, std::int64_t at_stride) {
  Comparable<T> best[AxisLoop::max_width];
  std::int64_t where[AxisLoop::max_width] = {};
  for (std::int64_t j = 0; j < width; ++j) best[j] = x[j * across];
  for (std::int64_t k = 1; k < length; ++k)
    for (std::int64_t j = 0; j < width; ++j) {
      const Comparable<T> candidate = x[k * step + j * across];
      const bool take = best[j] == best[j] && better<largest>(candidate, best[j]);
      best[j] = take ? candidate : best[j];
      where[j] = take ? k : where[j];
    }
  for (std::int64_t j = 0; j < width; ++j) at[j * at_stride] = where[j];
}

template <bool largest>
std::unique_ptr<Kernel> make_extreme(const Step& step) {
  const AxisLoop loop = lines_along_axis(step, step.inputs[0].shape);
  if (loop.length == 0 && loop.lines.count() > 0)
    throw ValueError(fmt::format("[{}] the axis is empty", op_name(step.op)));
  return dispatch(step.inputs[0].dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([loop](const KernelArguments& arguments) {
      const T* x = static_cast<const T*>(arguments.inputs[0]);
      std::int64_t* out = static_cast<std::int64_t*>(arguments.outputs[0]);
      const auto across = loop.lines.inner_stride(0), out_stride = loop.lines.inner_stride(1);
      parallel_for(loop.lines.count(), grain_of(loop), [&](std::int64_t begin, std::int64_t end) {
        for_each_line_group(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t width) {
          const T* line = x + offsets[0];
          if (width == 1)
            out[offsets[1]] = extreme_of_line<largest>(line, loop.step[0], loop.length);
          else
            extremes_of_lines<largest>(line, loop.step[0], across, loop.length, width, out + offsets[1],
                                       out_stride);
        });
      });
    });
  });
}

// ---- cumsum, cumprod

// Sums of f32 are kept in double: it costs nothing here, and the error of a long running sum would show.
// Integers wrap.
template <typename T>
using Accumulator =
    std::conditional_t<is_half<T>, float,
                       std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>>;

template <bool product, typename T>
std::unique_ptr<Kernel> make_cumulative(const Step& step) {
  using A = Accumulator<T>;
  using Out = std::conditional_t<is_floating_type<T>, T, std::int64_t>;
  if (is_floating_type<T> ? step.outputs[0].dtype != step.inputs[0].dtype
                          : step.outputs[0].dtype != DType::i64)
    throw DTypeError(fmt::format("[{}] no kernel from {} to {}", op_name(step.op),
                                 dtype_name(step.inputs[0].dtype), dtype_name(step.outputs[0].dtype)));
  return kernel([loop = lines_along_axis(step, step.inputs[0].shape)](const KernelArguments& arguments) {
    const T* x = static_cast<const T*>(arguments.inputs[0]);
    Out* out = static_cast<Out*>(arguments.outputs[0]);
    const auto x_across = loop.lines.inner_stride(0), out_across = loop.lines.inner_stride(1);
    const auto x_step = loop.step[0], out_step = loop.step[1];
    parallel_for(loop.lines.count(), grain_of(loop), [&](std::int64_t begin, std::int64_t end) {
      for_each_line_group(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t width) {
        A sum[AxisLoop::max_width];
        std::fill_n(sum, width, A(product ? 1 : 0));
        for (std::int64_t k = 0; k < loop.length; ++k) {
          const T* from = x + offsets[0] + k * x_step;
          Out* to = out + offsets[1] + k * out_step;
          for (std::int64_t j = 0; j < width; ++j) {
            const A value = static_cast<A>(from[j * x_across]);
            sum[j] = product ? sum[j] * value : sum[j] + value;
            to[j * out_across] = static_cast<Out>(sum[j]);
          }
        }
      });
    });
  });
}

template <bool product>
std::unique_ptr<Kernel> make_cumulative(const Step& step) {
  return dispatch(step.inputs[0].dtype,
                  [&]<typename T>(std::type_identity<T>) { return make_cumulative<product, T>(step); });
}

// ---- argsort
//
// Elements become unsigned keys in the same order (NaN largest, -0 equal to 0), complemented for descending
// order, and (key, index) pairs are sorted. Pairs differ, so any sort is stable.

template <typename T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <typename T>
Key<T> sort_key(T value) {
  if constexpr (is_half<T>) {
    return sort_key(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    using K = Key<T>;
    constexpr K sign = K(1) << (sizeof(K) * 8 - 1);
    if (value != value) return std::numeric_limits<K>::max();
    const K bits = std::bit_cast<K>(value + T(0));  // -0 + 0 is 0
    return bits & sign ? ~bits : bits | sign;
  } else if constexpr (std::is_signed_v<T>) {
    using K = Key<T>;
    constexpr K sign = K(1) << (sizeof(K) * 8 - 1);
    return static_cast<K>(value) ^ sign;
  } else {
    return value;
  }
}

struct WidePair {
  std::uint64_t key, index;
  friend auto operator<=>(const WidePair&, const WidePair&) = default;
};

// 32-bit keys and indices share one word, which compares in one instruction.
struct PackedPair {
  std::uint64_t word;
  PackedPair() = default;
  PackedPair(std::uint64_t key, std::uint64_t position) : word(key << 32 | position) {}
  std::int64_t index() const { return static_cast<std::int64_t>(word & 0xffffffffu); }
  friend auto operator<=>(const PackedPair&, const PackedPair&) = default;
};

template <typename Pair>
std::int64_t index_of(const Pair& pair) {
  if constexpr (std::is_same_v<Pair, PackedPair>)
    return pair.index();
  else
    return static_cast<std::int64_t>(pair.index);
}

template <typename T, typename Pair>
std::unique_ptr<Kernel> make_argsort(const Step& step) {
  const bool descending = std::get<AxisAttributes>(step.attributes).descending;
  const AxisLoop loop = lines_along_axis(step, step.inputs[0].shape);
  const std::int64_t count = step.outputs[0].shape.empty() ? 1 : step.outputs[0].shape[axis_of(step)];
  return kernel([loop, descending, count](const KernelArguments& arguments) {
    const T* x = static_cast<const T*>(arguments.inputs[0]);
    std::int64_t* out = static_cast<std::int64_t*>(arguments.outputs[0]);
    const Key<T> flip = descending ? std::numeric_limits<Key<T>>::max() : 0;
    parallel_for(loop.lines.count(), grain_of(loop), [&](std::int64_t begin, std::int64_t end) {
      const auto pairs = std::make_unique_for_overwrite<Pair[]>(static_cast<std::size_t>(loop.length));
      Pair *const first = pairs.get(), *const last = first + loop.length;
      const auto x_across = loop.lines.inner_stride(0), out_across = loop.lines.inner_stride(1);
      for_each_run(loop.lines, begin, end, [&](const std::int64_t* offsets, std::int64_t lines) {
        for (std::int64_t line = 0; line < lines; ++line) {
          const T* from = x + offsets[0] + line * x_across;
          std::int64_t* to = out + offsets[1] + line * out_across;
          for (std::int64_t k = 0; k < loop.length; ++k)
            first[k] = Pair{Key<T>(sort_key(from[k * loop.step[0]]) ^ flip), static_cast<std::uint64_t>(k)};
          if (count < loop.length) std::nth_element(first, first + count, last);
          std::sort(first, first + count);
          for (std::int64_t k = 0; k < count; ++k) to[k * loop.step[1]] = index_of(first[k]);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> make_argsort(const Step& step) {
  const Layout& input = step.inputs[0];
  return dispatch(input.dtype, [&]<typename T>(std::type_identity<T>) {
    const bool packs = input.shape.empty() || input.shape[axis_of(step)] <= 0xffffffff;
    if constexpr (sizeof(T) < 8)
      if (packs) return make_argsort<T, PackedPair>(step);
    return make_argsort<T, WidePair>(step);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_scan(const Step& step) {
  switch (step.op) {
    case Op::argmax:
      return make_extreme<true>(step);
    case Op::argmin:
      return make_extreme<false>(step);
    case Op::cumsum:
      return make_cumulative<false>(step);
    case Op::cumprod:
      return make_cumulative<true>(step);
    case Op::argsort:
      return make_argsort(step);
    default:
      throw DTypeError(fmt::format("[{}] is not a scan", op_name(step.op)));
  }
}

}  // namespace hearth::cpu
