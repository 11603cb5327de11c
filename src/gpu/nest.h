// What kernels/nest.h reads: strided loops made ready for kernels.
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "device/strided.h"
#include "gpu/device.h"

namespace hearth::gpu {

inline constexpr std::size_t most_axes = max_dims;

struct Divisor {
  std::uint64_t value = 1;
  std::uint32_t magic = 1, shift = 0;

  Divisor() = default;
  explicit Divisor(std::int64_t size) : value(static_cast<std::uint64_t>(size)) {
    if (value == 0 || value >= (1ull << 31)) return;  // only used where all numbers are below 2^31
    shift = static_cast<std::uint32_t>(std::bit_width(value - 1));
    magic = static_cast<std::uint32_t>((((1ull << shift) - value) << 32) / value + 1);
  }
};

template <std::size_t operands>
struct Nest {
  std::uint64_t axes = 1;
  Divisor size[most_axes];
  std::int64_t stride[operands][most_axes] = {};

  // Over units of `unit` elements along the innermost axis; the first `data` operands hold elements, the
  // others stay where they are along it.
  explicit Nest(const StridedLoop& loop, std::int64_t unit = 1, std::size_t data = operands)
      : axes(loop.shape.size()) {
    const std::size_t inner = loop.shape.size() - 1;
    for (std::size_t axis = 0; axis <= inner; ++axis) {
      size[axis] = Divisor(axis == inner ? loop.shape[axis] / unit : loop.shape[axis]);
      for (std::size_t k = 0; k < operands; ++k)
        stride[k][axis] = loop.strides[k][axis] / (k < data && axis != inner ? unit : 1);
    }
  }
};

// The type that numbers elements, of which there are `count`.
inline std::string_view index_type(std::int64_t count) { return count < (1ll << 31) ? "u32" : "u64"; }

// The widest unit, in bytes up to 16, in which all of the innermost axis and every step between its runs can
// be counted, for the first `data` operands; the other operands must stay where they are along that axis.
inline std::int64_t unit_bytes(const StridedLoop& loop, std::size_t data, std::size_t element) {
  const std::size_t inner = loop.shape.size() - 1;
  const auto bytes = static_cast<std::int64_t>(element);
  for (std::size_t k = 0; k < loop.strides.size(); ++k)
    if (loop.strides[k][inner] != (k < data ? 1 : 0)) return bytes;
  std::int64_t unit = std::gcd<std::int64_t>(16, loop.shape[inner] * bytes);
  for (std::size_t k = 0; k < data; ++k)
    for (std::size_t axis = 0; axis < inner; ++axis) unit = std::gcd(unit, loop.strides[k][axis] * bytes);
  return unit;
}

inline std::int64_t aligned_unit(std::int64_t unit, const void* pointer) {
  return std::gcd(unit, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer)));
}

inline std::string_view unit_type(std::int64_t bytes) {
  switch (bytes) {
    case 1:
      return "u8";
    case 2:
      return "u16";
    case 4:
      return "u32";
    case 8:
      return "u64";
    default:
      return "Unit16";
  }
}

// A kernel copy_units(source, target, nest, count) that copies units of `bytes`.
inline KernelSource copy_source(std::int64_t bytes, std::string_view index) {
  return {"copy_units",
          fmt::format("#include \"movement.h\"\n"
                      "KERNEL void copy_units(const {0}* source, {0}* target, Nest<2> nest, u64 count) {{\n"
                      "  copy_units<{1}>(source, target, nest, count);\n}}\n",
                      unit_type(bytes), index),
          {},
          static_cast<std::size_t>(bytes)};
}

// A kernel for each width of unit.
class UnitFunctions {
 public:
  template <class MakeSource>
  const Function& get(GpuDevice& device, std::int64_t bytes, const MakeSource& make_source,
                      const char* name) const {
    return functions_[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(bytes)))].get(
        device, make_source, name);
  }

 private:
  std::array<LazyFunction, 5> functions_;
};

inline const void* at_element(const void* base, std::size_t element_bytes, std::int64_t offset) {
  return static_cast<const char*>(base) + offset * static_cast<std::int64_t>(element_bytes);
}
inline void* at_element(void* base, std::size_t element_bytes, std::int64_t offset) {
  return static_cast<char*>(base) + offset * static_cast<std::int64_t>(element_bytes);
}

}  // namespace hearth::gpu
