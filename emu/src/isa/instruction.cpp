// Parses what LLVM's AMDGPU instruction printer writes.
#include "isa/instruction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace hipemu {
namespace {

[[noreturn]] void reject(std::string_view what) {
  throw std::invalid_argument(fmt::format("cannot read '{}'", what));
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

// Splits at `separator` outside of any brackets.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == separator && depth == 0)) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '[' || text[i] == '(') {
      ++depth;
    } else if (text[i] == ']' || text[i] == ')') {
      --depth;
    }
  }
  return parts;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

constexpr std::array<std::pair<std::string_view, uint16_t>, 32> named_scalars = {{
    {"vcc_lo", scalar::vcc},
    {"vcc_hi", scalar::vcc + 1},
    {"exec_lo", scalar::exec},
    {"exec_hi", scalar::exec + 1},
    {"m0", scalar::m0},
    {"null", scalar::null},
    {"scc", scalar::scc},
    {"src_scc", scalar::scc},
    {"flat_scratch_lo", scalar::flat_scratch},
    {"flat_scratch_hi", scalar::flat_scratch + 1},
    {"src_flat_scratch_base_lo", scalar::flat_scratch},
    {"src_flat_scratch_base_hi", scalar::flat_scratch + 1},
    {"xnack_mask_lo", scalar::xnack_mask},
    {"xnack_mask_hi", scalar::xnack_mask + 1},
    {"vccz", scalar::vccz},
    {"src_vccz", scalar::vccz},
    {"execz", scalar::execz},
    {"src_execz", scalar::execz},
    {"src_lds_direct", scalar::lds_direct},
    {"src_shared_base_lo", scalar::shared_base},
    {"src_shared_limit_lo", scalar::shared_limit},
    {"src_private_base_lo", scalar::private_base},
    {"src_private_limit_lo", scalar::private_limit},
    // 64 bits wide
    {"vcc", scalar::vcc},
    {"exec", scalar::exec},
    {"flat_scratch", scalar::flat_scratch},
    {"xnack_mask", scalar::xnack_mask},
    {"src_shared_base", scalar::shared_base},
    {"src_shared_limit", scalar::shared_limit},
    {"src_private_base", scalar::private_base},
    {"src_private_limit", scalar::private_limit},
    {"lds_direct", scalar::lds_direct},
}};
constexpr std::size_t first_wide_scalar = 23, last_wide_scalar = 30;

// v5, v[4:7], a3, s[0:1], ttmp9, v3.l, vcc_lo ...
bool parse_register(std::string_view text, TextOperand& operand) {
  for (std::size_t i = 0; i < named_scalars.size(); ++i) {
    if (named_scalars[i].first == text) {
      operand.kind = TextOperand::Kind::scalar;
      operand.index = named_scalars[i].second;
      operand.count = i >= first_wide_scalar && i <= last_wide_scalar ? 2 : 1;
      return true;
    }
  }
  uint16_t base = 0;
  std::string_view rest;
  if (text.starts_with("ttmp")) {
    operand.kind = TextOperand::Kind::scalar;
    base = scalar::ttmp;
    rest = text.substr(4);
  } else if (text.starts_with('v') || text.starts_with('a') || text.starts_with('s')) {
    operand.kind = text[0] == 's' ? TextOperand::Kind::scalar : TextOperand::Kind::vector;
    base = text[0] == 'a' ? 256 : 0;
    rest = text.substr(1);
  } else {
    return false;
  }
  if (rest.ends_with(".l")) operand.half = Half::low;
  if (rest.ends_with(".h")) operand.half = Half::high;
  if (operand.half != Half::whole) rest.remove_suffix(2);
  if (rest.starts_with('[') && rest.ends_with(']')) {
    const std::string_view range = rest.substr(1, rest.size() - 2);
    const std::size_t colon = range.find(':');
    const auto first = parse_integer(range.substr(0, colon));
    const auto last = colon == std::string_view::npos ? first : parse_integer(range.substr(colon + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > 511) return false;
    operand.index = static_cast<uint16_t>(base + *first);
    operand.count = static_cast<uint16_t>(*last - *first + 1);
    return true;
  }
  const auto number = parse_integer(rest);
  if (!number || *number < 0 || *number > 511 || rest.empty() || rest[0] == '-') return false;
  operand.index = static_cast<uint16_t>(base + *number);
  return true;
}

TextOperand parse_operand(std::string_view text) {
  TextOperand operand;
  operand.text = std::string(text);
  if (text == "off") {
    operand.kind = TextOperand::Kind::off;
    return operand;
  }
  if (const auto integer = parse_integer(text)) {
    operand.kind =
        text.find("0x") != std::string_view::npos ? TextOperand::Kind::literal : TextOperand::Kind::integer;
    operand.integer = *integer;
    return operand;
  }
  const char after_sign = text.size() > 1 ? text[1] : ' ';
  if (!text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) ||
                        (text[0] == '-' && std::isdigit(static_cast<unsigned char>(after_sign))))) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) {
      operand.kind = TextOperand::Kind::floating;
      operand.floating = value;
      return operand;
    }
  }
  std::string_view body = text;
  for (bool again = true; again;) {
    again = false;
    const auto inside = [&](std::string_view prefix, char close) {
      if (!body.starts_with(prefix) || !body.ends_with(close) || body.size() <= prefix.size()) return false;
      body = body.substr(prefix.size(), body.size() - prefix.size() - 1);
      return again = true;
    };
    if (body.starts_with('-')) {
      operand.negate = again = true;
      body.remove_prefix(1);
    } else if (inside("neg(", ')')) {
      operand.negate = true;
    } else if (inside("abs(", ')') || inside("|", '|')) {
      operand.absolute = true;
    } else if (inside("sext(", ')')) {
      operand.sign_extend = true;
    }
  }
  if (parse_register(body, operand)) return operand;
  // A constant under a modifier, such as |1.0| or neg(2).
  if (operand.negate || operand.absolute || operand.sign_extend) {
    TextOperand inner = parse_operand(body);
    inner.negate = operand.negate;
    inner.absolute = operand.absolute;
    inner.sign_extend = operand.sign_extend;
    inner.text = std::string(text);
    return inner;
  }
  operand.kind = TextOperand::Kind::name;
  return operand;
}

