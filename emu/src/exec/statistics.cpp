// Adding counters up.
#include "exec/statistics.h"

namespace hipemu {

void Statistics::add(const Statistics& other) {
  for (std::size_t i = 0; i < instructions.size(); ++i) instructions[i] += other.instructions[i];
  for (std::size_t i = 0; i < bytes_read.size(); ++i) {
    bytes_read[i] += other.bytes_read[i];
    bytes_written[i] += other.bytes_written[i];
  }
  lds_accesses += other.lds_accesses;
  lds_conflict_cycles += other.lds_conflict_cycles;
  atomics += other.atomics;
  barriers += other.barriers;
  active_lanes += other.active_lanes;
  possible_lanes += other.possible_lanes;
  for (const auto& [name, count] : other.mnemonics) mnemonics[name] += count;
}

}  // namespace hipemu
