// What is remembered beside a workgroup's LDS while it runs, for the checks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/check/options.h"

namespace hipemu {

// Counts the synchronising accesses of one dispatch. All its workgroups share one.
struct RaceClock;

struct LdsShadow {
  // Called when a workgroup begins, with the serial of its dispatch. LDS counts as never written then.
  void begin(uint32_t lds_bytes, const CheckOptions& checks, uint64_t dispatch_serial);

  std::vector<uint8_t> written;  // one byte per byte: 1 once written; empty when not checked

  // Who touched four bytes of LDS last; see races.h.
  struct Granule {
    uint64_t writer = 0, reader = 0;
  };
  std::vector<Granule> granules;  // empty when not checked

  // Synchronisation through memory. What a wave has acquired counts for the whole group after a barrier.
  struct Acquired {
    uint32_t global = 0, lds = 0;  // everything stamped before is ordered before what the wave does next
    uint32_t epoch = 0;            // of the barrier up to which the others' were merged in
    uint64_t grid_epoch = 0;       // the same for barriers of the grid
    // What the atomic that is being done has found: acquired when it turns out to return something.
    uint32_t found_global = 0, found_lds = 0;
  };
  std::array<Acquired, 64> acquired{};  // by wave
  uint32_t lds_clock = 0;
  std::shared_ptr<RaceClock> global_clock;
  uint64_t serial = 0;  // of the dispatch that the clock belongs to

  // The latest loads of memory that nobody had written, so that a report can name them.
  struct UndefinedLoad {
    uint64_t address = 0, pc = 0;
    uint16_t wave = 0, row = 0;
    uint8_t lane = 0;
    enum class Space : uint8_t { global, lds, scratch } space = Space::global;
  };
  std::array<UndefinedLoad, 32> undefined_loads{};
  uint32_t undefined_load_count = 0;
};

}  // namespace hipemu
