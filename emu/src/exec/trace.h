// Prints what is executed: HIPEMU_TRACE.
#pragma once

#include <string>

#include "exec/wave.h"

namespace hipemu {

// Where HIPEMU_TRACE says: "stderr", "stdout" or a file. False when it is not set.
bool trace_enabled();

// Executes the operation and prints it with the registers it has changed.
void trace(Wave& wave, const Operation& op);

}  // namespace hipemu
