// Functions that change the shape or move elements.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth {

Tensor reshape(const Tensor& x, const Shape& requested) {
  const NodeRef& node = node_of(x, "reshape");
  Shape shape = requested;
  std::int64_t known = 1;
  std::int64_t open = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0)
      open = static_cast<std::int64_t>(i);
    else if (shape[i] < 0)
      throw ShapeError(fmt::format("[reshape] bad size in {}; one -1 is allowed", to_string(requested)));
    else if (__builtin_mul_overflow(known, shape[i], &known))
      throw ShapeError(fmt::format("[reshape] {} is too large", to_string(requested)));
  }
  const auto count = node->count();
  if (open >= 0) {
    if (known == 0 || count % known != 0)
      throw ShapeError(fmt::format("[reshape] cannot make {} of the {} elements of {}", to_string(requested),
                                   count, to_string(node->shape)));
    shape[static_cast<std::size_t>(open)] = count / known;
  } else if (known != count) {
    throw ShapeError(fmt::format("[reshape] {} has {} elements, {} has {}", to_string(node->shape), count,
                                 to_string(requested), known));
  }
  if (shape == node->shape) return x;
  return make_op(Op::reshape, node->dtype, std::move(shape), {node});
}

Tensor view(const Tensor& x, const Shape& shape) { return reshape(x, shape); }

Tensor flatten(const Tensor& x, std::int64_t first, std::int64_t last) {
  if (x.ndim() == 0) return reshape(x, {1});
  const auto begin = normalize_axis(first, x.ndim(), "flatten"),
             end = normalize_axis(last, x.ndim(), "flatten");
  if (begin > end) throw ValueError(fmt::format("[flatten] axis {} comes after axis {}", first, last));
  Shape shape;
  for (std::size_t i = 0; i < x.ndim(); ++i) {
    if (i > begin && i <= end)
      shape.back() *= x.shape()[i];
    else
      shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const Axes& order) {
  const NodeRef& node = node_of(x, "permute");
  if (order.size() != node->shape.size())
    throw ShapeError(fmt::format("[permute] {} axes given for a tensor of shape {}", order.size(),
                                 to_string(node->shape)));
  PermuteAttributes attributes;
  Shape shape;
  Axes sorted;
  bool identity = true;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto axis = normalize_axis(order[i], order.size(), "permute");
    identity &= axis == i;
    attributes.order.push_back(static_cast<std::int64_t>(axis));
    shape.push_back(node->shape[axis]);
  }
  sorted = attributes.order;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw ValueError("[permute] an axis is repeated");
  if (identity) return x;
  return make_op(Op::permute, node->dtype, std::move(shape), {node}, attributes);
}

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1) {
  const auto a = normalize_axis(axis0, x.ndim(), "transpose"),
             b = normalize_axis(axis1, x.ndim(), "transpose");
  Axes order(x.ndim());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::swap(order[a], order[b]);
  return permute(x, order);
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  Shape shape;
  const Axes chosen = normalize_axes(axes, x.ndim(), "squeeze");
  for (std::size_t i = 0; i < x.ndim(); ++i) {
    const bool named = std::find(chosen.begin(), chosen.end(), static_cast<std::int64_t>(i)) != chosen.end();
    if (!named || x.shape()[i] != 1) shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis) {
  Shape shape = x.shape();
  shape.insert(normalize_axis(axis, x.ndim() + 1, "unsqueeze"), 1);
  return reshape(x, shape);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  const NodeRef& node = node_of(x, "broadcast_to");
  if (node->shape == shape) return x;
  check_shape(shape, node->dtype, "broadcast_to");
  if (node->shape.size() > shape.size() || !(broadcast_shapes(node->shape, shape, "broadcast_to") == shape))
    throw ShapeError(
        fmt::format("[broadcast_to] {} does not broadcast to {}", to_string(node->shape), to_string(shape)));
  return make_op(Op::broadcast, node->dtype, shape, {node});
}

Tensor slice(const Tensor& x, const std::vector<Slice>& slices) {
  const NodeRef& node = node_of(x, "slice");
  if (slices.size() > node->shape.size())
    throw IndexError(
        fmt::format("[slice] {} slices for a tensor of shape {}", slices.size(), to_string(node->shape)));
  SliceAttributes attributes;
  Shape shape;
  bool whole = true;
  for (std::size_t i = 0; i < node->shape.size(); ++i) {
    const Slice s = i < slices.size() ? slices[i] : Slice{};
    const auto size = node->shape[i];
    if (s.step == 0) throw ValueError("[slice] the step is 0");
    const bool forward = s.step > 0;
    // As Python: clip to [0, size] going up, to [-1, size - 1] going down.
    const std::int64_t low = forward ? 0 : -1, high = forward ? size : size - 1;
    const auto place = [&](std::int64_t position, std::int64_t absent) {
      if (position == Slice::open) return absent;
      if (position < 0) position = position < -size ? low : position + size;
      return std::clamp(position, low, high);
    };
    const auto start = place(s.start, forward ? low : high), stop = place(s.stop, forward ? high : low);
    const auto distance = forward ? stop - start : start - stop;
    const auto step = forward ? s.step : -std::max(s.step, -std::numeric_limits<std::int64_t>::max());
    const auto length = distance <= 0 ? 0 : (distance - 1) / step + 1;
    attributes.start.push_back(start);
    // With at most one element the step is never taken; keep it small.
    attributes.step.push_back(length > 1 ? s.step : 1);
    shape.push_back(length);
    whole &= start == 0 && attributes.step.back() == 1 && length == size;
  }
  if (whole) return x;
  return make_op(Op::slice, node->dtype, std::move(shape), {node}, attributes);
}

Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length) {
  const auto along = normalize_axis(axis, x.ndim(), "narrow");
  const auto size = x.shape()[along];
  if (start < 0) start += size;
  if (start < 0 || length < 0 || start > size || length > size - start)
    throw IndexError(fmt::format("[narrow] {} elements from {} do not lie in axis {} of {}", length, start,
                                 axis, to_string(x.shape())));
  std::vector<Slice> slices(along + 1);
  slices[along] = {start, start + length, 1};
  return slice(x, slices);
}

Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index) {
  const auto along = normalize_axis(axis, x.ndim(), "select");
  const auto size = x.shape()[along];
  if (index < -size || index >= size)
    throw IndexError(fmt::format("[select] index {} is out of range for size {}", index, size));
  Shape shape = x.shape();
  shape.erase(along);
  return reshape(narrow(x, static_cast<std::int64_t>(along), index < 0 ? index + size : index, 1), shape);
}

