// Loops over short runs of elements ("tiles"), the instructions of the elementwise interpreter.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "graph/op.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

// Expressions are computed in one of four types: halves in f32; bool, u8, i8 and i16 in i32.
enum class Compute : std::uint8_t { f32, f64, i32, i64 };
inline constexpr int compute_count = 4;

constexpr Compute compute_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
      return Compute::f32;
    case DType::f64:
      return Compute::f64;
    case DType::i64:
      return Compute::i64;
    default:
      return Compute::i32;
  }
}
constexpr std::size_t compute_size(Compute type) {
  return type == Compute::f64 || type == Compute::i64 ? 8 : 4;
}

// out[i] = f(a[i], b[i], c[i]) for i < n. `out` may be `a`, `b` or `c`, but must not overlap them otherwise.
using TileFunction = void (*)(void* out, const void* a, const void* b, const void* c, std::int64_t n);

// Operations that cost less than reading their operands and writing their result. A chain of them, each
// result used only by the next, runs as one loop that keeps the results in registers.
inline constexpr Op cheap_unary[] = {Op::neg, Op::abs, Op::square, Op::relu};
inline constexpr Op cheap_binary[] = {Op::add, Op::sub, Op::mul, Op::maximum, Op::minimum};
inline constexpr int cheap_unary_count = 4, cheap_binary_count = 5;

// Index of a cheap operation, the unary ones first; -1 for the others.
constexpr int cheap_index(Op op) {
  for (int i = 0; i < cheap_unary_count; ++i)
    if (cheap_unary[i] == op) return i;
  for (int i = 0; i < cheap_binary_count; ++i)
    if (cheap_binary[i] == op) return cheap_unary_count + i;
  return -1;
}
// What a link of a chain does with the result so far. For binary operations: whether that is the right-hand
// operand, and whether the other one is a single number.
constexpr int chain_code(int index, bool result_right, bool number) {
  return index < cheap_unary_count ? index : index * 4 + 2 * result_right + number;
}
struct ChainLink {
  int code;
  const float* operand;  // the other one, of binary operations
};
inline constexpr std::size_t longest_chain = 16;

struct ElementwiseKernels {
  TileFunction operations[op_count][compute_count];  // by the operands' type; null where there is none
  TileFunction left_number[op_count];                // of f32, binary: *a and b[i]
  TileFunction right_number[op_count];               // a[i] and *b
  // out[i] = links (at least one) applied in order to start[i], f32.
  void (*chain)(float* out, const float* start, const ChainLink* links, std::size_t count, std::int64_t n);
  TileFunction where[compute_count];  // a: i32 condition
  TileFunction convert[compute_count][compute_count];
  TileFunction convert_to_odd;         // f64 -> f32, inexact values to the odd neighbour, so that a second
                                       // rounding to a half type is right
  TileFunction narrow[dtype_count];    // compute type -> same, as if stored as the dtype; null: no change
  TileFunction saturate[dtype_count];  // i32 -> i32, limited to the dtype's range; null: no change
  TileFunction load[dtype_count];      // storage -> compute type; null: the same representation
  TileFunction store[dtype_count];     // compute type -> storage; null: the same representation
};

}  // namespace hearth::cpu

HEARTH_DECLARE_ISA_TABLE(ElementwiseKernels, elementwise_kernels)
