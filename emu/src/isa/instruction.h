// One instruction, taken apart from its assembler text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hipemu {

// Scalar registers live in one file: s0 to s105 have their own numbers, the others follow.
namespace scalar {
constexpr uint16_t vcc = 106, ttmp = 108, m0 = 124, null = 125, exec = 126, flat_scratch = 128,
                   xnack_mask = 130, shared_base = 132, shared_limit = 134, private_base = 136,
                   private_limit = 138, vccz = 140, execz = 141, scc = 142, lds_direct = 143, count = 144;
}

enum class Half : uint8_t { whole, low, high };

struct TextOperand {
  enum class Kind : uint8_t {
    vector,    // index = row: v5 is 5, a5 is 256 + 5
    scalar,    // index in the scalar file
    integer,   // inline constant, or offset
    literal,   // 32-bit literal, as written in hexadecimal
    floating,  // inline constant such as 0.5
    off,       // "off"
    name,      // hwreg(...), sendmsg(...), anything else
  };
  Kind kind = Kind::name;
  uint16_t index = 0;
  uint16_t count = 1;  // registers
  bool negate = false, absolute = false, sign_extend = false;
  Half half = Half::whole;
  int64_t integer = 0;
  double floating = 0;
  std::string text;
};

enum class Encoding : uint8_t { plain, e32, e64, dpp, e64_dpp, sdwa };

struct Instruction {
  std::string text;      // as printed by the disassembler
  std::string mnemonic;  // without the suffix of the encoding
  Encoding encoding = Encoding::plain;
  std::vector<TextOperand> operands;
  struct Modifier {
    std::string name;   // "offset", "glc", "op_sel_hi"
    std::string value;  // what follows the colon; empty for a flag
  };
  std::vector<Modifier> modifiers;
  std::vector<Instruction> second;  // the other half of a dual-issue pair: none or one

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const std::string* find(std::string_view name) const;            // null when absent
  int64_t number(std::string_view name, int64_t otherwise) const;  // offset:16, row_mask:0xf
  std::vector<int> list(std::string_view name) const;              // op_sel:[0,1]; empty when absent
};

// Takes the text apart. Throws std::invalid_argument for text it does not understand.
Instruction parse_instruction(std::string_view text);

}  // namespace hipemu
