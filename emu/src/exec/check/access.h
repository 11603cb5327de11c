// One access of a wave to memory, as the checks see it.
//
// An instruction that touches memory asks `memory_checks` once. When it answers, the instruction calls
// before_access() ahead of touching the bytes and after_access() when it is done; without checks neither.
#pragma once

#include <cstdint>

#include "exec/check/options.h"
#include "exec/dispatch.h"
#include "exec/wave.h"
#include "memory/address_space.h"

namespace hipemu {

enum class AccessKind : uint8_t { load, store, atomic };

struct LaneAccess {
  Space space = Space::global;
  AccessKind kind = AccessKind::load;
  bool synchronising = false;  // a load or store that the compiler makes for an atomic or volatile one
  bool compares = false;       // an atomic that writes only when it finds what it expects
  bool moves_rows = true;      // data comes from or goes to vector registers
  uint8_t data_shift = 0;      // of stores: bits to skip in the data register
  uint16_t row = 0;            // first register of the data: destination of a load, source of a store
  uint32_t bytes = 4;          // per lane
  uint64_t base = 0;           // lane i touches base + offset[i]
  const uint32_t* offset = nullptr;
  uint64_t mask = 0;                 // lanes
  Allocation* allocation = nullptr;  // when one holds all of it; global memory only

  uint64_t address(int lane) const { return base + offset[lane]; }
};

// Null when nothing about memory is checked.
inline const CheckOptions* memory_checks(const Wave& wave) {
  if (wave.dispatch == nullptr) return nullptr;
  const CheckOptions& checks = wave.dispatch->checks;
  return checks.bounds || checks.init || checks.race ? &checks : nullptr;
}

void before_access(Wave& wave, const Operation& op, const LaneAccess& access);
void after_access(Wave& wave, const Operation& op, const LaneAccess& access);

// Global memory: throws KernelFault unless every lane's bytes lie in a live allocation.
void require_allocations(const LaneAccess& access);
// Throws KernelFault unless every lane's address is a multiple of its size. For atomics.
void require_alignment(const LaneAccess& access);

// Throws KernelFault for an address of global memory, naming the allocation that is nearest.
[[noreturn]] void fail_global(uint64_t address, uint64_t bytes, AccessKind kind, int lane);
// The same for LDS and scratch: `offset` is relative to their start, `size` what the kernel has.
[[noreturn]] void fail_lds(uint64_t offset, uint64_t bytes, uint32_t size, AccessKind kind, int lane);
[[noreturn]] void fail_scratch(uint64_t offset, uint64_t bytes, uint32_t size, AccessKind kind, int lane);

// A scalar load or store of consecutive bytes in global memory, checked.
void check_scalar_access(Wave& wave, const Operation& op, const Allocation& allocation, uint64_t address,
                         uint32_t bytes, AccessKind kind);

}  // namespace hipemu
