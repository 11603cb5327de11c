// Products some of whose columns are heads of queries and keys that rope turns: the turned ones can lie where
// the product has them, so that a kernel turns them before it stores them.
#pragma once

#include "device/backend.h"
#include "plan/drafts.h"

namespace hearth {

// Of the drafts, all but the steps must be there. The layouts that come of it are the caller's work.
TurnedProducts find_turned_heads(const LinearGraph& graph, const Drafts& drafts, const Backend& backend);

}  // namespace hearth
