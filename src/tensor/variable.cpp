// Making nodes.
#include "tensor/variable.h"

#include <fmt/format.h>

#include <limits>

#include "device/backend.h"
#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "tensor/trace.h"

namespace hearth {
namespace {
thread_local bool gradients_on = true;
}

bool grad_enabled() { return gradients_on; }
void set_grad_enabled(bool enabled) { gradients_on = enabled; }
NoGrad::NoGrad() : before_(gradients_on) { gradients_on = false; }
NoGrad::~NoGrad() { gradients_on = before_; }

const NodeRef& node_of(const Tensor& tensor, const char* operation) {
  if (!tensor.defined()) throw ValueError(fmt::format("[{}] the tensor is undefined", operation));
  if (Trace* trace = current_trace()) trace->saw(tensor.variable());
  return tensor.variable()->node;
}

void check_computable(const char* operation, const Node& node) {
  if (is_quantised(node.dtype))
    throw DTypeError(
        fmt::format("[{}] {} is a storage format; dequantise first", operation, dtype_name(node.dtype)));
}

void check_operands(const char* operation, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) check_computable(operation, *node_of(*tensor, operation));
}

Tensor wrap(NodeRef node) {
  auto variable = std::make_shared<detail::Variable>();
  variable->node = std::move(node);
  if (Trace* trace = current_trace()) variable->trace = trace->id;
  return Tensor(std::move(variable));
}

Tensor make_op(Op op, DType dtype, Shape shape, std::vector<NodeRef> inputs, Attributes attributes) {
  const bool takes_blocks = op == Op::reshape || op == Op::copy || op_kind(op) == OpKind::quantised;
  for (const auto& input : inputs)
    if (!takes_blocks) check_computable(op_name(op).data(), *input);
  check_shape(shape, dtype, op_name(op).data());
  NodeRef node(new Node);
  node->op = op;
  node->dtype = dtype;
  node->shape = std::move(shape);
  node->device = default_device();
  bool first = true, tracked = false;
  for (const auto& input : inputs) {
    tracked |= input->requires_grad;
    if (input->op == Op::constant) {  // numbers go anywhere; alone they stay with the device one was made for
      if (first && input->placed) node->device = input->device;
      continue;
    }
    if (!first && !(input->device == node->device))
      throw DeviceError(fmt::format("[{}] operands on different devices: {} and {}", op_name(op),
                                    to_string(node->device), to_string(input->device)));
    node->device = input->device;
    first = false;
  }
  node->tracked = node->requires_grad = tracked && gradients_on && is_floating(dtype);
  node->inputs = std::move(inputs);
  if (attributes.index() != 0) node->attributes = std::make_unique<const Attributes>(std::move(attributes));
  if (Trace* trace = current_trace()) node->trace = trace->id;
  return wrap(std::move(node));
}

Tensor make_value(const Shape& shape, DType dtype, Storage storage, Device device) {
  NodeRef node(new Node);
  node->op = Op::value;
  node->dtype = dtype;
  node->shape = shape;
  node->device = device;
  node->storage = std::move(storage);
  node->evaluated.store(true, std::memory_order_release);
  return wrap(std::move(node));
}

Tensor from_host(std::span<const std::byte> bytes, const Shape& shape, DType dtype, Device device) {
  Backend& owner = backend(device);
  if (is_repacked(dtype))
    throw DTypeError(
        fmt::format("[from_host] {} stays where it was made: no file has it", dtype_name(dtype)));
  Storage storage{owner.allocate(bytes.size(), MemoryPurpose::loaded), 0, contiguous_strides(shape)};
  if (is_quantised(dtype))
    owner.store_blocks(*storage.buffer, dtype, bytes.data(), bytes.size());
  else
    owner.copy_from_host(*storage.buffer, 0, bytes.data(), bytes.size());
  return make_value(shape, dtype, std::move(storage), device);
}

void overwrite(const Tensor& target, std::span<const std::byte> bytes) {
  const Node& node = *node_of(target, "overwrite");
  backend(node.device).copy_from_host(*node.storage.buffer, 0, bytes.data(), bytes.size());
}

namespace {

// What memory of this dtype would hold of the number; integers wrap around, as tensors do.
Number stored(double real, std::int64_t integer, DType dtype) {
  Number number;
  number.real = real;
  number.integer = integer;
  switch (dtype) {
    case DType::f16:
      number.real = static_cast<float>(float16(static_cast<float>(real)));
      break;
    case DType::bf16:
      number.real = static_cast<float>(bfloat16(static_cast<float>(real)));
      break;
    case DType::f32:
      number.real = static_cast<float>(real);
      break;
    case DType::u8:
      number.integer = static_cast<std::uint8_t>(integer);
      break;
    case DType::i8:
      number.integer = static_cast<std::int8_t>(integer);
      break;
    case DType::i16:
      number.integer = static_cast<std::int16_t>(integer);
      break;
    case DType::i32:
      number.integer = static_cast<std::int32_t>(integer);
      break;
    default:
      break;
  }
  if (is_integral(dtype)) number.real = static_cast<double>(number.integer);
  return number;
}

}  // namespace

Tensor make_constant(double real, std::int64_t integer, DType dtype, bool weak) {
  NodeRef node(new Node);
  node->op = Op::constant;
  node->dtype = dtype;
  node->weak = weak;
  if (weak) {
    node->number.real = real;
    node->number.integer = integer;
  } else {
    node->number = stored(real, integer, dtype);
  }
  node->device = default_device();
  if (Trace* trace = current_trace()) node->trace = trace->id;
  return wrap(std::move(node));
}

std::pair<std::int64_t, std::int64_t> integer_range(DType dtype) {
  const auto of = []<typename T>(T) {
    return std::pair<std::int64_t, std::int64_t>(std::numeric_limits<T>::min(),
                                                 std::numeric_limits<T>::max());
  };
  switch (dtype) {
    case DType::bool_:
      return {0, 1};
    case DType::u8:
      return of(std::uint8_t{});
    case DType::i8:
      return of(std::int8_t{});
    case DType::i16:
      return of(std::int16_t{});
    case DType::i32:
      return of(std::int32_t{});
    default:
      return of(std::int64_t{});
  }
}

Tensor make_constant(double value, DType dtype, bool weak) {
  // Out-of-range conversions to an integer saturate, as casts of tensors do.
  const auto [least, most] = integer_range(is_integral(dtype) ? dtype : DType::i64);
  const std::int64_t integer = value != value                        ? 0
                               : value >= static_cast<double>(most)  ? most
                               : value <= static_cast<double>(least) ? least
                                                                     : static_cast<std::int64_t>(value);
  return make_constant(value, integer, dtype, weak);
}

Tensor as(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

Tensor sum_to(const Tensor& dy, const Shape& shape) {
  if (dy.shape() == shape) return dy;
  const std::size_t lead = dy.ndim() - shape.size();
  Axes axes;
  for (std::size_t i = 0; i < dy.ndim(); ++i)
    if (i < lead || (shape[i - lead] == 1 && dy.shape()[i] != 1))
      axes.push_back(static_cast<std::int64_t>(i));
  const Tensor summed = axes.empty() ? dy : sum(dy, axes, true);
  return reshape(summed, shape);
}

}  // namespace hearth
