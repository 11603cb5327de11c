// What is done ahead of an access and after it, lane by lane.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/check/access.h"
#include "exec/check/races.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"

namespace hipemu {
namespace {

template <class F>
void for_each_lane(uint64_t mask, F&& function) {
  for (; mask != 0; mask &= mask - 1) function(std::countr_zero(mask));
}

// Calls function(begin of the granule, bytes of it, position in the access) for each granule that
// [address, address + bytes) touches.
template <class F>
inline void for_each_granule(uint64_t address, uint32_t bytes, F&& function) {
  if (bytes == 4 && (address & 3) == 0) {
    function(address, 15u, 0);
    return;
  }
  const uint64_t end = address + bytes;
  for (uint64_t granule = address & ~3ull; granule < end; granule += 4) {
    uint32_t mask = 15;
    if (granule < address) mask &= 15u << (address - granule);
    if (end < granule + 4) mask &= 15u >> (granule + 4 - end);
    function(granule, mask, static_cast<int>(static_cast<int64_t>(granule - address)));
  }
}

// The bytes that a lane is about to store.
void data_of(Wave& wave, const LaneAccess& access, int lane, std::byte* data) {
  if (access.bytes < 4) {
    const uint32_t value = wave.row(access.row)[lane] >> access.data_shift;
    std::memcpy(data, &value, access.bytes);
    return;
  }
  for (uint32_t k = 0; k < access.bytes / 4; ++k)
    std::memcpy(data + 4 * k, &wave.row(access.row + k)[lane], 4);
}

// The allocation of one lane: that of the whole access, or looked up.
const Allocation* allocation_of(const LaneAccess& access, int lane) {
  if (access.allocation != nullptr) return access.allocation;
  return AllocationCache::of_this_thread().find(access.address(lane), access.bytes);
}

// Loads of whole granules of one allocation. False when the access is another one, of which nothing was done.
bool check_plain_loads(RaceCheck& check, const LaneAccess& access) {
  const Allocation* allocation = access.allocation;
  if (access.space == Space::lds || allocation == nullptr || access.bytes % 4 != 0) return false;
  if (allocation->granules == nullptr) return true;
  uint64_t bits = access.base;
  for_each_lane(access.mask, [&](int lane) { bits |= access.offset[lane]; });
  if ((bits & 3) != 0) return false;
  const uint64_t base = (access.base >> 2) - (allocation->begin() >> 2);  // may lie outside, its lanes do not
  const uint32_t count = access.bytes / 4;
  const Granule* previous = nullptr;
  for_each_lane(access.mask, [&](int lane) {
    Granule* const first = allocation->granules + (base + access.offset[lane] / 4);
    // Lanes that read the same place say nothing new.
    if (first == previous) return;
    previous = first;
    for (uint32_t k = 0; k < count; ++k)
      if (!check.read_before(first[k], 15) && !check.reads_first(first[k], 15))
        check.global(first[k], 15, access.address(lane) + 4 * k, lane, nullptr);
  });
  return true;
}

void check_races(Wave& wave, const LaneAccess& access) {
  RaceCheck check(wave, access);
  const bool lds = access.space == Space::lds, loads = access.kind == AccessKind::load;
  if (loads && (access.synchronising || check_plain_loads(check, access))) return;
  LdsShadow& shadow = wave.group->lds_shadow;
  const uint64_t lds_base = reinterpret_cast<uint64_t>(wave.group->lds);
  uint64_t previous = ~0ull;
  for_each_lane(access.mask, [&](int lane) {
    const uint64_t address = access.address(lane);
    // Lanes that read the same place say nothing new.
    if (address == previous && loads) return;
    previous = address;
    // With room for the part of a granule before and after the data.
    std::byte buffer[24];
    const std::byte* data = nullptr;
    const auto fetch_data = [&] {
      data_of(wave, access, lane, buffer + 4);
      data = buffer + 4;
    };
    const bool comparable = access.kind == AccessKind::store && access.moves_rows;
    if (lds) {
      for_each_granule(address - lds_base, access.bytes, [&](uint64_t granule, uint32_t mask, int position) {
        LdsShadow::Granule& place = shadow.granules[granule / 4];
        if (comparable && data == nullptr && check.touched(place)) fetch_data();
        check.lds(place, mask, granule, lane, data == nullptr ? data : data + position);
      });
      return;
    }
    const Allocation* allocation = allocation_of(access, lane);
    if (allocation == nullptr || allocation->granules == nullptr) return;
    for_each_granule(address, access.bytes, [&](uint64_t granule, uint32_t mask, int position) {
      Granule& place = allocation->granule(granule);
      if (loads && check.read_before(place, mask)) return;
      if (comparable && data == nullptr && check.touched(place)) fetch_data();
      check.global(place, mask, granule, lane, data == nullptr ? data : data + position);
    });
  });
}

void acquire(Wave& wave, const LaneAccess& access) {
  LaneAccess reading = access;  // the clock has moved on already
  reading.kind = AccessKind::load;
  RaceCheck check(wave, reading);
  for_each_lane(access.mask, [&](int lane) {
    const uint64_t address = access.address(lane);
    if (access.space == Space::lds) {
      const uint64_t offset = address - reinterpret_cast<uint64_t>(wave.group->lds);
      check.acquire(wave.group->lds_shadow.granules[offset / 4]);
      return;
    }
    const Allocation* allocation = allocation_of(access, lane);
    if (allocation != nullptr && allocation->granules != nullptr) check.acquire(allocation->granule(address));
  });
}

// The bytes of shadow of a lane's access, or null when all of them count as written.
uint8_t* written_of(Wave& wave, const LaneAccess& access, int lane) {
  if (access.space == Space::lds)
    return wave.group->lds_shadow.written.data() +
           (access.address(lane) - reinterpret_cast<uint64_t>(wave.group->lds));
  const Allocation* allocation = allocation_of(access, lane);
  if (allocation == nullptr || allocation->written == nullptr) return nullptr;
  return allocation->written + (access.address(lane) - allocation->begin());
}

bool nothing_written(const uint8_t* written, uint32_t bytes) {
  if (bytes >= 4) {
    uint32_t four;
    std::memcpy(&four, written, sizeof four);
    return four == 0;
  }
  return written[0] == 0 && (bytes == 1 || written[1] == 0);
}

// The shadow of base + 0 when one allocation, or LDS, holds all lanes. Null when several do.
uint8_t* written_base(Wave& wave, const LaneAccess& access) {
  if (access.space == Space::lds)
    return wave.group->lds_shadow.written.data() +
           (access.base - reinterpret_cast<uint64_t>(wave.group->lds));
  if (access.allocation == nullptr) return nullptr;
  return access.allocation->written + (access.base - access.allocation->begin());
}

// A quick look at dwords that begin in different lanes: is there a written byte in each?
bool all_written(Wave& wave, const LaneAccess& access) {
  const uint8_t* base = written_base(wave, access);
  if (base == nullptr || access.bytes < 4) return false;
  bool all = true;
  for (uint64_t lanes = access.mask; lanes != 0; lanes &= lanes - 1) {
    const uint8_t* written = base + access.offset[std::countr_zero(lanes)];
    for (uint32_t k = 0; k < access.bytes; k += 4) {
      uint32_t four;
      std::memcpy(&four, written + k, sizeof four);
      all &= four != 0;
    }
  }
  return all;
}

void mark_written(Wave& wave, const LaneAccess& access) {
  const bool any_undefined = wave.undefined_rows > 0 && access.moves_rows && access.kind == AccessKind::store;
  for_each_lane(access.mask, [&](int lane) {
    uint8_t* written = written_of(wave, access, lane);
    if (written == nullptr) return;
    if (access.bytes == 4) {
      constexpr uint32_t ones = 0x01010101u;
      std::memcpy(written, &ones, sizeof ones);
    } else {
      std::memset(written, 1, access.bytes);
    }
    if (!any_undefined) return;
    for (uint32_t k = 0; 4 * k < access.bytes; ++k)
      if ((wave.undefined[access.row + k] >> lane & 1) != 0)
        std::memset(written + 4 * k, 0, std::min<uint32_t>(4, access.bytes - 4 * k));
  });
}

void remember_undefined(Wave& wave, const LaneAccess& access, int lane, uint32_t dword) {
  LdsShadow& shadow = wave.group->lds_shadow;
  auto& load = shadow.undefined_loads[shadow.undefined_load_count++ % shadow.undefined_loads.size()];
  load.address = access.address(lane) + 4 * dword;
  load.pc = wave.operation_pc;
  load.wave = static_cast<uint16_t>(wave.number);
  load.row = static_cast<uint16_t>(access.row + dword);
  load.lane = static_cast<uint8_t>(lane);
  load.space = LdsShadow::UndefinedLoad::Space::global;
  if (access.space == Space::lds) {
    load.space = LdsShadow::UndefinedLoad::Space::lds;
    load.address -= reinterpret_cast<uint64_t>(wave.group->lds);
  }
}

// Which lanes have loaded what nobody has written.
void mark_undefined(Wave& wave, const LaneAccess& access) {
  const uint32_t rows = (access.bytes + 3) / 4;
  uint64_t undefined[4] = {};
  const bool shadowed = access.space != Space::scratch &&
                        !(access.allocation != nullptr && access.allocation->written == nullptr);
  if (shadowed && !all_written(wave, access))
    for_each_lane(access.mask, [&](int lane) {
      const uint8_t* written = written_of(wave, access, lane);
      if (written == nullptr) return;
      for (uint32_t k = 0; k < rows; ++k)
        if (nothing_written(written + 4 * k, access.bytes)) [[unlikely]] {
          if (undefined[k] == 0) remember_undefined(wave, access, lane, k);
          undefined[k] |= 1ull << lane;
        }
    });
  for (uint32_t k = 0; k < rows; ++k) {
    if (undefined[k] == 0 && wave.undefined_rows == 0) continue;
    set_undefined(wave, access.row + k, access.mask & ~undefined[k], false);
    set_undefined(wave, access.row + k, undefined[k], true);
  }
}

bool only_exchanges(const Operation& op) {
  const std::string_view name = op.semantics->name;
  return (name.find("swap") != std::string_view::npos && name.find("cmpswap") == std::string_view::npos) ||
         name.find("xchg") != std::string_view::npos;
}

// An atomic computes with what is there.
void require_written(Wave& wave, const Operation& op, const LaneAccess& access) {
  if (only_exchanges(op)) return;
  for_each_lane(access.mask, [&](int lane) {
    const uint8_t* written = written_of(wave, access, lane);
    if (written == nullptr || !nothing_written(written, access.bytes)) return;
    const uint64_t address = access.address(lane);
    const std::string place =
        access.space == Space::lds
            ? fmt::format("LDS address {:#x}", address - reinterpret_cast<uint64_t>(wave.group->lds))
            : fmt::format("{:#x} ({})", address, describe_address(address, access.bytes));
    throw KernelFault{Fault::Kind::uninitialised,
                      fmt::format("atomic on {}, which nobody has written", place), lane, address};
  });
}

}  // namespace

void before_access(Wave& wave, const Operation& op, const LaneAccess& access) {
  const CheckOptions& checks = wave.dispatch->checks;
  if (access.space == Space::scratch) return;
  if (checks.race) check_races(wave, access);
  if (!checks.init || access.kind == AccessKind::load) return;
  if (access.kind == AccessKind::atomic) require_written(wave, op, access);
  mark_written(wave, access);
}

void after_access(Wave& wave, const Operation& op, const LaneAccess& access) {
  const CheckOptions& checks = wave.dispatch->checks;
  if (checks.init && access.moves_rows) {
    if (access.kind == AccessKind::load) {
      mark_undefined(wave, access);
    } else if (access.kind == AccessKind::atomic && wave.undefined_rows > 0 && access.synchronising) {
      for (uint32_t k = 0; k < access.bytes / 4; ++k)
        set_undefined(wave, op.destination[0].index + k, access.mask, false);
    }
  }
  if (checks.race && access.synchronising && access.space != Space::scratch &&
      access.kind != AccessKind::store)
    acquire(wave, access);
}

void check_scalar_access(Wave& wave, const Operation&, const Allocation& allocation, uint64_t address,
                         uint32_t bytes, AccessKind kind) {
  const CheckOptions& checks = wave.dispatch->checks;
  if (checks.race && allocation.granules != nullptr && allocation.kind != MemoryKind::kernarg &&
      allocation.kind != MemoryKind::code) {
    LaneAccess access;
    access.kind = kind;
    access.moves_rows = false;
    RaceCheck check(wave, access);
    for_each_granule(address, bytes, [&](uint64_t granule, uint32_t mask, int) {
      check.global(allocation.granule(granule), mask, granule, -1, nullptr);
    });
  }
  if (!checks.init || allocation.written == nullptr) return;
  uint8_t* written = allocation.written + (address - allocation.begin());
  if (kind == AccessKind::store) {
    std::memset(written, 1, bytes);
    return;
  }
  // Compilers load more than they need: only what is missing altogether counts.
  for (uint32_t i = 0; i < bytes; ++i)
    if (written[i] != 0) return;
  throw KernelFault{Fault::Kind::uninitialised,
                    fmt::format("load of {} bytes at {:#x} ({}), which nobody has written", bytes, address,
                                describe_address(address, bytes)),
                    -1, address};
}

}  // namespace hipemu
