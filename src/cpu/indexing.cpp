// Kernels whose places are given by data: take, index_add, gather, scatter, scatter_add, store_rows.
#include <fmt/format.h>

#include <memory>

#include "base/thread_pool.h"
#include "cpu/dense.h"
#include "cpu/dispatch.h"
#include "cpu/elementwise_kernels.h"
#include "cpu/kernels.h"
#include "cpu/strided_copy.h"

namespace hearth::cpu {
namespace {

std::size_t axis_of(const Step& step) {
  return static_cast<std::size_t>(std::get<AxisAttributes>(step.attributes).axis);
}

Shape part_of(const Shape& sizes, std::size_t begin, std::size_t end) {
  return Shape(sizes.begin() + begin, sizes.begin() + end);
}

// ---- indices

using IndexArray = std::unique_ptr<std::int64_t[]>;

// Reads an input of indices: dense, in row-major order, each in [0, size).
struct IndexReader {
  StridedLoop loop;
  DType dtype;
  std::int64_t size;  // of the axis they index
  Op op;

  IndexReader(const Layout& layout, std::int64_t axis_size, Op operation)
      : loop(collapse(layout.shape, {layout.strides, contiguous_strides(layout.shape)})),
        dtype(layout.dtype),
        size(axis_size),
        op(operation) {
    if (!is_integral(dtype) || dtype == DType::bool_)
      throw DTypeError(
          fmt::format("[{}] indices are {}; an integer dtype is needed", op_name(op), dtype_name(dtype)));
  }

  std::int64_t count() const { return loop.count(); }

  IndexArray read(const void* input) const {
    auto indices = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(count()));
    dispatch(dtype, [&]<typename T>(std::type_identity<T>) {
      if constexpr (std::is_integral_v<T>) {
        const T* from = static_cast<const T*>(input);
        const auto stride = loop.inner_stride(0);
        parallel_for(count(), copy_grain, [&](std::int64_t begin, std::int64_t end) {
          for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t length) {
            for (std::int64_t i = 0; i < length; ++i)
              indices[static_cast<std::size_t>(offsets[1] + i)] = checked(from[offsets[0] + i * stride]);
          });
        });
      }
    });
    return indices;
  }

 private:
  std::int64_t checked(std::int64_t index) const {
    const std::int64_t counted = index < 0 ? index + size : index;
    if (counted < 0 || counted >= size)
      throw IndexError(fmt::format("[{}] index {} is out of range for size {}", op_name(op), index, size));
    return counted;
  }
};

// ---- take

std::unique_ptr<Kernel> make_take(const Step& step) {
  const Layout& x = step.inputs[0];
  const std::size_t axis = axis_of(step), ndim = x.shape.size();
  const IndexReader reader(step.inputs[1], x.shape[axis], step.op);
  // One "row" per position in the outer axes and index; its elements lie along the inner axes.
  const StridedLoop outer = collapse(part_of(x.shape, 0, axis), {part_of(x.strides, 0, axis)});
  const Shape inner_shape = part_of(x.shape, axis + 1, ndim);
  const StridedLoop inner =
      collapse(inner_shape, {part_of(x.strides, axis + 1, ndim), contiguous_strides(inner_shape)});
  return dispatch_size(x.dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([=, axis_stride = x.strides[axis]](const KernelArguments& arguments) {
      const T* from = static_cast<const T*>(arguments.inputs[0]);
      T* to = static_cast<T*>(arguments.outputs[0]);
      const IndexArray indices = reader.read(arguments.inputs[1]);
      const std::int64_t length = inner.count(), per_outer = reader.count();
      if (length == 0 || per_outer == 0) return;
      const auto copy_row = [&](const T* source, T* target) {
        if (inner.shape.size() == 1) return copy_run(source, inner.inner_stride(0), target, 1, length);
        for_each_run(inner, 0, length, [&](const std::int64_t* offsets, std::int64_t run) {
          copy_run(source + offsets[0], inner.inner_stride(0), target + offsets[1], 1, run);
        });
      };
      const std::int64_t grain = std::max<std::int64_t>(1, copy_grain / length);
      parallel_for(outer.count() * per_outer, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end;) {
          const std::int64_t position = row / per_outer;
          const std::int64_t stop = std::min(end, (position + 1) * per_outer);
          const Odometer odometer(outer, position / outer.inner_size());
          const T* slab = from + odometer.offset(0) + position % outer.inner_size() * outer.inner_stride(0);
          for (; row < stop; ++row)
            copy_row(slab + indices[static_cast<std::size_t>(row % per_outer)] * axis_stride,
                     to + row * length);
        }
      });
    });
  });
}

// ---- index_add

