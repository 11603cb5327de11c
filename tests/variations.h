// What the tests of the case table vary: numbers, layouts in memory, neighbours to fuse with.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "compare.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "op_cases.h"
#include "test_devices.h"

namespace hearth::testing {

using reference::for_each_position;
using reference::generate;
using reference::Position;

inline const std::vector<DType> floating_dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16};
inline const std::vector<DType> integer_dtypes = {DType::bool_, DType::u8,  DType::i8,
                                                  DType::i16,   DType::i32, DType::i64};

// ---- making inputs
inline double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f16:
      return static_cast<float>(float16(static_cast<float>(value)));
    case DType::bf16:
      return static_cast<float>(bfloat16(static_cast<float>(value)));
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f64:
      return value;
    case DType::bool_:
      return value != 0;
    default:
      return std::nearbyint(value);
  }
}

// An integer taken modulo the width of the dtype.
inline double wrap_to(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::bool_:
      return value != 0;
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    case DType::i8:
      return static_cast<std::int8_t>(value);
    case DType::i16:
      return static_cast<std::int16_t>(value);
    case DType::i32:
      return static_cast<std::int32_t>(value);
    default:
      return static_cast<double>(value);
  }
}

inline int bits_of(DType dtype) {
  return dtype == DType::bool_ ? 1 : static_cast<int>(dtype_size(dtype)) * 8;
}

// Numbers in a fixed, irregular order, the same everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) {}
  double uniform(Range range) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return range.low + (range.high - range.low) * static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

inline Array random_array(const Shape& shape, Range range, DType dtype, Numbers& numbers) {
  return generate(shape, [&](const Position&) { return round_to(dtype, numbers.uniform(range)); });
}

inline Array random_integers(const Shape& shape, Range range, DType dtype, Numbers& numbers) {
  return generate(shape, [&](const Position&) {
    const double value = std::floor(numbers.uniform({range.low, range.high + 1}));
    return dtype == DType::u8 ? std::abs(value) : round_to(dtype, value);
  });
}

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// A dense tensor of these values, which the dtype can hold.
inline Tensor dense(const Array& array, DType dtype) {
  std::vector<std::byte> bytes;
  for (double v : array.values) switch (dtype) {
      case DType::bool_:
        append(bytes, static_cast<std::uint8_t>(v != 0));
        break;
      case DType::u8:
        append(bytes, static_cast<std::uint8_t>(v));
        break;
      case DType::i8:
        append(bytes, static_cast<std::int8_t>(v));
        break;
      case DType::i16:
        append(bytes, static_cast<std::int16_t>(v));
        break;
      case DType::i32:
        append(bytes, static_cast<std::int32_t>(v));
        break;
      case DType::i64:
        append(bytes, static_cast<std::int64_t>(v));
        break;
      case DType::f16:
        append(bytes, float16(static_cast<float>(v)).bits);
        break;
      case DType::bf16:
        append(bytes, bfloat16(static_cast<float>(v)).bits);
        break;
      case DType::f32:
        append(bytes, static_cast<float>(v));
        break;
      case DType::f64:
        append(bytes, v);
        break;
      default:
        throw std::logic_error("not a dtype of numbers");
    }
  return from_bytes(bytes, array.shape, dtype);
}

// ---- layouts: the same values, elsewhere in memory
enum class Layout { contiguous, transposed, sliced, flipped, broadcast };
inline const std::vector<Layout> layouts = {Layout::contiguous, Layout::transposed, Layout::sliced,
                                            Layout::flipped, Layout::broadcast};

inline const char* name_of(Layout layout) {
  constexpr const char* names[] = {"contiguous", "transposed", "sliced with a step", "flipped", "broadcast"};
  return names[static_cast<int>(layout)];
}

// ---- which of them
// All variations need thousands of kernels. Where the run is to be brief() every case is still compared,
// forwards and backwards, and every operation in each dtype that models compute in (on the chip that takes
// it, see brief_halves()), but only f32 comes in every layout, and halves not in cases that repeat others.

struct Variation {
  DType dtype;
  Layout layout;
};

inline std::vector<Variation> all_of(const std::vector<DType>& dtypes, const std::vector<Layout>& in) {
  std::vector<Variation> all;
  for (auto dtype : dtypes)
    for (auto layout : in) all.push_back({dtype, layout});
  return all;
}

inline std::vector<Variation> floating_variations(const OpCase& entry) {
  if (!brief()) return all_of(floating_dtypes, layouts);
  auto some = all_of({DType::f32}, layouts);
  if (!entry.repeats)
    for (auto dtype : brief_halves()) some.push_back({dtype, Layout::contiguous});
  return some;
}

