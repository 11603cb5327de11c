// x[...] by NumPy's rules, and x[...] = y.
//
// 1. The items of the index are sorted out: an ellipsis becomes full slices, a bool array its non-zero
// positions.
// 2. Slices, new axes and (where there are no index arrays) integers are applied as views.
// 3. Index arrays, and integers beside them, are broadcast together. Their axes are moved to the front and
// flattened, the
//    positions become one index into that axis, and one take() fetches the result.
// 4. The axes of the index arrays go where the arrays stood if they stood together, else to the front.
#include <algorithm>

#include "bindings.h"
#include "hearth/ops.h"

namespace hearth::python {
namespace {

struct Item {
  enum class Kind { integer, slice, new_axis, array } kind;
  std::int64_t integer = 0;
  Slice slice{};
  Tensor array{};
};

[[noreturn]] void refuse(const std::string& what) { throw IndexError("[index] " + what); }

std::int64_t integer_of(nb::handle object) {
  const auto index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const long long value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    refuse("an index is beyond 64 bits");
  }
  return value;
}

Slice slice_of(nb::handle object) {
  const auto part = [&](const char* name, std::int64_t otherwise) {
    const nb::object value = object.attr(name);
    if (value.is_none()) return otherwise;
    // Python clips positions beyond the range of an index.
    Py_ssize_t position = 0;
    const auto index = nb::steal(PyNumber_Index(value.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    position = PyNumber_AsSsize_t(index.ptr(), nullptr);
    return std::max<std::int64_t>(position, std::numeric_limits<std::int64_t>::min() + 1);
  };
  const Slice slice{part("start", Slice::open), part("stop", Slice::open), part("step", 1)};
  if (slice.step == 0) throw ValueError("[index] a slice cannot have the step 0");
  return slice;
}

// The positions of the true elements of a bool array, one i64 vector per axis.
std::vector<Tensor> nonzero(const Tensor& variable) {
  const Tensor mask = computed(variable);
  std::vector<std::int64_t> flags;
  {
    const nb::gil_scoped_release unlocked;
    flags = mask.to_vector<std::int64_t>();
  }
  const Shape& shape = mask.shape();
  std::vector<std::vector<std::int64_t>> positions(shape.size());
  for (std::size_t flat = 0; flat < flags.size(); ++flat) {
    if (!flags[flat]) continue;
    auto rest = static_cast<std::int64_t>(flat);
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      positions[axis].push_back(rest % shape[axis]);
  }
  const DeviceScope here(mask.device());
  std::vector<Tensor> result;
  for (const auto& axis : positions) result.push_back(tensor(axis));
  return result;
}

// Adds the items of an index, in order. Returns how many axes of x they use.
std::size_t read_items(nb::handle index, std::size_t ndim, const Shape& shape, Device device,
                       std::vector<Item>& items) {
  std::vector<nb::object> parts;
  if (nb::isinstance<nb::tuple>(index))
    for (const nb::handle part : nb::borrow<nb::tuple>(index)) parts.push_back(nb::borrow(part));
  else
    parts.push_back(nb::borrow(index));

  // What is an array is converted first, because an ellipsis stands for what the others leave.
  std::vector<Tensor> arrays(parts.size());
  std::size_t used = 0;
  bool ellipsis = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    PyObject* part = parts[i].ptr();
    if (part == Py_Ellipsis) {
      if (ellipsis) refuse("an index can have one ellipsis only");
      ellipsis = true;
    } else if (part == Py_None) {
    } else if (PySlice_Check(part)) {
      ++used;
    } else if (!PyBool_Check(part) && PyIndex_Check(part) && !nb::isinstance<Tensor>(parts[i]) &&
               !nb::hasattr(parts[i], "__array__")) {
      ++used;
    } else {
      In in;
      if (!in.read(parts[i]))
        refuse("only integers, slices, ellipses, None, and integer or bool arrays are indices, not " +
               std::string(Py_TYPE(part)->tp_name));
      arrays[i] = *in;
      const bool empty_list = PyList_Check(part) && PyList_GET_SIZE(part) == 0;
      if (empty_list) arrays[i] = arrays[i].to(DType::i64);
      if (!is_integral(arrays[i].dtype()))
        refuse("index arrays are of integers or bools, not " + std::string(dtype_name(arrays[i].dtype())));
      if (!(arrays[i].device() == device)) arrays[i] = arrays[i].to(device);
      used += arrays[i].dtype() == DType::bool_ ? arrays[i].ndim() : 1;
    }
  }
  if (used > ndim)
    refuse("too many indices: " + std::to_string(used) + " for a tensor of shape " + to_string(shape));

  std::size_t axis = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    PyObject* part = parts[i].ptr();
    if (part == Py_Ellipsis) {
      for (std::size_t k = 0; k < ndim - used; ++k, ++axis) items.push_back({.kind = Item::Kind::slice});
    } else if (part == Py_None) {
      items.push_back({.kind = Item::Kind::new_axis});
    } else if (PySlice_Check(part)) {
      items.push_back({.kind = Item::Kind::slice, .slice = slice_of(parts[i])});
      ++axis;
    } else if (!arrays[i].defined()) {
      items.push_back({.kind = Item::Kind::integer, .integer = integer_of(parts[i])});
      ++axis;
    } else if (arrays[i].dtype() == DType::bool_) {
      const Tensor& mask = arrays[i];
      if (mask.ndim() == 0) {
        // A new axis of size 1, of which all or nothing is taken.
        const bool chosen = computed(mask).item<bool>();
        items.push_back({.kind = Item::Kind::new_axis});
        const DeviceScope here(device);
        items.back().array = tensor(std::vector<std::int64_t>(chosen ? 1 : 0, 0));
        continue;
      }
      for (std::size_t k = 0; k < mask.ndim(); ++k)
        if (mask.shape()[k] != shape[axis + k])
          refuse("a bool array of shape " + to_string(mask.shape()) + " for axis " + std::to_string(axis) +
                 " of a tensor of shape " + to_string(shape));
      for (Tensor& positions : nonzero(mask))
        items.push_back({.kind = Item::Kind::array, .array = std::move(positions)});
      axis += mask.ndim();
    } else {
      items.push_back({.kind = Item::Kind::array, .array = arrays[i].to(DType::i64)});
      ++axis;
    }
  }
  return axis;
}

// Positions counted from the beginning. Several index arrays are checked here, one alone by take().
Tensor positive(const Tensor& indices, std::int64_t size, bool check) {
  if (check && indices.numel() > 0) {
    const Tensor smallest = min(indices), largest = max(indices);
    evaluate({smallest, largest});
    const auto low = smallest.item<std::int64_t>(), high = largest.item<std::int64_t>();
    if (low < -size || high >= size)
      refuse("index " + std::to_string(high >= size ? high : low) + " for an axis of size " +
             std::to_string(size));
  }
  return where(indices < 0, indices + size, indices);
}

}  // namespace

