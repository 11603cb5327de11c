// Where MFMA and SMFMAC have their elements, from the CDNA2 and CDNA3 manuals.
#pragma once

#include "matrix_reference.h"

namespace hipemu::matrix_test {

struct MfmaShape {
  int rows, depth, blocks;
};

inline MatrixInstruction mfma(std::string name, std::string processor, Number a, Number b, Number result,
                              MfmaShape shape) {
  MatrixInstruction instruction;
  instruction.name = std::move(name);
  instruction.processor = std::move(processor);
  instruction.a = a;
  instruction.b = b;
  instruction.d = result;
  instruction.rows = instruction.columns = shape.rows;
  instruction.depth = shape.depth;
  instruction.blocks = shape.blocks;

  // A and B: blocks side by side; K goes on in the next lanes when a lane's registers are full.
  Layout& inputs = instruction.a_layout;
  inputs.stride = a.bits;
  inputs.block_lanes = shape.rows;
  if (shape.rows * shape.blocks == 64) inputs.runs = {{0, shape.depth, 0, 0}};
  if (shape.rows == 32 && shape.blocks == 1) {
    const int n = shape.depth / 2;
    inputs.runs = {{0, n, 0, 0}, {n, n, 32, 0}};
  }
  if ((shape.rows == 16 && shape.blocks == 1) || (shape.rows == 4 && shape.blocks == 4)) {
    const int n = shape.depth / 4;
    inputs.runs = {{0, n, 0, 0}, {n, n, 16, 0}, {2 * n, n, 32, 0}, {3 * n, n, 48, 0}};
  }
  instruction.b_layout = instruction.a_layout;

  Layout& results = instruction.d_layout;
  results.stride = result.bits;
  if (result.bits == 64 && shape.rows == 16) {
    results.runs = {{0, 1, 0, 0},    {1, 1, 16, 0},    {2, 1, 32, 0},    {3, 1, 48, 0},
                    {4, 1, 0, 64},   {5, 1, 16, 64},   {6, 1, 32, 64},   {7, 1, 48, 64},
                    {8, 1, 0, 128},  {9, 1, 16, 128},  {10, 1, 32, 128}, {11, 1, 48, 128},
                    {12, 1, 0, 192}, {13, 1, 16, 192}, {14, 1, 32, 192}, {15, 1, 48, 192}};
  } else if (result.bits == 64) {
    results.runs = {{0, 1, 0, 0}, {1, 1, 16, 0}, {2, 1, 32, 0}, {3, 1, 48, 0}};
    results.block_lanes = 4;
  } else if (shape.rows == 32) {
    results.runs = {{0, 4, 0, 0},    {4, 4, 32, 0},    {8, 4, 0, 128},  {12, 4, 32, 128},
                    {16, 4, 0, 256}, {20, 4, 32, 256}, {24, 4, 0, 384}, {28, 4, 32, 384}};
    results.block_bits = 16 * 32;
  } else if (shape.rows == 16) {
    results.runs = {{0, 4, 0, 0}, {4, 4, 16, 0}, {8, 4, 32, 0}, {12, 4, 48, 0}};
    results.block_bits = 4 * 32;
  } else {
    results.runs = {{0, 4, 0, 0}};
    results.block_lanes = 4;
  }
  instruction.d_registers = shape.rows * shape.rows * shape.blocks * result.bits / 32 / 64;
  return instruction;
}

inline std::vector<MatrixInstruction> all_mfma_gfx90a() {
  const auto make = [](std::string name, Number input, Number result, MfmaShape shape) {
    return mfma(std::move(name), "gfx90a", input, input, result, shape);
  };
  return {
      make("v_mfma_f64_16x16x4f64", f64, f64, {16, 4, 1}),
      make("v_mfma_f64_4x4x4f64", f64, f64, {4, 4, 4}),
      make("v_mfma_f32_32x32x1f32", f32, f32, {32, 1, 2}),
      make("v_mfma_f32_16x16x1f32", f32, f32, {16, 1, 4}),
      make("v_mfma_f32_4x4x1f32", f32, f32, {4, 1, 16}),
      make("v_mfma_f32_32x32x2f32", f32, f32, {32, 2, 1}),
      make("v_mfma_f32_16x16x4f32", f32, f32, {16, 4, 1}),
      make("v_mfma_f32_32x32x4f16", f16, f32, {32, 4, 2}),
      make("v_mfma_f32_16x16x4f16", f16, f32, {16, 4, 4}),
      make("v_mfma_f32_4x4x4f16", f16, f32, {4, 4, 16}),
      make("v_mfma_f32_32x32x8f16", f16, f32, {32, 8, 1}),
      make("v_mfma_f32_16x16x16f16", f16, f32, {16, 16, 1}),
      make("v_mfma_f32_32x32x4bf16_1k", bf16, f32, {32, 4, 2}),
      make("v_mfma_f32_16x16x4bf16_1k", bf16, f32, {16, 4, 4}),
      make("v_mfma_f32_4x4x4bf16_1k", bf16, f32, {4, 4, 16}),
      make("v_mfma_f32_32x32x8bf16_1k", bf16, f32, {32, 8, 1}),
      make("v_mfma_f32_16x16x16bf16_1k", bf16, f32, {16, 16, 1}),
      make("v_mfma_f32_32x32x2bf16", bf16, f32, {32, 2, 2}),
      make("v_mfma_f32_16x16x2bf16", bf16, f32, {16, 2, 4}),
      make("v_mfma_f32_4x4x2bf16", bf16, f32, {4, 2, 16}),
      make("v_mfma_f32_32x32x4bf16", bf16, f32, {32, 4, 1}),
      make("v_mfma_f32_16x16x8bf16", bf16, f32, {16, 8, 1}),
      make("v_mfma_i32_32x32x4i8", i8, i32, {32, 4, 2}),
      make("v_mfma_i32_16x16x4i8", i8, i32, {16, 4, 4}),
      make("v_mfma_i32_4x4x4i8", i8, i32, {4, 4, 16}),
      make("v_mfma_i32_32x32x8i8", i8, i32, {32, 8, 1}),
      make("v_mfma_i32_16x16x16i8", i8, i32, {16, 16, 1}),
  };
}

inline std::vector<MatrixInstruction> all_mfma_gfx942() {
  const auto make = [](std::string name, Number a, Number b, Number result, MfmaShape shape) {
    return mfma(std::move(name), "gfx942", a, b, result, shape);
  };
  return {
      make("v_mfma_f64_16x16x4_f64", f64, f64, f64, {16, 4, 1}),
      make("v_mfma_f64_4x4x4_4b_f64", f64, f64, f64, {4, 4, 4}),
      make("v_mfma_f32_32x32x1_2b_f32", f32, f32, f32, {32, 1, 2}),
      make("v_mfma_f32_16x16x1_4b_f32", f32, f32, f32, {16, 1, 4}),
      make("v_mfma_f32_4x4x1_16b_f32", f32, f32, f32, {4, 1, 16}),
      make("v_mfma_f32_32x32x2_f32", f32, f32, f32, {32, 2, 1}),
      make("v_mfma_f32_16x16x4_f32", f32, f32, f32, {16, 4, 1}),
      make("v_mfma_f32_32x32x4_xf32", f32, f32, f32, {32, 4, 1}),
      make("v_mfma_f32_16x16x8_xf32", f32, f32, f32, {16, 8, 1}),
      make("v_mfma_f32_32x32x4_2b_f16", f16, f16, f32, {32, 4, 2}),
      make("v_mfma_f32_16x16x4_4b_f16", f16, f16, f32, {16, 4, 4}),
      make("v_mfma_f32_4x4x4_16b_f16", f16, f16, f32, {4, 4, 16}),
      make("v_mfma_f32_32x32x8_f16", f16, f16, f32, {32, 8, 1}),
      make("v_mfma_f32_16x16x16_f16", f16, f16, f32, {16, 16, 1}),
      make("v_mfma_f32_32x32x4_2b_bf16", bf16, bf16, f32, {32, 4, 2}),
      make("v_mfma_f32_16x16x4_4b_bf16", bf16, bf16, f32, {16, 4, 4}),
      make("v_mfma_f32_4x4x4_16b_bf16", bf16, bf16, f32, {4, 4, 16}),
      make("v_mfma_f32_32x32x8_bf16", bf16, bf16, f32, {32, 8, 1}),
      make("v_mfma_f32_16x16x16_bf16", bf16, bf16, f32, {16, 16, 1}),
      make("v_mfma_i32_32x32x4_2b_i8", i8, i8, i32, {32, 4, 2}),
      make("v_mfma_i32_16x16x4_4b_i8", i8, i8, i32, {16, 4, 4}),
      make("v_mfma_i32_4x4x4_16b_i8", i8, i8, i32, {4, 4, 16}),
      make("v_mfma_i32_32x32x16_i8", i8, i8, i32, {32, 16, 1}),
      make("v_mfma_i32_16x16x32_i8", i8, i8, i32, {16, 32, 1}),
      make("v_mfma_f32_32x32x16_bf8_bf8", bf8_fnuz, bf8_fnuz, f32, {32, 16, 1}),
      make("v_mfma_f32_32x32x16_bf8_fp8", bf8_fnuz, fp8_fnuz, f32, {32, 16, 1}),
      make("v_mfma_f32_32x32x16_fp8_bf8", fp8_fnuz, bf8_fnuz, f32, {32, 16, 1}),
      make("v_mfma_f32_32x32x16_fp8_fp8", fp8_fnuz, fp8_fnuz, f32, {32, 16, 1}),
      make("v_mfma_f32_16x16x32_bf8_bf8", bf8_fnuz, bf8_fnuz, f32, {16, 32, 1}),
      make("v_mfma_f32_16x16x32_bf8_fp8", bf8_fnuz, fp8_fnuz, f32, {16, 32, 1}),
      make("v_mfma_f32_16x16x32_fp8_bf8", fp8_fnuz, bf8_fnuz, f32, {16, 32, 1}),
      make("v_mfma_f32_16x16x32_fp8_fp8", fp8_fnuz, fp8_fnuz, f32, {16, 32, 1}),
  };
}

inline MatrixInstruction smfmac(std::string name, Number a, Number b, Number result, int rows, int depth) {
  MatrixInstruction instruction = mfma(std::move(name), "gfx942", a, b, result, {rows, depth, 1});
  instruction.sparse = true;
  instruction.index_layout.stride = 4;
  if (rows == 32) {
    const int n = depth / 4, pairs = depth / 8;
    instruction.a_layout.runs = {{0, n, 0, 0}, {n, n, 32, 0}};
    instruction.index_layout.runs = {{0, pairs, 0, 0}, {pairs, pairs, 32, 0}};
  } else {
    const int n = depth / 8, pairs = depth / 16;
    instruction.a_layout.runs = {{0, n, 0, 0}, {n, n, 16, 0}, {2 * n, n, 32, 0}, {3 * n, n, 48, 0}};
    instruction.index_layout.runs = {
        {0, pairs, 0, 0}, {pairs, pairs, 16, 0}, {2 * pairs, pairs, 32, 0}, {3 * pairs, pairs, 48, 0}};
  }
  return instruction;
}

inline std::vector<MatrixInstruction> all_smfmac() {
  return {
      smfmac("v_smfmac_f32_32x32x16_f16", f16, f16, f32, 32, 16),
      smfmac("v_smfmac_f32_16x16x32_f16", f16, f16, f32, 16, 32),
      smfmac("v_smfmac_f32_32x32x16_bf16", bf16, bf16, f32, 32, 16),
      smfmac("v_smfmac_f32_16x16x32_bf16", bf16, bf16, f32, 16, 32),
      smfmac("v_smfmac_i32_32x32x32_i8", i8, i8, i32, 32, 32),
      smfmac("v_smfmac_i32_16x16x64_i8", i8, i8, i32, 16, 64),
      smfmac("v_smfmac_f32_32x32x32_bf8_bf8", bf8_fnuz, bf8_fnuz, f32, 32, 32),
      smfmac("v_smfmac_f32_32x32x32_bf8_fp8", bf8_fnuz, fp8_fnuz, f32, 32, 32),
      smfmac("v_smfmac_f32_32x32x32_fp8_bf8", fp8_fnuz, bf8_fnuz, f32, 32, 32),
      smfmac("v_smfmac_f32_32x32x32_fp8_fp8", fp8_fnuz, fp8_fnuz, f32, 32, 32),
      smfmac("v_smfmac_f32_16x16x64_bf8_bf8", bf8_fnuz, bf8_fnuz, f32, 16, 64),
      smfmac("v_smfmac_f32_16x16x64_bf8_fp8", bf8_fnuz, fp8_fnuz, f32, 16, 64),
      smfmac("v_smfmac_f32_16x16x64_fp8_bf8", fp8_fnuz, bf8_fnuz, f32, 16, 64),
      smfmac("v_smfmac_f32_16x16x64_fp8_fp8", fp8_fnuz, fp8_fnuz, f32, 16, 64),
  };
}

}  // namespace hipemu::matrix_test
