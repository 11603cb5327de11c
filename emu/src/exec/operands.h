// How vector instructions read their sources and write their results, for all lanes of a wave at once.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "exec/operation.h"
#include "exec/value.h"
#include "exec/wave.h"

namespace hipemu::semantics {

// One value of 32 bits per lane.
template <int W>
struct alignas(64) Lanes {
  uint32_t lane[W];
};

// C++ type of a lane's value -> operand type.
template <class T>
constexpr ValueType value_type() {
  if constexpr (std::is_same_v<T, float>) return ValueType::f32;
  if constexpr (std::is_same_v<T, double>) return ValueType::f64;
  if constexpr (std::is_same_v<T, uint32_t>) return ValueType::u32;
  if constexpr (std::is_same_v<T, int32_t>) return ValueType::i32;
  // Also long long where int64_t is long.
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return std::is_signed_v<T> ? ValueType::i64 : ValueType::u64;
  if constexpr (std::is_same_v<T, uint16_t>) return ValueType::u16;
  if constexpr (std::is_same_v<T, int16_t>) return ValueType::i16;
  if constexpr (std::is_same_v<T, Half16>) return ValueType::f16;
  if constexpr (std::is_same_v<T, Bfloat16>) return ValueType::bf16;
  if constexpr (std::is_same_v<T, PackedI16>) return ValueType::packed_i16;
  if constexpr (std::is_same_v<T, PackedF16>) return ValueType::packed_f16;
  if constexpr (std::is_same_v<T, PackedBf16>) return ValueType::packed_bf16;
  if constexpr (std::is_same_v<T, PackedF32>) return ValueType::packed_f32;
  if constexpr (std::is_same_v<T, bool>) return ValueType::mask;
  return ValueType::none;
}

template <class T>
inline T from_dwords(uint32_t low, uint32_t high) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(static_cast<uint64_t>(high) << 32 | low);
  } else if constexpr (std::is_same_v<T, Half16>) {
    return Half16::from_bits(static_cast<uint16_t>(low));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return Bfloat16::from_bits(static_cast<uint16_t>(low));
  } else if constexpr (std::is_same_v<T, bool>) {
    return low != 0;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(low);
  } else {
    return std::bit_cast<T>(low);
  }
}

template <class T>
inline uint32_t low_dword(T value) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<uint32_t>(std::bit_cast<uint64_t>(value));
  } else if constexpr (std::is_same_v<T, Half16> || std::is_same_v<T, Bfloat16>) {
    return value.bits;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<uint16_t>(value);
  } else {
    return std::bit_cast<uint32_t>(value);
  }
}
template <class T>
inline uint32_t high_dword(T value) {
  return static_cast<uint32_t>(std::bit_cast<uint64_t>(value) >> 32);
}

template <int W>
inline void broadcast(uint32_t* lanes, uint32_t value) {
  for (int i = 0; i < W; ++i) lanes[i] = value;
}

// A lane mask as 0 or 1 per lane.
template <int W>
inline void expand_mask(uint32_t* lanes, uint64_t mask) {
  for (int half = 0; half < W / 32; ++half) {
    const uint32_t bits = static_cast<uint32_t>(mask >> (32 * half));
    for (int i = 0; i < 32; ++i) lanes[32 * half + i] = (bits >> i) & 1;
  }
}

// The low bit of each of W bytes, as a mask.
template <int W>
inline uint64_t pack_mask(const uint8_t* bytes) {
  uint64_t mask = 0;
  for (int group = 0; group < W / 8; ++group) {
    uint64_t eight;
    std::memcpy(&eight, bytes + 8 * group, sizeof eight);
    mask |= ((eight & 0x0101010101010101ull) * 0x0102040810204080ull >> 56) << (8 * group);
  }
  return mask;
}

// What reading the sources of one instruction has found out.
struct Reading {
  uint64_t write_mask;  // lanes that may be written: EXEC, less what DPP switches off
};