// Not a16: where no operand comes before it that is a register.
bool is_modifier_word(std::string_view word) {
  constexpr std::array words = {"glc",        "slc",   "dlc",   "scc",   "sc0",    "sc1", "nt",
                                "gds",        "lds",   "offen", "idxen", "addr64", "tfe", "clamp",
                                "bound_ctrl", "unorm", "r128",  "d16",   "done",   "vm"};
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Instructions whose operands are hints for the pipeline, printed in a language of their own.
bool is_hint(std::string_view mnemonic) {
  return mnemonic.starts_with("s_waitcnt") || mnemonic.starts_with("s_wait_") || mnemonic == "s_delay_alu";
}

Instruction parse_single(std::string_view text) {
  Instruction instruction;
  instruction.text = std::string(text);
  const std::size_t space = text.find(' ');
  std::string_view mnemonic = text.substr(0, space);
  constexpr std::array<std::pair<std::string_view, Encoding>, 5> suffixes = {{
      {"_e64_dpp", Encoding::e64_dpp},
      {"_e32", Encoding::e32},
      {"_e64", Encoding::e64},
      {"_dpp", Encoding::dpp},
      {"_sdwa", Encoding::sdwa},
  }};
  for (const auto& [suffix, encoding] : suffixes) {
    if (mnemonic.ends_with(suffix)) {
      mnemonic.remove_suffix(suffix.size());
      instruction.encoding = encoding;
      break;
    }
  }
  instruction.mnemonic = std::string(mnemonic);
  if (space == std::string_view::npos || is_hint(mnemonic)) return instruction;

  const auto add_modifier = [&](std::string_view word) {
    const std::size_t colon = word.find(':');
    Instruction::Modifier modifier;
    modifier.name = std::string(word.substr(0, colon));
    if (colon != std::string_view::npos) modifier.value = std::string(word.substr(colon + 1));
    instruction.modifiers.push_back(std::move(modifier));
  };
  const auto pieces = split(trim(text.substr(space + 1)), ',');
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].empty()) continue;
    // Only the last piece can carry modifiers, after a space.
    const auto words = split(pieces[i], ' ');
    for (std::size_t w = 0; w < words.size(); ++w) {
      if (words[w].empty()) continue;
      const bool labelled =
          words[w].find(':') != std::string_view::npos && words[w].find('[') > words[w].find(':');
      const bool modifier = w > 0 || labelled || is_modifier_word(words[w]);
      if (modifier)
        add_modifier(words[w]);
      else
        instruction.operands.push_back(parse_operand(words[w]));
    }
  }
  return instruction;
}

}  // namespace

const std::string* Instruction::find(std::string_view name) const {
  for (const Modifier& modifier : modifiers)
    if (modifier.name == name) return &modifier.value;
  return nullptr;
}

int64_t Instruction::number(std::string_view name, int64_t otherwise) const {
  const std::string* value = find(name);
  if (value == nullptr) return otherwise;
  const auto integer = parse_integer(*value);
  if (!integer) reject(fmt::format("{}:{}", name, *value));
  return *integer;
}

std::vector<int> Instruction::list(std::string_view name) const {
  const std::string* value = find(name);
  std::vector<int> numbers;
  if (value == nullptr) return numbers;
  std::string_view body = *value;
  if (body.size() < 2 || body.front() != '[' || body.back() != ']') reject(*value);
  for (const std::string_view part : split(body.substr(1, body.size() - 2), ',')) {
    const auto integer = parse_integer(part);
    if (!integer) reject(*value);
    numbers.push_back(static_cast<int>(*integer));
  }
  return numbers;
}

Instruction parse_instruction(std::string_view text) {
  text = trim(text);
  // What LLVM adds to an encoding that the chip does not have, such as a pair of registers that begins at an
  // odd one; the registers that it prints are others.
  if (text.find("; Warning:") != std::string_view::npos || text.find("/*Invalid") != std::string_view::npos)
    reject(text);
  const std::size_t pair = text.find(" :: ");
  if (pair == std::string_view::npos) return parse_single(text);
  Instruction first = parse_single(trim(text.substr(0, pair)));
  first.second.push_back(parse_single(trim(text.substr(pair + 4))));
  first.text = std::string(text);
  return first;
}

}  // namespace hipemu
