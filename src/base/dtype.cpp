// Names of dtypes and the promotion table.
#include "hearth/dtype.h"

#include <array>

#include "hearth/error.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, dtype_count> names = {"bool", "u8",  "i8",   "i16", "i32",
                                                             "i64",  "f16", "bf16", "f32", "f64"};
constexpr std::array<std::string_view, dtype_count> numpy_names = {
    "bool_", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"};

}  // namespace

std::string_view dtype_name(DType dtype) { return names[static_cast<std::size_t>(dtype)]; }

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (name == names[i] || name == numpy_names[i]) return static_cast<DType>(i);
  throw DTypeError("[dtype] unknown name \"" + std::string(name) +
                   "\"; known: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64");
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);
  if (is_floating(b)) {
    const bool two_halves = a == DType::f16 && b == DType::bf16;
    return two_halves ? DType::f32 : b;
  }
  // u8 with a signed type needs one that holds both ranges.
  if (a == DType::u8 && b == DType::i8) return DType::i16;
  return b;
}

}  // namespace hearth