Tensor element(const Tensor& x, nb::handle index) {
  // The most frequent: one integer.
  if (PyLong_CheckExact(index.ptr())) return select(x, 0, integer_of(index));

  std::vector<Item> items;
  std::size_t used = read_items(index, x.ndim(), x.shape(), x.device(), items);
  for (; used < x.ndim(); ++used) items.push_back({.kind = Item::Kind::slice});
  const bool advanced =
      std::any_of(items.begin(), items.end(), [](const Item& item) { return item.array.defined(); });

  // Views: slices of all axes at once, then the axes that come and go.
  std::vector<Slice> slices;
  for (const Item& item : items) {
    if (item.kind == Item::Kind::slice) slices.push_back(item.slice);
    if (item.kind == Item::Kind::integer || item.kind == Item::Kind::array) slices.push_back({});
  }
  const bool whole = std::all_of(slices.begin(), slices.end(), [](const Slice& slice) {
    return slice.start == Slice::open && slice.stop == Slice::open && slice.step == 1;
  });
  Tensor result = whole ? x : slice(x, slices);
  std::size_t axis = 0;
  struct Indexed {
    std::size_t axis;
    Tensor positions;
  };
  std::vector<Indexed> indexed;
  std::size_t first_item = 0, last_item = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    const auto here = static_cast<std::int64_t>(axis);
    if (item.kind == Item::Kind::new_axis) result = unsqueeze(result, here);
    if (item.kind == Item::Kind::integer) {
      if (!advanced) {
        result = select(result, here, item.integer);
        continue;
      }
      const DeviceScope there(x.device());
      const std::int64_t size = result.size(here);
      if (item.integer < -size || item.integer >= size)
        refuse("index " + std::to_string(item.integer) + " for an axis of size " + std::to_string(size));
      item.array = full({}, static_cast<double>(item.integer), DType::i64);
    }
    if (item.array.defined()) {
      if (indexed.empty()) first_item = i;
      last_item = i;
      indexed.push_back({axis, item.array});
    }
    ++axis;
  }
  if (!advanced) return result;
  const bool together = last_item - first_item + 1 == indexed.size();

  if (indexed.size() == 1) {
    const auto at = static_cast<std::int64_t>(indexed[0].axis);
    return take(result, indexed[0].positions, at);
  }
  Shape common;
  for (const Indexed& entry : indexed) common = broadcast_shapes(common, entry.positions.shape(), "index");
  Axes order;
  std::int64_t flat_size = 1;
  Tensor flat;
  for (const Indexed& entry : indexed) {
    const auto at = static_cast<std::int64_t>(entry.axis);
    const std::int64_t size = result.size(at);
    order.push_back(at);
    const Tensor positions = positive(entry.positions, size, true);
    flat = flat.defined() ? flat * size + positions : positions;
    flat_size *= size;
  }
  Shape rest;
  for (std::size_t i = 0; i < result.ndim(); ++i)
    if (std::none_of(indexed.begin(), indexed.end(), [&](const Indexed& entry) { return entry.axis == i; })) {
      order.push_back(static_cast<std::int64_t>(i));
      rest.push_back(result.shape()[i]);
    }
  Shape flattened{flat_size};
  for (const std::int64_t size : rest) flattened.push_back(size);
  result = take(reshape(permute(result, order), flattened), broadcast_to(flat, common), 0);
  if (!together || indexed[0].axis == 0) return result;

  Axes final_order;
  const std::size_t before = indexed[0].axis;
  for (std::size_t i = 0; i < before; ++i)
    final_order.push_back(static_cast<std::int64_t>(common.size() + i));
  for (std::size_t i = 0; i < common.size(); ++i) final_order.push_back(static_cast<std::int64_t>(i));
  for (std::size_t i = before; i < rest.size(); ++i)
    final_order.push_back(static_cast<std::int64_t>(common.size() + i));
  return permute(result, final_order);
}

