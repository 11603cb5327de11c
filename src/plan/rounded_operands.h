// Operands that products round before they multiply, as where activations in f32 meet weights in bf16.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

// A value that only products read which round it to one type (Backend::rounds_operand) is stored in that type
// by the step that computes it: the same numbers by a shorter way, or, where a step computes results of that
// type with fewer digits, about the same. Returns how many are.
std::size_t round_operands(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
