// A norm that only one product reads, as part of that product: a launch less.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"

namespace hearth {

// Where the backend takes it (Backend::takes_norm). Returns how many norms have become part of a product.
std::size_t join_norms(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
