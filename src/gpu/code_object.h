// What compiled code says of its kernels: registers, memory, spills. Reads AMD code objects and NVIDIA
// cubins; no device is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hearth::gpu {

struct KernelResources {
  std::string name;
  int vector_registers = 0;             // per lane; on NVIDIA the registers of a thread
  int accumulation_registers = 0;       // per lane (AMD's matrix units), part of vector_registers
  std::optional<int> scalar_registers;  // per wave; NVIDIA has no such
  // Registers that went to memory for want of room; NVIDIA only tells the size of the stack.
  std::optional<int> vector_spills, scalar_spills;
  std::uint32_t shared_bytes = 0;   // per block, besides what a launch asks for
  std::uint32_t scratch_bytes = 0;  // per lane: spills and arrays that are not in registers
};

struct CodeObject {
  std::string architecture;  // "gfx1100", "sm_90"
  std::vector<KernelResources> kernels;
};

// Throws ValueError for anything that is not the code of a GPU, however damaged.
CodeObject read_code_object(std::span<const char> bytes);

}  // namespace hearth::gpu
