// What all instructions on memory have in common.
//
// An addressing (global, flat, scratch, LDS, buffer) turns the operands into targets: a base, an offset per
// lane and the lanes that are known to be in bounds. A body (load, store or atomic of some type) then moves
// the data. Neither knows the other, so that each is written once:
//
//   rows.push_back(memory_row<Global, LoadValue<uint8_t>>("global_load_ubyte", unit, prepare_load));
#pragma once

#include <atomic>
#include <bit>
#include <stdexcept>

#include "exec/check/access.h"
#include "exec/semantics/build.h"

namespace hipemu::semantics {

// Bits of Operation::flags.
namespace memory_flag {
constexpr uint32_t returns = 1;          // an atomic that returns what was there
constexpr uint32_t synchronising = 2;    // made for an atomic or volatile access, by its cache bits
constexpr uint32_t high_half = 4;        // 16-bit data in the upper half of the register
constexpr uint32_t index_enabled = 8;    // buffers: idxen
constexpr uint32_t offset_enabled = 16;  // buffers: offen
constexpr uint32_t to_lds = 32;          // buffers: lds
}  // namespace memory_flag

// Where prepare puts the operands.
constexpr int address_source = 0, base_source = 1, data_source = 2, second_data_source = 3,
              scalar_offset_source = 4;

constexpr uint64_t all_lanes(int wave_size) { return wave_size == 64 ? ~0ull : 0xffffffffull; }

template <int W>
inline uint64_t active_lanes(const Wave& wave) {
  return wave.exec() & all_lanes(W);
}

template <class F>
inline void for_each_lane(uint64_t mask, F&& function) {
  for (; mask != 0; mask &= mask - 1) function(std::countr_zero(mask));
}

enum class Pattern : uint8_t {
  any,
  uniform,     // every lane of the wave is active and has the same address
  consecutive  // every lane is active and begins where the one before ends
};

template <int W>
struct Target {
  std::byte* base = nullptr;
  const uint32_t* offset = nullptr;  // may be the register row itself
  uint64_t mask = 0;
  Pattern pattern = Pattern::any;

