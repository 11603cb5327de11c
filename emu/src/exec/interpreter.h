// Runs waves.
#pragma once

#include <cstdint>
#include <span>

#include "exec/dispatch.h"

namespace hipemu {

// Executes one operation, in gfx9's indexing mode too.
void execute(Wave& wave, const Operation& op);

// Runs the workgroups of the span, all of which are resident, until they have ended or the dispatch has
// failed. Throws KernelFault; `culprit` is then the wave that caused it.
void run_workgroups(std::span<Workgroup> groups, Dispatch& dispatch, const Wave*& culprit);

}  // namespace hipemu
