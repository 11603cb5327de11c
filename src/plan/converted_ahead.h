// Weights that products convert to numbers first, as where many rows are multiplied with quantised ones.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

// A product converts the weights of the next one of the same sizes on the side (Step::converts), where the
// backend wants it (converts_weights): memory has time for that while products keep the arithmetic busy.
// Products of the same sizes, as those of neighbouring layers are, take as long as each other. Returns how
// many matrices are converted so.
std::size_t convert_ahead(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
