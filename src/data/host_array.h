// Dense arrays in host memory: what data sets gather from and transforms write to.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "hearth/error.h"
#include "hearth/tensor.h"

namespace hearth::data {

// Calls f(T{}) with the C++ element type of `dtype`.
template <typename F>
decltype(auto) with_element_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bool_:
      return f(bool{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::f16:
      return f(float16{});
    case DType::bf16:
      return f(bfloat16{});
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    default:
      break;
  }
  throw DTypeError("[data] unknown dtype");
}

// The same value in host memory, evaluated.
inline Tensor to_host(const Tensor& x) {
  Tensor host = x.device().kind == DeviceKind::cpu ? x : x.to(Device{});
  host.eval();
  return host;
}

// The bytes of a tensor that to_host() returned; valid while it lives.
inline std::span<const std::byte> host_bytes(const Tensor& x) {
  return with_element_type(x.dtype(), [&]<typename T>(T) { return std::as_bytes(x.data<T>()); });
}

// Fresh memory to fill, which becomes a tensor without a copy.
class HostArray {
 public:
  HostArray(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype) {
    check_shape(shape_, dtype_size(dtype), "data");
    bytes_ = static_cast<std::size_t>(element_count(shape_)) * dtype_size(dtype);
    memory_.reset(static_cast<std::byte*>(::operator new(bytes_ + 1, alignment)),
                  [](std::byte* memory) { ::operator delete(memory, alignment); });
  }
  std::byte* data() { return memory_.get(); }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(memory_.get());
  }
  std::size_t nbytes() const { return bytes_; }
  Tensor to_tensor() && {
    const std::byte* data = memory_.get();
    return from_memory(data, shape_, dtype_, std::move(memory_));
  }

 private:
  static constexpr std::align_val_t alignment{64};
  Shape shape_;
  DType dtype_;
  std::size_t bytes_ = 0;
  std::shared_ptr<std::byte> memory_;
};

// `shape` with `count` put in front.
inline Shape batch_shape(std::int64_t count, const Shape& shape) {
  Shape result{count};
  for (const std::int64_t size : shape) result.push_back(size);
  return result;
}

// `shape` without its first axis.
inline Shape sample_shape(const Shape& shape) { return Shape(shape.begin() + 1, shape.end()); }

}  // namespace hearth::data