inline std::vector<Variation> integer_variations() {
  if (!brief()) return all_of(integer_dtypes, {Layout::contiguous, Layout::sliced});
  return {{DType::i32, Layout::contiguous}};
}

inline std::vector<Variation> gradient_variations(const OpCase& entry) {
  if (!brief())
    return all_of(floating_dtypes, {Layout::contiguous, Layout::transposed, Layout::sliced, Layout::flipped});
  if (entry.repeats) return {{DType::f32, Layout::contiguous}};
  std::vector<DType> dtypes = brief_halves();
  dtypes.push_back(DType::f32);
  return all_of(dtypes, {Layout::contiguous});
}

inline std::optional<std::size_t> first_long_axis(const Shape& shape) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1) return i;
  return {};
}

// The values a layout can show: a broadcast axis repeats its first element.
inline Array adapt(const Array& array, Layout layout) {
  const auto axis = first_long_axis(array.shape);
  if (layout != Layout::broadcast || !axis) return array;
  return generate(array.shape, [&](Position p) {
    p[*axis] = 0;
    return array.at(p);
  });
}

inline Tensor lay_out(const Array& array, Layout layout, DType dtype) {
  const auto& shape = array.shape;
  switch (layout) {
    case Layout::contiguous:
      return dense(array, dtype);
    case Layout::transposed: {
      Axes order;
      for (std::size_t i = shape.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
      return permute(dense(reference::permute(array, order), dtype), order);
    }
    case Layout::sliced: {
      Shape larger = shape;
      for (auto& size : larger) size = 2 * size + 1;
      const double filler = is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : 1;
      Array base = generate(larger, [&](const Position&) { return filler; });
      for_each_position(shape, [&](const Position& p) {
        Position at = p;
        for (auto& i : at) i = 2 * i + 1;
        base.at(at) = array.at(p);
      });
      std::vector<Slice> slices;
      for (auto size : larger) slices.push_back({1, size - 1, 2});
      return slice(dense(base, dtype), slices);
    }
    case Layout::flipped: {
      const Array base = generate(shape, [&](Position p) {
        for (std::size_t i = 0; i < p.size(); ++i) p[i] = shape[i] - 1 - p[i];
        return array.at(p);
      });
      return slice(dense(base, dtype), std::vector<Slice>(shape.size(), Slice{Slice::open, Slice::open, -1}));
    }
    case Layout::broadcast: {
      const auto axis = first_long_axis(shape);
      if (!axis) return dense(array, dtype);
      return broadcast_to(dense(reference::pick(array, static_cast<std::int64_t>(*axis), 0, 1), dtype),
                          shape);
    }
  }
  return {};
}

// ---- surroundings: what stands before and after the operation, for the planner to fuse. Doubling is exact.
enum class Neighbours { none, before, after, both };
inline const char* name_of(Neighbours neighbours) {
  constexpr const char* names[] = {"alone", "after an addition", "before an addition", "between additions"};
  return names[static_cast<int>(neighbours)];
}

inline std::string shapes_of(const std::vector<Array>& arrays) {
  std::string text;
  for (const auto& array : arrays) text += (text.empty() ? "" : ", ") + to_string(array.shape);
  return text;
}

// Collects what went wrong in one test; shows the first few.
class Failures {
 public:
  explicit Failures(std::string operation) : operation_(std::move(operation)) {}
  ~Failures() {
    if (count_ > shown) ADD_FAILURE() << operation_ << ": " << count_ - shown << " more variations fail";
  }
  Failures(const Failures&) = delete;
  Failures& operator=(const Failures&) = delete;

  // Runs `check`, which returns what is wrong or nothing, and reports it with `variation`.
  template <typename F>
  void check(const std::string& variation, F check) {
    std::string wrong;
    try {
      wrong = check();
    } catch (const std::exception& error) {
      wrong = std::string("threw: ") + error.what();
    }
    if (!wrong.empty() && ++count_ <= shown)
      ADD_FAILURE() << operation_ << ", " << variation << ": " << wrong;
  }

 private:
  static constexpr int shown = 3;
  std::string operation_;
  int count_ = 0;
};

inline std::string describe(Device device, DType dtype, const std::vector<Array>& inputs,
                            const std::string& variation) {
  return fmt::format("{}, {}, shapes {}, {}", to_string(device), dtype_name(dtype), shapes_of(inputs),
                     variation);
}

// ---- slopes
// d value / d operand at one point by central differences of fourth order, with two steps; NaN where they
// disagree because the function has a corner or a jump there.
inline double slope(const std::function<double(double)>& f, double x) {
  const auto difference = [&](double h) {
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h);
  };
  const double coarse = difference(2e-3), fine = difference(1e-3);
  return std::abs(coarse - fine) <= 1e-7 * (1 + std::abs(fine)) ? fine
                                                                : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace hearth::testing
