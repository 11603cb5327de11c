// Stamps of accesses, and their order.
#include "exec/check/races.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "exec/check/report.h"

namespace hipemu {
namespace {

// Stamps of LDS need not name dispatch and workgroup, so there is room for more.
struct LdsStamp {
  static constexpr int atomic_shift = 4, several_shift = 5, wave_shift = 6, time_shift = 12, epoch_shift = 38;
  static constexpr uint32_t last_time = (1u << 26) - 1, last_epoch = (1u << 26) - 1;

  uint64_t bits = 0;

  uint32_t mask() const { return static_cast<uint32_t>(bits & 15); }
  bool atomic() const { return (bits >> atomic_shift & 1) != 0; }
  bool several() const { return (bits >> several_shift & 1) != 0; }
  uint32_t wave() const { return static_cast<uint32_t>(bits >> wave_shift & 63); }
  uint32_t time() const { return static_cast<uint32_t>(bits >> time_shift) & last_time; }
  uint32_t epoch() const { return static_cast<uint32_t>(bits >> epoch_shift); }
};

constexpr uint64_t bit(int shift) { return 1ull << shift; }

// The bytes of a stamp after one more read, by the wave that it names (`again`) or by another one, and
// whether they are several. What several have read are bytes that each of them has: others are forgotten, for
// a wave may write those that it alone has read.
uint64_t read_bytes(uint32_t before, bool several, uint32_t now, bool again, int several_shift) {
  if (again && !several) return before | now;
  const uint32_t shared = again ? before : before & now;
  return shared == 0 ? now : shared | bit(several_shift);
}

std::shared_ptr<RaceClock> clock_of(uint64_t serial) {
  static std::mutex mutex;
  static auto& clocks = *new std::map<uint64_t, std::weak_ptr<RaceClock>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<RaceClock>& entry = clocks[serial];
  std::shared_ptr<RaceClock> clock = entry.lock();
  if (clock == nullptr) {
    clock = std::make_shared<RaceClock>();
    entry = clock;
    std::erase_if(clocks, [](const auto& item) { return item.second.expired(); });
  }
  return clock;
}

// What the group's other waves have acquired holds for this one after a barrier; after a barrier of the grid
// everything does.
LdsShadow::Acquired& acquired_by(Wave& wave) {
  Workgroup& group = *wave.group;
  LdsShadow& shadow = group.lds_shadow;
  LdsShadow::Acquired& mine = shadow.acquired[static_cast<std::size_t>(wave.number) % shadow.acquired.size()];
  if (mine.epoch != group.barrier_epoch) [[unlikely]] {
    for (const LdsShadow::Acquired& other : shadow.acquired) {
      mine.global = std::max(mine.global, other.global);
      mine.lds = std::max(mine.lds, other.lds);
    }
    mine.epoch = group.barrier_epoch;
  }
  const uint64_t grid_epoch = wave.dispatch->grid_barrier_epoch.load(std::memory_order_relaxed);
  if (mine.grid_epoch != grid_epoch) [[unlikely]] {
    RaceClock& clock = *shadow.global_clock;
    if (clock.grid_epoch.exchange(grid_epoch) != grid_epoch)
      clock.grid_time = clock.now.fetch_add(1, std::memory_order_relaxed) + 1;
    mine.grid_epoch = grid_epoch;
    mine.global = std::max(mine.global, clock.grid_time.load());
  }
  return mine;
}

// Does a store change nothing? Two waves that write the same are no trouble.
bool same_value(uint64_t granule_address, uint32_t byte_mask, const std::byte* value) {
  if (value == nullptr) return false;
  const auto* memory = reinterpret_cast<const std::byte*>(granule_address);
  for (int i = 0; i < 4; ++i)
    if ((byte_mask >> i & 1) != 0 && memory[i] != value[i]) return false;
  return true;
}

// The other writer is on another thread and stamps before it writes: what it writes may still be on its way.
// Waiting for it costs time only where a race is about to be reported.
bool same_value_soon(uint64_t granule_address, uint32_t byte_mask, const std::byte* value) {
  if (value == nullptr) return false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (!same_value(granule_address, byte_mask, value)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

std::string_view verb(bool writes) { return writes ? "written" : "read"; }

std::string describe_mine(const LaneAccess& access) {
  return access.kind == AccessKind::load ? "read" : access.kind == AccessKind::store ? "write" : "atomic";
}

}  // namespace

void LdsShadow::begin(uint32_t lds_bytes, const CheckOptions& checks, uint64_t dispatch_serial) {
  written.assign(checks.init ? lds_bytes : 0, 0);
  granules.resize(checks.race ? (lds_bytes + 3) / 4 : 0);
  if (!granules.empty())  // quicker than one by one
    std::memset(static_cast<void*>(granules.data()), 0, granules.size() * sizeof(Granule));
  acquired.fill({});
  lds_clock = 1;
  undefined_load_count = 0;
  if (checks.race && serial != dispatch_serial) {
    global_clock = clock_of(dispatch_serial);
    serial = dispatch_serial;
  }
}

RaceCheck::RaceCheck(Wave& wave, const LaneAccess& access)
    : wave_(wave), access_(access), acquired_(acquired_by(wave)) {
  // A store that is marked is one half of a conversation through memory.
  atomic_ = access.kind == AccessKind::atomic || access.synchronising;
  Workgroup& group = *wave.group;
  LdsShadow& shadow = group.lds_shadow;
  const bool advances = atomic_ && access.kind != AccessKind::load;
  if (advances) acquired_.found_global = acquired_.found_lds = 0;
  if (access.space == Space::lds) {
    const uint32_t time = advances ? ++shadow.lds_clock : shadow.lds_clock;
    stamp_ = static_cast<uint64_t>(std::min(group.barrier_epoch, LdsStamp::last_epoch))
                 << LdsStamp::epoch_shift |
             static_cast<uint64_t>(std::min(time, LdsStamp::last_time)) << LdsStamp::time_shift |
             static_cast<uint64_t>(wave.number & 63) << LdsStamp::wave_shift |
             static_cast<uint64_t>(atomic_) << LdsStamp::atomic_shift |
             static_cast<uint64_t>(access.compares) << LdsStamp::several_shift;
    return;
  }
  std::atomic<uint32_t>& clock = shadow.global_clock->now;
  uint32_t time = clock.load(std::memory_order_relaxed);
  if (advances && time < Stamp::last_time) time = clock.fetch_add(1, std::memory_order_acq_rel) + 1;
  stamp_ = (wave.dispatch->serial & ((1ull << Stamp::serial_bits) - 1)) << Stamp::serial_shift |
           (group.linear_id & 0xfff) << Stamp::group_shift |
           static_cast<uint64_t>(wave.number & 31) << Stamp::wave_shift |
           static_cast<uint64_t>(std::min(group.barrier_epoch, Stamp::last_epoch)) << Stamp::epoch_shift |
           static_cast<uint64_t>(std::min(time, Stamp::last_time)) << Stamp::time_shift |
           static_cast<uint64_t>(atomic_) << Stamp::atomic_shift |
           static_cast<uint64_t>(access.compares) << Stamp::several_shift;
}

// Compilers begin a loop around compare-and-swap with an ordinary load: it does not matter when it happens,
// as the swap finds out whether the value is still there. The stamp of such a write has the bit that means
// "several" in that of a read.
bool RaceCheck::conflicts(Stamp other) const {
  const Stamp mine{stamp_};
  if (other.atomic() && (atomic_ || (access_.kind == AccessKind::load && other.several()))) return false;
  if (other.time() == Stamp::last_time || other.time() < acquired_.global) return false;
  if (other.group() != mine.group()) return true;
  if (other.epoch() != mine.epoch() || mine.epoch() == Stamp::last_epoch) return false;
  return other.wave() != mine.wave();
}

void RaceCheck::global(Granule& granule, uint32_t byte_mask, uint64_t address, int lane,
                       const std::byte* value) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const Stamp mine{stamp_};
  const Stamp writer{granule.writer.load(relaxed)};
  const bool concerns_writer = writer.serial() == mine.serial() && (writer.mask() & byte_mask) != 0 &&
                               (writer.bits ^ mine.bits) >> Stamp::wave_shift != 0;
  if (access_.kind == AccessKind::load) {
    if (atomic_) return;
    if (concerns_writer && conflicts(writer)) report_global(writer, true, address, lane);
    const Stamp reader{granule.reader.load(relaxed)};
    uint64_t stamp = stamp_ | byte_mask;
    if (reader.serial() == mine.serial()) {
      const bool again = reader.owner() == mine.owner();
      if (again || reader.group() != mine.group() || reader.epoch() == mine.epoch())
        stamp = stamp_ | read_bytes(reader.mask(), reader.several(), byte_mask, again, Stamp::several_shift);
      if (stamp == reader.bits) return;
    }
    granule.reader.store(stamp, relaxed);
    return;
  }

  const Stamp reader{granule.reader.load(relaxed)};
  if (concerns_writer && conflicts(writer) && !same_value_soon(address, byte_mask, value))
    report_global(writer, true, address, lane);
  if (!access_.compares && reader.serial() == mine.serial() && (reader.mask() & byte_mask) != 0) {
    // With several readers, one of them is not this wave; which one is not known, so neither is its time.
    const bool by_another = reader.several() && acquired_.global == 0 &&
                            (reader.group() != mine.group() || reader.epoch() == mine.epoch());
    if ((by_another || conflicts(reader)) && !same_value(address, byte_mask, value))
      report_global(reader, false, address, lane);
  }
  uint64_t stamp = stamp_ | byte_mask;
  if (atomic_) {
    // Times on a place that is used for synchronisation only grow.
    uint64_t old = writer.bits;
    while (
        !(Stamp{old}.serial() == mine.serial() && Stamp{old}.atomic() && Stamp{old}.time() > mine.time()) &&
        !granule.writer.compare_exchange_weak(old, stamp, std::memory_order_acq_rel, relaxed)) {
    }
    acquired_.found_global = std::max(acquired_.found_global, time_to_acquire(Stamp{old}));
    return;
  }
  if (writer.owner() == mine.owner()) stamp |= writer.bits & 15;
  if (stamp != writer.bits) granule.writer.store(stamp, relaxed);
}

uint32_t RaceCheck::time_to_acquire(Stamp writer) const {
  const Stamp mine{stamp_};
  if (writer.serial() != mine.serial() || (writer.bits ^ mine.bits) >> Stamp::wave_shift == 0) return 0;
  return writer.atomic() ? writer.time() : writer.time() + 1;
}

void RaceCheck::acquire(const Granule& granule) {
  // A stamp that came after this wave's own is that of a write it may have seen.
  const uint32_t time = time_to_acquire(Stamp{granule.writer.load(std::memory_order_acquire)});
  acquired_.global = std::max({acquired_.global, time, acquired_.found_global});
}

bool RaceCheck::conflicts_lds(uint64_t bits) const {
  const LdsStamp mine{stamp_}, other{bits};
  if (other.atomic() && (atomic_ || (access_.kind == AccessKind::load && other.several()))) return false;
  if (other.time() < acquired_.lds) return false;
  return other.epoch() == mine.epoch() && other.wave() != mine.wave();
}

bool RaceCheck::touched(const LdsShadow::Granule& granule) const {
  const LdsStamp mine{stamp_}, writer{granule.writer}, reader{granule.reader};
  return (writer.mask() != 0 && writer.epoch() == mine.epoch()) ||
         (reader.mask() != 0 && reader.epoch() == mine.epoch());
}

void RaceCheck::lds(LdsShadow::Granule& granule, uint32_t byte_mask, uint64_t offset, int lane,
                    const std::byte* value) {
  const LdsStamp mine{stamp_}, writer{granule.writer}, reader{granule.reader};
  const uint64_t address = reinterpret_cast<uint64_t>(wave_.group->lds) + offset;
  if ((writer.mask() & byte_mask) != 0 && conflicts_lds(writer.bits) &&
      (access_.kind == AccessKind::load || !same_value(address, byte_mask, value)))
    report_lds(writer.bits, true, offset, lane);
  uint64_t stamp = stamp_ | byte_mask;
  if (access_.kind == AccessKind::load) {
    if (reader.mask() != 0 && reader.epoch() == mine.epoch())
      stamp = stamp_ | read_bytes(reader.mask(), reader.several(), byte_mask, reader.wave() == mine.wave(),
                                  LdsStamp::several_shift);
    granule.reader = stamp;
    return;
  }
  if (!access_.compares && (reader.mask() & byte_mask) != 0 && reader.epoch() == mine.epoch()) {
    const bool by_another = reader.several() && acquired_.lds == 0;
    if ((by_another || conflicts_lds(reader.bits)) && !same_value(address, byte_mask, value))
      report_lds(reader.bits, false, offset, lane);
  }
  if (writer.wave() == mine.wave()) {
    if (writer.epoch() == mine.epoch()) stamp |= writer.bits & 15;
  } else if (atomic_ && writer.mask() != 0) {
    acquired_.found_lds = std::max(acquired_.found_lds, writer.atomic() ? writer.time() : writer.time() + 1);
  }
  granule.writer = stamp;
}

void RaceCheck::acquire(const LdsShadow::Granule&) {
  acquired_.lds = std::max(acquired_.lds, acquired_.found_lds);
}

void RaceCheck::report_global(Stamp other, bool other_writes, uint64_t address, int lane) const {
  const Launch& launch = *wave_.dispatch->launch;
  const uint64_t groups = static_cast<uint64_t>(launch.grid[0]) * launch.grid[1] * launch.grid[2];
  std::string who;
  if (other.group() == Stamp{stamp_}.group()) {
    who = other.wave() == Stamp{stamp_}.wave()
              ? "another wave"
              : fmt::format("wave {} of the same workgroup, with no barrier between", other.wave());
  } else if (groups <= 4096) {
    const uint32_t id = other.group();
    who = fmt::format("workgroup ({}, {}, {}), wave {}", id % launch.grid[0],
                      id / launch.grid[0] % launch.grid[1], id / (launch.grid[0] * launch.grid[1]),
                      other.wave());
  } else {
    who = "another workgroup";
  }
  const std::string_view how = other.atomic() ? " by an atomic" : "";
  throw KernelFault{Fault::Kind::race,
                    fmt::format("race: {} of {:#x} ({}), which was {}{} by {}", describe_mine(access_),
                                address, describe_address(address, 1), verb(other_writes), how, who),
                    lane, address};
}

void RaceCheck::report_lds(uint64_t bits, bool other_writes, uint64_t offset, int lane) const {
  const LdsStamp other{bits};
  const std::string who = other.wave() == LdsStamp{stamp_}.wave()
                              ? std::string("another wave of the workgroup")
                              : fmt::format("wave {}", other.wave());
  throw KernelFault{
      Fault::Kind::race,
      fmt::format("race: {} of LDS address {:#x}, which was {}{} by {}, with no barrier between",
                  describe_mine(access_), offset, verb(other_writes), other.atomic() ? " by an atomic" : "",
                  who),
      lane, offset};
}

}  // namespace hipemu
