// The loop over instructions, and the choice of the wave that runs next.
#include "exec/interpreter.h"

#include <fmt/format.h>

#include <bit>
#include <thread>

#include "exec/check/undefined.h"
#include "exec/control.h"
#include "exec/trace.h"

namespace hipemu {
namespace {

// Is it executed in gfx9's indexing mode?
bool is_indexed(const Wave& wave, const Operation& op) {
  return wave.index_mode != 0 && op.semantics->unit == Unit::vector;
}

// With the numbers of its registers moved by M0.
Operation indexed(const Wave& wave, const Operation& op) {
  Operation moved = op;
  const uint32_t index = wave.scalars[scalar::m0] & 0xff;
  for (int k = 0; k < 3; ++k)
    if ((wave.index_mode >> k & 1) != 0 && moved.source[k].from == From::vector)
      moved.source[k].index = static_cast<uint16_t>((moved.source[k].index + index) % 512);
  if ((wave.index_mode & 8) != 0 && moved.destination[0].from == From::vector)
    moved.destination[0].index = static_cast<uint16_t>((moved.destination[0].index + index) % 512);
  return moved;
}

}  // namespace

void execute(Wave& wave, const Operation& op) {
  if (is_indexed(wave, op)) [[unlikely]] {
    const Operation moved = indexed(wave, op);
    moved.run(wave, moved);
  } else {
    op.run(wave, op);
  }
}

namespace {

void count(const Wave& wave, const Operation& op, Statistics& statistics) {
  ++statistics.instructions[static_cast<std::size_t>(op.semantics->unit)];
  ++statistics.mnemonics[op.instruction.mnemonic];
  if (op.semantics->unit == Unit::vector) {
    statistics.active_lanes += static_cast<uint64_t>(std::popcount(wave.exec()));
    statistics.possible_lanes += static_cast<uint64_t>(wave.lanes);
  }
}

// Lanes that were not at a barrier which their wave has passed, and yet go on: some threads of the block were
// in another branch. (Threads that have returned stay inactive, so they are not meant.)
void check_missed_barrier(const Wave& wave, const Operation& op) {
  const Unit unit = op.semantics->unit;
  if (unit != Unit::global_memory && unit != Unit::lds) return;
  const uint64_t late = wave.exec() & wave.missed_barrier;
  if (late == 0 || !wave.dispatch->checks.barrier) return;
  const LoadedCode& code = *wave.dispatch->launch->code;
  const auto* barrier = reinterpret_cast<const void*>(wave.missed_barrier_pc);
  const std::string line = code.source_line(barrier);
  throw KernelFault{
      Fault::Kind::barrier,
      fmt::format("divergent barrier: the barrier at {:#x}{} was passed while {} of the threads of this "
                  "wave were in another branch",
                  code.virtual_address(barrier), line.empty() ? "" : " (" + line + ")",
                  std::popcount(wave.missed_barrier)),
      std::countr_zero(late)};
}

// What is looked at between instructions.
enum class Watch { nothing, checks, everything };

// Up to `quantum` instructions.
template <Watch W>
void run_wave(Wave& wave, Program& program, uint64_t quantum) {
  wave.state = Wave::State::running;
  uint64_t done = 0;
  while (done < quantum && wave.state == Wave::State::running) {
    wave.operation = nullptr;
    wave.operation_pc = wave.pc;
    const Operation& op = program.at(wave.pc);
    wave.operation = &op;
    wave.pc += op.size;
    ++done;
    if constexpr (W != Watch::nothing) {
      if (wave.undefined_rows > 0) {
        if (is_indexed(wave, op)) [[unlikely]]
          track_undefined(wave, indexed(wave, op));
        else
          track_undefined(wave, op);
      }
      if (wave.missed_barrier != 0) [[unlikely]]
        check_missed_barrier(wave, op);
    }
    if constexpr (W == Watch::everything) {
      if (Statistics* counters = statistics()) count(wave, op, *counters);
      if (wave.dispatch->tracing) {
        trace(wave, op);
        continue;
      }
    }
    execute(wave, op);
  }
  wave.instructions += done;
}

// A small generator: the interleaving of waves must follow from the seed alone.
struct Random {
  uint64_t state;
  uint64_t next() {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
};

// One workgroup while it is resident.
struct Resident {
  Workgroup* group;
  Random random;
  std::size_t live;  // waves that have not ended
  std::size_t next = 0;
};

bool runnable(const Wave& wave) {
  return wave.state == Wave::State::running || wave.state == Wave::State::yielded;
}

// Opens the barrier when everyone who still runs is there.
void open_barrier(Workgroup& group) {
  std::size_t waiting = 0, live = 0;
  for (const Wave& wave : group.waves) {
    live += wave.state != Wave::State::ended;
    waiting += wave.state == Wave::State::at_barrier;
  }
  if (live == 0 || waiting != live) return;
  ++group.barrier_epoch;
  for (Wave& wave : group.waves)
    if (wave.state == Wave::State::at_barrier) wave.state = Wave::State::running;
}

void pass_grid_barrier(Workgroup& group, const Dispatch& dispatch) {
  const uint64_t epoch = dispatch.grid_barrier_epoch.load(std::memory_order_acquire);
  for (Wave& wave : group.waves)
    if (wave.state == Wave::State::at_grid_barrier && epoch > wave.grid_epoch)
      wave.state = Wave::State::running;
}

// The wave that runs next: in turn, or at random when accesses are checked, so that a missing barrier shows.
// Null when all wait.
Wave* choose(Resident& resident, bool shuffle) {
  auto& waves = resident.group->waves;
  const std::size_t begin = shuffle ? resident.random.next() % waves.size() : resident.next;
  for (std::size_t i = 0; i < waves.size(); ++i) {
    const std::size_t candidate = (begin + i) % waves.size();
    if (runnable(waves[candidate])) {
      resident.next = candidate;
      return &waves[candidate];
    }
  }
  return nullptr;
}

uint64_t quantum_for(Resident& resident, bool shuffle) {
  // Without checks a wave runs until it waits; the limit lets another one answer a wave that spins.
  return shuffle ? 8 + resident.random.next() % 256 : 20000;
}

void check_watchdog(const Wave& wave, const Dispatch& dispatch) {
  if (wave.instructions < dispatch.instruction_limit) return;
  throw KernelFault{
      Fault::Kind::timeout,
      fmt::format("endless loop: this wave has executed {} million instructions and has not ended "
                  "(HIPEMU_WATCHDOG sets the limit, in millions; 0 for none)",
                  wave.instructions / 1000000)};
}

// Lets one wave run for a while. False when none of the group can.
bool step(Resident& resident, Dispatch& dispatch, bool shuffle, const Wave*& culprit) {
  Workgroup& group = *resident.group;
  if (dispatch.launch->cooperative) pass_grid_barrier(group, dispatch);
  Wave* wave = choose(resident, shuffle);
  if (wave == nullptr) return false;
  culprit = wave;
  const uint64_t quantum = quantum_for(resident, shuffle);
  if (dispatch.tracing || statistics() != nullptr)
    run_wave<Watch::everything>(*wave, *dispatch.program, quantum);
  else if (dispatch.checks.init || dispatch.checks.barrier)
    run_wave<Watch::checks>(*wave, *dispatch.program, quantum);
  else
    run_wave<Watch::nothing>(*wave, *dispatch.program, quantum);
  switch (wave->state) {
    case Wave::State::ended:
      --resident.live;
      open_barrier(group);
      break;
    case Wave::State::at_barrier:
      open_barrier(group);
      check_watchdog(*wave, dispatch);
      break;
    case Wave::State::yielded:
      resident.next = (resident.next + 1) % group.waves.size();
      if (resident.live == 1) std::this_thread::yield();  // what it waits for is in another workgroup
      [[fallthrough]];
    default:
      check_watchdog(*wave, dispatch);
  }
  if (wave->state == Wave::State::running && !shuffle)
    resident.next = (resident.next + 1) % group.waves.size();
  return true;
}

}  // namespace

void reach_barrier(Wave& wave) {
  wave.state = Wave::State::at_barrier;
  const uint64_t missing = wave.initial_exec & ~wave.exec();
  if (missing != 0 && wave.missed_barrier == 0) {
    wave.missed_barrier = missing;
    wave.missed_barrier_pc = wave.operation_pc;
  }
  if (Statistics* counters = statistics()) ++counters->barriers;
}

void reach_grid_barrier(Wave& wave) {
  Dispatch& dispatch = *wave.dispatch;
  if (!dispatch.launch->cooperative)
    throw KernelFault{Fault::Kind::barrier,
                      "a barrier of the whole grid in a kernel that was not launched cooperatively "
                      "(hipLaunchCooperativeKernel): it would never open"};
  wave.state = Wave::State::at_grid_barrier;
  wave.grid_epoch = dispatch.grid_barrier_epoch.load(std::memory_order_acquire);
  const uint64_t arrived = dispatch.grid_barrier_waiting.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (arrived < dispatch.grid_groups) return;
  dispatch.grid_barrier_waiting.store(0, std::memory_order_relaxed);
  dispatch.grid_barrier_epoch.fetch_add(1, std::memory_order_release);
}

void run_workgroups(std::span<Workgroup> groups, Dispatch& dispatch, const Wave*& culprit) {
  std::vector<Resident> residents;
  residents.reserve(groups.size());
  for (Workgroup& group : groups)
    residents.push_back(
        {&group, Random{dispatch.seed ^ group.linear_id * 0x2545f4914f6cdd1dull}, group.waves.size()});
  const bool shuffle = dispatch.checks.race;
  std::size_t live = residents.size();
  while (live > 0) {
    bool progress = false;
    for (Resident& resident : residents) {
      if (resident.live == 0) continue;
      if (dispatch.failed.load(std::memory_order_relaxed)) return;
      const bool advanced = step(resident, dispatch, shuffle, culprit);
      progress = progress || advanced;
      if (resident.live == 0) --live;
    }
    // Everyone here waits for the grid: the others are on other threads.
    if (!progress) std::this_thread::yield();
  }
}

}  // namespace hipemu
