// Matrix instructions: D = A * B + C, where the lanes of a wave hold the matrices together.
//
// All of them follow one plan; a Shape says the rest.
//   1. Take the registers of A and B apart into one number per element and lane.
//   2. Read the rows of C. A row always lies in neighbouring lanes of one register.
//   3. Multiply and add, in single precision (double for f64, 32-bit integers for integers).
//   4. Write the rows to D, rounding once where D has 16 bits.
//
// Lanes hold A by rows and B by columns: lane l has row l % rows (of A) and the part of K that its group of
// lanes stands for. A lane's n-th element of A meets the n-th element of B in the same group, so how the
// manual numbers K inside a lane changes nothing but the order of the sum, which the hardware does not
// promise.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "exec/dispatch.h"
#include "exec/semantics/build.h"
#include "exec/semantics/small_floats.h"

namespace hipemu::semantics {

enum class Format : uint8_t {
  f64,
  f32,
  xf32,  // f32 of which the product sees 10 bits of mantissa
  f16,
  bf16,
  fp8,       // E4M3, OCP
  bf8,       // E5M2, OCP
  fp8_fnuz,  // E4M3 and E5M2 with one more exponent below, no infinities and 0x80 as the only NaN
  bf8_fnuz,
  i32,
  iu8,  // signed or not, as the instruction says
  iu4,
};

constexpr int bits_of(Format format) {
  switch (format) {
    case Format::f64:
      return 64;
    case Format::f32:
    case Format::xf32:
    case Format::i32:
      return 32;
    case Format::f16:
    case Format::bf16:
      return 16;
    case Format::iu4:
      return 4;
    default:
      return 8;
  }
}
constexpr bool is_integer(Format format) { return format >= Format::i32; }

// Where the rows of C and D are.
enum class RowOrder : uint8_t { mfma, wmma_gfx11, wmma_gfx12 };

struct Shape {
  Format a{}, b{}, result{};
  int rows = 0, columns = 0, depth = 0, blocks = 1;  // M, N, K; blocks are independent products
  RowOrder order{};
  int wave = 64;
  int a_groups = 1, b_groups = 1;  // groups of lanes that hold different parts of K
  bool sparse = false;             // A has two of every four elements of K, an index says which

