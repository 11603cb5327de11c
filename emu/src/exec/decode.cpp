// Reads operands and modifiers of an instruction into an Operation, by the row of its mnemonic.
#include "exec/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "exec/semantics/table.h"
#include "exec/wave.h"

namespace hipemu {
namespace {

using Kind = TextOperand::Kind;

const std::unordered_map<std::string_view, Semantics>& table() {
  // Never destroyed: a kernel may still run while the process ends.
  static const auto& instance = *[] {
    auto* rows = new std::unordered_map<std::string_view, Semantics>;
    for (const Semantics& row : all_semantics()) rows->emplace(row.name, row);
    return rows;
  }();
  return instance;
}

// An inline float constant such as 0.5, in the bits that an operand of this type sees. Integer operands of 16
// bits see the single-precision value: the hardware does not convert for them.
uint64_t floating_constant(double value, ValueType type) {
  const bool inverse_two_pi = value > 0.159 && value < 0.1592;
  switch (type) {
    case ValueType::f16:
    case ValueType::packed_f16:
      return inverse_two_pi ? 0x3118 : float_to_half(static_cast<float>(value));
    case ValueType::bf16:
    case ValueType::packed_bf16:
      return inverse_two_pi ? 0x3e22 : float_to_bfloat(static_cast<float>(value));
    case ValueType::f64:
    case ValueType::u64:
    case ValueType::i64:
      return inverse_two_pi ? 0x3fc45f306dc9c882ull : std::bit_cast<uint64_t>(value);
    case ValueType::packed_f32: {
      const uint64_t bits = inverse_two_pi ? 0x3e22f983u : std::bit_cast<uint32_t>(static_cast<float>(value));
      return bits << 32 | bits;
    }
    default:
      return inverse_two_pi ? 0x3e22f983u : std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

uint64_t constant_bits(const TextOperand& operand, ValueType type) {
  switch (operand.kind) {
    case Kind::floating:
      return floating_constant(operand.floating, type);
    case Kind::literal:
      // The 32 bits of a literal are the high half of a double, and extend to 64 bits as the type does.
      if (type == ValueType::f64) return static_cast<uint64_t>(operand.integer) << 32;
      if (type == ValueType::i64)
        return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(operand.integer)));
      if (type == ValueType::packed_f32)
        return static_cast<uint64_t>(operand.integer) << 32 | static_cast<uint32_t>(operand.integer);
      return static_cast<uint32_t>(operand.integer);
    default:
      if (type == ValueType::packed_f32)
        return static_cast<uint64_t>(operand.integer) << 32 | static_cast<uint32_t>(operand.integer);
      return static_cast<uint64_t>(operand.integer);
  }
}

void check_registers(const TextOperand& operand, int needed) {
  const int limit = operand.kind == Kind::vector ? 512 : scalar::count;
  if (operand.index + needed > limit) throw std::invalid_argument("register number out of range");
}

Source read_source(const TextOperand& operand, ValueType type) {
  Source source;
  source.negate = operand.negate;
  source.absolute = operand.absolute;
  source.sign_extend = operand.sign_extend;
  if (operand.half == Half::high) source.part = Part::high_word;
  if (operand.half == Half::low) source.part = Part::low_word;
  switch (operand.kind) {
    case Kind::vector:
    case Kind::scalar:
      check_registers(operand, type == ValueType::mask ? operand.count : std::max(1, dwords(type)));
      source.from = operand.kind == Kind::vector ? From::vector : From::scalar;
      source.index = operand.index;
      return source;
    case Kind::integer:
    case Kind::literal:
    case Kind::floating:
      source.from = From::constant;
      source.bits = constant_bits(operand, type);
      return source;
    default:
      throw std::invalid_argument(fmt::format("operand '{}' not understood", operand.text));
  }
}

Destination read_destination(const TextOperand& operand, ValueType type) {
  Destination destination;
  if (operand.kind != Kind::vector && operand.kind != Kind::scalar)
    throw std::invalid_argument(fmt::format("'{}' cannot be written to", operand.text));
  check_registers(operand, type == ValueType::mask ? operand.count : std::max(1, dwords(type)));
  destination.from = operand.kind == Kind::vector ? From::vector : From::scalar;
  destination.index = operand.index;
  return destination;
}

Part parse_part(std::string_view text) {
  if (text == "DWORD") return Part::dword;
  if (text == "WORD_0") return Part::low_word;
  if (text == "WORD_1") return Part::high_word;
  if (text == "BYTE_0") return Part::byte0;
  if (text == "BYTE_1") return Part::byte1;
  if (text == "BYTE_2") return Part::byte2;
  if (text == "BYTE_3") return Part::byte3;
  throw std::invalid_argument(fmt::format("part '{}' not understood", text));
}

void read_sdwa(const Instruction& instruction, Operation& op) {
  if (instruction.encoding != Encoding::sdwa) return;
  op.sdwa = true;
  op.plain = false;
  if (const auto* part = instruction.find("dst_sel")) op.destination_part = parse_part(*part);
  if (const auto* part = instruction.find("src0_sel")) op.source[0].part = parse_part(*part);
  if (const auto* part = instruction.find("src1_sel")) op.source[1].part = parse_part(*part);
  if (const auto* unused = instruction.find("dst_unused")) {
    if (*unused == "UNUSED_SEXT") op.destination_unused = Operation::Unused::sign_extend;
    if (*unused == "UNUSED_PRESERVE") op.destination_unused = Operation::Unused::preserve;
  }
}

// Which lane each lane reads, for every form of DPP. -1: none.
void fill_permutation(const Instruction& instruction, int wave_size, LanePermutation& permutation) {
  const auto each_lane = [&](auto&& source) {
    for (int lane = 0; lane < wave_size; ++lane) permutation.source[lane] = static_cast<int8_t>(source(lane));
  };
  const auto in_row = [](int lane, int position) {
    return position < 0 || position > 15 ? -1 : (lane & ~15) + position;
  };
  const auto in_wave = [&](int lane) { return lane < 0 || lane >= wave_size ? -1 : lane; };
  const auto number = [&](std::string_view name) { return static_cast<int>(instruction.number(name, 0)); };
  if (instruction.has("dpp8")) {
    const auto select = instruction.list("dpp8");
    if (select.size() != 8) throw std::invalid_argument("dpp8 needs eight lanes");
    each_lane([&](int lane) { return (lane & ~7) + (select[lane & 7] & 7); });
  } else if (instruction.has("quad_perm")) {
    const auto select = instruction.list("quad_perm");
    if (select.size() != 4) throw std::invalid_argument("quad_perm needs four lanes");
    each_lane([&](int lane) { return (lane & ~3) + (select[lane & 3] & 3); });
  } else if (instruction.has("row_shl")) {
    each_lane([&, n = number("row_shl")](int lane) { return in_row(lane, (lane & 15) + n); });
  } else if (instruction.has("row_shr")) {
    each_lane([&, n = number("row_shr")](int lane) { return in_row(lane, (lane & 15) - n); });
  } else if (instruction.has("row_ror")) {
    each_lane([&, n = number("row_ror")](int lane) { return (lane & ~15) + (((lane & 15) - n) & 15); });
  } else if (instruction.has("row_mirror")) {
    each_lane([](int lane) { return lane ^ 15; });
  } else if (instruction.has("row_half_mirror")) {
    each_lane([](int lane) { return lane ^ 7; });
  } else if (instruction.has("row_share")) {
    each_lane([&, n = number("row_share")](int lane) { return (lane & ~15) + n; });
  } else if (instruction.has("row_newbcast")) {
    each_lane([&, n = number("row_newbcast")](int lane) { return (lane & ~15) + n; });
  } else if (instruction.has("row_xmask")) {
    each_lane([&, n = number("row_xmask")](int lane) { return lane ^ n; });
  } else if (instruction.has("row_bcast")) {
    // The last lane of a row of 16 (or of 32 lanes) to all of the next one.
    const int size = number("row_bcast") + 1;
    each_lane([&](int lane) { return lane < size ? -1 : (lane / size) * size - 1; });
  } else if (instruction.has("wave_shl")) {
    each_lane([&](int lane) { return in_wave(lane + 1); });
  } else if (instruction.has("wave_shr")) {
    each_lane([&](int lane) { return in_wave(lane - 1); });
  } else if (instruction.has("wave_rol")) {
    each_lane([&](int lane) { return (lane + 1) % wave_size; });
  } else if (instruction.has("wave_ror")) {
    each_lane([&](int lane) { return (lane + wave_size - 1) % wave_size; });
  } else {
    throw std::invalid_argument("form of DPP not understood");
  }
}

// LLVM prints comparisons that write VCC or EXEC without the suffix: the modifiers are all there is.
bool has_dpp(const Instruction& instruction) {
  return instruction.encoding == Encoding::dpp || instruction.encoding == Encoding::e64_dpp ||
         instruction.has("row_mask") || instruction.has("dpp8");
}

void read_dpp(const Instruction& instruction, int wave_size, Operation& op) {
  if (!has_dpp(instruction)) return;
  auto permutation = std::make_shared<LanePermutation>();
  fill_permutation(instruction, wave_size, *permutation);
  const auto row_mask = instruction.number("row_mask", 0xf), bank_mask = instruction.number("bank_mask", 0xf);
  permutation->write_mask = 0;
  for (int lane = 0; lane < wave_size; ++lane) {
    const bool row = (row_mask >> (lane / 16)) & 1, bank = (bank_mask >> (lane % 16 / 4)) & 1;
    if (row && bank) permutation->write_mask |= 1ull << lane;
  }
  permutation->zero_when_invalid = instruction.has("bound_ctrl");
  permutation->fetch_inactive = instruction.number("fi", 0) != 0;
  // A row that broadcasts leaves the rows without a source alone, whatever bound_ctrl says about the others.
  op.permutation = permutation.get();
  op.owned_permutation = std::move(permutation);
  op.plain = false;
}

uint8_t bit_list(const std::vector<int>& list, uint8_t otherwise) {
  if (list.empty()) return otherwise;
  uint8_t bits = 0;
  for (std::size_t k = 0; k < list.size(); ++k) bits |= static_cast<uint8_t>((list[k] & 1) << k);
  return bits;
}

// op_sel of instructions that are not packed chooses halves of 16-bit operands, the last bit that of the
// result.
void read_half_selection(const Instruction& instruction, Operation& op) {
  const auto select = instruction.list("op_sel");
  for (std::size_t k = 0; k < select.size(); ++k) {
    if (select[k] == 0) continue;
    if (k < op.source_count && k + 1 < select.size())
      op.source[k].part = Part::high_word;
    else
      op.destination_part = Part::high_word;
  }
}

bool any_packed(const Semantics& row) {
  return std::any_of(row.sources.begin(), row.sources.end(), is_packed);
}

void read_output_modifiers(const Instruction& instruction, Operation& op) {
  op.clamp = instruction.has("clamp");
  if (const auto* factor = instruction.find("mul")) op.output_multiply = *factor == "4" ? 2 : 1;
  if (instruction.has("div")) op.output_multiply = 3;
  if (op.clamp || op.output_multiply != 0) op.plain = false;
}

// gfx9 clears the other half of the register when an instruction of its predecessors writes 16 bits; later
// chips, and the instructions that came with gfx9, leave it alone.
uint32_t kept_bits(const Semantics& row, const Chip& chip) {
  if (!is_16_bit(row.destinations[0])) return 0;
  if (chip.generation != Generation::gfx9) return 0xffff0000u;
  constexpr std::string_view keeping[] = {"v_mad_f16",       "v_mad_u16",       "v_mad_i16",
                                          "v_fma_f16",       "v_div_fixup_f16", "v_fma_mixlo_f16",
                                          "v_fma_mixhi_f16", "v_mad_mixlo_f16", "v_mad_mixhi_f16"};
  return std::find(std::begin(keeping), std::end(keeping), row.name) != std::end(keeping) ? 0xffff0000u : 0;
}

// Operands in the order destinations, sources; then whatever modifiers there are.
void read_generic(const Instruction& instruction, const Chip& chip, int wave_size, Operation& op) {
  const Semantics& row = *op.semantics;
  std::size_t next = 0;
  const auto& operands = instruction.operands;
  for (const ValueType type : row.destinations) {
    if (type == ValueType::none) break;
    if (type == ValueType::mask && next == 0 && operands.size() == 2) {  // v_cmpx from gfx10 on: EXEC only
      op.destination[op.destination_count++] = {From::scalar, scalar::exec};
      continue;
    }
    if (next >= operands.size()) throw std::invalid_argument("too few operands");
    if (operands[next].half == Half::high) op.destination_part = Part::high_word;
    op.destination[op.destination_count++] = read_destination(operands[next++], type);
  }
  for (const ValueType type : row.sources) {
    if (type == ValueType::none) break;
    if (type == ValueType::mask &&
        next == operands.size()) {  // v_dual_cndmask_b32 reads VCC without saying so
      op.source[op.source_count++] = {.from = From::scalar, .index = scalar::vcc};
      continue;
    }
    if (next >= operands.size()) throw std::invalid_argument("too few operands");
    op.source[op.source_count++] = read_source(operands[next++], type);
  }
  if (next != operands.size()) throw std::invalid_argument("too many operands");
  if (row.unit == Unit::scalar) return;

  op.keep_mask = kept_bits(row, chip);
  read_sdwa(instruction, op);
  read_dpp(instruction, wave_size, op);
  read_output_modifiers(instruction, op);
  if (any_packed(row)) {
    op.select_low = bit_list(instruction.list("op_sel"), 0);
    op.select_high = bit_list(instruction.list("op_sel_hi"), 7);
    op.negate_low = bit_list(instruction.list("neg_lo"), 0);
    op.negate_high = bit_list(instruction.list("neg_hi"), 0);
    op.plain =
        op.plain && op.select_low == 0 && op.select_high == 7 && op.negate_low == 0 && op.negate_high == 0;
    // A scalar or constant has one half only (two for packed f32): the modifiers decide what the other one
    // sees.
    for (int k = 0; k < op.source_count; ++k)
      if (op.source[k].from != From::vector) op.plain = false;
  } else {
    read_half_selection(instruction, op);
  }
  for (int k = 0; k < op.source_count; ++k) {
    const Source& source = op.source[k];
    if (source.negate || source.absolute || source.sign_extend || source.part == Part::high_word)
      op.plain = false;
  }
  if (op.destination_part == Part::high_word) op.plain = false;
  if (row.accumulates) {
    Source old;
    old.from = From::vector;
    old.index = op.destination[0].index;
    if (is_16_bit(row.destinations[0]) && op.destination_part == Part::high_word) old.part = Part::high_word;
    op.source[op.source_count++] = old;
  }
}

// Integers from integers, where the clamp bit would have to saturate. (What comes from floats does so
// anyway, and comparisons raise exceptions by it.)
bool computes_integers(const Semantics& row) {
  const ValueType result = row.destinations[0];
  return row.prepare == nullptr && result != ValueType::none && result != ValueType::mask &&
         !is_float(result) && std::none_of(row.sources.begin(), row.sources.end(), is_float);
}

constexpr uint32_t second_reads_first = 1;

// A dual-issue pair: both halves read before either writes.
template <int W>
void run_dual(Wave& wave, const Operation& op) {
  const Execute first = W == 32 ? op.semantics->wave32 : op.semantics->wave64;
  if (op.flags != second_reads_first) {
    first(wave, op);
    op.second->run(wave, *op.second);
    return;
  }
  std::array<uint32_t, W> before, after;
  uint32_t* row = wave.row(op.destination[0].index);
  std::copy_n(row, W, before.begin());
  first(wave, op);
  std::copy_n(row, W, after.begin());
  std::copy_n(before.begin(), W, row);
  op.second->run(wave, *op.second);
  std::copy_n(after.begin(), W, row);
}

}  // namespace

const Semantics* find_semantics(std::string_view mnemonic) {
  const auto found = table().find(mnemonic);
  return found == table().end() ? nullptr : &found->second;
}

std::vector<std::string_view> known_mnemonics() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Operation> decode(const Instruction& instruction, const Chip& chip, int wave_size) {
  std::string_view mnemonic = instruction.mnemonic;
  if (mnemonic.starts_with("v_dual_")) {
    static thread_local std::string ordinary;
    ordinary = "v_" + std::string(mnemonic.substr(7));
    mnemonic = ordinary;
  }
  auto op = std::make_unique<Operation>();
  op->instruction = instruction;
  op->semantics = find_semantics(mnemonic);
  if (op->semantics == nullptr)
    throw UnknownInstruction(fmt::format("unknown instruction: {}", instruction.text));
  try {
    if (op->semantics->prepare != nullptr)
      op->semantics->prepare(instruction, chip, *op);
    else
      read_generic(instruction, chip, wave_size, *op);
    if (op->semantics->refine != nullptr) op->semantics->refine(instruction, chip, *op);
  } catch (const std::invalid_argument& problem) {
    throw UnknownInstruction(fmt::format("{}: {}", instruction.text, problem.what()));
  }
  const Semantics& row = *op->semantics;
  op->run = wave_size == 32 ? row.wave32 : row.wave64;
  const bool integer_result = !is_float(row.destinations[0]);
  if (op->clamp && integer_result && row.saturating32 != nullptr) {
    op->run = wave_size == 32 ? row.saturating32 : row.saturating64;
    op->clamp = false;
  }
  if (op->clamp && computes_integers(row))
    throw UnknownInstruction(fmt::format("{}: not known how this saturates", instruction.text));
  if (op->run == nullptr)
    throw UnknownInstruction(fmt::format("{}: not available for waves of {}", instruction.text, wave_size));
  if (!instruction.second.empty()) {
    op->second = decode(instruction.second.front(), chip, wave_size);
    for (int k = 0; k < op->second->source_count; ++k) {
      const Source& source = op->second->source[k];
      if (source.from == From::vector && source.index == op->destination[0].index)
        op->flags = second_reads_first;
    }
    op->run = wave_size == 32 ? run_dual<32> : run_dual<64>;
  }
  return op;
}

Program::Program(std::span<const std::byte> code, const Chip& chip, int wave_size)
    : code_(code),
      begin_(reinterpret_cast<uint64_t>(code.data())),
      chip_(chip),
      wave_size_(wave_size),
      slots_(code.size() / 4) {}

Program::~Program() = default;

const Operation& Program::decode_at(uint64_t address) {
  const uint64_t offset = address - begin_;
  if (offset / 4 >= slots_.size() || offset % 4 != 0)
    throw KernelFault{Fault::Kind::illegal_address,
                      fmt::format("jump to {:#x}, which is outside of the code", address), -1, address};
  const std::lock_guard lock(mutex_);
  auto& slot = slots_[offset / 4];
  if (const Operation* operation = slot.load(std::memory_order_acquire)) return *operation;
  if (disassembler_ == nullptr) disassembler_ = std::make_unique<Disassembler>(chip_, wave_size_);
  const auto line = disassembler_->decode(code_.subspan(offset), address);
  if (line.size == 0)
    throw KernelFault{Fault::Kind::illegal_instruction, "these bytes are no instruction of this chip", -1,
                      address};
  try {
    auto operation = decode(parse_instruction(line.text), chip_, wave_size_);
    operation->size = static_cast<uint32_t>(line.size);
    operations_.push_back(std::move(operation));
  } catch (const std::exception& problem) {
    throw KernelFault{Fault::Kind::illegal_instruction, problem.what(), -1, address};
  }
  slot.store(operations_.back().get(), std::memory_order_release);
  return *operations_.back();
}

}  // namespace hipemu
