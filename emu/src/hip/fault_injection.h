// Faults on demand, for programs that want to see what they do when a call fails.
#pragma once

#include "hip/hip_types.h"

namespace hipemu::hip {

// What the call of `function` that begins now must fail with; hipSuccess when it may go on.
//
// HIPEMU_FAIL is a list of FUNCTION:N=ERROR, separated by commas: the Nth call of that function fails, and
// with N+ every later one too. ERROR is the name of an error, or `lost`: then the device is gone, what was
// queued is dropped, and every call from then on fails with hipErrorLaunchFailure.
hipError_t injected_fault(const char* function) noexcept;

}  // namespace hipemu::hip
