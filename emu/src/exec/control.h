// What instructions ask of the dispatcher.
#pragma once

#include "exec/wave.h"

namespace hipemu {

void reach_barrier(Wave& wave);
void reach_grid_barrier(Wave& wave);

// The kernel signalled the host: do what the packets in the host-call buffer ask for (printf, assertions).
void serve_host_calls(Wave& wave);

}  // namespace hipemu
