// What registers hold when a wave begins.
#pragma once

#include "exec/dispatch.h"

namespace hipemu {

// Sets `group` up as block `linear_id` of the grid, with all its waves at the entry of the kernel. Memory of
// the group is kept from one use to the next.
void begin_workgroup(Workgroup& group, Dispatch& dispatch, uint64_t linear_id);

}  // namespace hipemu
