// What a Tensor handle points to, and how operations make nodes.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graph/node.h"
#include "hearth/tensor.h"

namespace hearth {

class Download;

struct GradientSlot {
  Tensor gradient;
};

namespace detail {
// A variable names a node, and after assign() another one.
struct Variable {
  NodeRef node;
  std::shared_ptr<GradientSlot> gradient;  // set iff this is a leaf that requires a gradient
  std::uint32_t trace = 0;                 // which compile() made it; 0: none
};
}  // namespace detail

// The node a tensor names now. Throws ValueError naming `operation` if the tensor is undefined.
const NodeRef& node_of(const Tensor& tensor, const char* operation = "tensor");

// Throws DTypeError naming `operation` if the node's elements are in a block format.
void check_computable(const char* operation, const Node& node);
// The same for all of them; ValueError if one is undefined.
void check_operands(const char* operation, std::initializer_list<const Tensor*> tensors);

// A new variable for a node.
Tensor wrap(NodeRef node);

// A node for `op` on `inputs`; tracked for gradients as the inputs demand. Checks the shape and that the
// inputs share a device.
Tensor make_op(Op op, DType dtype, Shape shape, std::vector<NodeRef> inputs, Attributes attributes = {});
template <typename... T>
Tensor make_op(Op op, DType dtype, const Shape& shape, const Attributes& attributes, const T&... inputs) {
  return make_op(op, dtype, shape, std::vector<NodeRef>{node_of(inputs)...}, attributes);
}

// A leaf with storage.
Tensor make_value(const Shape& shape, DType dtype, Storage storage, Device device);

// A leaf on `device` with a copy of the host's bytes; those of a block format as in files.
Tensor from_host(std::span<const std::byte> bytes, const Shape& shape, DType dtype, Device device);
// Other elements for a tensor that from_host() made, in the same memory. Work that was begun before has those
// from before.
void overwrite(const Tensor& target, std::span<const std::byte> bytes);

// The elements of a tensor in host memory, row-major; computed where that is not done yet.
class HostElements {
 public:
  explicit HostElements(const Tensor& tensor);
  HostElements(const HostElements&) = delete;
  HostElements& operator=(const HostElements&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }

 private:
  Tensor keep_;  // whose memory it is, or
  std::vector<std::byte> staging_;
  std::span<const std::byte> bytes_;
};

// The same, copied to memory of the caller's, of just their size.
void read_elements(const Tensor& tensor, std::span<std::byte> target);
// Memory for so many bytes that read_elements() fills fast from that device.
std::shared_ptr<std::byte> host_memory(Device device, std::size_t bytes);
// read_elements() that does not wait, to such memory. Null where the device is none that works by itself.
std::unique_ptr<Download> start_reading(const Tensor& tensor, std::byte* target);

// A number of the given dtype, shape ().
Tensor make_constant(double real, std::int64_t integer, DType dtype, bool weak = false);
Tensor make_constant(double value, DType dtype, bool weak = false);
// The least and the most that an integral dtype holds.
std::pair<std::int64_t, std::int64_t> integer_range(DType dtype);

// x as `dtype`, without a node where it has it already.
Tensor as(const Tensor& x, DType dtype);

// `dy` summed over the axes along which `shape` was broadcast to dy's shape.
Tensor sum_to(const Tensor& dy, const Shape& shape);

void set_grad_enabled(bool enabled);

}  // namespace hearth
