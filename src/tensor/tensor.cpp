// Tensor: the handle, its values, and the factories.
#include "hearth/tensor.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "device/backend.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "tensor/trace.h"
#include "tensor/variable.h"

namespace hearth {

const Shape& Tensor::shape() const { return node_of(*this, "shape")->shape; }
DType Tensor::dtype() const { return node_of(*this, "dtype")->dtype; }
Device Tensor::device() const { return node_of(*this, "device")->device; }
std::int64_t Tensor::size(std::int64_t axis) const { return shape()[normalize_axis(axis, ndim(), "size")]; }

// ---- values

const Tensor& Tensor::eval() const {
  hearth::eval({*this});
  return *this;
}

bool Tensor::is_evaluated() const { return node_of(*this)->evaluated.load(std::memory_order_acquire); }

namespace {

// Where the elements of a tensor lie, dense; computed where that is not done yet.
struct DensePlace {
  explicit DensePlace(const Tensor& tensor) : keep(tensor) {
    keep.eval();
    if (!is_contiguous(keep.shape(), node_of(keep)->storage.strides)) keep = copy(keep).eval();
    const NodeRef& node = node_of(keep);
    owner = &backend(node->device);
    buffer = node->storage.buffer.get();
    offset = static_cast<std::size_t>(storage_bytes(node->dtype, node->storage.offset));
  }
  const std::byte* host() const { return static_cast<const std::byte*>(buffer->data) + offset; }

  // Copies all of them to the host's memory.
  void read(std::byte* target) const {
    const std::size_t bytes = keep.nbytes();
    if (bytes == 0) return;
    if (owner->host_accessible())
      std::memcpy(target, host(), bytes);
    else if (is_quantised(keep.dtype()))
      owner->load_blocks(target, *buffer, keep.dtype(), bytes);
    else
      owner->copy_to_host(target, *buffer, offset, bytes);
  }

