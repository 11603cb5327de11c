// The state of a running wave, its workgroup and its dispatch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "exec/operation.h"
#include "isa/chip.h"
#include "isa/instruction.h"

namespace hipemu {

struct Workgroup;
struct Dispatch;

// Thrown by an instruction; whoever runs the wave adds where it happened.
struct KernelFault {
  Fault::Kind kind;
  std::string message;
  int lane = -1;         // when one lane is to blame
  uint64_t address = 0;  // when an address is
};

struct Wave {
  enum class State : uint8_t { running, at_barrier, at_grid_barrier, yielded, ended };

  uint64_t pc = 0;  // address of the next instruction
  State state = State::running;
  bool scc = false;
  uint32_t mode = 0;  // bits 0-3 rounding, 4-7 denormals, as in the MODE register
  int lanes = 32;
  int number = 0;               // in the workgroup
  uint64_t initial_exec = 0;    // lanes that have a thread
  uint64_t missed_barrier = 0;  // lanes that were not there when the wave reached a barrier
  uint64_t missed_barrier_pc = 0;
  const Operation* operation = nullptr;  // being executed, for reports
  uint64_t operation_pc = 0;
  uint64_t instructions = 0;  // executed so far
  uint64_t grid_epoch = 0;    // of the grid barrier it waits for
  // gfx9's indexing mode (s_set_gpr_idx_on): which operands of vector instructions are moved by M0. Bits 0 to
  // 2 sources, bit 3 the destination.
  uint8_t index_mode = 0;
  Workgroup* group = nullptr;
  Dispatch* dispatch = nullptr;

  alignas(16) std::array<uint32_t, scalar::count> scalars{};
  std::vector<uint32_t> vectors;  // row r, lane l at [r * lanes + l]; rows 256 and up are the accumulators
  uint32_t vector_rows = 0;       // rows below 256 that the kernel may use

  std::byte* scratch = nullptr;  // lanes * scratch_size bytes; lane l begins at l * scratch_size
  uint32_t scratch_size = 0;

  // One bit per lane for registers that hold what was never written to memory; empty when not checked.
  std::vector<uint64_t> undefined;
  int undefined_rows = 0;  // how many of them have a bit set

  uint32_t* row(uint32_t index) { return vectors.data() + static_cast<std::size_t>(index) * lanes; }

  uint64_t exec() const { return mask(scalar::exec); }
  uint64_t vcc() const { return wide(scalar::vcc); }
  uint64_t wide(uint32_t index) const {
    uint64_t value;
    std::memcpy(&value, &scalars[index], sizeof value);
    return value;
  }
  // A lane mask: one register in wave32, two in wave64.
  uint64_t mask(uint32_t index) const { return lanes == 32 ? scalars[index] : wide(index); }
  void set_mask(uint32_t index, uint64_t value) {
    set_scalar(index, static_cast<uint32_t>(value));
    if (lanes == 64 && index != scalar::null) scalars[index + 1] = static_cast<uint32_t>(value >> 32);
  }
  uint32_t get_scalar(uint32_t index) const {
    return index < scalar::vccz ? scalars[index] : computed_scalar(index);
  }
  void set_scalar(uint32_t index, uint32_t value) {
    if (index != scalar::null) scalars[index] = value;
  }
  uint64_t get_scalar64(uint32_t index) const {
    return index < scalar::vccz && index != scalar::null ? wide(index) : get_scalar(index);
  }
  void set_scalar64(uint32_t index, uint64_t value) {
    if (index == scalar::null) return;
    std::memcpy(&scalars[index], &value, sizeof value);
  }
  uint32_t computed_scalar(uint32_t index) const {
    switch (index) {
      case scalar::vccz:
        return mask(scalar::vcc) == 0;
      case scalar::execz:
        return exec() == 0;
      case scalar::scc:
        return scc;
      default:
        return 0;
    }
  }
};

}  // namespace hipemu
