// Memory pools: what hipMallocAsync takes from.
#pragma once

#include "hip/hip_types.h"

namespace hipemu::hip {

// The pool that an allocation came from, or null.
hipMemPool_t pool_of(const void* pointer);
// The memory is about to be released: its pool no longer counts it.
void forget_pool_allocation(const void* pointer);

}  // namespace hipemu::hip
