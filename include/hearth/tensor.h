// Tensor: an n-dimensional array, computed when a value is needed.
//
// A Tensor is a handle. Operations build a graph and return at once; eval(), item(), to_vector() and the like
// compute. Copying a Tensor copies the handle: both name the same variable, so assign(), grad() and
// requires_grad_() through one are seen through the other.
//
// Threads: different threads may build graphs and evaluate at the same time, also over shared inputs. One
// Tensor variable must not be assigned, or have its gradient changed, while another thread uses it.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "hearth/device.h"
#include "hearth/dtype.h"
#include "hearth/shape.h"

namespace hearth {

namespace detail {
struct Variable;
}

// start, stop, step of one axis, as Python's slice: negative positions count from the end, absent ones are
// open.
struct Slice {
  static constexpr std::int64_t open = std::numeric_limits<std::int64_t>::min();
  std::int64_t start = open;
  std::int64_t stop = open;
  std::int64_t step = 1;
};

class Tensor {
 public:
  // An undefined tensor; defined() is false and any use of it throws.
  Tensor() = default;

  // A scalar. In arithmetic it takes on the dtype of the other operand, as a Python number does in NumPy:
  // an f16 tensor times 2.0 is f16.
  template <typename T>
  requires std::is_arithmetic_v<T> Tensor(T value)  // NOLINT: implicit, so that `x * 2` works
      : Tensor(make_scalar(value)) {}

  bool defined() const { return variable_ != nullptr; }

  const Shape& shape() const;
  DType dtype() const;
  Device device() const;
  std::size_t ndim() const { return shape().size(); }
  std::int64_t numel() const { return element_count(shape()); }
  std::int64_t size(std::int64_t axis) const;
  std::size_t nbytes() const { return static_cast<std::size_t>(storage_bytes(dtype(), numel())); }

  // ---- values
  // Computes the value if it is not there yet. Returns *this.
  const Tensor& eval() const;
  bool is_evaluated() const;

  // The only element, converted to T. Throws ShapeError when there is more than one.
  template <typename T = double>
  T item() const {
    if constexpr (std::is_same_v<T, bool>)
      return item_double() != 0;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(item_int());
    else
      return static_cast<T>(item_double());
  }

  // All elements in row-major order, converted to T.
  template <typename T>
  std::vector<T> to_vector() const;

  // The elements in row-major order, as bytes of dtype().
  std::vector<std::byte> to_bytes() const;

  // The evaluated elements in host memory, dense and row-major. T must match dtype(). Valid while a Tensor
  // with this value lives. Throws DTypeError, or DeviceError when the tensor is not in host memory.
  template <typename T>
  std::span<const T> data() const {
    check_dtype(dtype_of<T>);
    return {static_cast<const T*>(raw_data()), static_cast<std::size_t>(numel())};
  }

  // Shape, dtype and (after evaluation, shortened) values, for people.
  std::string to_string() const;

  // ---- autograd
  bool requires_grad() const;
  // Whether gradients end here: nothing with a gradient was computed to get it.
  bool is_leaf() const;
  // Makes this a leaf whose gradient backward() computes. Only floating tensors. Returns *this.
  Tensor& requires_grad_(bool value = true);
  // The gradient accumulated by backward(); undefined if there is none.
  Tensor grad() const;
  void set_grad(const Tensor& gradient);
  void zero_grad() { set_grad({}); }
  // Adds d(this)/d(leaf) * seed to the gradient of every leaf; seed defaults to 1 and must be given unless
  // scalar. Returns the gradients that it changed: eval() of these and this computes all in one plan.
  std::vector<Tensor> backward(const Tensor& seed = {}) const;
  // The same value, cut off from the graph for autograd.
  Tensor detach() const;
  // Makes this variable, through all its handles, name another value of the same shape and dtype.
  // requires_grad stays.
  void assign(const Tensor& value);

  // ---- conversion
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor contiguous() const;

  // ---- shape
  Tensor reshape(const Shape& shape) const;  // one size may be -1
  Tensor flatten(std::int64_t first = 0, std::int64_t last = -1) const;
  Tensor transpose(std::int64_t axis0, std::int64_t axis1) const;
  Tensor t() const;  // of a matrix
  Tensor permute(const Axes& order) const;
  Tensor squeeze(const Axes& axes = {}) const;
  Tensor unsqueeze(std::int64_t axis) const;
  Tensor broadcast_to(const Shape& shape) const;
  Tensor slice(std::initializer_list<Slice> slices) const;  // leading axes; the others stay whole
  Tensor operator[](std::int64_t index) const;              // along axis 0, which disappears

  // ---- reductions ({} = all axes)
  Tensor sum(const Axes& axes = {}, bool keepdims = false) const;
  Tensor mean(const Axes& axes = {}, bool keepdims = false) const;
  Tensor prod(const Axes& axes = {}, bool keepdims = false) const;
  Tensor max(const Axes& axes = {}, bool keepdims = false) const;
  Tensor min(const Axes& axes = {}, bool keepdims = false) const;
  Tensor argmax(std::optional<std::int64_t> axis = {}, bool keepdims = false) const;
  Tensor argmin(std::optional<std::int64_t> axis = {}, bool keepdims = false) const;

  Tensor& operator+=(const Tensor& other);
  Tensor& operator-=(const Tensor& other);
  Tensor& operator*=(const Tensor& other);
  Tensor& operator/=(const Tensor& other);

  // True iff both handles name the same variable.
  bool is(const Tensor& other) const { return variable_ == other.variable_; }

  // For the library itself.
  explicit Tensor(std::shared_ptr<detail::Variable> variable) : variable_(std::move(variable)) {}
  const std::shared_ptr<detail::Variable>& variable() const { return variable_; }

 private:
  template <typename T>
  static Tensor make_scalar(T value) {
    if constexpr (std::is_same_v<T, bool>)
      return scalar_bool(value);
    else if constexpr (std::is_integral_v<T>)
      return scalar_int(static_cast<std::int64_t>(value));
    else
      return scalar_double(static_cast<double>(value));
  }
  static Tensor scalar_bool(bool value);
  static Tensor scalar_int(std::int64_t value);
  static Tensor scalar_double(double value);
  double item_double() const;
  std::int64_t item_int() const;
  const void* raw_data() const;
  void check_dtype(DType expected) const;

  std::shared_ptr<detail::Variable> variable_;
};

// ---- making tensors. Where a device is not given, the default one is used.
Tensor zeros(const Shape& shape, DType dtype = DType::f32);
Tensor ones(const Shape& shape, DType dtype = DType::f32);
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
// start, start + step, ... before stop.
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::f32);
Tensor arange(std::int64_t stop);  // i64
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = DType::f32);
Tensor eye(std::int64_t rows, std::int64_t columns = -1, DType dtype = DType::f32);

// A copy of `values` in row-major order.
template <typename T>
Tensor tensor(const std::vector<T>& values, const Shape& shape);
template <typename T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, Shape{static_cast<std::int64_t>(values.size())});
}
template <typename T>
Tensor tensor(std::initializer_list<T> values) {
  return tensor(std::vector<T>(values));
}
template <typename T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape) {
  return tensor(std::vector<T>(values), shape);
}
// A copy of the bytes of a dense row-major array.
Tensor from_bytes(std::span<const std::byte> bytes, const Shape& shape, DType dtype);
// Host memory that `owner` keeps alive, used without a copy; nobody may write to it while a Tensor uses it.
Tensor from_memory(const void* data, const Shape& shape, DType dtype, std::shared_ptr<const void> owner);

}  // namespace hearth
