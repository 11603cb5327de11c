// Which instructions the code of a kernel has, by a disassembler, where one is installed.
#pragma once

#include <map>
#include <span>
#include <string>

namespace hearth::cli {

struct Instructions {
  int loads = 0;       // from global memory, into vector registers
  int wide_loads = 0;  // ... of 16 bytes per lane
  int matrix = 0;      // of the matrix unit
};

// LLVM's disassembler for AMD code; empty when there is none.
const std::string& disassembler();
// By name of the kernel. Empty when the code cannot be disassembled.
std::map<std::string, Instructions> count_instructions(std::span<const char> code);

}  // namespace hearth::cli
