// Rows that products round before they multiply, rounded once instead of by each of their blocks.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

// Where the backend takes it (Backend::rounds_rows), the step that computes the rows does it. Returns how
// many products get such rows.
std::size_t round_ahead(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
