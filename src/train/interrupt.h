// SIGINT and SIGTERM as a request to stop.
#pragma once

#include <signal.h>

namespace hearth::train {

// While one lives, the first SIGINT or SIGTERM only sets a flag; a second one of the same kind ends the
// process, as usual. One at a time may be in use.
class InterruptGuard {
 public:
  // `says` is what the first one prints on standard error: a literal, or nothing.
  explicit InterruptGuard(bool enabled,
                          const char* says = "\nstopping after this step; once more to stop at once\n");
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  bool requested() const { return signal() != 0; }
  int signal() const;  // the last of those that came; 0: none

 private:
  bool enabled_;
  struct sigaction interrupt_before_ {
  }, terminate_before_{};
};

}  // namespace hearth::train
