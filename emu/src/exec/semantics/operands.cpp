// Operands with modifiers: what a source register turns into before an instruction computes, and a result
// before it is stored.
#include <algorithm>
#include <cstring>

#include "exec/operands.h"

namespace hipemu::semantics {
namespace {

template <int W>
constexpr uint64_t all_lanes = W == 64 ? ~0ull : (1ull << (W % 64)) - 1;

// Lane i gets the value of lane source[i]. Lanes that have none, or whose neighbour is switched off, get zero
// or are not written: that is up to bound_ctrl.
template <int W>
void permute(const Wave& wave, const LanePermutation& permutation, const uint32_t* row, uint32_t* result,
             Reading& reading) {
  const uint64_t readable = permutation.fetch_inactive ? ~0ull : wave.exec();
  uint64_t valid = 0;
  for (int i = 0; i < W; ++i) {
    const int from = permutation.source[i];
    const bool ok = from >= 0 && ((readable >> from) & 1) != 0;
    result[i] = ok ? row[from] : 0;
    valid |= static_cast<uint64_t>(ok) << i;
  }
  if (!permutation.zero_when_invalid) reading.write_mask &= valid;
  reading.write_mask &= permutation.write_mask;
}

// The registers of a source, before any modifier.
template <int W>
void fetch(Wave& wave, const Operation& op, int k, bool wide, uint32_t* low, uint32_t* high,
           Reading& reading) {
  const Source& source = op.source[k];
  if (source.from == From::vector) {
    if (k == 0 && op.permutation != nullptr) {
      permute<W>(wave, *op.permutation, wave.row(source.index), low, reading);
      if (wide) permute<W>(wave, *op.permutation, wave.row(source.index + 1), high, reading);
      return;
    }
    std::memcpy(low, wave.row(source.index), W * sizeof(uint32_t));
    if (wide) std::memcpy(high, wave.row(source.index + 1), W * sizeof(uint32_t));
    return;
  }
  uint64_t bits = source.bits;
  if (source.from == From::scalar)
    bits = wide ? wave.get_scalar64(source.index) : wave.get_scalar(source.index);
  broadcast<W>(low, static_cast<uint32_t>(bits));
  if (wide) broadcast<W>(high, static_cast<uint32_t>(bits >> 32));
}

struct BitRange {
  int shift, width;
};
constexpr BitRange range_of(Part part) {
  switch (part) {
    case Part::low_word:
      return {0, 16};
    case Part::high_word:
      return {16, 16};
    case Part::byte0:
      return {0, 8};
    case Part::byte1:
      return {8, 8};
    case Part::byte2:
      return {16, 8};
    case Part::byte3:
      return {24, 8};
    default:
      return {0, 32};
  }
}

template <int W>
void select_part(uint32_t* lanes, Part part, bool sign_extend) {
  const BitRange range = range_of(part);
  if (range.width == 32) return;
  const int left = 32 - range.shift - range.width, right = 32 - range.width;
  if (sign_extend)
    for (int i = 0; i < W; ++i)
      lanes[i] = static_cast<uint32_t>(static_cast<int32_t>(lanes[i] << left) >> right);
  else
    for (int i = 0; i < W; ++i) lanes[i] = lanes[i] << left >> right;
}

// Both halves of a packed source, as op_sel and op_sel_hi pick them, with their signs.
template <int W>
void select_halves(const Operation& op, int k, ValueType type, uint32_t* low, uint32_t* high) {
  const bool low_from_high = (op.select_low >> k) & 1, high_from_high = (op.select_high >> k) & 1;
  const bool negate_low = (op.negate_low >> k) & 1, negate_high = (op.negate_high >> k) & 1;
  if (type == ValueType::packed_f32) {
    const uint32_t low_sign = negate_low ? 0x80000000u : 0, high_sign = negate_high ? 0x80000000u : 0;
    for (int i = 0; i < W; ++i) {
      const uint32_t first = low_from_high ? high[i] : low[i];
      const uint32_t second = high_from_high ? high[i] : low[i];
      low[i] = first ^ low_sign;
      high[i] = second ^ high_sign;
    }
    return;
  }
  const int low_shift = low_from_high ? 16 : 0, high_shift = high_from_high ? 16 : 0;
  const uint32_t signs = (negate_low ? 0x8000u : 0) | (negate_high ? 0x80000000u : 0);
  for (int i = 0; i < W; ++i)
    low[i] = ((low[i] >> low_shift & 0xffffu) | (low[i] >> high_shift) << 16) ^ signs;
}

template <int W>
void change_sign(uint32_t* lanes, uint32_t sign_bit, bool absolute, bool negate) {
  const uint32_t keep = absolute ? ~sign_bit : ~0u, flip = negate ? sign_bit : 0u;
  for (int i = 0; i < W; ++i) lanes[i] = (lanes[i] & keep) ^ flip;
}

constexpr float output_factor[] = {1.0f, 2.0f, 4.0f, 0.5f};

// To [0, 1]; what is not a number becomes zero.
template <class T>
T clamp_to_unit(T value) {
  return value > T(0) ? (value < T(1) ? value : T(1)) : T(0);
}

template <int W, class T>
void scale_and_clamp(const Operation& op, uint32_t* low, uint32_t* high) {
  const T factor = static_cast<T>(output_factor[op.output_multiply & 3]);
  for (int i = 0; i < W; ++i) {
    T value = from_dwords<T>(low[i], sizeof(T) == 8 ? high[i] : 0);
    if (op.output_multiply != 0) value *= factor;
    if (op.clamp) value = clamp_to_unit(value);
    low[i] = low_dword(value);
    if constexpr (sizeof(T) == 8) high[i] = high_dword(value);
  }
}

// A value of 16 bits: Half16 or Bfloat16.
template <class T>
uint16_t scale_and_clamp16(const Operation& op, uint16_t bits) {
  float value = static_cast<float>(T::from_bits(bits));
  if (op.output_multiply != 0) value *= output_factor[op.output_multiply & 3];
  if (op.clamp) value = clamp_to_unit(value);
  return T(value).bits;
}

template <int W, class T>
void scale_and_clamp_halves(const Operation& op, uint32_t* low, bool both) {
  for (int i = 0; i < W; ++i) {
    const uint32_t first = scale_and_clamp16<T>(op, static_cast<uint16_t>(low[i]));
    const uint32_t second = both ? scale_and_clamp16<T>(op, static_cast<uint16_t>(low[i] >> 16)) : 0;
    low[i] = first | second << 16;
  }
}

template <int W>
void finish_float(const Operation& op, ValueType type, uint32_t* low, uint32_t* high) {
  switch (type) {
    case ValueType::f32:
      return scale_and_clamp<W, float>(op, low, high);
    case ValueType::f64:
      return scale_and_clamp<W, double>(op, low, high);
    case ValueType::f16:
      return scale_and_clamp_halves<W, Half16>(op, low, false);
    case ValueType::bf16:
      return scale_and_clamp_halves<W, Bfloat16>(op, low, false);
    case ValueType::packed_f16:
      return scale_and_clamp_halves<W, Half16>(op, low, true);
    case ValueType::packed_bf16:
      return scale_and_clamp_halves<W, Bfloat16>(op, low, true);
    case ValueType::packed_f32:
      scale_and_clamp<W, float>(op, low, high);
      return scale_and_clamp<W, float>(op, high, low);
    default:
      return;
  }
}

}  // namespace

template <int W>
void read_modified(Wave& wave, const Operation& op, int k, ValueType type, uint32_t* low, uint32_t* high,
                   Reading& reading) {
  const Source& source = op.source[k];
  const bool wide = dwords(type) == 2;
  fetch<W>(wave, op, k, wide, low, high, reading);
  if (is_packed(type)) {
    select_halves<W>(op, k, type, low, high);
    return;
  }
  if (source.part != Part::dword) select_part<W>(low, source.part, source.sign_extend);
  // Only floats have signs to change, but selects and moves of plain bits take the modifiers too.
  const bool negate = source.negate != (is_float(type) && ((op.negate_low >> k) & 1) != 0);
  if (!source.absolute && !negate) return;
  if (wide)
    change_sign<W>(high, 0x80000000u, source.absolute, negate);
  else
    change_sign<W>(low, is_16_bit(type) ? 0x8000u : 0x80000000u, source.absolute, negate);
}

template <int W>
void write_modified(Wave& wave, const Operation& op, ValueType type, uint32_t* low, uint32_t* high,
                    uint64_t mask) {
  if ((op.clamp || op.output_multiply != 0) && is_float(type)) finish_float<W>(op, type, low, high);
  uint32_t* row = wave.row(op.destination[0].index);
  const BitRange range = range_of(op.destination_part);
  if (range.width < 32) {
    const uint32_t field = (~0u >> (32 - range.width)) << range.shift;
    // SDWA says what happens to the other bits; writing one half otherwise leaves the other alone.
    const bool preserve = !op.sdwa || op.destination_unused == Operation::Unused::preserve;
    const bool sign_extend = op.sdwa && op.destination_unused == Operation::Unused::sign_extend;
    const uint32_t keep =
        preserve ? (op.sdwa || op.destination_part != Part::low_word ? ~field : op.keep_mask) : 0;
    const int left = 32 - range.width, right = left - range.shift;
    for (int i = 0; i < W; ++i) {
      const uint32_t moved = sign_extend
                                 ? static_cast<uint32_t>(static_cast<int32_t>(low[i] << left) >> right)
                                 : low[i] << left >> right;
      low[i] = (moved & (sign_extend ? ~0u << range.shift : field)) | (row[i] & keep);
    }
  } else if (is_16_bit(type)) {
    for (int i = 0; i < W; ++i) low[i] = (low[i] & 0xffffu) | (row[i] & op.keep_mask);
  }
  write_row<W>(row, low, mask & all_lanes<W>);
  if (dwords(type) == 2) write_row<W>(wave.row(op.destination[0].index + 1), high, mask & all_lanes<W>);
}

template void read_modified<32>(Wave&, const Operation&, int, ValueType, uint32_t*, uint32_t*, Reading&);
template void read_modified<64>(Wave&, const Operation&, int, ValueType, uint32_t*, uint32_t*, Reading&);
template void write_modified<32>(Wave&, const Operation&, ValueType, uint32_t*, uint32_t*, uint64_t);
template void write_modified<64>(Wave&, const Operation&, ValueType, uint32_t*, uint32_t*, uint64_t);

}  // namespace hipemu::semantics
