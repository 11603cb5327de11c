// Norms of the results of products, as where a residual stream is normed after each addition.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

// A rms_norm without weights becomes part of the product's step whose result it is the only one to read,
// where the backend wants it (norms_result). Returns how many did.
std::size_t join_norms_of_results(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
