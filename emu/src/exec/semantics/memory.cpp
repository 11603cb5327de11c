// Operands of memory instructions, and the three kinds of memory that addresses lead to.
#include "exec/semantics/memory.h"

#include <fmt/format.h>

#include <deque>
#include <mutex>
#include <string>

#include "exec/apertures.h"

namespace hipemu::semantics {

void expect_operands(const Instruction& instruction, std::size_t least, std::size_t most) {
  const std::size_t count = instruction.operands.size();
  if (count < least || count > most)
    throw std::invalid_argument(fmt::format("{} operands, expected {} to {}", count, least, most));
}

uint16_t vector_operand(const Instruction& instruction, std::size_t index) {
  const TextOperand& operand = instruction.operands.at(index);
  if (operand.kind != TextOperand::Kind::vector)
    throw std::invalid_argument(fmt::format("'{}' is no vector register", operand.text));
  return operand.index;
}

Source vector_source(const Instruction& instruction, std::size_t index) {
  Source source;
  source.from = From::vector;
  source.index = vector_operand(instruction, index);
  return source;
}

Source optional_vector_source(const Instruction& instruction, std::size_t index) {
  if (instruction.operands.at(index).kind == TextOperand::Kind::off) return {};
  return vector_source(instruction, index);
}

Source optional_scalar_source(const Instruction& instruction, std::size_t index) {
  const TextOperand& operand = instruction.operands.at(index);
  Source source;
  switch (operand.kind) {
    case TextOperand::Kind::off:
      return source;
    case TextOperand::Kind::scalar:
      if (operand.index == scalar::null) return source;
      source.from = From::scalar;
      source.index = operand.index;
      return source;
    case TextOperand::Kind::integer:
    case TextOperand::Kind::literal:
      source.from = From::constant;
      source.bits = static_cast<uint64_t>(operand.integer);
      return source;
    default:
      throw std::invalid_argument(fmt::format("'{}' is no scalar operand", operand.text));
  }
}

Destination vector_destination(const Instruction& instruction, std::size_t index) {
  Destination destination;
  destination.from = From::vector;
  destination.index = vector_operand(instruction, index);
  return destination;
}

void read_memory_modifiers(const Instruction& instruction, Operation& op) {
  if (instruction.has("gds") || instruction.has("tfe"))
    throw std::invalid_argument("gds and tfe are not supported");
  op.offset = instruction.has("offset") ? instruction.number("offset", 0) : 0;
  // How compilers mark accesses that other workgroups may be watching. With slc, glc is a hint for streaming.
  const bool synchronising = (instruction.has("glc") && !instruction.has("slc")) || instruction.has("sc0") ||
                             instruction.has("sc1") || instruction.has("scope");
  if (synchronising) op.flags |= memory_flag::synchronising;
  for (const TextOperand& operand : instruction.operands)
    if (operand.half == Half::high) op.flags |= memory_flag::high_half;
}

std::string_view lasting_name(std::string_view prefix, std::string_view rest) {
  static auto& names = *new std::deque<std::string>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return names.emplace_back(std::string(prefix) + std::string(rest));
}

namespace {

// Runs a body between the two halves of the checks.
template <int W>
void run_checked(Wave& wave, const Operation& op, const Body<W>& body, Target<W> target, Space space,
                 Allocation* allocation) {
  // The destination may be the register that holds the offsets.
  Lanes<W> offsets;
  std::memcpy(offsets.lane, target.offset, sizeof offsets.lane);
  LaneAccess access;
  access.space = space;
  access.kind = body.kind;
  // Only an atomic that returns something can learn that others have got so far.
  access.synchronising =
      (op.flags & (body.kind == AccessKind::atomic ? memory_flag::returns : memory_flag::synchronising)) != 0;
  access.compares = body.compares;
  access.moves_rows = body.moves_rows;
  if (body.kind == AccessKind::load)
    access.row = static_cast<uint16_t>(op.destination[0].index + body.row_offset);
  else
    access.row = op.source[body.data].index;
  access.data_shift = (op.flags & memory_flag::high_half) != 0 ? 16 : 0;
  access.bytes = body.bytes;
  access.base = reinterpret_cast<uint64_t>(target.base);
  access.offset = offsets.lane;
  access.mask = target.mask;
  access.allocation = allocation;
  before_access(wave, op, access);
  body.run(wave, op, target);
  after_access(wave, op, access);
}

template <int W>
void count(const Body<W>& body, uint64_t mask, Space space) {
  Statistics* counters = statistics();
  if (counters == nullptr) return;
  const uint64_t bytes = static_cast<uint64_t>(std::popcount(mask)) * body.bytes;
  const auto index = static_cast<std::size_t>(space);
  if (body.kind != AccessKind::store) counters->bytes_read[index] += bytes;
  if (body.kind != AccessKind::load) counters->bytes_written[index] += bytes;
  if (body.kind == AccessKind::atomic) counters->atomics += static_cast<uint64_t>(std::popcount(mask));
}

// Cycles beyond the first that an access takes because lanes want different dwords of one bank. Wide accesses
// are done in parts of 32 dwords.
template <int W>
void count_bank_conflicts(const uint32_t* offset, uint32_t constant, uint64_t mask, uint32_t bytes) {
  Statistics* counters = statistics();
  if (counters == nullptr) return;
  ++counters->lds_accesses;
  const uint32_t dwords = bytes < 4 ? 1 : bytes / 4;
  const int lanes_at_once = static_cast<int>(32 / dwords);
  for (int first = 0; first < W; first += lanes_at_once) {
    std::array<std::array<uint32_t, 32>, 32> wanted;  // distinct dwords by bank
    std::array<uint32_t, 32> depth{};
    uint32_t deepest = 0;
    for (int lane = first; lane < first + lanes_at_once && lane < W; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      for (uint32_t k = 0; k < dwords; ++k) {
        const uint32_t dword = (offset[lane] + constant) / 4 + k, bank = dword % 32;
        bool seen = false;
        for (uint32_t i = 0; i < depth[bank]; ++i) seen |= wanted[bank][i] == dword;
        if (seen || depth[bank] == 32) continue;
        wanted[bank][depth[bank]++] = dword;
        deepest = std::max(deepest, depth[bank]);
      }
    }
    if (deepest > 1) counters->lds_conflict_cycles += deepest - 1;
  }
}

template <int W>
void require_alignment_of(const Body<W>& body, uint64_t base, const uint32_t* offset, uint64_t mask) {
  uint64_t bits = 0;
  for_each_lane(mask, [&](int lane) { bits |= base + offset[lane]; });
  if ((bits & (body.bytes - 1)) == 0) [[likely]]
    return;
  LaneAccess access;
  access.kind = body.kind;
  access.bytes = body.bytes;
  access.base = base;
  access.offset = offset;
  access.mask = mask;
  require_alignment(access);
}

}  // namespace

template <int W>
void access_nothing(Wave& wave, const Operation& op, const Body<W>& body, uint64_t mask) {
  if (mask == 0 || body.kind == AccessKind::store) return;
  if (body.kind == AccessKind::atomic) {
    if ((op.flags & memory_flag::returns) == 0) return;
    for_each_lane(mask, [&](int lane) {
      for (uint32_t k = 0; k < body.bytes / 4; ++k)
        wave.row(op.destination[0].index + body.row_offset + k)[lane] = 0;
    });
    return;
  }
  static std::byte zeros[64] = {};
  static constexpr uint32_t offsets[W] = {};
  body.run(wave, op, {zeros, offsets, mask, Pattern::any});
}

template <int W>
void access_global(Wave& wave, const Operation& op, const Body<W>& body, uint64_t base,
                   const uint32_t* offset, uint64_t mask) {
  if (mask == 0) return;
  const Extent extent = extent_of<W>(offset, mask, body.bytes);
  Allocation* allocation = AllocationCache::of_this_thread().find(
      base + extent.low, static_cast<uint64_t>(extent.high) - extent.low + body.bytes);
  if (body.kind == AccessKind::atomic) require_alignment_of<W>(body, base, offset, mask);
  const Target<W> target{reinterpret_cast<std::byte*>(base), offset, mask, extent.pattern};
  const CheckOptions* checks = memory_checks(wave);
  if (allocation == nullptr) {
    LaneAccess access;
    access.kind = body.kind;
    access.bytes = body.bytes;
    access.base = base;
    access.offset = offset;
    access.mask = mask;
    require_allocations(access);
  }
  count<W>(body, mask, Space::global);
  // A store may be the one that tells another workgroup that earlier ones are there, and nothing in it shows.
  if (body.kind == AccessKind::store) std::atomic_thread_fence(std::memory_order_release);
  if (checks != nullptr)
    run_checked<W>(wave, op, body, target, Space::global, allocation);
  else
    body.run(wave, op, target);
  if ((op.flags & memory_flag::synchronising) != 0) std::atomic_thread_fence(std::memory_order_acquire);
}

template <int W>
void access_lds(Wave& wave, const Operation& op, const Body<W>& body, const uint32_t* offset,
                uint32_t constant, uint64_t mask) {
  if (mask == 0) return;
  const Workgroup& group = *wave.group;
  const Extent extent = extent_of<W>(offset, mask, body.bytes);
  Target<W> target{group.lds + constant, offset, mask, extent.pattern};
  Lanes<W> sums;
  const uint64_t end = static_cast<uint64_t>(extent.high) + constant + body.bytes;
  const CheckOptions* checks = memory_checks(wave);
  if (end > group.lds_size) [[unlikely]] {
    // The sum wraps at 32 bits. Lanes that are out of range read zero and write nothing.
    uint64_t inside = 0;
    for_each_lane(mask, [&](int lane) {
      sums.lane[lane] = offset[lane] + constant;
      const uint64_t last = static_cast<uint64_t>(sums.lane[lane]) + body.bytes;
      if (last <= group.lds_size)
        inside |= 1ull << lane;
      else if (checks != nullptr && checks->bounds)
        fail_lds(sums.lane[lane], body.bytes, group.lds_size, body.kind, lane);
    });
    for_each_lane(~mask & all_lanes(W), [&](int lane) { sums.lane[lane] = 0; });
    access_nothing<W>(wave, op, body, mask & ~inside);
    if (inside == 0) return;
    target = {group.lds, sums.lane, inside, Pattern::any};
    mask = inside;
  }
  if (body.kind == AccessKind::atomic)
    require_alignment_of<W>(body, target.base == group.lds ? 0 : constant, target.offset, mask);
  count<W>(body, mask, Space::lds);
  if (statistics() != nullptr)
    count_bank_conflicts<W>(target.offset, target.base == group.lds ? 0 : constant, mask, body.bytes);
  if (checks != nullptr)
    run_checked<W>(wave, op, body, target, Space::lds, nullptr);
  else
    body.run(wave, op, target);
}

template <int W>
void store_lanes_to_lds(Wave& wave, const Operation& op, const Lanes<W>& values, uint64_t mask) {
  const Workgroup& group = *wave.group;
  const uint32_t start = (wave.scalars[scalar::m0] & 0xffff) + static_cast<uint32_t>(op.offset);
  const CheckOptions* checks = memory_checks(wave);
  Lanes<W> offsets;
  uint64_t inside = 0;
  for (uint32_t i = 0; i < W; ++i) {
    offsets.lane[i] = start + 4 * i;
    if ((mask >> i & 1) == 0) continue;
    if (static_cast<uint64_t>(offsets.lane[i]) + 4 <= group.lds_size)
      inside |= 1ull << i;
    else if (checks != nullptr && checks->bounds)
      fail_lds(offsets.lane[i], 4, group.lds_size, AccessKind::store, static_cast<int>(i));
  }
  LaneAccess access;
  access.space = Space::lds;
  access.kind = AccessKind::store;
  access.moves_rows = false;
  access.base = reinterpret_cast<uint64_t>(group.lds);
  access.offset = offsets.lane;
  access.mask = inside;
  if (checks != nullptr) before_access(wave, op, access);
  for_each_lane(inside, [&](int lane) { store_bytes(group.lds + offsets.lane[lane], values.lane[lane]); });
  if (checks != nullptr) after_access(wave, op, access);
}

template <int W>
void access_scratch(Wave& wave, const Operation& op, const Body<W>& body, const uint32_t* offset,
                    uint32_t constant, uint64_t mask) {
  if (mask == 0) return;
  Lanes<W> places;
  uint32_t highest = 0;
  for (int i = 0; i < W; ++i) {
    const uint32_t place = offset[i] + constant;
    places.lane[i] = place + static_cast<uint32_t>(i) * wave.scratch_size;
    highest = (mask >> i & 1) != 0 && place > highest ? place : highest;
  }
  if (static_cast<uint64_t>(highest) + body.bytes > wave.scratch_size) [[unlikely]]
    for_each_lane(mask, [&](int lane) {
      const uint32_t place = offset[lane] + constant;
      if (static_cast<uint64_t>(place) + body.bytes > wave.scratch_size)
        fail_scratch(place, body.bytes, wave.scratch_size, body.kind, lane);
    });
  count<W>(body, mask, Space::scratch);
  const Target<W> target{wave.scratch, places.lane, mask, Pattern::any};
  if (memory_checks(wave) != nullptr)
    run_checked<W>(wave, op, body, target, Space::scratch, nullptr);
  else
    body.run(wave, op, target);
}

template <int W>
void Global::each(Wave& wave, const Operation& op, const Body<W>& body) {
  uint64_t mask = active_lanes<W>(wave);
  if (mask == 0) return;
  const uint32_t* low = wave.row(op.source[address_source].index);
  if (op.source[base_source].from != From::nothing) {
    const uint64_t base = wave.get_scalar64(op.source[base_source].index) + static_cast<uint64_t>(op.offset);
    access_global<W>(wave, op, body, base, low, mask);
    return;
  }
  // One base for all lanes whose addresses agree in the high half: nearly always all of them.
  const uint32_t* high = wave.row(op.source[address_source].index + 1);
  while (mask != 0) {
    const uint32_t first = high[std::countr_zero(mask)];
    uint64_t group = mask;
    uint32_t differing = 0;
    if (mask == all_lanes(W)) {
      for (int i = 0; i < W; ++i) differing |= high[i] ^ first;
    } else {
      for_each_lane(mask, [&](int lane) { differing |= high[lane] ^ first; });
    }
    if (differing != 0) {
      group = 0;
      for_each_lane(mask, [&](int lane) { group |= static_cast<uint64_t>(high[lane] == first) << lane; });
    }
    mask &= ~group;
    access_global<W>(wave, op, body, (static_cast<uint64_t>(first) << 32) + static_cast<uint64_t>(op.offset),
                     low, group);
  }
}

template <int W>
void Flat::each(Wave& wave, const Operation& op, const Body<W>& body) {
  uint64_t mask = active_lanes<W>(wave);
  const uint32_t* low = wave.row(op.source[address_source].index);
  const uint32_t* high = wave.row(op.source[address_source].index + 1);
  // The address with its offset decides the aperture: compilers may keep a pointer before the object it is
  // for.
  const auto aperture = [&](int lane) {
    const uint64_t address = static_cast<uint64_t>(high[lane]) << 32 | low[lane];
    return static_cast<uint32_t>((address + static_cast<uint64_t>(op.offset)) >> 32);
  };
  while (mask != 0) {
    const uint32_t first = high[std::countr_zero(mask)], where = aperture(std::countr_zero(mask));
    uint64_t group = 0;
    for_each_lane(mask, [&](int lane) {
      group |= static_cast<uint64_t>(high[lane] == first && aperture(lane) == where) << lane;
    });
    mask &= ~group;
    const uint32_t constant = static_cast<uint32_t>(op.offset);
    if (where == shared_aperture)
      access_lds<W>(wave, op, body, low, constant, group);
    else if (where == private_aperture)
      access_scratch<W>(wave, op, body, low, constant, group);
    else
      access_global<W>(wave, op, body,
                       (static_cast<uint64_t>(first) << 32) + static_cast<uint64_t>(op.offset), low, group);
  }
}

template <int W>
void Scratch::each(Wave& wave, const Operation& op, const Body<W>& body) {
  const Source& scalar_part = op.source[base_source];
  const uint32_t constant = static_cast<uint32_t>(op.offset) +
                            (scalar_part.from == From::scalar ? wave.get_scalar(scalar_part.index) : 0);
  static constexpr uint32_t zeros[W] = {};
  const Source& address = op.source[address_source];
  access_scratch<W>(wave, op, body, address.from == From::vector ? wave.row(address.index) : zeros, constant,
                    active_lanes<W>(wave));
}

template <int W>
void Lds::each(Wave& wave, const Operation& op, const Body<W>& body) {
  access_lds<W>(wave, op, body, wave.row(op.source[address_source].index), static_cast<uint32_t>(op.offset),
                active_lanes<W>(wave));
}

#define HIPEMU_INSTANTIATE(W)                                                                                \
  template void store_lanes_to_lds<W>(Wave&, const Operation&, const Lanes<W>&, uint64_t);                   \
  template void access_nothing<W>(Wave&, const Operation&, const Body<W>&, uint64_t);                        \
  template void access_global<W>(Wave&, const Operation&, const Body<W>&, uint64_t, const uint32_t*,         \
                                 uint64_t);                                                                  \
  template void access_lds<W>(Wave&, const Operation&, const Body<W>&, const uint32_t*, uint32_t, uint64_t); \
  template void access_scratch<W>(Wave&, const Operation&, const Body<W>&, const uint32_t*, uint32_t,        \
                                  uint64_t);                                                                 \
  template void Global::each<W>(Wave&, const Operation&, const Body<W>&);                                    \
  template void Flat::each<W>(Wave&, const Operation&, const Body<W>&);                                      \
  template void Scratch::each<W>(Wave&, const Operation&, const Body<W>&);                                   \
  template void Lds::each<W>(Wave&, const Operation&, const Body<W>&);
HIPEMU_INSTANTIATE(32)
HIPEMU_INSTANTIATE(64)
#undef HIPEMU_INSTANTIATE

}  // namespace hipemu::semantics