  constexpr int stored_depth() const { return sparse ? depth / 2 : depth; }  // of A
  constexpr int a_elements() const { return stored_depth() / a_groups; }     // per lane
  constexpr int b_elements() const { return depth / b_groups; }
  constexpr int a_registers() const { return a_elements() * bits_of(a) / 32; }
  constexpr int b_registers() const { return b_elements() * bits_of(b) / 32; }
  constexpr int a_lanes() const { return rows * blocks * a_groups; }
  constexpr int b_lanes() const { return columns * blocks * b_groups; }
  constexpr int result_registers() const {
    const int bits = result == Format::f64                                    ? 64
                     : bits_of(result) == 16 && order == RowOrder::wmma_gfx12 ? 16
                                                                              : 32;
    return rows * columns * blocks * bits / 32 / wave;
  }
};

struct RowPlace {
  int slot;  // register, counted in elements: pairs for f64, halves for packed 16-bit results
  int lane;
};

// Row i of block b of C and D.
template <Shape S>
constexpr RowPlace row_place(int b, int i) {
  switch (S.order) {
    case RowOrder::wmma_gfx11:
      return {i / (S.wave / 16), 16 * (i % (S.wave / 16))};
    case RowOrder::wmma_gfx12:
      if (S.wave == 32) return {i % 8, 16 * (i / 8)};
      return {i % 4, 32 * (i / 4 % 2) + 16 * (i / 8)};
    default: {
      // Strips of four rows (one of f64) fill the lanes, those of the blocks that share a register side by
      // side.
      const int height = S.result == Format::f64 ? 1 : 4;
      const int strips = 64 / S.columns;
      const int sharing = std::max(1, 64 * height / (S.rows * S.columns));
      return {b * (S.rows * S.columns / 64) + i / (height * strips) * height + i % height,
              b % sharing * S.columns + i / height % strips * sharing * S.columns};
    }
  }
}

// Lane of the first of the b_groups that hold row k of B. One instruction (16x16x32 iu4, sparse, wave64) has
// A in half of the lanes only, and there the groups of B are interleaved.
template <Shape S>
constexpr int b_group_lane(int group) {
  if (S.a_groups != S.b_groups) return 32 * (group % 2) + 16 * (group / 2);
  return S.columns * S.blocks * group;
}

// --- What `prepare` leaves for execution, in Operation::flags ---

struct MatrixFlags {
  uint32_t bits = 0;
  static constexpr uint32_t gfx12 = 1u << 31, flush_denormals = 1u << 30;
  constexpr int field(int shift) const { return static_cast<int>(bits >> shift & 15); }
  constexpr int broadcast_size() const { return field(0); }
  constexpr int broadcast_block() const { return field(4); }
  constexpr int lane_pattern() const { return field(8); }
  constexpr int index_set() const { return field(12); }
  constexpr bool high_half() const { return field(16) != 0; }
  constexpr bool flushes() const { return (bits & flush_denormals) != 0; }
};

// --- Numbers ---

template <Format F>
struct FormatTraits {
  using Value =
      std::conditional_t<F == Format::f64, double, std::conditional_t<is_integer(F), int32_t, float>>;
};

// The bits of an element, at the bottom of a dword, as a number. `sign` is the sign bit of a signed integer,
// 0 of others.
template <Format F>
inline typename FormatTraits<F>::Value element_value(uint32_t bits, [[maybe_unused]] uint32_t sign) {
  if constexpr (F == Format::f32 || F == Format::i32) {
    return std::bit_cast<typename FormatTraits<F>::Value>(bits);
  } else if constexpr (F == Format::xf32) {
    return std::bit_cast<float>(bits & ~0x1fffu);  // cut off, not rounded, as measured on gfx942
  } else if constexpr (F == Format::f16) {
    return half_to_float(static_cast<uint16_t>(bits));
  } else if constexpr (F == Format::bf16) {
    return bfloat_to_float(static_cast<uint16_t>(bits));
  } else if constexpr (F == Format::fp8) {
    return decode_small<E4m3>(static_cast<uint8_t>(bits));
  } else if constexpr (F == Format::bf8) {
    return decode_small<E5m2>(static_cast<uint8_t>(bits));
  } else if constexpr (F == Format::fp8_fnuz) {
    return decode_small<E4m3Fnuz>(static_cast<uint8_t>(bits));
  } else if constexpr (F == Format::bf8_fnuz) {
    return decode_small<E5m2Fnuz>(static_cast<uint8_t>(bits));
  } else {
    const uint32_t value = bits & (F == Format::iu8 ? 0xffu : 0xfu);
    return static_cast<int32_t>((value ^ sign) - sign);
  }
}

#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__)
constexpr bool has_fast_fma = true;
#else
constexpr bool has_fast_fma = false;
#endif

// Products of f32 and f64 are not rounded before the sum. Those of narrower floats are exact anyway (but for
// the ends of bf16's range).
template <Format F, class T>
inline T multiply_add(T a, T b, T c) {
  if constexpr (is_integer(F))
    return a * b + c;
  else if constexpr (has_fast_fma || F == Format::f32 || F == Format::f64)
    return std::fma(a, b, c);
  else
    return a * b + c;
}

constexpr float smallest_normal(Format format) { return format == Format::f16 ? 0x1p-14f : 0x1p-126f; }

// --- Operands ---

template <class T, int Elements, int Lanes>
struct Fragment {
  alignas(64) T element[Elements][Lanes];
};

// Step 1. `flip` is applied to the bits of each register (of the high one for f64): it negates floats.
template <Format F, int Elements, int LaneCount>
inline void take_apart(Wave& wave, uint32_t first, uint32_t flip, bool is_signed, bool flush,
                       Fragment<typename FormatTraits<F>::Value, Elements, LaneCount>& fragment) {
  if constexpr (F == Format::f64) {
    for (int e = 0; e < Elements; ++e) {
      const uint32_t* low = wave.row(first + 2 * e);
      const uint32_t* high = wave.row(first + 2 * e + 1);
      for (int lane = 0; lane < LaneCount; ++lane)
        fragment.element[e][lane] = from_dwords<double>(low[lane], high[lane] ^ flip);
    }
  } else {
    constexpr int bits = bits_of(F), per_register = 32 / bits;
    const uint32_t sign = is_signed ? 1u << (bits - 1) : 0;
    for (int e = 0; e < Elements; ++e) {
      const uint32_t* row = wave.row(first + e / per_register);
      const int shift = bits * (e % per_register);
      for (int lane = 0; lane < LaneCount; ++lane)
        fragment.element[e][lane] = element_value<F>((row[lane] ^ flip) >> shift, sign);
    }
    if constexpr (F == Format::f16 || F == Format::bf16) {
      if (!flush) return;
      for (int e = 0; e < Elements; ++e)
        for (float& value : fragment.element[e]) value = std::abs(value) < smallest_normal(F) ? 0.0f : value;
    }
  }
}

// blgp: the groups of 16 lanes that B is taken from.
template <class T, int Elements>
inline void permute_lane_groups(int pattern, Fragment<T, Elements, 64>& fragment) {
  constexpr int source[8][4] = {{0, 1, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}, {1, 2, 3, 0},
                                {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
  if (pattern == 0) return;
  for (int e = 0; e < Elements; ++e) {
    T old[64];
    std::copy_n(fragment.element[e], 64, old);
    for (int group = 0; group < 4; ++group)
      std::copy_n(old + 16 * source[pattern & 7][group], 16, fragment.element[e] + 16 * group);
  }
}

// --- C and D ---

// One row of C, from registers or a constant, as numbers.
template <Shape S, class Sum>
inline void read_row(Wave& wave, const Operation& op, MatrixFlags flags, int b, int i, Sum* row) {
  const Source& source = op.source[2];
  const RowPlace place = row_place<S>(b, i);
  const bool negate = op.negate_low & 4, absolute = op.negate_high & 4;
  if constexpr (S.result == Format::f64) {
    for (int j = 0; j < S.columns; ++j) {
      double value = std::bit_cast<double>(source.bits);
      if (source.from == From::vector)
        value = from_dwords<double>(wave.row(source.index + 2 * place.slot)[place.lane + j],
                                    wave.row(source.index + 2 * place.slot + 1)[place.lane + j]);
      row[j] = negate ? -value : value;
    }
    return;
  } else {
    constexpr bool halves = bits_of(S.result) == 16;
    constexpr bool packed = halves && S.order == RowOrder::wmma_gfx12;
    uint32_t bits[S.columns];
    if (source.from == From::vector) {
      const uint32_t* registers =
          wave.row(source.index + (packed ? place.slot / 2 : place.slot)) + place.lane;
      const int shift = halves && (packed ? place.slot % 2 != 0 : flags.high_half()) ? 16 : 0;
      for (int j = 0; j < S.columns; ++j) bits[j] = registers[j] >> shift;
    } else {
      for (int j = 0; j < S.columns; ++j) bits[j] = static_cast<uint32_t>(source.bits);
    }
    for (int j = 0; j < S.columns; ++j) row[j] = element_value<S.result>(bits[j], 0);
    if constexpr (!is_integer(S.result)) {
      if (absolute)
        for (int j = 0; j < S.columns; ++j) row[j] = std::abs(row[j]);
      if (negate)
        for (int j = 0; j < S.columns; ++j) row[j] = -row[j];
      if (flags.flushes())
        for (int j = 0; j < S.columns; ++j) row[j] = std::abs(row[j]) < 0x1p-126f ? 0.0f : row[j];
    }
  }
}

template <Shape S, class Sum>
inline void write_row_of_result(Wave& wave, const Operation& op, MatrixFlags flags, int b, int i,
                                const Sum* row) {
  const uint32_t first = op.destination[0].index;
  const RowPlace place = row_place<S>(b, i);
  if constexpr (S.result == Format::f64) {
    uint32_t* low = wave.row(first + 2 * place.slot) + place.lane;
    uint32_t* high = wave.row(first + 2 * place.slot + 1) + place.lane;
    for (int j = 0; j < S.columns; ++j) {
      low[j] = low_dword(row[j]);
      high[j] = high_dword(row[j]);
    }
  } else if constexpr (bits_of(S.result) == 16) {
    constexpr bool packed = S.order == RowOrder::wmma_gfx12;
    uint32_t* registers = wave.row(first + (packed ? place.slot / 2 : place.slot)) + place.lane;
    const int shift = (packed ? place.slot % 2 != 0 : flags.high_half()) ? 16 : 0;
    const uint32_t keep = 0xffff0000u >> shift;  // the other half of the register
    for (int j = 0; j < S.columns; ++j) {
      const uint32_t half = S.result == Format::f16 ? float_to_half(row[j]) : float_to_bfloat(row[j]);
      registers[j] = (registers[j] & keep) | half << shift;
    }
  } else {
    uint32_t* registers = wave.row(first + place.slot) + place.lane;
    for (int j = 0; j < S.columns; ++j) {
      Sum value = row[j];
      if constexpr (S.result == Format::f32)
        if (flags.flushes()) value = std::abs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
      registers[j] = std::bit_cast<uint32_t>(value);
    }
  }
}

// --- The instruction ---

// How many rows are summed at a time: as many as the host's registers hold. Rows of a sparse A share nothing.
template <Shape S>
constexpr int rows_at_once() {
  if (S.sparse) return 1;
  return std::min(S.rows, std::max(1, 64 / S.columns / (S.result == Format::f64 ? 2 : 1)));
}

// Step 3: sum += A * B, for the rows from `first` on.
template <Shape S, class T, int AElements, int ALanes, int BElements, int BLanes>
inline void multiply_rows(const Fragment<T, AElements, ALanes>& a, const Fragment<T, BElements, BLanes>& b,
                          int a_block, int b_block, int first, T (&sum)[rows_at_once<S>()][S.columns]) {
  constexpr int count = rows_at_once<S>();
  for (int group = 0; group < S.a_groups; ++group) {
    const int a_lane = S.rows * (a_block + S.blocks * group) + first;
    for (int e = 0; e < AElements; ++e) {
      const T* row = &b.element[e][S.columns * (b_block + S.blocks * group)];
#pragma GCC unroll 16
      for (int i = 0; i < count; ++i) {
        const T factor = a.element[e][a_lane + i];
        for (int j = 0; j < S.columns; ++j) sum[i][j] = multiply_add<S.a>(factor, row[j], sum[i][j]);
      }
    }
  }
}

// The same for one row of a sparse A. `index` has two bits for each element, which say which of four rows of
// B it meets. Written with vectors: the compiler does not find them behind the index.
template <Shape S, class T, int AElements, int ALanes, int BElements, int BLanes>
inline void multiply_sparse_row(const Fragment<T, AElements, ALanes>& a,
                                const Fragment<T, BElements, BLanes>& b, const uint32_t* index, int i,
                                T (&sum)[S.columns]) {
  typedef T Pack __attribute__((vector_size(16)));
  constexpr int width = 16 / sizeof(T), packs = S.columns / width;
  Pack part[packs];
  std::memcpy(part, sum, sizeof part);
  for (int group = 0; group < S.a_groups; ++group) {
    const int lane = S.rows * group + i;
    for (int e = 0; e < AElements; ++e) {
      const int k = group * (S.depth / S.a_groups) + 4 * (e / 2) + static_cast<int>(index[lane] >> 2 * e & 3);
      const T* row = &b.element[k % BElements][b_group_lane<S>(k / BElements)];
#pragma GCC unroll 8
      for (int p = 0; p < packs; ++p) {
        Pack values;
        std::memcpy(&values, row + width * p, sizeof values);
        part[p] += a.element[e][lane] * values;
      }
    }
  }
  std::memcpy(sum, part, sizeof part);
}

inline int32_t saturated_sum(int32_t a, int32_t b) {
  const int64_t sum = static_cast<int64_t>(a) + b;
  return static_cast<int32_t>(
      std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

template <Shape S>
void run_matrix(Wave& wave, const Operation& op) {
  using T = typename FormatTraits<S.a>::Value;
  constexpr int count = rows_at_once<S>();
  const MatrixFlags flags{op.flags};

  const auto flip = [&](int k) -> uint32_t {
    const bool low = op.negate_low >> k & 1, high = op.negate_high >> k & 1;
    if (S.a == Format::f64) return low ? 0x80000000u : 0;
    if (bits_of(S.a) == 16) return (low ? 0x8000u : 0) | (high ? 0x80000000u : 0);
    return 0;
  };
  const auto is_signed = [&](int k) { return S.order == RowOrder::mfma || (op.negate_low >> k & 1) != 0; };
  Fragment<T, S.a_elements(), S.a_lanes()> a;
  Fragment<T, S.b_elements(), S.b_lanes()> b;
  take_apart<S.a>(wave, op.source[0].index, flip(0), is_signed(0), flags.flushes(), a);
  take_apart<S.b>(wave, op.source[1].index, flip(1), is_signed(1), flags.flushes(), b);
  if constexpr (S.order == RowOrder::mfma && !S.sparse) permute_lane_groups(flags.lane_pattern(), b);

  uint32_t index[64] = {};
  if constexpr (S.sparse) {
    const int bits = 2 * S.a_elements() * flags.index_set();
    const uint32_t* row = wave.row(op.source[3].index);
    for (int lane = 0; lane < S.wave; ++lane) index[lane] = row[lane] >> bits;
  }

  // D may lie over any of the sources: everything is read before anything is written.
  alignas(64) T results[S.blocks * S.rows][S.columns];
  for (int block = 0; block < S.blocks; ++block) {
    // cbsz: 2^cbsz neighbouring blocks all take the A of number abid among them.
    const int size = 1 << flags.broadcast_size();
    [[maybe_unused]] const int a_block = (block & ~(size - 1)) + flags.broadcast_block();
    for (int first = 0; first < S.rows; first += count) {
      alignas(64) T sum[count][S.columns];
      for (int i = 0; i < count; ++i) {
        if constexpr (is_integer(S.result))
          std::fill_n(sum[i], S.columns, 0);
        else
          read_row<S>(wave, op, flags, block, first + i, sum[i]);
      }
      if constexpr (S.sparse)
        multiply_sparse_row<S>(a, b, index, first, sum[0]);
      else
        multiply_rows<S>(a, b, a_block, block, first, sum);
      for (int i = 0; i < count; ++i) {
        T* result = results[block * S.rows + first + i];
        if constexpr (is_integer(S.result)) {
          T row[S.columns];
          read_row<S>(wave, op, flags, block, first + i, row);
          if (op.clamp)
            for (int j = 0; j < S.columns; ++j) result[j] = saturated_sum(row[j], sum[i][j]);
          else
            for (int j = 0; j < S.columns; ++j)
              result[j] =
                  static_cast<int32_t>(static_cast<uint32_t>(row[j]) + static_cast<uint32_t>(sum[i][j]));
        } else {
          std::copy_n(sum[i], S.columns, result);
        }
      }
    }
  }
  for (int block = 0; block < S.blocks; ++block)
    for (int i = 0; i < S.rows; ++i)
      write_row_of_result<S>(wave, op, flags, block, i, results[block * S.rows + i]);
}

// --- Reading the text ---

inline bool checks_matrix(const Wave& wave) {
  return wave.dispatch == nullptr || wave.dispatch->checks.matrix;
}

inline uint16_t register_operand(const TextOperand& operand, std::string_view what, const Chip& chip) {
  if (operand.kind != TextOperand::Kind::vector)
    throw std::invalid_argument(fmt::format("{} must be in vector registers, not '{}'", what, operand.text));
  if (chip.unified_vgprs && operand.count > 1 && operand.index % 2 != 0)
    throw std::invalid_argument(
        fmt::format("{} is in {}: tuples of registers must begin at an even one on {}", what, operand.text,
                    chip.processor));
  return operand.index;
}

inline void expect_registers(const TextOperand& operand, int count, std::string_view what) {
  if (operand.kind == TextOperand::Kind::vector && operand.count != count)
    throw std::invalid_argument(fmt::format("{} takes {} registers, not {}", what, count, operand.text));
}

// An inline constant for C is the same number in every element.
inline uint64_t constant_element(const TextOperand& operand, Format format) {
  if (operand.kind == TextOperand::Kind::integer) return static_cast<uint64_t>(operand.integer);
  if (operand.kind != TextOperand::Kind::floating)
    throw std::invalid_argument(fmt::format("'{}' cannot be the matrix C", operand.text));
  const double value = operand.floating;
  const bool inverse_two_pi = value > 0.159 && value < 0.1592;  // printed with fewer digits than it has
  switch (format) {
    case Format::f64:
      return inverse_two_pi ? 0x3fc45f306dc9c882ull : std::bit_cast<uint64_t>(value);
    case Format::f16:
      return inverse_two_pi ? 0x3118 : float_to_half(static_cast<float>(value));
    case Format::bf16:
      return inverse_two_pi ? 0x3e22 : float_to_bfloat(static_cast<float>(value));
    default:
      return inverse_two_pi ? 0x3e22f983u : std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

inline uint8_t bits_from_list(const std::vector<int>& list) {
  uint8_t bits = 0;
  for (std::size_t k = 0; k < list.size() && k < 3; ++k) bits |= static_cast<uint8_t>((list[k] & 1) << k);
  return bits;
}

// D, A, B and C; or D (which is C, too), A, B and the index of a sparse A.
template <Shape S>
void read_matrix_operands(const Instruction& instruction, const Chip& chip, Operation& op) {
  const auto& operands = instruction.operands;
  if (operands.size() != 4) throw std::invalid_argument("four operands expected");
  expect_registers(operands[0], S.result_registers(), "D");
  expect_registers(operands[1], S.a_registers(), "A");
  expect_registers(operands[2], S.b_registers(), "B");
  const auto vector_source = [](uint16_t index) {
    Source source;
    source.from = From::vector;
    source.index = index;
    return source;
  };
  op.destination[0] = {From::vector, register_operand(operands[0], "D", chip)};
  op.destination_count = 1;
  op.source[0] = vector_source(register_operand(operands[1], "A", chip));
  op.source[1] = vector_source(register_operand(operands[2], "B", chip));
  if (S.sparse) {
    op.source[2] = vector_source(op.destination[0].index);
    op.source[3] = vector_source(register_operand(operands[3], "the index", chip));
    op.source_count = 4;
  } else if (operands[3].kind == TextOperand::Kind::vector) {
    expect_registers(operands[3], S.result_registers(), "C");
    op.source[2] = vector_source(register_operand(operands[3], "C", chip));
    op.source_count = 3;
  } else {
    op.source[2].from = From::constant;
    op.source[2].bits = constant_element(operands[3], S.result);
    op.source_count = 3;
  }
}

}  // namespace hipemu::semantics