// Halves are added up in float, integers wrap around.
template <typename T>
using Sum = typename std::conditional_t<
    is_half<T>, std::type_identity<float>,
    std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>>::type;

template <typename T>
Sum<T> plus(Sum<T> a, T b) {
  return static_cast<Sum<T>>(a + static_cast<Sum<T>>(b));
}

// The sum as a bool is whether any is true.
template <typename T>
T from_sum(Sum<T> sum, bool boolean) {
  return boolean ? static_cast<T>(sum != Sum<T>(0)) : static_cast<T>(sum);
}

// For each destination, the positions of the indices that name it, in their order: a stable counting sort.
// Sums over them do not depend on who computes them.
struct Destinations {
  std::vector<std::int64_t> first;  // of destination d: positions[first[d]] .. positions[first[d + 1]]
  std::vector<std::int64_t> positions;

  Destinations(const std::int64_t* indices, std::int64_t count, std::int64_t size)
      : first(static_cast<std::size_t>(size) + 1), positions(static_cast<std::size_t>(count)) {
    for (std::int64_t i = 0; i < count; ++i) ++first[static_cast<std::size_t>(indices[i]) + 1];
    for (std::size_t d = 1; d < first.size(); ++d) first[d] += first[d - 1];
    std::vector<std::int64_t> next(first.begin(), first.end() - 1);
    for (std::int64_t i = 0; i < count; ++i)
      positions[static_cast<std::size_t>(next[static_cast<std::size_t>(indices[i])]++)] = i;
  }
};

// The offset of every element of a nest, in order.
std::vector<std::int64_t> offsets_of(const StridedLoop& loop) {
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(loop.count()));
  for_each_run(loop, 0, loop.count(), [&](const std::int64_t* offsets, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) result.push_back(offsets[0] + i * loop.inner_stride(0));
  });
  return result;
}

std::unique_ptr<Kernel> make_index_add(const Step& step) {
  const Layout &indices_layout = step.inputs[0], &source = step.inputs[1], &output = step.outputs[0];
  const std::size_t axis = axis_of(step), after = axis + indices_layout.shape.size(),
                    ndim = source.shape.size();
  const std::int64_t size = output.shape[axis];
  const IndexReader reader(indices_layout, size, step.op);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return collapse(part_of(source.shape, begin, end), {part_of(source.strides, begin, end)});
  };
  const StridedLoop outer = part(0, axis), indexed = part(axis, after), inner = part(after, ndim);
  const bool boolean = output.dtype == DType::bool_;
  return dispatch(output.dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([=](const KernelArguments& arguments) {
      const T* from = static_cast<const T*>(arguments.inputs[1]);
      T* to = static_cast<T*>(arguments.outputs[0]);
      const Destinations destinations(reader.read(arguments.inputs[0]).get(), reader.count(), size);
      const std::vector<std::int64_t> outer_offsets = offsets_of(outer), index_offsets = offsets_of(indexed);
      constexpr std::int64_t chunk = 512;
      const std::int64_t length = inner.count(), chunks = (length + chunk - 1) / chunk;
      const std::int64_t grain =
          std::max<std::int64_t>(1, copy_grain / std::clamp<std::int64_t>(length, 1, chunk));
      parallel_for(outer.count() * size * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
        Sum<T> sum[chunk];
        for (std::int64_t piece = begin; piece < end; ++piece) {
          const std::int64_t row = piece / chunks, column = piece % chunks * chunk;
          const std::int64_t width = std::min(chunk, length - column);
          const auto destination = static_cast<std::size_t>(row % size);
          std::fill_n(sum, width, Sum<T>(0));
          for (auto i = destinations.first[destination]; i < destinations.first[destination + 1]; ++i) {
            const auto position =
                static_cast<std::size_t>(destinations.positions[static_cast<std::size_t>(i)]);
            const T* slab =
                from + outer_offsets[static_cast<std::size_t>(row / size)] + index_offsets[position];
            const auto stride = inner.inner_stride(0);
            std::int64_t done = 0;
            const auto add_run = [&](const T* run, std::int64_t count) {
              for (std::int64_t j = 0; j < count; ++j)
                sum[done + j] = plus<T>(sum[done + j], run[j * stride]);
              done += count;
            };
            if (inner.shape.size() == 1)
              add_run(slab + column * stride, width);
            else
              for_each_run(inner, column, column + width,
                           [&](const std::int64_t* offsets, std::int64_t count) {
                             add_run(slab + offsets[0], count);
                           });
          }
          T* target = to + row * length + column;
          for (std::int64_t j = 0; j < width; ++j) target[j] = from_sum<T>(sum[j], boolean);
        }
      });
    });
  });
}

// ---- gather

