// What a matrix instruction should do, written down apart from the emulator: where the manuals put each
// element, and a plain product.
//
// Layouts are tables of runs. A run of A (or B) says: elements first ... first + count - 1 of K lie one after
// the other in the registers of a lane, from bit `bit` on; row (or column) r has lane `lane` + r. A run of C
// and D says the same of rows, and column c has lane `lane` + c.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "wave_fixture.h"

namespace hipemu::matrix_test {

struct Number {
  std::string_view name;
  int bits, exponent_bits, mantissa_bits, bias;  // no exponent: an integer
};
constexpr Number f64{"f64", 64, 11, 52, 1023}, f32{"f32", 32, 8, 23, 127}, f16{"f16", 16, 5, 10, 15},
    bf16{"bf16", 16, 8, 7, 127}, fp8{"fp8", 8, 4, 3, 7}, bf8{"bf8", 8, 5, 2, 15},
    fp8_fnuz{"fp8_fnuz", 8, 4, 3, 8}, bf8_fnuz{"bf8_fnuz", 8, 5, 2, 16}, i32{"i32", 32, 0, 0, 0},
    i8{"i8", 8, 0, 0, 0}, i4{"i4", 4, 0, 0, 0};

// A value that the format has exactly, and is normal in it or zero.
inline uint64_t encode(const Number& number, double value) {
  const uint64_t mask = number.bits == 64 ? ~0ull : (1ull << number.bits) - 1;
  if (number.exponent_bits == 0) return static_cast<uint64_t>(static_cast<int64_t>(value)) & mask;
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<uint64_t>((2 * fraction - 1) * std::ldexp(1.0, number.mantissa_bits));
  const auto sign = static_cast<uint64_t>(value < 0) << (number.bits - 1);
  return sign | static_cast<uint64_t>(exponent - 1 + number.bias) << number.mantissa_bits | mantissa;
}

inline double decode_number(const Number& number, uint64_t bits) {
  const uint64_t mask = number.bits == 64 ? ~0ull : (1ull << number.bits) - 1;
  bits &= mask;
  const bool negative = bits >> (number.bits - 1) & 1;
  if (number.exponent_bits == 0)
    return negative ? static_cast<double>(bits) - std::ldexp(1.0, number.bits) : static_cast<double>(bits);
  const auto mantissa = bits & ((1ull << number.mantissa_bits) - 1);
  const auto exponent = static_cast<int>(bits >> number.mantissa_bits & ((1ull << number.exponent_bits) - 1));
  const double fraction = std::ldexp(static_cast<double>(mantissa), -number.mantissa_bits);
  const double magnitude = exponent == (1 << number.exponent_bits) - 1 ? (mantissa != 0 ? NAN : INFINITY)
                           : exponent == 0                             ? std::ldexp(fraction, 1 - number.bias)
                                           : std::ldexp(1 + fraction, exponent - number.bias);
  return negative ? -magnitude : magnitude;
}

struct Run {
  int first, count, lane, bit;
};
struct Place {
  int lane, bit;
};

struct Layout {
  std::vector<Run> runs;
  int stride = 0;                       // bits from one element of a run to the next
  int block_lanes = 0, block_bits = 0;  // from one block to the next
  Place at(int along, int across, int block) const {
    for (const Run& run : runs)
      if (along >= run.first && along < run.first + run.count)
        return {run.lane + across + block * block_lanes,
                run.bit + (along - run.first) * stride + block * block_bits};
    ADD_FAILURE() << "no place for element " << along;
    return {};
  }
  int registers() const {
    int bits = 0;
    for (const Run& run : runs) bits = std::max(bits, run.bit + run.count * stride);
    return (bits + 31) / 32;
  }
};

struct MatrixInstruction {
  std::string name, processor;
  int wave = 64;
  Number a, b, d;
  int rows = 0, columns = 0, depth = 0, blocks = 1;
  Layout a_layout, b_layout, d_layout;
  int d_registers = 0;
  bool sparse = false;  // a_layout is then of the elements that are there: half of the depth
  Layout index_layout;  // of pairs of elements, 4 bits each
  int copies = 1;       // of A and B in the lanes
  std::string modifiers = {};
  friend std::ostream& operator<<(std::ostream& out, const MatrixInstruction& instruction) {
    return out << instruction.processor << " wave" << instruction.wave << ' ' << instruction.name;
  }
};

// blocks * rows * columns numbers.
struct Matrices {
  int rows, columns;
  std::vector<double> values;
  Matrices(int blocks, int row_count, int column_count)
      : rows(row_count), columns(column_count), values(static_cast<std::size_t>(blocks) * rows * columns) {}
  double& at(int block, int row, int column) { return values[(block * rows + row) * columns + column]; }
  double at(int block, int row, int column) const { return values[(block * rows + row) * columns + column]; }
};

constexpr int a_first = 0, b_first = 32, index_first = 48, c_first = 64, d_first = 128;

inline std::string registers_text(int first, int count) {
  return count == 1 ? fmt::format("v{}", first) : fmt::format("v[{}:{}]", first, first + count - 1);
}

// A wave with the matrices of one instruction in its registers.
class MatrixWave {
 public:
  explicit MatrixWave(const MatrixInstruction& instruction)
      : instruction_(instruction), fixture(instruction.processor, instruction.wave) {
    for (uint32_t& value : fixture.wave.vectors) value = 0xdeadbeef;
    clear(a_first, instruction.a_layout.registers());
    clear(b_first, instruction.b_layout.registers());
    clear(c_first, instruction.d_registers);
  }