  Tensor keep;
  Backend* owner;
  const Buffer* buffer;
  std::size_t offset;
};

template <typename T>
std::vector<T> converted_elements(const Tensor& tensor) {
  const Tensor typed = tensor.dtype() == dtype_of<T> ? tensor : cast(tensor.detach(), dtype_of<T>);
  if constexpr (std::is_same_v<T, bool>) {
    const HostElements elements(typed);
    return std::vector<T>(elements.as<T>(), elements.as<T>() + tensor.numel());
  } else {
    std::vector<T> values(static_cast<std::size_t>(tensor.numel()));
    read_elements(typed, std::as_writable_bytes(std::span(values)));
    return values;
  }
}

}  // namespace

HostElements::HostElements(const Tensor& tensor) {
  DensePlace place(tensor);
  if (place.owner->host_accessible()) {
    bytes_ = {place.host(), tensor.nbytes()};
  } else {
    staging_.resize(tensor.nbytes());
    place.read(staging_.data());
    bytes_ = staging_;
  }
  keep_ = std::move(place.keep);
}

void read_elements(const Tensor& tensor, std::span<std::byte> target) {
  if (target.size() != tensor.nbytes())
    throw ShapeError(
        fmt::format("[read_elements] {} bytes for a tensor of {}", target.size(), tensor.nbytes()));
  DensePlace(tensor).read(target.data());
}

std::unique_ptr<Download> start_reading(const Tensor& tensor, std::byte* target) {
  const DensePlace place(tensor);
  return place.owner->download(target, node_of(place.keep)->storage.buffer, place.offset, tensor.nbytes());
}

std::shared_ptr<std::byte> host_memory(Device device, std::size_t bytes) {
  if (const auto buffer = bytes > 0 ? backend(device).allocate_host(bytes) : nullptr)
    return {buffer, static_cast<std::byte*>(buffer->data)};
  const auto plain = std::make_shared<std::vector<std::byte>>(bytes);
  return {plain, plain->data()};
}

template <typename T>
std::vector<T> Tensor::to_vector() const {
  return converted_elements<T>(*this);
}
template std::vector<bool> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template std::vector<std::int8_t> Tensor::to_vector() const;
template std::vector<std::int16_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<float16> Tensor::to_vector() const;
template std::vector<bfloat16> Tensor::to_vector() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;

std::vector<std::byte> Tensor::to_bytes() const {
  const HostElements elements(*this);
  return std::vector<std::byte>(elements.bytes().begin(), elements.bytes().end());
}

const void* Tensor::raw_data() const {
  eval();
  const NodeRef& node = node_of(*this);
  if (!backend(node->device).host_accessible())
    throw DeviceError(
        fmt::format("[data] the tensor is on {}; use to_vector()", hearth::to_string(node->device)));
  if (!is_contiguous(node->shape, node->storage.strides)) {
    // This variable goes on with a dense copy; the value is the same.
    const Tensor dense = copy(detach()).eval();
    auto replacement = node_of(dense);
    if (requires_grad())
      throw ValueError("[data] of a strided tensor that requires a gradient; take copy(x) first");
    variable_->node = replacement;
  }
  const NodeRef& now = node_of(*this);
  return static_cast<const char*>(now->storage.buffer->data) + storage_bytes(now->dtype, now->storage.offset);
}

void Tensor::check_dtype(DType expected) const {
  if (dtype() != expected)
    throw DTypeError(
        fmt::format("[data] asked for {}, the tensor is {}", dtype_name(expected), dtype_name(dtype())));
}

double Tensor::item_double() const {
  check_operands("item", {this});
  if (numel() != 1)
    throw ShapeError(fmt::format("[item] needs exactly one element, got {}", hearth::to_string(shape())));
  const NodeRef& node = node_of(*this);
  if (node->op == Op::constant)
    return is_floating(node->dtype) ? node->number.real : static_cast<double>(node->number.integer);
  return converted_elements<double>(*this)[0];
}

std::int64_t Tensor::item_int() const {
  check_operands("item", {this});
  if (numel() != 1)
    throw ShapeError(fmt::format("[item] needs exactly one element, got {}", hearth::to_string(shape())));
  const NodeRef& node = node_of(*this);
  if (node->op == Op::constant) return node->number.integer;
  return converted_elements<std::int64_t>(*this)[0];
}

namespace {

// Values in nested brackets; long axes are shortened.
void print_values(std::string& text, const std::vector<double>& values, const Shape& shape, std::size_t axis,
                  std::int64_t& position, bool real) {
  constexpr std::int64_t edge = 3;
  if (axis == shape.size()) {
    const double value = values[static_cast<std::size_t>(position++)];
    text += real ? fmt::format("{:.4g}", value) : fmt::format("{}", static_cast<std::int64_t>(value));
    return;
  }
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  text += "[";
  for (std::int64_t i = 0; i < shape[axis]; ++i) {
    if (i) text += axis + 1 == shape.size() ? ", " : ",\n" + std::string(axis + 1, ' ');
    if (shape[axis] > 2 * edge + 1 && i == edge) {
      text += "...";
      position += inner * (shape[axis] - 2 * edge);
      i = shape[axis] - edge - 1;
      continue;
    }
    print_values(text, values, shape, axis + 1, position, real);
  }
  text += "]";
}

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "Tensor(undefined)";
  std::string text = fmt::format("Tensor{} {}", hearth::to_string(shape()), dtype_name(dtype()));
  if (!is_evaluated()) return text + " (not evaluated)";
  if (is_quantised(dtype())) return text;
  text += "\n";
  std::int64_t position = 0;
  print_values(text, to_vector<double>(), shape(), 0, position, is_floating(dtype()));
  return text;
}

// ---- variables

bool Tensor::requires_grad() const { return node_of(*this)->requires_grad; }

bool Tensor::is_leaf() const { return !node_of(*this)->tracked; }

Tensor& Tensor::requires_grad_(bool value) {
  const NodeRef& node = node_of(*this, "requires_grad_");
  if (value && !is_floating(node->dtype))
    throw DTypeError(fmt::format("[requires_grad_] only floating tensors have gradients, this is {}",
                                 dtype_name(node->dtype)));
  if (value == node->requires_grad && !node->tracked) return *this;
  // A leaf is a node of its own: other tensors may share this one.
  Tensor leaf = detach();
  Node& fresh = *leaf.variable_->node;
  fresh.requires_grad = value;
  variable_->gradient = value ? std::make_shared<GradientSlot>() : nullptr;
  fresh.gradient = variable_->gradient;
  variable_->node = leaf.variable_->node;
  return *this;
}

Tensor Tensor::grad() const {
  node_of(*this, "grad");
  if (!variable_->gradient) return {};
  if (Trace* trace = current_trace()) trace->will_touch(variable_->gradient, true);
  return variable_->gradient->gradient;
}

void Tensor::set_grad(const Tensor& gradient) {
  node_of(*this, "set_grad");
  if (!variable_->gradient) {
    if (!gradient.defined()) return;
    throw ValueError("[set_grad] the tensor does not require a gradient");
  }
  if (gradient.defined() && !(gradient.shape() == shape()))
    throw ShapeError(fmt::format("[set_grad] gradient {} for a tensor of shape {}",
                                 hearth::to_string(gradient.shape()), hearth::to_string(shape())));
  if (Trace* trace = current_trace()) trace->will_touch(variable_->gradient, false);
  variable_->gradient->gradient = gradient;
}

Tensor Tensor::detach() const {
  const NodeRef& node = node_of(*this, "detach");
  if (!node->requires_grad) return wrap(node);
  // A view that shows the same elements, outside the graph of gradients.
  Tensor cut = make_op(Op::reshape, node->dtype, node->shape, {node});
  cut.variable_->node->tracked = cut.variable_->node->requires_grad = false;
  return cut;
}

void Tensor::assign(const Tensor& value) {
  const NodeRef& node = node_of(*this, "assign");
  if (!(value.shape() == node->shape))
    throw ShapeError(fmt::format("[assign] a value of shape {} for a variable of {}",
                                 hearth::to_string(value.shape()), hearth::to_string(node->shape)));
  if (value.dtype() != node->dtype)
    throw DTypeError(fmt::format("[assign] a value of {} for a variable of {}", dtype_name(value.dtype()),
                                 dtype_name(node->dtype)));
  if (Trace* trace = current_trace()) trace->will_assign(variable_);
  if (!variable_->gradient) {
    // A number gives the variable its value, not its lesser say in promotion.
    variable_->node = node_of(node_of(value)->weak ? cast(value, value.dtype()) : value.detach());
    return;
  }
  // A node of its own, because others may see the value's and the leaf's flags are not theirs.
  const NodeRef target = node_of(make_op(Op::reshape, value.dtype(), value.shape(), {node_of(value)}));
  target->tracked = false;
  target->requires_grad = true;
  target->gradient = variable_->gradient;
  variable_->node = target;
}

Tensor Tensor::to(DType dtype) const { return cast(*this, dtype); }

Tensor Tensor::to(Device target) const {
  if (device() == target) return *this;
  return from_host(HostElements(*this).bytes(), shape(), dtype(), target);
}

Tensor Tensor::contiguous() const { return hearth::contiguous(*this); }

// ---- methods that are functions
Tensor Tensor::reshape(const Shape& shape) const { return hearth::reshape(*this, shape); }
Tensor Tensor::flatten(std::int64_t first, std::int64_t last) const {
  return hearth::flatten(*this, first, last);
}
Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const { return hearth::transpose(*this, a, b); }
Tensor Tensor::t() const {
  if (ndim() != 2) throw ShapeError(fmt::format("[t] needs a matrix, got {}", hearth::to_string(shape())));
  return transpose(0, 1);
}
Tensor Tensor::permute(const Axes& order) const { return hearth::permute(*this, order); }
Tensor Tensor::squeeze(const Axes& axes) const { return hearth::squeeze(*this, axes); }
Tensor Tensor::unsqueeze(std::int64_t axis) const { return hearth::unsqueeze(*this, axis); }
Tensor Tensor::broadcast_to(const Shape& shape) const { return hearth::broadcast_to(*this, shape); }
Tensor Tensor::slice(std::initializer_list<Slice> slices) const {
  return hearth::slice(*this, std::vector(slices));
}
Tensor Tensor::operator[](std::int64_t index) const { return select(*this, 0, index); }
Tensor Tensor::sum(const Axes& axes, bool keepdims) const { return hearth::sum(*this, axes, keepdims); }
Tensor Tensor::mean(const Axes& axes, bool keepdims) const { return hearth::mean(*this, axes, keepdims); }
Tensor Tensor::prod(const Axes& axes, bool keepdims) const { return hearth::prod(*this, axes, keepdims); }
Tensor Tensor::max(const Axes& axes, bool keepdims) const { return hearth::max(*this, axes, keepdims); }
Tensor Tensor::min(const Axes& axes, bool keepdims) const { return hearth::min(*this, axes, keepdims); }
Tensor Tensor::argmax(std::optional<std::int64_t> axis, bool keepdims) const {
  return hearth::argmax(*this, axis, keepdims);
}
Tensor Tensor::argmin(std::optional<std::int64_t> axis, bool keepdims) const {
  return hearth::argmin(*this, axis, keepdims);
}
Tensor& Tensor::operator+=(const Tensor& other) { return *this = *this + other; }
Tensor& Tensor::operator-=(const Tensor& other) { return *this = *this - other; }
Tensor& Tensor::operator*=(const Tensor& other) { return *this = *this * other; }
Tensor& Tensor::operator/=(const Tensor& other) { return *this = *this / other; }

// ---- factories

Tensor Tensor::scalar_bool(bool value) { return make_constant(value, value, DType::bool_, true); }
Tensor Tensor::scalar_int(std::int64_t value) {
  return make_constant(static_cast<double>(value), value, DType::i64, true);
}
Tensor Tensor::scalar_double(double value) { return make_constant(value, DType::f32, true); }

namespace {
Tensor filled(const Shape& shape, double value, DType dtype, const char* operation) {
  check_shape(shape, dtype, operation);
  return broadcast_to(cast(make_constant(value, DType::f64), dtype), shape);
}
}  // namespace

Tensor full(const Shape& shape, double value, DType dtype) { return filled(shape, value, dtype, "full"); }
Tensor zeros(const Shape& shape, DType dtype) { return filled(shape, 0, dtype, "zeros"); }
Tensor ones(const Shape& shape, DType dtype) { return filled(shape, 1, dtype, "ones"); }
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }
Tensor full_like(const Tensor& x, double value) {
  const DeviceScope here(x.device());
  const Tensor result = full(x.shape(), value, x.dtype());
  if (NodeRef& node = result.variable()->node; node->op == Op::constant) node->placed = true;
  return result;
}

