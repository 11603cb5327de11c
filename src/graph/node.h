// Node: one operation in the graph of lazy tensors.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graph/attributes.h"
#include "graph/op.h"
#include "hearth/device.h"
#include "hearth/dtype.h"
#include "hearth/shape.h"

namespace hearth {

// Memory of a device. Whoever made it knows how to give it back.
struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  Device device;
  bool writable = true;  // false: somebody else's memory, only to be read
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;
};

// Where the elements of an evaluated node are: element (i, j, ...) is at data + (offset + i * strides[0] +
// ...) items.
struct Storage {
  std::shared_ptr<Buffer> buffer;
  std::int64_t offset = 0;
  Strides strides;
};

// A number known when the graph is built, handed to the kernels at each run.
struct Number {
  double real = 0;
  std::int64_t integer = 0;
  std::uint64_t seed = 0, offset = 0;  // of random operations
};

struct Node;

// A counted reference to a Node. Releasing the last reference to a long chain frees it without recursion.
class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(Node* node) : node_(node) { retain(); }
  NodeRef(const NodeRef& other) : node_(other.node_) { retain(); }
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef() { release(); }

  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const NodeRef& a, const NodeRef& b) { return a.node_ == b.node_; }

 private:
  void retain() const;
  void release();
  Node* node_ = nullptr;
};

// The gradient that backward() accumulates for a leaf. It belongs to the variable; the nodes the variable has
// named only know it, because a gradient that is not computed yet refers to them.
struct GradientSlot;

// An immutable description plus the value once it is computed.
//
// Threads: the description never changes after construction. The value is written once, by the evaluator
// under its lock, and published by `evaluated`. `mark` and `index` belong to the evaluator and are used only
// under its lock.
struct Node {
  Op op = Op::value;
  DType dtype = DType::f32;
  Device device;
  bool weak = false;           // a bare number: takes on the dtype of the other operand
  bool placed = false;         // Op::constant: was made for `device`, instead of being a number of a formula
  bool requires_grad = false;  // backward() passes through or ends here
  bool tracked = false;        // the gradient goes on to the inputs
  std::atomic<bool> evaluated = false;
  std::atomic<std::uint32_t> references = 0;
  std::uint32_t index = 0;
  std::uint64_t mark = 0;

  Shape shape;
  std::vector<NodeRef> inputs;  // emptied after evaluation unless tracked
  std::unique_ptr<const Attributes> attributes;
  Number number;  // Op::constant: the value; Op::random_*: seed and offset. Not part of the structure:
                  // graphs that differ only here share a plan
  std::uint32_t trace = 0;  // which compile() made it; 0: none
  Storage storage;
  std::weak_ptr<GradientSlot> gradient;  // of a leaf

  template <typename T>
  const T& attribute() const {
    return std::get<T>(*attributes);
  }
  std::int64_t count() const { return element_count(shape); }
};

inline void NodeRef::retain() const {
  if (node_) node_->references.fetch_add(1, std::memory_order_relaxed);
}

void destroy_node(Node* node);

inline void NodeRef::release() {
  if (node_ && node_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_node(node_);
}

}  // namespace hearth
