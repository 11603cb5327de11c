// Products that elementwise nodes read several times, and nobody else: all of it becomes one step, and the
// product is not stored. Such is the gradient of silu(gate) * up.
#pragma once

#include "plan/fusion.h"

namespace hearth {

void join_product_readers(const LinearGraph& graph, const Drafts& drafts, const Backend& backend,
                          Grouping& grouping);

}  // namespace hearth
