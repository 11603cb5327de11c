// What a kernel did, counted: instructions by unit, bytes by kind of memory, LDS bank conflicts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "exec/operation.h"

namespace hipemu {

enum class Space : uint8_t { global, lds, scratch, scalar, count };

// Counters of one host thread; added up when the dispatch ends.
struct Statistics {
  std::array<uint64_t, 10> instructions{};  // by Unit
  std::array<uint64_t, static_cast<std::size_t>(Space::count)> bytes_read{}, bytes_written{};
  uint64_t lds_accesses = 0;         // instructions
  uint64_t lds_conflict_cycles = 0;  // cycles beyond the first that bank conflicts cost
  uint64_t atomics = 0;
  uint64_t barriers = 0;
  uint64_t active_lanes = 0, possible_lanes = 0;  // over vector instructions: how full the waves were
  std::map<std::string, uint64_t> mnemonics;

  void add(const Statistics& other);
};

}  // namespace hipemu
