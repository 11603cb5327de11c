// Heads that go through rope and then into a concat, as the gradients of queries and keys do.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

// Whether it is a concat of heads: (sequences, time, heads, features) each.
bool joins_heads(const Step& step);

// Ropes become part of the step of the concat that alone reads their results, where its first parts are such
// ropes, by the same angles, and where the backend wants it (turns_parts). Returns how many did.
std::size_t join_turned_parts(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
