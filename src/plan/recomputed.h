// Values that are computed again where they are read, instead of being stored: elementwise ones whose
// operands all their readers have at hand anyway. Such is silu(gate), which the gradient of silu(gate) * up
// reads together with gate.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/fusion.h"
#include "plan/linear_graph.h"

namespace hearth {

// Of the drafts, all but the steps must be there; the uses of such values become fewer.
void recompute_values(const LinearGraph& graph, const Backend& backend, Drafts& drafts, Grouping& grouping);

}  // namespace hearth