// Copies the dwords of source k to `low` (and `high`), with every modifier of the operation applied.
template <int W>
void read_modified(Wave& wave, const Operation& op, int k, ValueType type, uint32_t* low, uint32_t* high,
                   Reading& reading);

// Source k of an instruction, for all lanes.
template <int W, class T>
class SourceLanes {
 public:
  SourceLanes(Wave& wave, const Operation& op, int k, Reading& reading) {
    const Source& source = op.source[k];
    if constexpr (std::is_same_v<T, bool>) {
      const uint64_t mask = source.from == From::constant ? source.bits : wave.mask(source.index);
      expand_mask<W>(buffer_low_.lane, mask);
      low_ = buffer_low_.lane;
    } else if (op.plain) {
      if (source.from == From::vector) {
        low_ = wave.row(source.index);
        if constexpr (sizeof(T) == 8) high_ = wave.row(source.index + 1);
        return;
      }
      uint64_t bits = source.bits;
      if (source.from == From::scalar)
        bits = sizeof(T) == 8 ? wave.get_scalar64(source.index) : wave.get_scalar(source.index);
      broadcast<W>(buffer_low_.lane, static_cast<uint32_t>(bits));
      low_ = buffer_low_.lane;
      if constexpr (sizeof(T) == 8) {
        broadcast<W>(buffer_high_.lane, static_cast<uint32_t>(bits >> 32));
        high_ = buffer_high_.lane;
      }
    } else {
      read_modified<W>(wave, op, k, value_type<T>(), buffer_low_.lane, buffer_high_.lane, reading);
      low_ = buffer_low_.lane;
      high_ = buffer_high_.lane;
    }
  }
  SourceLanes(const SourceLanes&) = delete;

  T operator[](int lane) const {
    if constexpr (sizeof(T) == 8)
      return from_dwords<T>(low_[lane], high_[lane]);
    else
      return from_dwords<T>(low_[lane], 0);
  }

 private:
  struct Nothing {
    uint32_t lane[1];
  };
  const uint32_t* low_ = nullptr;
  const uint32_t* high_ = nullptr;
  Lanes<W> buffer_low_;
  // read_modified writes the high half of 64-bit types only.
  std::conditional_t<sizeof(T) == 8, Lanes<W>, Nothing> buffer_high_;
};

// Writes the lanes of `mask` to a row. Lanes outside keep what they had.
template <int W>
inline void write_row(uint32_t* row, const uint32_t* result, uint64_t mask) {
  constexpr uint64_t all = W == 64 ? ~0ull : (1ull << (W % 64)) - 1;
  if ((mask & all) == all) {
    std::memcpy(row, result, W * sizeof(uint32_t));
    return;
  }
  for (int half = 0; half < W / 32; ++half) {
    const uint32_t bits = static_cast<uint32_t>(mask >> (32 * half));
    for (int i = 0; i < 32; ++i) {
      const int lane = 32 * half + i;
      row[lane] = (bits >> i) & 1 ? result[lane] : row[lane];
    }
  }
}

// Applies what the operation asks for after computing: clamp, output multiplier, SDWA, writing one half.
template <int W>
void write_modified(Wave& wave, const Operation& op, ValueType type, uint32_t* low, uint32_t* high,
                    uint64_t mask);

// Writes `low` (and `high` for 64-bit types) to the first destination.
template <int W, class T>
inline void write_result(Wave& wave, const Operation& op, Lanes<W>& low, Lanes<W>& high, uint64_t mask) {
  if (!op.plain) {
    write_modified<W>(wave, op, value_type<T>(), low.lane, high.lane, mask);
    return;
  }
  uint32_t* row = wave.row(op.destination[0].index);
  if constexpr (sizeof(T) == 2) {
    const uint32_t keep = op.keep_mask;
    for (int i = 0; i < W; ++i) low.lane[i] |= row[i] & keep;
  }
  write_row<W>(row, low.lane, mask);
  if constexpr (sizeof(T) == 8) write_row<W>(wave.row(op.destination[0].index + 1), high.lane, mask);
}

}  // namespace hipemu::semantics
