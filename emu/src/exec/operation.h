// An instruction made ready to execute: operands resolved to registers and constants, and the function that
// runs it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "exec/value.h"
#include "isa/chip.h"
#include "isa/instruction.h"

namespace hipemu {

struct Wave;
struct Operation;

using Execute = void (*)(Wave&, const Operation&);

// What part of the chip an instruction keeps busy, for statistics.
enum class Unit : uint8_t {
  scalar,
  vector,
  matrix,
  scalar_memory,
  global_memory,
  lds,
  scratch,
  branch,
  wait,
  other
};

// What an instruction means, by its name. Most rows are made from a lambda; see semantics/build.h.
struct Semantics {
  std::string_view name;
  Execute wave32 = nullptr, wave64 = nullptr;
  // Run in place of the others when the instruction has the clamp bit and its destination is an integer.
  Execute saturating32 = nullptr, saturating64 = nullptr;
  std::array<ValueType, 2> destinations{};
  std::array<ValueType, 4> sources{};  // in the order of the text
  bool accumulates = false;            // the destination is also read, as a source after those of the text
  bool moves_data =
      false;  // copies or selects bits and computes nothing: an undefined value may pass through
  Unit unit = Unit::vector;
  // For instructions whose text has a form of its own (memory, branches). Runs after the generic reading of
  // operands is skipped; throws std::invalid_argument when the text cannot be understood.
  void (*prepare)(const Instruction&, const Chip&, Operation&) = nullptr;
  // Runs after the generic reading of operands, for instructions whose modifiers mean something of their own.
  void (*refine)(const Instruction&, const Chip&, Operation&) = nullptr;
};

enum class From : uint8_t { nothing, vector, scalar, constant };

// Which part of a register an operand is. SDWA can name any, others the 16-bit halves.
enum class Part : uint8_t { dword, low_word, high_word, byte0, byte1, byte2, byte3 };

struct Source {
  From from = From::nothing;
  uint16_t index = 0;  // row of the vector file, or scalar register
  bool negate = false, absolute = false, sign_extend = false;
  Part part = Part::dword;
  uint64_t bits = 0;  // the constant, in the form its type asks for
};

struct Destination {
  From from = From::nothing;  // vector or scalar
  uint16_t index = 0;
};

// Data of a neighbouring lane as first source.
struct LanePermutation {
  std::array<int8_t, 64> source{};  // lane to read; -1 where there is none
  uint64_t write_mask = ~0ull;      // from row_mask and bank_mask
  bool zero_when_invalid = false;   // bound_ctrl
  bool fetch_inactive = false;      // fi
};

struct Operation {
  Execute run = nullptr;
  const Semantics* semantics = nullptr;
  uint32_t size = 0;  // bytes of code

  std::array<Destination, 2> destination{};
  std::array<Source, 5> source{};
  uint8_t destination_count = 0, source_count = 0;

  // No modifier at all: operands are read and written as they are.
  bool plain = true;
  bool clamp = false;
  uint8_t output_multiply = 0;          // 0 none, 1: *2, 2: *4, 3: /2
  uint32_t keep_mask = 0;               // bits of the destination register that a 16-bit result leaves alone
  Part destination_part = Part::dword;  // where a 16-bit (or SDWA) result goes
  bool sdwa = false;
  enum class Unused : uint8_t { pad, sign_extend, preserve } destination_unused = Unused::pad;
  const LanePermutation* permutation = nullptr;

  // Packed instructions: bit k is for source k.
  uint8_t select_low = 0, select_high = 7, negate_low = 0, negate_high = 0;

  // Memory and branches; what each field means is up to `prepare`.
  int64_t offset = 0, offset1 = 0;
  uint32_t flags = 0;
  int64_t immediate = 0;

  std::shared_ptr<const Operation> second;  // of a dual-issue pair
  std::shared_ptr<const LanePermutation> owned_permutation;
  Instruction instruction;  // for reports and traces
};

}  // namespace hipemu
