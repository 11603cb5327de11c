// The expression behind a product of kernels/wgmma.h, which computes it on pairs of neighbours in registers
// and leaves results in slots of shared memory. The copy engine brings and stores what lies in slots.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gpu/matmul_kernel.h"

namespace hearth::gpu {

// Of what slots hold.
inline DType slot_type(const MatrixProduct& product) { return product.a.dtype; }
// Inputs of the expression that the copy engine can bring: of that type, laid out like the result.
std::vector<std::size_t> slot_inputs(const MatrixProduct& product);
// Whether the copy engine can store the results.
bool slot_results(const MatrixProduct& product);

// The text of `struct Finish`, and how it is passed: inputs that are not in slots, with their places, then
// constants.
struct SlotFinishText {
  std::string structure, parameters, members;

  SlotFinishText(const MatrixProduct& product, const std::vector<std::size_t>& in_slots);
};

}  // namespace hearth::gpu
