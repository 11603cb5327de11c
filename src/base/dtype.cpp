// Names of dtypes and the promotion table.
#include "hearth/dtype.h"

#include <array>

#include "hearth/error.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, dtype_count + block_format_count + repacked_format_count> names = {
    "bool", "u8",   "i8",     "i16",    "i32",   "i64",    "f16",    "bf16",   "f32",
    "f64",  "q4_0", "q4_1",   "q5_0",   "q5_1",  "q8_0",   "q2_k",   "q3_k",   "q4_k",
    "q5_k", "q6_k", "iq4_xs", "iq4_nl", "mxfp4", "q4_0x4", "q8_0x4", "q4_kx4", "q6_kx4"};
constexpr std::array<std::string_view, dtype_count + block_format_count> other_names =
    {  // NumPy's and GGUF's
        "bool_",   "uint8",   "int8", "int16", "int32",  "int64",  "float16", "bfloat16",
        "float32", "float64", "Q4_0", "Q4_1",  "Q5_0",   "Q5_1",   "Q8_0",    "Q2_K",
        "Q3_K",    "Q4_K",    "Q5_K", "Q6_K",  "IQ4_XS", "IQ4_NL", "MXFP4"};

}  // namespace

std::string_view dtype_name(DType dtype) { return names[static_cast<std::size_t>(dtype)]; }

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < other_names.size(); ++i)
    if (name == names[i] || name == other_names[i]) return static_cast<DType>(i);
  throw DTypeError("[dtype] unknown name \"" + std::string(name) +
                   "\"; known: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k "
                   "q4_k q5_k q6_k iq4_xs iq4_nl mxfp4");
}

void detail::no_element_size(DType dtype) {
  throw DTypeError("[dtype_size] " + std::string(dtype_name(dtype)) +
                   " is stored in blocks, its elements have no size");
}

DType promote(DType a, DType b) {
  for (const DType dtype : {a, b})
    if (is_quantised(dtype))
      throw DTypeError("[promote] " + std::string(dtype_name(dtype)) +
                       " is a storage format; dequantise first");
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