Tensor arange(double start, double stop, double step, DType dtype) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step))
    throw ValueError(fmt::format("[arange] bad range {} to {} by {}", start, stop, step));
  const double length = std::ceil((stop - start) / step);
  if (length > 9e15)
    throw ShapeError(fmt::format("[arange] {} to {} by {} has too many elements", start, stop, step));
  return make_op(Op::arange, dtype, {std::max<std::int64_t>(0, static_cast<std::int64_t>(length))},
                 std::vector<NodeRef>{}, RangeAttributes{start, step});
}

Tensor arange(std::int64_t stop) { return arange(0, static_cast<double>(stop), 1, DType::i64); }

Tensor linspace(double start, double stop, std::int64_t count, DType dtype) {
  if (count < 0) throw ValueError(fmt::format("[linspace] negative count {}", count));
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  return make_op(Op::arange, dtype, {count}, std::vector<NodeRef>{}, RangeAttributes{start, step});
}

Tensor eye(std::int64_t rows, std::int64_t columns, DType dtype) {
  if (columns < 0) columns = rows;
  if (rows < 0) throw ShapeError(fmt::format("[eye] negative size {}", rows));
  return as(reshape(arange(rows), {-1, 1}) == arange(columns), dtype);
}

Tensor from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype) {
  check_shape(shape, dtype, "from_bytes");
  const auto needed = static_cast<std::size_t>(storage_bytes(dtype, element_count(shape)));
  if (bytes.size() != needed)
    throw ShapeError(fmt::format("[from_bytes] {} {} needs {} bytes, got {}", dtype_name(dtype),
                                 to_string(shape), needed, bytes.size()));
  return from_host(bytes, shape, dtype, default_device());
}