// Strides over the shape of the indices of an operand that is itself indexed along `axis`.
Strides strides_without(const Strides& strides, std::size_t axis) {
  Strides result = strides;
  result[axis] = 0;
  return result;
}

std::unique_ptr<Kernel> make_gather(const Step& step) {
  const Layout &x = step.inputs[0], &output = step.outputs[0];
  const std::size_t axis = axis_of(step);
  const IndexReader reader(step.inputs[1], x.shape[axis], step.op);
  const StridedLoop loop =
      collapse(output.shape, {strides_without(x.strides, axis), contiguous_strides(output.shape)});
  return dispatch_size(x.dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([=, axis_stride = x.strides[axis]](const KernelArguments& arguments) {
      const T* from = static_cast<const T*>(arguments.inputs[0]);
      T* to = static_cast<T*>(arguments.outputs[0]);
      const IndexArray indices = reader.read(arguments.inputs[1]);
      const auto across = loop.inner_stride(0);
      parallel_for(loop.count(), copy_grain, [&](std::int64_t begin, std::int64_t end) {
        for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t length) {
          const T* line = from + offsets[0];
          const std::int64_t* index = indices.get() + offsets[1];
          T* target = to + offsets[1];
          for (std::int64_t i = 0; i < length; ++i) target[i] = line[i * across + index[i] * axis_stride];
        });
      });
    });
  });
}

// ---- scatter, scatter_add
//
// Elements of different lines along the axis never meet, so lines are independent and each is walked in
// order.

struct ScatterLoop {
  StridedLoop copy;  // x, output
  AxisLoop lines;    // over the shape of the indices: indices, source, output
  std::int64_t output_step;
  std::int64_t output_length;
  IndexReader reader;

  explicit ScatterLoop(const Step& step)
      : reader(step.inputs[1], step.outputs[0].shape[axis_of(step)], step.op) {
    const Layout &x = step.inputs[0], &indices = step.inputs[1], &source = step.inputs[2];
    const Layout& output = step.outputs[0];
    const std::size_t axis = axis_of(step);
    copy = collapse(x.shape, {x.strides, output.strides});
    lines =
        split_axis(indices.shape, axis, {contiguous_strides(indices.shape), source.strides, output.strides});
    output_step = output.strides[axis];
    output_length = output.shape[axis];
  }

  // body(indices, source, output, width) for groups of lines.
  template <typename T, typename Body>
  void run(const KernelArguments& arguments, DType dtype, const Body& body) const {
    const IndexArray indices =
        reader.read(arguments.inputs[1]);  // first: an error leaves no half-made result
    copy_strided(copy, dtype, arguments.inputs[0], arguments.outputs[0]);
    const std::int64_t grain =
        std::max<std::int64_t>(1, copy_grain / std::max<std::int64_t>(1, lines.length));
    parallel_for(
        lines.length == 0 ? 0 : lines.lines.count(), grain, [&](std::int64_t begin, std::int64_t end) {
          for_each_line_group(lines, begin, end, [&](const std::int64_t* offsets, std::int64_t width) {
            body(indices.get() + offsets[0], static_cast<const T*>(arguments.inputs[2]) + offsets[1],
                 static_cast<T*>(arguments.outputs[0]) + offsets[2], width);
          });
        });
  }
};

std::unique_ptr<Kernel> make_scatter(const Step& step) {
  const DType dtype = step.outputs[0].dtype;
  return dispatch_size(dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([loop = ScatterLoop(step), dtype](const KernelArguments& arguments) {
      const AxisLoop& lines = loop.lines;
      const auto index_across = lines.lines.inner_stride(0), source_across = lines.lines.inner_stride(1),
                 out_across = lines.lines.inner_stride(2);
      loop.run<T>(arguments, dtype,
                  [&](const std::int64_t* index, const T* source, T* out, std::int64_t width) {
                    for (std::int64_t k = 0; k < lines.length; ++k)
                      for (std::int64_t j = 0; j < width; ++j)
                        out[index[k * lines.step[0] + j * index_across] * loop.output_step + j * out_across] =
                            source[k * lines.step[1] + j * source_across];
                  });
    });
  });
}

