// Gradients of attention by queries, keys and values that come together in a concat.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

// They become one step with the concat that alone reads them, and with its ropes, where the backend wants it
// (joins_attention_gradients). Returns how many steps did.
std::size_t join_attention_gradients(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
