// Where the values of drafted steps live.
#pragma once

#include <vector>

#include "plan/drafts.h"
#include "plan/plan.h"

namespace hearth {

struct Placement {
  std::vector<Place> places;            // per root
  std::vector<std::size_t> scratch;     // per step: where in the arena its kernel's scratch memory is
  std::size_t bytes = 0, in_place = 0;  // of intermediate values; how many were written over others
};

// Gives every root a place: leaves theirs, results a buffer each, everything else a part of the arena from
// its lifetime (memory.h). An elementwise step may write over an input that ends there, and a result over the
// leaf that it replaces. A step's scratch memory lives in the arena during that step. Sets the plan's leaves,
// output_bytes, donors, results, arena_bytes and their stats.
Placement place_values(const LinearGraph& graph, const Drafts& drafts,
                       const std::vector<std::size_t>& scratch_bytes,
                       const std::vector<Replacement>& replacements, Plan& plan);

}  // namespace hearth
