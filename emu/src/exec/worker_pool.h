// The host threads that kernels run on. One pool for the process; it lives as long as the process does.
#pragma once

#include <functional>

namespace hipemu {

// Threads that a dispatch may use, the calling one included: HIPEMU_THREADS, or as many as the machine has.
int worker_count();

// Calls `body` on the calling thread and on up to `threads` - 1 others at the same time, and returns when all
// calls have. `body` must not throw.
void run_on_workers(int threads, const std::function<void()>& body);

}  // namespace hipemu
