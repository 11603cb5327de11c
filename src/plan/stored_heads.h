// A product that gives queries, keys and values, the rope of the first two and the rows of a cache that the
// last two become, as one step: two launches less for every layer of a language model.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"

namespace hearth {

// Where the backend can (Backend::stores_heads). Returns how many steps are gone.
std::size_t join_stored_heads(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
