// Products whose columns are two halves that an expression brings together, such as silu(gate) * up.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/fusion.h"
#include "plan/linear_graph.h"

namespace hearth {

// A product joins the group of elementwise nodes that reads it first, where all that this group reads of it
// is the left or the right half of its columns, and where the backend wants it (fuses_halves). If others read
// it, it is stored as well.
void join_halves(const LinearGraph& graph, const Drafts& drafts, const Backend& backend, Grouping& grouping);

}  // namespace hearth
