// Comparing computed tensors with expected values, and running a test on every device there is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "hearth/device.h"
#include "hearth/dtype.h"
#include "hearth/shape.h"
#include "hearth/tensor.h"

namespace hearth {
// For GoogleTest.
inline void PrintTo(DType dtype, std::ostream* out) { *out << dtype_name(dtype); }
inline void PrintTo(Device device, std::ostream* out) { *out << to_string(device); }
}  // namespace hearth

namespace hearth::testing {

// Largest relative error of rounding a real number to this dtype; 0 for integers.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f32:
      return 0x1p-24;
    case DType::f64:
      return 0x1p-53;
    default:
      return 0;
  }
}

// Half the distance between the smallest numbers: what rounding costs near zero, whatever the value.
inline double underflow(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-25;
    case DType::bf16:
      return 0x1p-127;  // denormals may be flushed
    case DType::f32:
      return 0x1p-126;
    case DType::f64:
      return 0x1p-1022;
    default:
      return 0;
  }
}

// The largest finite number of a floating dtype; what rounds beyond it is infinite.
inline double largest(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    case DType::f32:
      return 0x1.fffffep127;
    default:
      return 0x1.fffffffffffffp1023;
  }
}

inline double largest_finite_magnitude(const std::vector<double>& values) {
  double largest_seen = 0;
  for (double v : values)
    if (std::isfinite(v)) largest_seen = std::max(largest_seen, std::abs(v));
  return largest_seen;
}

inline bool within(double got, double expected, double allowed, double limit) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (got == expected) return true;
  // Beyond the largest number, and just below it, both the largest number and infinity are right.
  if (std::isinf(got))
    return std::signbit(got) == std::signbit(expected) && std::abs(expected) + allowed > limit;
  if (std::isinf(expected)) return false;
  return std::abs(got - expected) <= allowed;
}

inline std::string position_of(std::size_t offset, const Shape& shape) {
  Shape position(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(shape[axis]);
    position[axis] = static_cast<std::int64_t>(offset % size);
    offset /= size;
  }
  return to_string(position);
}

// Says where `got` and `expected` first differ by more than `allowed` (one difference per element, or one for
// all); empty if they agree.
inline std::string first_difference(const std::vector<double>& got, const std::vector<double>& expected,
                                    const Shape& shape, DType dtype, const std::vector<double>& allowed) {
  std::ostringstream text;
  text.precision(17);
  if (got.size() != expected.size()) {
    text << got.size() << " elements instead of " << expected.size();
    return text.str();
  }
  std::size_t first = got.size(), wrong = 0;
  const auto allowed_at = [&](std::size_t i) { return allowed.size() == 1 ? allowed[0] : allowed[i]; };
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!within(got[i], expected[i], allowed_at(i), largest(dtype)) && wrong++ == 0) first = i;
  if (wrong == 0) return {};
  text << "at " << position_of(first, shape) << " of " << to_string(shape) << ": got " << got[first]
       << ", expected " << expected[first] << ", allowed difference " << allowed_at(first) << " (" << wrong
       << " of " << got.size() << " elements differ)";
  return text.str();
}

// The elements of a tensor, computed as a program would have them: the kernel stores the tensor's dtype.
inline std::vector<double> values_of(const Tensor& tensor) {
  return tensor.detach().eval().to(Device{}).to_vector<double>();
}

// Makes a device the default one while it lives.
class OnDevice {
 public:
  explicit OnDevice(Device device) : before_(default_device()) { set_default_device(device); }
  ~OnDevice() { set_default_device(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  Device before_;
};

}  // namespace hearth::testing
