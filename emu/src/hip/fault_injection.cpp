// Reads HIPEMU_FAIL, counts calls.
#include "hip/fault_injection.h"

#include <fmt/core.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hip/runtime.h"

namespace hipemu::hip {
namespace {

struct InjectedFault {
  std::string function;
  unsigned at = 1;  // calls of it until it happens
  bool for_good = false;
  bool loses_device = false;
  hipError_t error = hipSuccess;
};

std::optional<InjectedFault> parse(std::string_view text) {
  const size_t colon = text.find(':'), equals = text.find('=');
  if (colon == std::string_view::npos || equals == std::string_view::npos || equals < colon) return {};
  InjectedFault fault;
  fault.function = text.substr(0, colon);
  std::string_view number = text.substr(colon + 1, equals - colon - 1);
  if (number.ends_with('+')) {
    fault.for_good = true;
    number.remove_suffix(1);
  }
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), fault.at);
  if (problem != std::errc() || end != number.data() + number.size() || fault.at == 0) return {};
  const std::string_view error = text.substr(equals + 1);
  fault.loses_device = error == "lost";
  const std::optional<hipError_t> code = fault.loses_device ? hipErrorLaunchFailure : error_from_name(error);
  if (!code || *code == hipSuccess) return {};
  fault.error = *code;
  return fault;
}

// All of a list, or the part that is none.
std::vector<InjectedFault> parse_list(std::string_view text, std::string_view& wrong) {
  std::vector<InjectedFault> faults;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (auto fault = parse(part))
      faults.push_back(*fault);
    else
      wrong = part;
  }
  return faults;
}

class FaultInjection {
 public:
  FaultInjection() {
    if (const char* text = std::getenv("HIPEMU_FAIL")) set(text);
  }

  bool set(std::string_view text) {
    std::string_view wrong;
    auto faults = parse_list(text, wrong);
    if (!wrong.empty()) {
      fmt::print(stderr, "hipemu: '{}' is not a fault; expected FUNCTION:N=ERROR, e.g. {}\n", wrong,
                 "hipMalloc:3=hipErrorOutOfMemory");
      return false;
    }
    const std::lock_guard lock(mutex_);
    faults_ = std::move(faults);
    armed_ = lost_ || !faults_.empty();
    return true;
  }

  hipError_t next(const char* function) {
    if (!armed_.load(std::memory_order_relaxed)) return hipSuccess;
    const std::lock_guard lock(mutex_);
    if (lost_) return hipErrorLaunchFailure;
    for (InjectedFault& fault : faults_) {
      if (fault.at == 0 || fault.function != function) continue;
      if (--fault.at > 0) continue;
      if (fault.for_good) fault.at = 1;
      if (fault.loses_device) lose_devices();
      return fault.error;
    }
    return hipSuccess;
  }

 private:
  void lose_devices() {
    lost_ = true;
    for (const auto& device : devices()) device->sticky.store(hipErrorLaunchFailure);
  }

  std::atomic<bool> armed_ = false;
  std::mutex mutex_;
  std::vector<InjectedFault> faults_;
  bool lost_ = false;
};

FaultInjection& fault_injection() {
  static auto& instance = *new FaultInjection;
  return instance;
}

}  // namespace

hipError_t injected_fault(const char* function) noexcept {
  try {
    return fault_injection().next(function);
  } catch (...) {  // there is no device to lose
    return hipErrorNoDevice;
  }
}

}  // namespace hipemu::hip

// The same from within a program: replaces what HIPEMU_FAIL says, and counts from here on. Returns 0 for a
// text that it cannot read.
HIP_API int hipemuFail(const char* faults) { return hipemu::hip::fault_injection().set(faults) ? 1 : 0; }
