// Signal handlers of the training loop.
#include "train/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

namespace hearth::train {
namespace {

std::atomic<int> interrupt_signal{0};
std::atomic<const char*> interrupt_text{""};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

extern "C" void request_interrupt(int number) {
  interrupt_signal.store(number);
  const char* const text = interrupt_text.load();
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

InterruptGuard::InterruptGuard(bool enabled, const char* says) : enabled_(enabled) {
  if (!enabled_) return;
  interrupt_signal.store(0);
  interrupt_text.store(says);
  struct sigaction action {};
  action.sa_handler = request_interrupt;
  // Back to what the system does by default after the first, so that the second ends the process.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &interrupt_before_);
  sigaction(SIGTERM, &action, &terminate_before_);
}

InterruptGuard::~InterruptGuard() {
  if (!enabled_) return;
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

int InterruptGuard::signal() const { return enabled_ ? interrupt_signal.load() : 0; }

}  // namespace hearth::train