Tensor flip(const Tensor& x, const Axes& axes) {
  if (axes.empty()) return x;
  std::vector<Slice> slices(x.ndim());
  for (auto axis : normalize_axes(axes, x.ndim(), "flip")) slices[static_cast<std::size_t>(axis)].step = -1;
  return slice(x, slices);
}

Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis) {
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), "roll"));
  const auto size = x.size(along);
  if (size == 0) return x;
  const auto by = ((shift % size) + size) % size;
  if (by == 0) return x;
  return concat({narrow(x, along, size - by, by), narrow(x, along, 0, size - by)}, along);
}

Tensor tile(const Tensor& x, const std::vector<std::int64_t>& repeats) {
  // (a, b) repeated (2, 3) times is (2, a, 3, b) with stride 0 along the new axes, reshaped.
  const std::size_t ndim = std::max(x.ndim(), repeats.size());
  Shape source, expanded, result;
  for (std::size_t i = 0; i < ndim; ++i) {
    const auto size = i < ndim - x.ndim() ? 1 : x.shape()[i - (ndim - x.ndim())];
    const auto times = i < ndim - repeats.size() ? 1 : repeats[i - (ndim - repeats.size())];
    if (times < 0) throw ValueError(fmt::format("[tile] negative repeat {}", times));
    if (times != 1) source.push_back(1), expanded.push_back(times);
    source.push_back(size);
    expanded.push_back(size);
    std::int64_t total;
    if (__builtin_mul_overflow(size, times, &total)) throw ShapeError("[tile] the result is too large");
    result.push_back(total);
  }
  return reshape(broadcast_to(reshape(x, source), expanded), result);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t axis) {
  const auto along = normalize_axis(axis, x.ndim(), "repeat_interleave");
  if (repeats < 0) throw ValueError(fmt::format("[repeat_interleave] negative repeat {}", repeats));
  Shape expanded = x.shape(), result = x.shape();
  expanded.insert(along + 1, repeats);
  if (__builtin_mul_overflow(result[along], repeats, &result[along]))
    throw ShapeError("[repeat_interleave] the result is too large");
  check_shape(result, x.dtype(), "repeat_interleave");
  return reshape(broadcast_to(unsqueeze(x, static_cast<std::int64_t>(along) + 1), expanded), result);
}

Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis) {
  if (tensors.empty()) throw ValueError("[concat] needs at least one tensor");
  for (const auto& tensor : tensors) check_operands("concat", {&tensor});
  const auto along = normalize_axis(axis, tensors[0].ndim(), "concat");
  DType dtype = tensors[0].dtype();
  Shape shape = tensors[0].shape();
  for (std::size_t k = 1; k < tensors.size(); ++k) {
    const Shape& other = tensors[k].shape();
    bool fits = other.size() == shape.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = i == along || other[i] == shape[i];
    if (!fits)
      throw ShapeError(fmt::format("[concat] {} and {} differ outside axis {}", to_string(tensors[0].shape()),
                                   to_string(other), axis));
    dtype = promote(dtype, tensors[k].dtype());
    if (__builtin_add_overflow(shape[along], other[along], &shape[along]))
      throw ShapeError("[concat] the result is too large");
  }
  if (tensors.size() == 1) return tensors[0];
  std::vector<NodeRef> inputs;
  for (const auto& tensor : tensors) inputs.push_back(node_of(as(tensor, dtype), "concat"));
  return make_op(Op::concat, dtype, std::move(shape), std::move(inputs),
                 AxisAttributes{static_cast<std::int64_t>(along), false});
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis) {
  if (tensors.empty()) throw ValueError("[stack] needs at least one tensor");
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, tensors[0].ndim() + 1, "stack"));
  std::vector<Tensor> lifted;
  for (const auto& tensor : tensors) {
    if (!(tensor.shape() == tensors[0].shape()))
      throw ShapeError(fmt::format("[stack] shapes differ: {} and {}", to_string(tensors[0].shape()),
                                   to_string(tensor.shape())));
    lifted.push_back(unsqueeze(tensor, along));
  }
  return concat(lifted, along);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis) {
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), "split"));
  if (size <= 0) throw ValueError(fmt::format("[split] piece size {} must be positive", size));
  std::vector<Tensor> pieces;
  const auto total = x.size(along);
  for (std::int64_t start = 0; start < total; start += size)
    pieces.push_back(narrow(x, along, start, std::min(size, total - start)));
  if (pieces.empty()) pieces.push_back(x);
  return pieces;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis) {
  if (count <= 0) throw ValueError(fmt::format("[chunk] count {} must be positive", count));
  const auto total = x.size(axis);
  return split(x, std::max<std::int64_t>(1, (total + count - 1) / count), axis);
}

