// Operations that change the shape, move elements, or pick them by indices.
#include "bindings.h"
#include "hearth/ops.h"

namespace hearth::python {
namespace {

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

std::vector<Tensor> tensors_of(const std::vector<In>& tensors) {
  std::vector<Tensor> result;
  for (const In& tensor : tensors) result.push_back(tensor);
  return result;
}

// PyTorch's expand: -1 keeps a size.
Tensor expand(const Tensor& x, Shape shape) {
  const std::size_t extra = shape.size() >= x.ndim() ? shape.size() - x.ndim() : 0;
  for (std::size_t i = extra; i < shape.size(); ++i)
    if (shape[i] == -1) shape[i] = x.shape()[i - extra];
  return broadcast_to(x, shape);
}

Tensor transposed(const Tensor& x) {
  Axes order;
  for (std::size_t i = x.ndim(); i > 0; --i) order.push_back(static_cast<std::int64_t>(i - 1));
  return permute(x, order);
}

}  // namespace

void bind_shape_ops(nb::module_& m, TensorClass& tensor) {
  // The first argument of the function is `self` of the method.
  const auto both = [&](const char* name, auto function, const char* doc, auto... arguments) {
    m.def(name, function, "x"_a, arguments..., doc);
    tensor.def(name, function, arguments..., doc);
  };
  const auto sized = [&](const char* name, Tensor (*function)(const Tensor&, const Shape&), const char* doc) {
    m.def(name, given(function), "x"_a, "shape"_a, doc);
    tensor.def(
        name, [function](const Tensor& x, const nb::args& shape) { return function(x, shape_of(shape)); },
        doc);
  };
  sized("reshape", &reshape, "The same elements under another shape; one size may be -1.");
  sized("view", &view, "reshape");
  sized("broadcast_to", &broadcast_to, "Axes of size 1 repeated.");
  sized("permute", &permute, "Axes in another order.");
  tensor.def(
      "expand", [](const Tensor& x, const nb::args& shape) { return expand(x, shape_of(shape)); },
      "broadcast_to, where -1 keeps a size.");
  both("flatten", given(&flatten), "Axes from start_dim to end_dim as one.", "start_dim"_a = 0,
       "end_dim"_a = -1);
  both("transpose", given(&transpose), "Two axes exchanged.", "dim0"_a, "dim1"_a);
  both("squeeze", given(&squeeze), "Without axes of size 1: the given ones, or all.", "dim"_a = nb::none());
  both("unsqueeze", given(&unsqueeze), "With a new axis of size 1.", "dim"_a);
  both("narrow", given(&narrow), "`length` elements of an axis from `start` on.", "dim"_a, "start"_a,
       "length"_a);
  both("select", given(&select), "One element of an axis, which disappears.", "dim"_a, "index"_a);
  both("flip", given(&flip), "Axes reversed.", "dims"_a);
  both("roll", given(&roll), "An axis rotated by `shift`.", "shift"_a, "dim"_a);
  both("repeat_interleave", given(&repeat_interleave), "Each element of an axis several times.", "repeats"_a,
       "dim"_a);
  m.def("tile", given(&tile), "x"_a, "repeats"_a, "The tensor repeated along each axis.");
  tensor.def(
      "repeat",
      [](const Tensor& x, const nb::args& repeats) {
        const Shape counts = shape_of(repeats);
        return tile(x, {counts.begin(), counts.end()});
      },
      "The tensor repeated along each axis.");
  const auto split_sizes = [](const In& x, const SizesIn& sizes, std::int64_t axis) {
    if (sizes.sizes.size() == 1) return split(x, sizes.sizes[0], axis);
    std::vector<Tensor> parts;
    std::int64_t start = 0;
    for (const std::int64_t size : sizes.sizes) {
      parts.push_back(narrow(x, axis, start, size));
      start += size;
    }
    if (start != x->size(axis))
      throw ValueError("[split] the sizes add up to " + std::to_string(start) + ", the axis has " +
                       std::to_string(x->size(axis)));
    return parts;
  };
  both("split", split_sizes, "Pieces of one size, or of the given ones.", "split_size"_a, "dim"_a = 0);
  both("chunk", given(&chunk), "As many pieces.", "chunks"_a, "dim"_a = 0);
  both("contiguous", given(&contiguous), "In a dense row-major layout.");
  both("tril", given(&tril), "The lower triangle of the last two axes.", "diagonal"_a = 0);
  both("triu", given(&triu), "The upper triangle of the last two axes.", "diagonal"_a = 0);
  both("diagonal", given(&diagonal), "The diagonal of the last two axes.");
  m.def("copy", given(&copy), "x"_a, "A dense copy with memory of its own.");
  tensor.def(
      "clone", [](const Tensor& x) { return copy(x); }, "A dense copy with memory of its own.");
  both("cast", given(&cast), "Another dtype.", "dtype"_a);
  tensor.def(
      "type", [](const Tensor& x, const DTypeIn& dtype) { return cast(x, dtype); }, "dtype"_a);
  tensor.def("t", &Tensor::t, "A matrix transposed.");
  tensor.def_prop_ro("T", &transposed, "The axes in reverse order.");
  tensor.def_prop_ro(
      "mT", [](const Tensor& x) { return transpose(x, -2, -1); }, "The last two axes exchanged.");

  const auto joined = [&](const char* name, Tensor (*function)(const std::vector<Tensor>&, std::int64_t),
                          const char* doc) {
    m.def(
        name,
        [function](const std::vector<In>& tensors, std::int64_t axis) {
          return function(tensors_of(tensors), axis);
        },
        "tensors"_a, "dim"_a = 0, doc);
  };
  joined("concat", &concat, "One after another along an axis.");
  joined("cat", &concat, "concat");
  joined("stack", &stack, "Along a new axis.");
  m.def(
      "pad", [](const In& x, const Pairs& widths, double value) { return pad(x, widths, value); }, "x"_a,
      "widths"_a, "value"_a = 0.0,
      "Elements added before and after each axis: one pair per axis, outermost first.");
  m.def(
      "slice",
      [](const In& x, const std::vector<nb::slice>& slices) {
        return element(x, nb::tuple(nb::cast(slices)));
      },
      "x"_a, "slices"_a, "x[slices]");

  m.def(
      "take", [](const In& x, const In& indices, std::int64_t axis) { return take(x, indices, axis); }, "x"_a,
      "indices"_a, "dim"_a = 0, "Whole slices of an axis chosen by indices.");
  m.def(
      "index_select",
      [](const In& x, std::int64_t axis, const In& indices) { return take(x, indices, axis); }, "x"_a,
      "dim"_a, "index"_a, "take");
  both("gather", given(&gather), "out[i][j] = x[index[i][j]][j] for axis 0, and so on.", "dim"_a, "index"_a);
  m.def("take_along", given(&take_along), "x"_a, "indices"_a, "dim"_a, "NumPy's take_along_axis.");
  both("scatter", given(&scatter), "x with out[index[i][j]][j] = source[i][j]; the last one wins.", "dim"_a,
       "index"_a, "source"_a);
  both("scatter_add", given(&scatter_add), "x with the sources added where indices say.", "dim"_a, "index"_a,
       "source"_a);
  m.def("one_hot", given(&one_hot), "indices"_a, "num_classes"_a, "dtype"_a = DType::f32,
        "A row of zeros with a one at each index.");
  m.def("embedding", given(&embedding), "indices"_a, "weight"_a, "padding_idx"_a = nb::none(),
        "Rows of `weight`.");
}

}  // namespace hearth::python