template <typename T>
Tensor tensor(const std::vector<T>& values, const Shape& shape) {
  check_shape(shape, sizeof(T), "tensor");
  if (static_cast<std::int64_t>(values.size()) != element_count(shape))
    throw ShapeError(fmt::format("[tensor] {} values for shape {}", values.size(), to_string(shape)));
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());
    return from_bytes(std::as_bytes(std::span(bytes)), shape, DType::bool_);
  } else {
    return from_bytes(std::as_bytes(std::span(values)), shape, dtype_of<T>);
  }
}
template Tensor tensor(const std::vector<bool>&, const Shape&);
template Tensor tensor(const std::vector<std::uint8_t>&, const Shape&);
template Tensor tensor(const std::vector<std::int8_t>&, const Shape&);
template Tensor tensor(const std::vector<std::int16_t>&, const Shape&);
template Tensor tensor(const std::vector<std::int32_t>&, const Shape&);
template Tensor tensor(const std::vector<std::int64_t>&, const Shape&);
template Tensor tensor(const std::vector<float16>&, const Shape&);
template Tensor tensor(const std::vector<bfloat16>&, const Shape&);
template Tensor tensor(const std::vector<float>&, const Shape&);
template Tensor tensor(const std::vector<double>&, const Shape&);

namespace {
struct BorrowedBuffer final : Buffer {
  std::shared_ptr<const void> owner;
};
}  // namespace

Tensor from_memory(const void* data, const Shape& shape, DType dtype, std::shared_ptr<const void> owner) {
  check_shape(shape, dtype, "from_memory");
  auto buffer = std::make_shared<BorrowedBuffer>();
  buffer->data = const_cast<void*>(data);
  buffer->bytes = static_cast<std::size_t>(storage_bytes(dtype, element_count(shape)));
  buffer->owner = std::move(owner);
  buffer->writable = false;
  const Tensor result = make_value(shape, dtype, {std::move(buffer), 0, contiguous_strides(shape)}, Device{});
  return result.to(default_device());
}

}  // namespace hearth
