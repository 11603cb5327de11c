// The vector kernels of normalisation: operations on rows.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

// Rows to work on. Halves are computed in f32, other dtypes in themselves: the "compute type".
struct NormalisationRows {
  const void* x;                     // or the result y, for the gradients of softmax
  const void* dy;                    // of gradients
  void* out;                         // row after row
  std::int64_t rows, size;           // size > 0
  std::int64_t x_stride, dy_stride;  // elements from row to row; within one they are neighbours
  const void* weight;                // compute type; may be null
  const void* bias;                  // compute type; may be null; only with a weight
  double epsilon;
  void* scratch;  // size elements of the compute type; 3 * size for halves
};

using NormalisationFunction = void (*)(const NormalisationRows&);

struct NormalisationKernels {
  // By dtype, from f16 on: dtype - DType::f16.
  NormalisationFunction softmax[4], softmax_grad[4], log_softmax[4], log_softmax_grad[4];
  NormalisationFunction layer_norm[4], layer_norm_grad[4], rms_norm[4], rms_norm_grad[4];
};

struct RopeKernels {
  // Cosine and sine of position * turns[i] turns, for |position * turns[i]| < 2^48.
  void (*angles)(double position, const double* turns, float* cosine, float* sine, std::int64_t count);
  // Rotates the pairs (i, i + half) of one row, or (2 i, 2 i + 1) if interleaved; by dtype - DType::f16.
  // Cosine and sine are of the compute type.
  void (*rotate[4])(const void* x, void* out, const void* cosine, const void* sine, std::int64_t half);
  void (*rotate_interleaved[4])(const void* x, void* out, const void* cosine, const void* sine,
                                std::int64_t half);
};

}  // namespace hearth::cpu

HEARTH_DECLARE_ISA_TABLE(NormalisationKernels, normalisation_kernels)
HEARTH_DECLARE_ISA_TABLE(RopeKernels, rope_kernels)
