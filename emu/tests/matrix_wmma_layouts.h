// Where WMMA and SWMMAC have their elements, from the RDNA3 and RDNA4 manuals.
#pragma once

#include "matrix_reference.h"

namespace hipemu::matrix_test {

// --- gfx11 ---

inline MatrixInstruction wmma_gfx11(std::string name, Number input, Number result, int wave) {
  MatrixInstruction instruction;
  instruction.name = std::move(name);
  instruction.processor = "gfx1100";
  instruction.wave = wave;
  instruction.a = instruction.b = input;
  instruction.d = result;
  instruction.rows = instruction.columns = instruction.depth = 16;
  instruction.a_layout = instruction.b_layout = {{{0, 16, 0, 0}}, input.bits};
  instruction.copies = wave / 16;
  instruction.d_registers = wave == 32 ? 8 : 4;
  instruction.d_layout.stride = 32;
  if (wave == 32)
    instruction.d_layout.runs = {{0, 1, 0, 0},    {1, 1, 16, 0},    {2, 1, 0, 32},   {3, 1, 16, 32},
                                 {4, 1, 0, 64},   {5, 1, 16, 64},   {6, 1, 0, 96},   {7, 1, 16, 96},
                                 {8, 1, 0, 128},  {9, 1, 16, 128},  {10, 1, 0, 160}, {11, 1, 16, 160},
                                 {12, 1, 0, 192}, {13, 1, 16, 192}, {14, 1, 0, 224}, {15, 1, 16, 224}};
  else
    instruction.d_layout.runs = {{0, 1, 0, 0},   {1, 1, 16, 0},   {2, 1, 32, 0},   {3, 1, 48, 0},
                                 {4, 1, 0, 32},  {5, 1, 16, 32},  {6, 1, 32, 32},  {7, 1, 48, 32},
                                 {8, 1, 0, 64},  {9, 1, 16, 64},  {10, 1, 32, 64}, {11, 1, 48, 64},
                                 {12, 1, 0, 96}, {13, 1, 16, 96}, {14, 1, 32, 96}, {15, 1, 48, 96}};
  if (input.exponent_bits == 0) instruction.modifiers = "neg_lo:[1,1,0]";
  return instruction;
}

inline std::vector<MatrixInstruction> all_wmma_gfx11() {
  std::vector<MatrixInstruction> all;
  for (const int wave : {32, 64}) {
    all.push_back(wmma_gfx11("v_wmma_f32_16x16x16_f16", f16, f32, wave));
    all.push_back(wmma_gfx11("v_wmma_f32_16x16x16_bf16", bf16, f32, wave));
    all.push_back(wmma_gfx11("v_wmma_f16_16x16x16_f16", f16, f16, wave));
    all.push_back(wmma_gfx11("v_wmma_bf16_16x16x16_bf16", bf16, bf16, wave));
    all.push_back(wmma_gfx11("v_wmma_i32_16x16x16_iu8", i8, i32, wave));
    all.push_back(wmma_gfx11("v_wmma_i32_16x16x16_iu4", i4, i32, wave));
  }
  return all;
}

// --- gfx12 ---

inline std::vector<Run> dense_runs_gfx12(int bits, int depth, int wave) {
  if (wave == 32) {
    if (bits == 16) return {{0, 4, 0, 0}, {4, 4, 16, 0}, {8, 4, 0, 64}, {12, 4, 16, 64}};
    if (depth == 16) return {{0, 8, 0, 0}, {8, 8, 16, 0}};
    return {{0, 16, 0, 0}, {16, 16, 16, 0}};
  }
  if (bits == 16) return {{0, 4, 0, 0}, {4, 4, 16, 0}, {8, 4, 32, 0}, {12, 4, 48, 0}};
  if (bits == 8) return {{0, 4, 0, 0}, {4, 4, 32, 0}, {8, 4, 16, 0}, {12, 4, 48, 0}};
  if (depth == 16) return {{0, 8, 0, 0}, {8, 8, 16, 0}};  // lanes 32-63 are not used
  return {{0, 8, 0, 0}, {8, 8, 32, 0}, {16, 8, 16, 0}, {24, 8, 48, 0}};
}

inline void set_result_gfx12(MatrixInstruction& instruction) {
  instruction.rows = instruction.columns = 16;
  instruction.d_layout.stride = instruction.d.bits;
  if (instruction.wave == 32)
    instruction.d_layout.runs = {{0, 8, 0, 0}, {8, 8, 16, 0}};
  else
    instruction.d_layout.runs = {{0, 4, 0, 0}, {4, 4, 32, 0}, {8, 4, 16, 0}, {12, 4, 48, 0}};
  instruction.d_registers = instruction.d_layout.registers();
  if (instruction.a.exponent_bits == 0) instruction.modifiers = "neg_lo:[1,1,0]";
}

inline MatrixInstruction wmma_gfx12(std::string name, Number a, Number b, Number result, int depth,
                                    int wave) {
  MatrixInstruction instruction;
  instruction.name = std::move(name);
  instruction.processor = "gfx1201";
  instruction.wave = wave;
  instruction.a = a;
  instruction.b = b;
  instruction.d = result;
  instruction.depth = depth;
  instruction.a_layout = instruction.b_layout = {dense_runs_gfx12(a.bits, depth, wave), a.bits};
  set_result_gfx12(instruction);
  return instruction;
}

inline std::vector<MatrixInstruction> all_wmma_gfx12() {
  std::vector<MatrixInstruction> all;
  for (const int wave : {32, 64}) {
    all.push_back(wmma_gfx12("v_wmma_f32_16x16x16_f16", f16, f16, f32, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_f32_16x16x16_bf16", bf16, bf16, f32, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_f16_16x16x16_f16", f16, f16, f16, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_bf16_16x16x16_bf16", bf16, bf16, bf16, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_i32_16x16x16_iu8", i8, i8, i32, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_i32_16x16x16_iu4", i4, i4, i32, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_i32_16x16x32_iu4", i4, i4, i32, 32, wave));
    all.push_back(wmma_gfx12("v_wmma_f32_16x16x16_fp8_fp8", fp8, fp8, f32, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_f32_16x16x16_fp8_bf8", fp8, bf8, f32, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_f32_16x16x16_bf8_fp8", bf8, fp8, f32, 16, wave));
    all.push_back(wmma_gfx12("v_wmma_f32_16x16x16_bf8_bf8", bf8, bf8, f32, 16, wave));
  }
  return all;
}

// --- gfx12, sparse ---

inline MatrixInstruction swmmac(std::string name, Number a, Number b, Number result, int depth, int wave) {
  MatrixInstruction instruction;
  instruction.name = std::move(name);
  instruction.processor = "gfx1201";
  instruction.wave = wave;
  instruction.a = a;
  instruction.b = b;
  instruction.d = result;
  instruction.depth = depth;
  instruction.sparse = true;
  instruction.a_layout.stride = instruction.b_layout.stride = a.bits;
  instruction.index_layout.stride = 4;
  auto &runs_a = instruction.a_layout.runs, &runs_b = instruction.b_layout.runs,
       &pairs = instruction.index_layout.runs;
  if (wave == 32) {
    if (a.bits == 16) {
      runs_a = {{0, 4, 0, 0}, {4, 4, 16, 0}, {8, 4, 0, 64}, {12, 4, 16, 64}};
      runs_b = {{0, 8, 0, 0}, {8, 8, 16, 0}, {16, 8, 0, 128}, {24, 8, 16, 128}};
      pairs = {{0, 2, 0, 0}, {2, 2, 16, 0}, {4, 2, 0, 8}, {6, 2, 16, 8}};
    } else if (depth == 32) {
      runs_a = {{0, 8, 0, 0}, {8, 8, 16, 0}};
      runs_b = {{0, 16, 0, 0}, {16, 16, 16, 0}};
      pairs = {{0, 4, 0, 0}, {4, 4, 16, 0}};
    } else {
      runs_a = {{0, 16, 0, 0}, {16, 16, 16, 0}};
      runs_b = {{0, 32, 0, 0}, {32, 32, 16, 0}};
      pairs = {{0, 8, 0, 0}, {8, 8, 16, 0}};
    }
  } else if (a.bits == 16) {
    runs_a = {{0, 4, 0, 0}, {4, 4, 16, 0}, {8, 4, 32, 0}, {12, 4, 48, 0}};
    runs_b = {{0, 8, 0, 0}, {8, 8, 16, 0}, {16, 8, 32, 0}, {24, 8, 48, 0}};
    pairs = {{0, 2, 0, 0}, {2, 2, 16, 0}, {4, 2, 32, 0}, {6, 2, 48, 0}};
  } else if (a.bits == 8) {
    runs_a = {{0, 4, 0, 0}, {4, 4, 32, 0}, {8, 4, 16, 0}, {12, 4, 48, 0}};
    runs_b = {{0, 8, 0, 0}, {8, 8, 32, 0}, {16, 8, 16, 0}, {24, 8, 48, 0}};
    pairs = {{0, 2, 0, 0}, {2, 2, 32, 0}, {4, 2, 16, 0}, {6, 2, 48, 0}};
  } else if (depth == 32) {  // A is in lanes 0-31 only
    runs_a = {{0, 8, 0, 0}, {8, 8, 16, 0}};
    runs_b = {{0, 8, 0, 0}, {8, 8, 32, 0}, {16, 8, 16, 0}, {24, 8, 48, 0}};
    pairs = {{0, 4, 0, 0}, {4, 4, 16, 0}};
  } else {
    runs_a = {{0, 8, 0, 0}, {8, 8, 32, 0}, {16, 8, 16, 0}, {24, 8, 48, 0}};
    runs_b = {{0, 16, 0, 0}, {16, 16, 32, 0}, {32, 16, 16, 0}, {48, 16, 48, 0}};
    pairs = {{0, 4, 0, 0}, {4, 4, 32, 0}, {8, 4, 16, 0}, {12, 4, 48, 0}};
  }
  set_result_gfx12(instruction);
  return instruction;
}

inline std::vector<MatrixInstruction> all_swmmac() {
  std::vector<MatrixInstruction> all;
  for (const int wave : {32, 64}) {
    all.push_back(swmmac("v_swmmac_f32_16x16x32_f16", f16, f16, f32, 32, wave));
    all.push_back(swmmac("v_swmmac_f32_16x16x32_bf16", bf16, bf16, f32, 32, wave));
    all.push_back(swmmac("v_swmmac_f16_16x16x32_f16", f16, f16, f16, 32, wave));
    all.push_back(swmmac("v_swmmac_bf16_16x16x32_bf16", bf16, bf16, bf16, 32, wave));
    all.push_back(swmmac("v_swmmac_i32_16x16x32_iu8", i8, i8, i32, 32, wave));
    all.push_back(swmmac("v_swmmac_i32_16x16x32_iu4", i4, i4, i32, 32, wave));
    all.push_back(swmmac("v_swmmac_i32_16x16x64_iu4", i4, i4, i32, 64, wave));
    all.push_back(swmmac("v_swmmac_f32_16x16x32_fp8_fp8", fp8, fp8, f32, 32, wave));
    all.push_back(swmmac("v_swmmac_f32_16x16x32_fp8_bf8", fp8, bf8, f32, 32, wave));
    all.push_back(swmmac("v_swmmac_f32_16x16x32_bf8_fp8", bf8, fp8, f32, 32, wave));
    all.push_back(swmmac("v_swmmac_f32_16x16x32_bf8_bf8", bf8, bf8, f32, 32, wave));
  }
  return all;
}

}  // namespace hipemu::matrix_test
