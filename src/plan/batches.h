// Small steps that do the same to different values, as one: an optimiser's update of many parameters.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"

namespace hearth {

// Where the backend takes such steps (Backend::most_parts). Steps on leaves alone move to the first of their
// kind, others to the last, as long as nothing needs their results before; the order stays one in which every
// value is computed before it is read. Returns how many steps have become part of another.
std::size_t batch_steps(const LinearGraph& graph, const Backend& backend, std::vector<DraftStep>& steps);

}  // namespace hearth
