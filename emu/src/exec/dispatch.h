// One kernel launch while it runs: the workgroups, their waves, and what they share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/check/lds_shadow.h"
#include "exec/check/options.h"
#include "exec/decode.h"
#include "exec/launch.h"
#include "exec/statistics.h"
#include "exec/wave.h"

namespace hipemu {

struct Workgroup {
  std::array<uint32_t, 3> id{};
  uint64_t linear_id = 0;
  std::byte* lds = nullptr;
  uint32_t lds_size = 0;
  uint32_t barrier_epoch = 0;  // barriers passed so far
  LdsShadow lds_shadow;
  Dispatch* dispatch = nullptr;
  std::vector<Wave> waves;
  std::vector<std::byte> lds_storage, scratch_storage;
};

struct Dispatch {
  const Launch* launch = nullptr;
  uint64_t serial = 0;  // counts launches of the process
  CheckOptions checks;
  int wave_size = 32;
  std::shared_ptr<Program> program;
  uint32_t lds_size = 0, scratch_size = 0;  // per workgroup, per lane
  uint32_t vector_rows = 0;                 // vector registers per wave, accumulators not counted
  std::byte* kernarg = nullptr;             // with the hidden arguments
  std::byte* packet = nullptr;              // the AQL packet a kernel can look at
  uint64_t seed = 0;
  uint64_t instruction_limit = 0;  // per wave
  bool tracing = false;

  // Cooperative launches: how many workgroups wait at the barrier of the whole grid, and how often it has
  // opened.
  std::atomic<uint64_t> grid_barrier_waiting{0};
  std::atomic<uint64_t> grid_barrier_epoch{0};
  uint64_t grid_groups = 0;

  std::atomic<bool> failed{false};  // a fault was found: everyone stops
};

// The counters of the thread that runs this wave, or null when nobody counts.
Statistics* statistics();

// What a thread of the block is called: (x, y, z).
std::array<uint32_t, 3> thread_of(const Wave& wave, int lane);

}  // namespace hipemu