  void set_bits(int first, Place place, int bits, uint64_t value) {
    for (int done = 0; done < bits; done += 32) {
      const int bit = place.bit + done, width = std::min(32, bits - done);
      const auto mask = static_cast<uint32_t>(width == 32 ? ~0u : ((1u << width) - 1) << bit % 32);
      uint32_t& word = fixture.wave.row(first + bit / 32)[place.lane];
      word = (word & ~mask) | (static_cast<uint32_t>(value >> done) << bit % 32 & mask);
    }
  }
  uint64_t get_bits(int first, Place place, int bits) {
    const uint64_t low = fixture.wave.row(first + place.bit / 32)[place.lane] >> place.bit % 32;
    if (bits <= 32) return low & (bits == 32 ? ~0u : (1u << bits) - 1);
    return low | static_cast<uint64_t>(fixture.wave.row(first + place.bit / 32 + 1)[place.lane]) << 32;
  }

  void set_a_bits(int block, int row, int k, uint64_t bits) {
    Place place = instruction_.a_layout.at(k, row, block);
    for (int copy = 0; copy < instruction_.copies; ++copy, place.lane += 16)
      set_bits(a_first, place, instruction_.a.bits, bits);
  }
  void set_b_bits(int block, int k, int column, uint64_t bits) {
    Place place = instruction_.b_layout.at(k, column, block);
    for (int copy = 0; copy < instruction_.copies; ++copy, place.lane += 16)
      set_bits(b_first, place, instruction_.b.bits, bits);
  }
  void set_c_bits(int block, int row, int column, uint64_t bits) {
    set_bits(c_first, instruction_.d_layout.at(row, column, block), instruction_.d.bits, bits);
  }
  uint64_t d_bits(int block, int row, int column) {
    return get_bits(instruction_.sparse ? c_first : d_first, instruction_.d_layout.at(row, column, block),
                    instruction_.d.bits);
  }
  double d(int block, int row, int column) {
    return decode_number(instruction_.d, d_bits(block, row, column));
  }

  void set_a(const Matrices& a) {
    each(instruction_.rows, a.columns, [&](int block, int i, int k) {
      set_a_bits(block, i, k, encode(instruction_.a, a.at(block, i, k)));
    });
  }
  void set_b(const Matrices& b) {
    each(instruction_.depth, instruction_.columns, [&](int block, int k, int j) {
      set_b_bits(block, k, j, encode(instruction_.b, b.at(block, k, j)));
    });
  }
  void set_c(const Matrices& c) {
    each(instruction_.rows, instruction_.columns, [&](int block, int i, int j) {
      set_c_bits(block, i, j, encode(instruction_.d, c.at(block, i, j)));
    });
  }
  // Pair p of row i has elements first and second of the four.
  void set_index(int row, int pair, int first, int second, int set_offset = 0) {
    Place place = instruction_.index_layout.at(pair, row, 0);
    place.bit += set_offset;
    set_bits(index_first, place, 4, static_cast<uint64_t>(second << 2 | first));
  }

