// A number among the arguments of a kernel.
#pragma once

#include <cstdint>
#include <cstring>

#include "gpu/expression_source.h"
#include "graph/node.h"
#include "hearth/dtype.h"

namespace hearth::gpu {

// In the type that it is computed in; all are at the start.
struct Constant {
  alignas(8) unsigned char bytes[8] = {};

  Constant() = default;
  Constant(DType dtype, const Number& number) {
    const auto type = compute_type(dtype);
    if (type == "f64")
      put(number.real);
    else if (type == "f32")
      put(static_cast<float>(number.real));
    else if (type == "i64")
      put(number.integer);
    else
      put(static_cast<std::int32_t>(number.integer));
  }

 private:
  template <class T>
  void put(T value) {
    std::memcpy(bytes, &value, sizeof value);
  }
};

}  // namespace hearth::gpu