Tensor pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths, double value) {
  const NodeRef& node = node_of(x, "pad");
  if (widths.size() != node->shape.size())
    throw ShapeError(
        fmt::format("[pad] {} widths for a tensor of shape {}", widths.size(), to_string(node->shape)));
  PadAttributes attributes;
  attributes.value = value;
  Shape shape = node->shape;
  bool nothing = true;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const auto [before, after] = widths[i];
    if (before < 0 || after < 0)
      throw ValueError(fmt::format("[pad] negative width ({}, {})", before, after));
    nothing &= before == 0 && after == 0;
    attributes.before.push_back(before);
    if (__builtin_add_overflow(shape[i], before, &shape[i]) ||
        __builtin_add_overflow(shape[i], after, &shape[i]))
      throw ShapeError("[pad] the result is too large");
  }
  if (nothing) return x;
  return make_op(Op::pad, node->dtype, std::move(shape), {node}, attributes);
}

Tensor contiguous(const Tensor& x) { return copy(x); }

Tensor copy(const Tensor& x) {
  const NodeRef& node = node_of(x, "copy");
  return make_op(Op::copy, node->dtype, node->shape, {node});
}

namespace {
Tensor triangle(const Tensor& x, std::int64_t diagonal, bool lower, const char* name) {
  if (x.ndim() < 2) throw ShapeError(fmt::format("[{}] needs a matrix, got {}", name, to_string(x.shape())));
  const DeviceScope here(x.device());
  const Tensor rows = reshape(arange(x.size(-2)), {-1, 1}), columns = arange(x.size(-1));
  const Tensor keep = lower ? columns <= rows + diagonal : columns >= rows + diagonal;
  return where(keep, x, cast(0, x.dtype()));
}
}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) { return triangle(x, diagonal, true, "tril"); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return triangle(x, diagonal, false, "triu"); }

Tensor diagonal(const Tensor& x) {
  if (x.ndim() < 2) throw ShapeError(fmt::format("[diagonal] needs a matrix, got {}", to_string(x.shape())));
  // Flattened, the diagonal is every (columns + 1)-th element.
  const auto rows = x.size(-2), columns = x.size(-1), count = std::min(rows, columns);
  Shape shape(x.shape().begin(), x.shape().end() - 2);
  shape.push_back(rows * columns);
  std::vector<Slice> slices(shape.size());
  slices.back() = {0, count == 0 ? 0 : (count - 1) * (columns + 1) + 1, columns + 1};
  return slice(reshape(x, shape), slices);
}

}  // namespace hearth