  std::string text(const std::string& c = {}) const {
    const std::string a = registers_text(a_first, instruction_.a_layout.registers()),
                      b = registers_text(b_first, instruction_.b_layout.registers()),
                      c_registers = registers_text(c_first, instruction_.d_registers);
    const std::string operands =
        instruction_.sparse ? fmt::format("{}, {}, {}, v{}", c_registers, a, b, index_first)
                            : fmt::format("{}, {}, {}, {}", registers_text(d_first, instruction_.d_registers),
                                          a, b, c.empty() ? c_registers : c);
    return fmt::format("{} {}{}{}", instruction_.name, operands, instruction_.modifiers.empty() ? "" : " ",
                       instruction_.modifiers);
  }
  void execute(const std::string& c = {}) { fixture.execute(text(c)); }

  void clear(int first, int count) {
    for (int r = 0; r < count; ++r) fixture.set_all<uint32_t>(first + r, 0);
  }

 private:
  void each(int first_count, int second_count, const std::function<void(int, int, int)>& visit) {
    for (int block = 0; block < instruction_.blocks; ++block)
      for (int i = 0; i < first_count; ++i)
        for (int j = 0; j < second_count; ++j) visit(block, i, j);
  }
  const MatrixInstruction& instruction_;

 public:
  WaveFixture fixture;
};

inline Matrices random_integers(int blocks, int rows, int columns, int limit, std::mt19937& random) {
  Matrices matrices(blocks, rows, columns);
  std::uniform_int_distribution<int> value(-limit, limit);
  for (double& element : matrices.values) element = value(random);
  return matrices;
}

// Every element of A on its own: D shows the row of B that it met, in the row that it belongs to.
inline void check_places_of_a(const MatrixInstruction& instruction) {
  std::mt19937 random(1);
  const Matrices b = random_integers(instruction.blocks, instruction.depth, instruction.columns, 7, random);
  for (int block = 0; block < instruction.blocks; ++block) {
    for (int i = 0; i < instruction.rows; ++i) {
      MatrixWave wave(instruction);
      wave.set_b(b);
      for (int k = 0; k < instruction.depth; ++k) {
        wave.set_a_bits(block, i, k, encode(instruction.a, 1));
        wave.execute();
        wave.set_a_bits(block, i, k, 0);
        for (int block_of_d = 0; block_of_d < instruction.blocks; ++block_of_d)
          for (int row = 0; row < instruction.rows; ++row)
            for (int j = 0; j < instruction.columns; ++j)
              ASSERT_EQ(wave.d(block_of_d, row, j), row == i && block_of_d == block ? b.at(block, k, j) : 0)
                  << instruction << ": A[" << i << "][" << k << "] of block " << block << " at D[" << row
                  << "][" << j << "] of block " << block_of_d;
      }
    }
  }
}

inline void check_places_of_b(const MatrixInstruction& instruction) {
  std::mt19937 random(2);
  const Matrices a = random_integers(instruction.blocks, instruction.rows, instruction.depth, 7, random);
  for (int block = 0; block < instruction.blocks; ++block) {
    for (int j = 0; j < instruction.columns; ++j) {
      MatrixWave wave(instruction);
      wave.set_a(a);
      for (int k = 0; k < instruction.depth; ++k) {
        wave.set_b_bits(block, k, j, encode(instruction.b, 1));
        wave.execute();
        wave.set_b_bits(block, k, j, 0);
        for (int block_of_d = 0; block_of_d < instruction.blocks; ++block_of_d)
          for (int i = 0; i < instruction.rows; ++i)
            for (int column = 0; column < instruction.columns; ++column)
              ASSERT_EQ(wave.d(block_of_d, i, column),
                        column == j && block_of_d == block ? a.at(block, i, k) : 0)
                  << instruction << ": B[" << k << "][" << j << "] of block " << block;
      }
    }
  }
}

inline void check_product(const MatrixInstruction& instruction) {
  std::mt19937 random(3);
  const Matrices a = random_integers(instruction.blocks, instruction.rows, instruction.depth, 7, random),
                 b = random_integers(instruction.blocks, instruction.depth, instruction.columns, 7, random),
                 c = random_integers(instruction.blocks, instruction.rows, instruction.columns, 100, random);
  for (const bool constant : {false, true}) {
    MatrixWave wave(instruction);
    wave.set_a(a);
    wave.set_b(b);
    wave.set_c(c);
    const bool integers = instruction.d.exponent_bits == 0;
    wave.execute(constant ? (integers ? "-16" : "-4.0") : "");
    for (int block = 0; block < instruction.blocks; ++block)
      for (int i = 0; i < instruction.rows; ++i)
        for (int j = 0; j < instruction.columns; ++j) {
          double expected = constant ? (integers ? -16 : -4) : c.at(block, i, j);
          for (int k = 0; k < instruction.depth; ++k) expected += a.at(block, i, k) * b.at(block, k, j);
          if (instruction.d.mantissa_bits == 7)  // bf16 does not have all of these integers
            expected = bfloat_to_float(float_to_bfloat(static_cast<float>(expected)));
          ASSERT_EQ(wave.d(block, i, j), expected)
              << instruction << " at " << block << ", " << i << ", " << j;
        }
  }
}

// Two elements of every four, chosen at random, against a plain product of A with its zeros.
inline void check_sparse_product(const MatrixInstruction& instruction, int set_offset) {
  std::mt19937 random(4);
  const int stored = instruction.depth / 2;
  const Matrices a = random_integers(1, instruction.rows, stored, 7, random),
                 b = random_integers(1, instruction.depth, instruction.columns, 7, random),
                 c = random_integers(1, instruction.rows, instruction.columns, 100, random);
  Matrices full(1, instruction.rows, instruction.depth);
  MatrixWave wave(instruction);
  wave.set_a(a);
  wave.set_b(b);
  wave.set_c(c);
  constexpr int choices[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  for (int i = 0; i < instruction.rows; ++i)
    for (int pair = 0; pair < stored / 2; ++pair) {
      const auto& choice = choices[random() % 6];
      wave.set_index(i, pair, choice[0], choice[1], set_offset);
      for (int n = 0; n < 2; ++n) full.at(0, i, 4 * pair + choice[n]) = a.at(0, i, 2 * pair + n);
    }
  wave.execute();
  for (int i = 0; i < instruction.rows; ++i)
    for (int j = 0; j < instruction.columns; ++j) {
      double expected = c.at(0, i, j);
      for (int k = 0; k < instruction.depth; ++k) expected += full.at(0, i, k) * b.at(0, k, j);
      if (instruction.d.mantissa_bits == 7)
        expected = bfloat_to_float(float_to_bfloat(static_cast<float>(expected)));
      ASSERT_EQ(wave.d(0, i, j), expected) << instruction << " at " << i << ", " << j;
    }
}

// One element of A at a time, at each of the four places the index can give it.
inline void check_sparse_places(const MatrixInstruction& instruction, int set_offset) {
  std::mt19937 random(5);
  const int stored = instruction.depth / 2;
  const Matrices b = random_integers(1, instruction.depth, instruction.columns, 7, random);
  MatrixWave wave(instruction);
  wave.set_b(b);
  wave.clear(index_first, 1);
  for (int i = 0; i < instruction.rows; ++i)
    for (int element = 0; element < stored; ++element)
      for (int choice = 0; choice < 4; ++choice) {
        wave.set_index(i, element / 2, choice, choice, set_offset);
        wave.clear(c_first, instruction.d_registers);
        wave.set_a_bits(0, i, element, encode(instruction.a, 1));
        wave.execute();
        wave.set_a_bits(0, i, element, 0);
        for (int row = 0; row < instruction.rows; ++row)
          for (int j = 0; j < instruction.columns; ++j)
            ASSERT_EQ(wave.d(0, row, j), row == i ? b.at(0, element / 2 * 4 + choice, j) : 0)
                << instruction << ": element " << element << " of row " << i << " as number " << choice
                << " of four";
      }
}

}  // namespace hipemu::matrix_test
