// What eval() and compile() share.
#pragma once

#include <functional>

#include "plan/plan.h"

namespace hearth {

// The address of element (0, 0, ...) of an evaluated node.
void* first_element(const Node& leaf);

// Where a result of a plan that has run is.
Storage result_storage(const Plan& plan, std::size_t result,
                       const std::vector<std::shared_ptr<Buffer>>& outputs,
                       const std::function<const Storage&(std::uint32_t leaf)>& leaf_storage);

void set_last_plan_stats(const PlanStats& stats);

}  // namespace hearth
