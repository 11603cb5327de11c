// What was measured about the ways to compute on a GPU; see Config::enable_tuning and `hearth tune`.
#pragma once

#include <cstddef>

namespace hearth {

struct TuningStats {
  std::size_t entries = 0;  // in the tuning file: shapes with a fastest way
  std::size_t refused = 0;  // ways that computed something else or failed, over all entries
  std::size_t hits = 0;     // of this process: shapes found
  std::size_t misses = 0;   // of this process: shapes not found
  std::size_t tuned = 0;    // of this process: shapes measured
};

// For the file that Config::tuning_file names. Safe from any thread.
TuningStats tuning_stats();

}  // namespace hearth
