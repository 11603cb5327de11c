// Finds accesses to the same bytes that nothing orders.
//
// Beside every four bytes of global memory and LDS lie two stamps: of the last write and of the last ordinary
// read. A stamp says who (dispatch, workgroup, wave) and when: the barrier epoch of the workgroup, and the
// time on a clock that every atomic of the dispatch advances. Two accesses race when at least one is a write,
// they are not both atomic, they are of different waves of one workgroup in the same epoch or of different
// workgroups of one dispatch, and the second wave has not acquired the time of the first.
//
// A wave acquires by an atomic that returns a value, or by a load that the compiler has marked as atomic or
// volatile: everything stamped before the time of another wave's last write to that place is ordered before
// it (an atomic advances the clock first; with an ordinary store as the flag, what has its time counts too).
// That is more than the memory model grants, so a race may be missed, but what a program orders is never
// reported. Stamps are written without locks: a lost one can only lose a report.
#pragma once

#include <atomic>
#include <cstdint>

#include "exec/check/access.h"

namespace hipemu {

struct RaceClock {
  std::atomic<uint32_t> now{1};
  // When the grid's barrier opened last. Cooperative launches run on one thread.
  std::atomic<uint64_t> grid_epoch{0};
  std::atomic<uint32_t> grid_time{0};
};

// The fields of a stamp of global memory. A stamp of 0 is no access.
struct Stamp {
  static constexpr int mask_bits = 4, time_bits = 13, epoch_bits = 8, wave_bits = 5, group_bits = 12,
                       serial_bits = 20;
  static constexpr int atomic_shift = mask_bits, several_shift = 5, time_shift = 6,
                       epoch_shift = time_shift + time_bits, wave_shift = epoch_shift + epoch_bits,
                       group_shift = wave_shift + wave_bits, serial_shift = group_shift + group_bits;
  static constexpr uint32_t last_time = (1u << time_bits) - 1;  // and anything later: no longer comparable
  static constexpr uint32_t last_epoch = (1u << epoch_bits) - 1;

  uint64_t bits = 0;

  uint32_t mask() const { return static_cast<uint32_t>(bits & 15); }  // bytes
  bool atomic() const { return (bits >> atomic_shift & 1) != 0; }
  bool several() const { return (bits >> several_shift & 1) != 0; }  // other readers than the one named
  uint32_t time() const { return static_cast<uint32_t>(bits >> time_shift) & last_time; }
  uint32_t epoch() const { return static_cast<uint32_t>(bits >> epoch_shift) & last_epoch; }
  uint32_t wave() const { return static_cast<uint32_t>(bits >> wave_shift & 31); }
  uint32_t group() const { return static_cast<uint32_t>(bits >> group_shift & 0xfff); }
  // Who: dispatch, workgroup, wave and epoch.
  uint64_t owner() const { return bits >> epoch_shift; }
  uint64_t serial() const { return bits >> serial_shift; }
};
static_assert(Stamp::serial_shift + Stamp::serial_bits == 64);

// One wave's view while it does one access: made once, used for each granule.
class RaceCheck {
 public:
  RaceCheck(Wave& wave, const LaneAccess& access);

  // Has anyone of this dispatch been here?
  bool touched(const Granule& granule) const {
    constexpr auto relaxed = std::memory_order_relaxed;
    const uint64_t serial = stamp_ >> Stamp::serial_shift;
    return granule.writer.load(relaxed) >> Stamp::serial_shift == serial ||
           granule.reader.load(relaxed) >> Stamp::serial_shift == serial;
  }
  // A load of a place that nobody writes in this dispatch and that this wave has read already: the usual
  // case.
  bool read_before(const Granule& granule, uint32_t byte_mask) const {
    constexpr auto relaxed = std::memory_order_relaxed;
    const uint64_t reader = granule.reader.load(relaxed);
    return (granule.writer.load(relaxed) ^ stamp_) >> Stamp::serial_shift != 0 &&
           (reader ^ stamp_) >> Stamp::time_shift == 0 && (reader & byte_mask) == byte_mask;
  }
  // A load of a place that nobody has touched in this dispatch: the other usual case. Leaves its stamp if so.
  bool reads_first(Granule& granule, uint32_t byte_mask) const {
    if (touched(granule)) return false;
    granule.reader.store(stamp_ | byte_mask, std::memory_order_relaxed);
    return true;
  }
  // Has anyone of this workgroup been here since the last barrier?
  bool touched(const LdsShadow::Granule& granule) const;
  // Throws KernelFault for a race. `value` are the bytes that a store is about to write, null when not known.
  void global(Granule& granule, uint32_t byte_mask, uint64_t address, int lane, const std::byte* value);
  void lds(LdsShadow::Granule& granule, uint32_t byte_mask, uint64_t offset, int lane,
           const std::byte* value);
  // After a synchronising access: what the place was last written with is acquired.
  void acquire(const Granule& granule);
  void acquire(const LdsShadow::Granule& granule);

 private:
  bool conflicts(Stamp other) const;
  uint32_t time_to_acquire(Stamp writer) const;
  bool conflicts_lds(uint64_t other) const;
  [[noreturn]] void report_global(Stamp other, bool other_writes, uint64_t address, int lane) const;
  [[noreturn]] void report_lds(uint64_t other, bool other_writes, uint64_t offset, int lane) const;

  Wave& wave_;
  const LaneAccess& access_;
  LdsShadow::Acquired& acquired_;
  bool atomic_;
  uint64_t stamp_ = 0;  // without the bytes
};

}  // namespace hipemu
