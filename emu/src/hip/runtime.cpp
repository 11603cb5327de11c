// Which devices there are, and the end of the process.
#include "hip/runtime.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "hip/stream.h"
#include "isa/disassembler.h"
#include "memory/address_space.h"

namespace hipemu::hip {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

struct ListedDevice {
  int physical = 0;  // place in HIPEMU's list
  const Chip* chip = nullptr;
  std::string_view target;
};

// As ROCm reads its variables: a list of indices (or GPU-<uuid>); the first entry that is none ends it.
void filter(std::vector<ListedDevice>& visible, const char* value) {
  std::vector<ListedDevice> kept;
  for (const std::string_view part : split(value)) {
    int index = -1;
    if (part.starts_with("GPU-")) {
      for (size_t i = 0; i < visible.size(); ++i)
        if (part.substr(4) == fmt::format("{:016x}", visible[i].physical + 1)) index = static_cast<int>(i);
    } else {
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size()) index = -1;
    }
    if (index < 0 || index >= static_cast<int>(visible.size())) break;
    bool duplicate = false;
    for (const auto& entry : kept) duplicate = duplicate || entry.physical == visible[index].physical;
    if (duplicate) break;
    kept.push_back(visible[index]);
  }
  visible = std::move(kept);
}

std::vector<std::unique_ptr<Device>> find_devices() {
  const char* list = std::getenv("HIPEMU");
  std::vector<ListedDevice> visible;
  for (const std::string_view entry : split(list && *list ? list : "gfx1100")) {
    const std::string_view name = entry.substr(0, entry.find('='));
    const Chip* chip = find_chip(name);
    if (!chip) {
      std::vector<std::string_view> known;
      for (const Chip& each : chips()) known.push_back(each.processor);
      fmt::print(stderr, "hipemu: HIPEMU names the chip '{}', which cannot be emulated; known are {}\n", name,
                 fmt::join(known, ", "));
      return {};
    }
    const std::string_view target = name.size() < entry.size() ? entry.substr(name.size() + 1) : chip->target;
    visible.push_back({static_cast<int>(visible.size()), chip, target});
  }
  if (const char* list_of_rocr = std::getenv("ROCR_VISIBLE_DEVICES")) filter(visible, list_of_rocr);
  // HIP's own variable; where it says nothing, the name that programs ported from CUDA know.
  const char* visible_list = std::getenv("HIP_VISIBLE_DEVICES");
  if (!visible_list || !*visible_list) visible_list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible_list && *visible_list) filter(visible, visible_list);

  std::vector<std::unique_ptr<Device>> found;
  for (const ListedDevice& listed : visible) {
    auto device = std::make_unique<Device>();
    device->index = static_cast<int>(found.size());
    device->physical = listed.physical;
    device->chip = listed.chip;
    device->target = listed.target;
    found.push_back(std::move(device));
  }
  return found;
}

const std::vector<std::unique_ptr<Device>>& device_list() {
  static const auto& list = *new std::vector<std::unique_ptr<Device>>(find_devices());
  return list;
}

thread_local int current_index = 0;

struct ExitState {
  std::atomic<bool> shutting_down{false};
  std::mutex mutex;
  std::condition_variable changed;
  int workers = 0;
};
ExitState& exit_state() {
  static auto& state = *new ExitState;
  return state;
}
thread_local bool on_worker = false;

// Runs before the destructors of anything that was made before the first stream got its thread. What is
// queued is dropped, as on a GPU whose process ends. What runs gets a moment to finish: it uses memory that
// is about to go.
void at_exit(int status, void*) {
  ExitState& state = exit_state();
  if (state.shutting_down.exchange(true)) return;
  stop_all_streams();
  std::unique_lock lock(state.mutex);
  const int mine = on_worker ? 1 : 0;  // a host function that calls exit
  if (state.changed.wait_for(lock, std::chrono::seconds(2), [&] { return state.workers <= mine; })) {
    lock.unlock();
    join_ended_threads();
    return;
  }
  // A kernel that does not end must not keep the process: nor may it run on while memory is torn down.
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

bool shutting_down() noexcept { return exit_state().shutting_down.load(std::memory_order_acquire); }

void expect_worker() {
  ExitState& state = exit_state();
  static std::once_flag once;
  std::call_once(once, [] {
    // Both are made before the handler is registered, so they go after it has run.
    (void)address_space();
    Disassembler::prepare();
    on_exit(at_exit, nullptr);
    // The threads of the streams do not exist in a child: the library is of no use there.
    pthread_atfork(nullptr, nullptr,
                   [] { exit_state().shutting_down.store(true, std::memory_order_release); });
  });
  const std::lock_guard lock(state.mutex);
  ++state.workers;
}

WorkerScope::WorkerScope() { on_worker = true; }

WorkerScope::~WorkerScope() {
  ExitState& state = exit_state();
  const std::lock_guard lock(state.mutex);
  --state.workers;
  state.changed.notify_all();
}

const std::vector<std::unique_ptr<Device>>& devices() {
  const auto& list = device_list();
  require(!list.empty(), hipErrorNoDevice);
  return list;
}

Device& device_at(int index) {
  const auto& list = devices();
  require(index >= 0 && index < static_cast<int>(list.size()), hipErrorInvalidDevice);
  return *list[index];
}

int current_device_index() { return current_index; }
Device& current_device() { return device_at(current_index); }
void set_current_device(int index) {
  device_at(index);
  current_index = index;
}

void check_sticky(const Device& device) {
  const hipError_t error = device.sticky.load(std::memory_order_acquire);
  if (error != hipSuccess) throw Failure(error);
}

void report_fault(Device& device, const Fault& fault, const std::string& kernel) {
  hipError_t code = hipErrorLaunchFailure;
  switch (fault.kind) {
    case Fault::Kind::illegal_address:
      code = hipErrorIllegalAddress;
      break;
    case Fault::Kind::timeout:
      code = hipErrorLaunchTimeOut;
      break;
    case Fault::Kind::assertion:
      code = hipErrorAssert;
      break;
    default:
      break;
  }
  hipError_t none = hipSuccess;
  if (!device.sticky.compare_exchange_strong(none, code)) return;
  std::string report = fault.report;
  if (report.empty()) report = "kernel " + kernel + " failed";
  if (report.back() != '\n') report += '\n';
  std::fputs(report.c_str(), stderr);
  std::fflush(stderr);
  const char* abort_wanted = std::getenv("HIPEMU_ABORT");
  if (abort_wanted && std::string_view(abort_wanted) == "1") std::abort();
}

bool old_abi() {
  static const bool old = [] {
    if (const char* wanted = std::getenv("HIPEMU_HIP_ABI")) return std::string_view(wanted) == "5";
    Dl_info info{};
    if (!dladdr(reinterpret_cast<const void*>(&old_abi), &info) || !info.dli_fname) return false;
    return std::string_view(info.dli_fname).ends_with(".so.5");
  }();
  return old;
}

int memory_type_number(MemoryType type) {
  switch (type) {
    case MemoryType::host:
      return old_abi() ? 0 : 1;
    case MemoryType::device:
      return old_abi() ? 1 : 2;
    case MemoryType::managed:
      return old_abi() ? 4 : 3;
    case MemoryType::unregistered:
      break;
  }
  return 0;
}

}  // namespace hipemu::hip