namespace {

// The positions in the flattened x that the index means, with the value put there.
Tensor set(const Tensor& x, nb::handle index, const Tensor& value) {
  const DeviceScope here(x.device());
  const Tensor positions = element(reshape(arange(x.numel()), x.shape()), index);
  const Tensor source = broadcast_to(cast(value, x.dtype()), positions.shape());
  return reshape(scatter(reshape(x, {-1}), 0, reshape(positions, {-1}), reshape(source, {-1})), x.shape());
}

}  // namespace

void bind_indexing(TensorClass& tensor) {
  tensor.def(
      "__getitem__", [](const Tensor& x, nb::handle index) { return element(x, index); }, nb::arg().none());
  tensor.def(
      "__setitem__",
      [](Tensor& x, nb::handle index, const In& value) {
        const Tensor result = set(x, index, value);
        if (!result.requires_grad()) return assign(x, result);
        if (x.requires_grad() && x.is_leaf())
          throw ValueError("[in-place] a leaf that requires a gradient can be changed within no_grad() only");
        x = result;
      },
      nb::arg().none(), nb::arg());
  tensor.def("__iter__", [](const Tensor& x) {
    if (x.ndim() == 0) throw nb::type_error("a tensor without axes cannot be iterated over");
    nb::list rows;
    for (std::int64_t i = 0; i < x.size(0); ++i) rows.append(select(x, 0, i));
    return nb::iter(rows);
  });
}

}  // namespace hearth::python