  std::byte* at(int lane) const { return base + offset[lane]; }
};

template <int W>
struct Body {
  uint32_t bytes;  // per lane
  AccessKind kind;
  bool moves_rows;  // between memory and vector registers
  void (*run)(Wave&, const Operation&, const Target<W>&);
  uint8_t row_offset = 0;      // of loads: from the first destination register
  uint8_t data = data_source;  // of stores: which source has the data
  bool compares = false;       // compare-and-swap
};

// The lowest and highest offset of the active lanes, and how they lie.
struct Extent {
  uint32_t low, high;
  Pattern pattern;
};

template <int W>
inline Extent extent_of(const uint32_t* offset, uint64_t mask, uint32_t bytes) {
  Extent extent{offset[std::countr_zero(mask)], 0, Pattern::any};
  if (mask == all_lanes(W)) {
    uint32_t low = offset[0], high = offset[0], irregular = 0;
    const uint32_t first = offset[0];
    for (uint32_t i = 0; i < W; ++i) {
      low = offset[i] < low ? offset[i] : low;
      high = offset[i] > high ? offset[i] : high;
      irregular |= offset[i] ^ (first + i * bytes);
    }
    extent.low = low;
    extent.high = high;
    if (low == high)
      extent.pattern = Pattern::uniform;
    else if (irregular == 0 && low == first)
      extent.pattern = Pattern::consecutive;
    return extent;
  }
  extent.high = extent.low;
  for_each_lane(mask, [&](int lane) {
    extent.low = offset[lane] < extent.low ? offset[lane] : extent.low;
    extent.high = offset[lane] > extent.high ? offset[lane] : extent.high;
  });
  return extent;
}

template <class T>
inline T load_bytes(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
inline void store_bytes(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// One dword per lane to LDS at M0 + offset + 4 * lane.
template <int W>
void store_lanes_to_lds(Wave& wave, const Operation& op, const Lanes<W>& values, uint64_t mask);

// --- Loads ---

// One value of at most 32 bits, extended to a register as T says.
template <int W, class T>
void load_value(Wave& wave, const Operation& op, const Target<W>& target) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
  uint32_t* row = wave.row(op.destination[0].index);
  if (target.pattern == Pattern::uniform) {
    broadcast<W>(row, static_cast<uint32_t>(static_cast<Wide>(load_bytes<T>(target.at(0)))));
  } else if (target.pattern == Pattern::consecutive) {
    const std::byte* from = target.at(0);
    if constexpr (sizeof(T) == 4) {
      std::memcpy(row, from, W * sizeof(uint32_t));
    } else {
      T values[W];
      std::memcpy(values, from, sizeof values);
      for (int i = 0; i < W; ++i) row[i] = static_cast<uint32_t>(static_cast<Wide>(values[i]));
    }
  } else if (target.mask == all_lanes(W)) {
    for (int i = 0; i < W; ++i)
      row[i] = static_cast<uint32_t>(static_cast<Wide>(load_bytes<T>(target.at(i))));
  } else {
    for_each_lane(target.mask, [&](int i) {
      row[i] = static_cast<uint32_t>(static_cast<Wide>(load_bytes<T>(target.at(i))));
    });
  }
}

// A value of 16 bits (or 8, extended to them) into one half of a register.
template <int W, class T>
void load_half(Wave& wave, const Operation& op, const Target<W>& target) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>;
  uint32_t* row = wave.row(op.destination[0].index);
  const bool high = (op.flags & memory_flag::high_half) != 0;
  for_each_lane(target.mask, [&](int i) {
    const uint32_t value = static_cast<uint16_t>(static_cast<Wide>(load_bytes<T>(target.at(i))));
    row[i] = high ? (row[i] & 0xffffu) | value << 16 : (row[i] & 0xffff0000u) | value;
  });
}

// N registers, after the first RowOffset of the destination.
template <int W, int N, int RowOffset = 0>
void load_dwords(Wave& wave, const Operation& op, const Target<W>& target) {
  uint32_t* row = wave.row(op.destination[0].index + RowOffset);
  const auto load_lane = [&](int i) {
    uint32_t values[N];
    std::memcpy(values, target.at(i), sizeof values);
    for (int k = 0; k < N; ++k) row[k * W + i] = values[k];
  };
  if (target.pattern == Pattern::uniform) {
    uint32_t values[N];
    std::memcpy(values, target.at(0), sizeof values);
    for (int k = 0; k < N; ++k) broadcast<W>(row + k * W, values[k]);
  } else if (target.mask == all_lanes(W)) {
    for (int i = 0; i < W; ++i) load_lane(i);
  } else {
    for_each_lane(target.mask, load_lane);
  }
}

// --- Stores ---

template <int W, class T>
void store_value(Wave& wave, const Operation& op, const Target<W>& target) {
  const uint32_t* row = wave.row(op.source[data_source].index);
  const int shift = (op.flags & memory_flag::high_half) != 0 ? 16 : 0;
  if (sizeof(T) == 4 && target.pattern == Pattern::consecutive) {
    std::memcpy(target.at(0), row, W * sizeof(uint32_t));
    return;
  }
  for_each_lane(target.mask, [&](int i) { store_bytes(target.at(i), static_cast<T>(row[i] >> shift)); });
}

template <int W, int N, int Data = data_source>
void store_dwords(Wave& wave, const Operation& op, const Target<W>& target) {
  const uint32_t* row = wave.row(op.source[Data].index);
  for_each_lane(target.mask, [&](int i) {
    uint32_t values[N];
    for (int k = 0; k < N; ++k) values[k] = row[k * W + i];
    std::memcpy(target.at(i), values, sizeof values);
  });
}

// --- Bodies, by wave size ---

template <class T>
struct LoadValue {
  template <int W>
  static constexpr Body<W> body{sizeof(T), AccessKind::load, true, load_value<W, T>};
};
template <class T>
struct LoadHalf {
  template <int W>
  static constexpr Body<W> body{sizeof(T), AccessKind::load, true, load_half<W, T>};
};
template <int N>
struct LoadDwords {
  template <int W>
  static constexpr Body<W> body{4 * N, AccessKind::load, true, load_dwords<W, N>};
};
template <class T>
struct StoreValue {
  template <int W>
  static constexpr Body<W> body{sizeof(T), AccessKind::store, true, store_value<W, T>};
};
template <int N>
struct StoreDwords {
  template <int W>
  static constexpr Body<W> body{4 * N, AccessKind::store, true, store_dwords<W, N>};
};

// What is loaded goes to LDS at M0 + offset + 4 * lane, extended to 32 bits.
template <int W, class T>
void load_to_lds(Wave& wave, const Operation& op, const Target<W>& target) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
  Lanes<W> values{};
  for_each_lane(target.mask, [&](int i) {
    values.lane[i] = static_cast<uint32_t>(static_cast<Wide>(load_bytes<T>(target.at(i))));
  });
  store_lanes_to_lds<W>(wave, op, values, target.mask);
}
template <class T>
struct LoadToLds {
  template <int W>
  static constexpr Body<W> body{sizeof(T), AccessKind::load, false, load_to_lds<W, T>};
};

