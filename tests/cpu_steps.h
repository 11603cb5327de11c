// Building and running steps by hand, for tests of kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/kernels.h"

namespace hearth::cpu {

// An array of any dtype and layout whose elements are read and written as doubles.
struct Array {
  Layout layout;
  std::int64_t origin = 0;  // of element (0, 0, ...)
  std::vector<std::uint64_t> memory;

  void* data() {
    return reinterpret_cast<char*>(memory.data()) +
           origin * static_cast<std::int64_t>(dtype_size(layout.dtype));
  }
  const void* data() const { return const_cast<Array*>(this)->data(); }
  std::int64_t count() const { return element_count(layout.shape); }

  // The offset of the i-th element in row-major order.
  std::int64_t offset(std::int64_t i) const {
    std::int64_t result = 0;
    for (std::size_t axis = layout.shape.size(); axis-- > 0;) {
      result += i % layout.shape[axis] * layout.strides[axis];
      i /= layout.shape[axis];
    }
    return result;
  }
  double get(std::int64_t i) const {
    return dispatch(layout.dtype, [&]<typename T>(std::type_identity<T>) {
      return static_cast<double>(static_cast<const T*>(data())[offset(i)]);
    });
  }
  void set(std::int64_t i, double value) {
    dispatch(layout.dtype, [&]<typename T>(std::type_identity<T>) {
      if constexpr (is_half<T>)
        static_cast<T*>(data())[offset(i)] = T(static_cast<float>(value));
      else
        static_cast<T*>(data())[offset(i)] = static_cast<T>(value);
    });
  }
  std::vector<double> values() const {
    std::vector<double> result;
    for (std::int64_t i = 0; i < count(); ++i) result.push_back(get(i));
    return result;
  }
};

enum class Lay { dense, transposed, gapped, flipped };
inline constexpr Lay every_lay[] = {Lay::dense, Lay::transposed, Lay::gapped, Lay::flipped};

inline Array empty_array(DType dtype, const Shape& shape, Lay lay = Lay::dense) {
  Array array;
  array.layout = {dtype, shape, contiguous_strides(shape)};
  Strides& strides = array.layout.strides;
  const std::size_t ndim = shape.size();
  if (lay == Lay::transposed) {
    std::int64_t step = 1;
    for (std::size_t axis = 0; axis < ndim; ++axis) {
      strides[axis] = step;
      step *= std::max<std::int64_t>(1, shape[axis]);
    }
  } else if (lay == Lay::gapped) {
    std::int64_t step = 3;
    for (std::size_t axis = ndim; axis-- > 0;) {
      strides[axis] = step;
      step *= shape[axis] + 1;
    }
  } else if (lay == Lay::flipped) {
    for (std::size_t axis = 0; axis < ndim; ++axis) strides[axis] = -strides[axis];
  }
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < ndim; ++axis) {
    const std::int64_t reach = std::max<std::int64_t>(0, shape[axis] - 1) * strides[axis];
    if (reach < 0)
      array.origin -= reach;
    else
      last += reach;
  }
  const auto bytes = static_cast<std::size_t>(array.origin + last + 1) * dtype_size(dtype);
  array.memory.assign((bytes + 7) / 8, 0x5a5a5a5a5a5a5a5aull);
  return array;
}

inline Array array_of(DType dtype, const Shape& shape, const std::vector<double>& values,
                      Lay lay = Lay::dense) {
  Array array = empty_array(dtype, shape, lay);
  for (std::int64_t i = 0; i < array.count(); ++i) array.set(i, values[static_cast<std::size_t>(i)]);
  return array;
}

// Small whole numbers, with repetitions, that every dtype holds exactly.
inline Array random_array(DType dtype, const Shape& shape, Lay lay = Lay::dense, unsigned seed = 1,
                          int low = -9, int high = 9) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> number(is_signed(dtype) ? low : 0, dtype == DType::bool_ ? 1 : high);
  Array array = empty_array(dtype, shape, lay);
  for (std::int64_t i = 0; i < array.count(); ++i) array.set(i, number(engine));
  return array;
}

inline Array normal_array(DType dtype, const Shape& shape, Lay lay = Lay::dense, unsigned seed = 1,
                          double deviation = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> number(0, deviation);
  Array array = empty_array(dtype, shape, lay);
  for (std::int64_t i = 0; i < array.count(); ++i) array.set(i, number(engine));
  return array;
}

using MakeKernel = std::unique_ptr<Kernel> (*)(const Step&);

inline Array run_step(MakeKernel make, Op op, Attributes attributes, std::vector<Array> inputs, DType dtype,
                      const Shape& shape, Number number = {}) {
  Step step;
  step.op = op;
  step.attributes = std::move(attributes);
  step.domain = shape;
  for (const Array& input : inputs) step.inputs.push_back(input.layout);
  Array output = empty_array(dtype, shape);
  step.outputs = {output.layout};
  std::vector<void*> input_pointers;
  for (Array& input : inputs) input_pointers.push_back(input.data());
  void* output_pointer = output.data();
  make(step)->run({input_pointers.data(), &output_pointer, &number});
  return output;
}

inline constexpr DType every_dtype[] = {DType::bool_, DType::u8,  DType::i8,   DType::i16, DType::i32,
                                        DType::i64,   DType::f16, DType::bf16, DType::f32, DType::f64};
inline constexpr DType every_floating[] = {DType::f16, DType::bf16, DType::f32, DType::f64};

}  // namespace hearth::cpu