std::unique_ptr<Kernel> make_scatter_add(const Step& step) {
  const DType dtype = step.outputs[0].dtype;
  const bool boolean = dtype == DType::bool_;
  return dispatch(dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([loop = ScatterLoop(step), dtype, boolean](const KernelArguments& arguments) {
      const AxisLoop& lines = loop.lines;
      const auto index_across = lines.lines.inner_stride(0), source_across = lines.lines.inner_stride(1),
                 out_across = lines.lines.inner_stride(2);
      loop.run<T>(
          arguments, dtype, [&](const std::int64_t* index, const T* source, T* out, std::int64_t width) {
            if constexpr (is_half<T>) {  // a line in float, rounded once
              const auto line =
                  std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(loop.output_length));
              for (std::int64_t j = 0; j < width; ++j) {
                T* target = out + j * out_across;
                for (std::int64_t k = 0; k < loop.output_length; ++k)
                  line[static_cast<std::size_t>(k)] = target[k * loop.output_step];
                for (std::int64_t k = 0; k < lines.length; ++k)
                  line[static_cast<std::size_t>(index[k * lines.step[0] + j * index_across])] +=
                      source[k * lines.step[1] + j * source_across];
                for (std::int64_t k = 0; k < loop.output_length; ++k)
                  target[k * loop.output_step] = T(line[static_cast<std::size_t>(k)]);
              }
            } else {
              for (std::int64_t k = 0; k < lines.length; ++k)
                for (std::int64_t j = 0; j < width; ++j) {
                  const auto at =
                      index[k * lines.step[0] + j * index_across] * loop.output_step + j * out_across;
                  const T value = source[k * lines.step[1] + j * source_across];
                  out[at] = from_sum<T>(plus<T>(static_cast<Sum<T>>(out[at]), value), boolean);
                }
            }
          });
    });
  });
}

// ---- store_rows

std::unique_ptr<Kernel> make_store_rows(const Step& step);

// Values of f32 for rows of another dtype.
std::unique_ptr<Kernel> make_store_converted(const Step& step) {
  const DType dtype = step.inputs[0].dtype;
  Step plain = step;
  plain.inputs[2] = {dtype, step.inputs[2].shape, contiguous_strides(step.inputs[2].shape)};
  return kernel(
      [store = std::shared_ptr<Kernel>(make_store_rows(plain)), values = step.inputs[2], dtype,
       convert = elementwise_kernels().store[static_cast<int>(dtype)]](const KernelArguments& arguments) {
        const DenseInput numbers(values, arguments.inputs[2], DType::f32);
        const std::int64_t count = element_count(values.shape);
        const AlignedBytes converted(static_cast<std::size_t>(count) * dtype_size(dtype));
        convert(converted.data(), numbers.data(), nullptr, nullptr, count);
        void* const inputs[] = {arguments.inputs[0], arguments.inputs[1], converted.data()};
        store->run({inputs, arguments.outputs, arguments.numbers, arguments.scratch});
      });
}

std::unique_ptr<Kernel> make_store_rows(const Step& step) {
  const Layout &x = step.inputs[0], &indices = step.inputs[1], &values = step.inputs[2];
  if (values.dtype != x.dtype) return make_store_converted(step);
  const std::int64_t rows = x.shape[0], count = indices.shape[0], index_stride = indices.strides[0];
  const Shape inner_shape = part_of(x.shape, 1, x.shape.size());
  const StridedLoop whole = collapse(x.shape, {x.strides, contiguous_strides(x.shape)});
  const StridedLoop inner = collapse(
      inner_shape, {part_of(values.strides, 1, values.shape.size()), contiguous_strides(inner_shape)});
  return dispatch_size(x.dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([=, value_stride = values.strides[0]](const KernelArguments& arguments) {
      const T* from = static_cast<const T*>(arguments.inputs[0]);
      const auto* places = static_cast<const std::int64_t*>(arguments.inputs[1]);
      const T* rows_in = static_cast<const T*>(arguments.inputs[2]);
      T* to = static_cast<T*>(arguments.outputs[0]);
      const std::int64_t length = inner.count();
      if (from != to)  // else in place
        parallel_for(whole.count(), copy_grain, [&](std::int64_t begin, std::int64_t end) {
          for_each_run(whole, begin, end, [&](const std::int64_t* offsets, std::int64_t run) {
            copy_run(from + offsets[0], whole.inner_stride(0), to + offsets[1], 1, run);
          });
        });
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t place = places[i * index_stride];
        if (place < 0) continue;
        if (place >= rows)
          throw IndexError(fmt::format("[store_rows] row {} is out of range for size {}", place, rows));
        for_each_run(inner, 0, length, [&](const std::int64_t* offsets, std::int64_t run) {
          copy_run(rows_in + i * value_stride + offsets[0], inner.inner_stride(0),
                   to + place * length + offsets[1], 1, run);
        });
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_indexing(const Step& step) {
  switch (step.op) {
    case Op::take:
      return make_take(step);
    case Op::index_add:
      return make_index_add(step);
    case Op::gather:
      return make_gather(step);
    case Op::scatter:
      return make_scatter(step);
    case Op::scatter_add:
      return make_scatter_add(step);
    case Op::store_rows:
      return make_store_rows(step);
    default:
      throw DTypeError(fmt::format("[{}] does not index", op_name(step.op)));
  }
}

}  // namespace hearth::cpu
