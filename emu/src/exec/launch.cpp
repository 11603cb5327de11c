// A launch from beginning to end: registers, memory, workgroups over threads, the first fault.
#include "exec/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "exec/check/report.h"
#include "exec/dispatch.h"
#include "exec/initial_state.h"
#include "exec/interpreter.h"
#include "exec/kernel_arguments.h"
#include "exec/statistics_report.h"
#include "exec/trace.h"
#include "exec/worker_pool.h"

namespace hipemu {
namespace {

// A kernel with calls through pointers or recursion does not know how much stack it needs.
constexpr uint32_t dynamic_stack_bytes = 32 << 10;

uint64_t environment_number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 0);
  return *end == '\0' ? value : otherwise;
}

// Decoded code is kept as long as the code object is loaded.
std::shared_ptr<Program> program_for(const Launch& launch, int wave_size) {
  struct Entry {
    std::weak_ptr<const LoadedCode> code;
    std::shared_ptr<Program> program;
  };
  static std::mutex mutex;
  static auto& programs = *new std::map<std::pair<const LoadedCode*, int>, Entry>;
  const std::lock_guard lock(mutex);
  std::erase_if(programs, [](const auto& item) { return item.second.code.expired(); });
  Entry& entry = programs[{launch.code.get(), wave_size}];
  if (entry.program == nullptr) {
    entry.code = launch.code;
    entry.program = std::make_shared<Program>(launch.code->code(), *launch.chip, wave_size);
  }
  return entry.program;
}

int wave_size_of(const Launch& launch) {
  if (launch.chip->generation == Generation::gfx9) return 64;
  return launch.kernel->descriptor.wave32() ? 32 : 64;
}

uint64_t next_serial() {
  static std::atomic<uint64_t> serial{0};
  return serial.fetch_add(1) + 1;
}

thread_local Statistics* current_statistics = nullptr;

// What the threads of one dispatch share.
struct Progress {
  std::atomic<uint64_t> next{0};
  uint64_t groups = 0;
  std::mutex mutex;
  std::optional<Fault> fault;
  Statistics statistics;
  std::atomic<uint64_t> instructions{0};
};

void count_instructions(const Workgroup& group, Progress& progress) {
  uint64_t sum = 0;
  for (const Wave& wave : group.waves) sum += wave.instructions;
  progress.instructions.fetch_add(sum, std::memory_order_relaxed);
}

void record_fault(Progress& progress, Dispatch& dispatch, const KernelFault& fault, const Wave* culprit) {
  const std::lock_guard lock(progress.mutex);
  dispatch.failed = true;
  if (progress.fault) return;
  progress.fault = Fault{fault.kind, culprit != nullptr ? describe(fault, *culprit) : fault.message};
}

// Not of the kernel's making: the host is out of memory, or has no LLVM. An exception must not leave the
// thread of a worker.
void record_failure(Progress& progress, Dispatch& dispatch, const std::exception& error) {
  const Kernel& kernel = *dispatch.launch->kernel;
  record_fault(
      progress, dispatch,
      {Fault::Kind::abort, fmt::format("hipemu: kernel {} could not be run: {}", kernel.name, error.what())},
      nullptr);
}

// One thread's share of an ordinary launch: one workgroup after the other, in order. A workgroup that waits
// for an earlier one therefore always finds it finished or running.
void run_share(Dispatch& dispatch, Progress& progress) {
  thread_local Workgroup group;  // keeps its memory from launch to launch
  while (!dispatch.failed.load(std::memory_order_relaxed)) {
    const uint64_t id = progress.next.fetch_add(1, std::memory_order_relaxed);
    if (id >= progress.groups) return;
    const Wave* culprit = nullptr;
    try {
      begin_workgroup(group, dispatch, id);
      run_workgroups({&group, 1}, dispatch, culprit);
    } catch (const KernelFault& fault) {
      record_fault(progress, dispatch, fault, culprit);
    } catch (const std::exception& error) {
      record_failure(progress, dispatch, error);
      return;
    }
    count_instructions(group, progress);
  }
}

// A cooperative launch: all workgroups are resident at once, on one thread, so that none can wait for a
// thread that is busy elsewhere.
void run_cooperative(Dispatch& dispatch, Progress& progress) {
  std::vector<Workgroup> groups;
  const Wave* culprit = nullptr;
  try {
    groups.resize(progress.groups);
    for (std::size_t i = 0; i < groups.size(); ++i) begin_workgroup(groups[i], dispatch, i);
    run_workgroups(groups, dispatch, culprit);
  } catch (const KernelFault& fault) {
    record_fault(progress, dispatch, fault, culprit);
  } catch (const std::exception& error) {
    record_failure(progress, dispatch, error);
  }
  for (const Workgroup& group : groups) count_instructions(group, progress);
}

void prepare(Dispatch& dispatch, const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  dispatch.launch = &launch;
  dispatch.serial = next_serial();
  dispatch.checks = check_options();
  dispatch.wave_size = wave_size_of(launch);
  dispatch.program = program_for(launch, dispatch.wave_size);
  dispatch.lds_size = kernel.descriptor.group_segment_size + launch.dynamic_lds;
  dispatch.scratch_size = (kernel.descriptor.private_segment_size + 15) / 16 * 16;
  if (kernel.uses_dynamic_stack) dispatch.scratch_size += dynamic_stack_bytes;
  dispatch.vector_rows = std::min<uint32_t>(kernel.vgpr_count == 0 ? 256 : kernel.vgpr_count, 256);
  dispatch.seed = environment_number("HIPEMU_SEED", 1) * 0x9e3779b97f4a7c15ull;
  const uint64_t millions = environment_number("HIPEMU_WATCHDOG", 1000);
  dispatch.instruction_limit = millions == 0 ? ~0ull : millions * 1000000;
  dispatch.tracing = trace_enabled();
  dispatch.grid_groups = static_cast<uint64_t>(launch.grid[0]) * launch.grid[1] * launch.grid[2];
}

}  // namespace

Statistics* statistics() { return current_statistics; }

std::optional<Fault> run(const Launch& launch, uint64_t* wave_instructions) {
  Dispatch dispatch;
  prepare(dispatch, launch);
  const KernelArguments arguments(launch, dispatch.lds_size, dispatch.scratch_size);
  dispatch.kernarg = arguments.data();
  dispatch.packet = arguments.packet();

  Progress progress;
  progress.groups = dispatch.grid_groups;
  const bool counting = statistics_enabled();
  // Traces of several threads would be hard to read.
  const bool alone = dispatch.tracing || launch.cooperative;
  const int threads = alone ? 1 : static_cast<int>(std::min<uint64_t>(worker_count(), progress.groups));
  run_on_workers(threads, [&] {
    Statistics mine;
    current_statistics = counting ? &mine : nullptr;
    if (launch.cooperative)
      run_cooperative(dispatch, progress);
    else
      run_share(dispatch, progress);
    current_statistics = nullptr;
    if (counting) {
      const std::lock_guard lock(progress.mutex);
      progress.statistics.add(mine);
    }
  });
  if (counting) report_statistics(launch, dispatch.wave_size, progress.statistics);
  if (wave_instructions != nullptr) *wave_instructions = progress.instructions;
  return progress.fault;
}

}  // namespace hipemu
