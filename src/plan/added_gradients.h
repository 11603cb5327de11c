// Gradients of norms that are added to another gradient, as those of residual connections are.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

// Whether the step adds another gradient to the one by x.
bool adds_gradient(const Step& step);

// Such a sum becomes part of the step of rms_norm_grads or layer_norm_grads whose gradient by x it alone
// reads, where the other summand is there before and the backend wants it (Backend::adds_gradient). Returns
// how many did.
std::size_t join_added_gradients(const LinearGraph& graph, const Backend& backend, Drafts& drafts);

}  // namespace hearth