// --- Addressings: call the body for each target that the operands come to ---

struct Global {
  template <int W>
  static void each(Wave& wave, const Operation& op, const Body<W>& body);
};
struct Flat {
  template <int W>
  static void each(Wave& wave, const Operation& op, const Body<W>& body);
};
struct Scratch {
  template <int W>
  static void each(Wave& wave, const Operation& op, const Body<W>& body);
};
struct Lds {
  template <int W>
  static void each(Wave& wave, const Operation& op, const Body<W>& body);
};
struct Buffer {
  template <int W>
  static void each(Wave& wave, const Operation& op, const Body<W>& body);
};

// Parts that several of them share: lane i touches base + offset[i] (LDS and scratch: offset[i] + constant,
// in 32 bits, from the start of the group's LDS or of the lane's scratch).
template <int W>
void access_global(Wave& wave, const Operation& op, const Body<W>& body, uint64_t base,
                   const uint32_t* offset, uint64_t mask);
template <int W>
void access_lds(Wave& wave, const Operation& op, const Body<W>& body, const uint32_t* offset,
                uint32_t constant, uint64_t mask);
template <int W>
void access_scratch(Wave& wave, const Operation& op, const Body<W>& body, const uint32_t* offset,
                    uint32_t constant, uint64_t mask);
// What lies out of range where the chip answers with zeros: loads read zeros, the rest does nothing.
template <int W>
void access_nothing(Wave& wave, const Operation& op, const Body<W>& body, uint64_t mask);

template <int W, class Addressing, class Action>
void run_memory(Wave& wave, const Operation& op) {
  Addressing::template each<W>(wave, op, Action::template body<W>);
}

using Prepare = void (*)(const Instruction&, const Chip&, Operation&);

template <class Addressing, class Action>
Semantics memory_row(std::string_view name, Unit unit, Prepare prepare) {
  return custom(name, unit, run_memory<32, Addressing, Action>, run_memory<64, Addressing, Action>, prepare);
}

// --- Reading operands ---

void expect_operands(const Instruction& instruction, std::size_t least, std::size_t most);
uint16_t vector_operand(const Instruction& instruction, std::size_t index);
Source vector_source(const Instruction& instruction, std::size_t index);
// A vector register, or nothing for "off".
Source optional_vector_source(const Instruction& instruction, std::size_t index);
// A scalar register, a constant, or nothing for "off" and "null".
Source optional_scalar_source(const Instruction& instruction, std::size_t index);
Destination vector_destination(const Instruction& instruction, std::size_t index);
// Cache policy bits, offset, halves of registers.
void read_memory_modifiers(const Instruction& instruction, Operation& op);

// A name put together, which lasts as long as the program: rows only refer to theirs.
std::string_view lasting_name(std::string_view prefix, std::string_view rest);

// Files that have no place in build.h.
void add_cache_control(Rows& rows);
void add_lds_atomics(Rows& rows);
void add_lds_lanes(Rows& rows);
void add_loads_to_lds(Rows& rows);
void add_transposed_loads(Rows& rows);
void add_accesses_by_lane(Rows& rows);

}  // namespace hipemu::semantics
