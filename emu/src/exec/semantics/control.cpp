// Branches, calls, barriers, messages, and the instructions that only guide the pipeline.
#include <fmt/format.h>

#include <chrono>

#include "exec/control.h"
#include "exec/semantics/build.h"

namespace hipemu::semantics {
namespace {

void run_nothing(Wave&, const Operation&) {}
void prepare_nothing(const Instruction&, const Chip&, Operation&) {}

// --- Branches ---

int64_t branch_distance(const TextOperand& operand) {
  if (operand.kind != TextOperand::Kind::integer && operand.kind != TextOperand::Kind::literal)
    throw std::invalid_argument("branch distance expected");
  return 4 * static_cast<int64_t>(static_cast<int16_t>(operand.integer));
}

void prepare_branch(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 1) throw std::invalid_argument("one operand expected");
  op.offset = branch_distance(instruction.operands[0]);
}

void run_branch(Wave& wave, const Operation& op) { wave.pc += static_cast<uint64_t>(op.offset); }

template <class F>
void run_branch_if(Wave& wave, const Operation& op) {
  if (F{}(wave)) wave.pc += static_cast<uint64_t>(op.offset);
}

template <class F>
void add_branch(Rows& rows, std::string_view name, F) {
  rows.push_back(custom(name, Unit::branch, run_branch_if<F>, run_branch_if<F>, prepare_branch));
}

void prepare_call(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 2 || instruction.operands[0].kind != TextOperand::Kind::scalar)
    throw std::invalid_argument("register and distance expected");
  op.destination[0] = {From::scalar, instruction.operands[0].index};
  op.offset = branch_distance(instruction.operands[1]);
}

void run_call(Wave& wave, const Operation& op) {
  wave.set_scalar64(op.destination[0].index, wave.pc);
  wave.pc += static_cast<uint64_t>(op.offset);
}

void run_getpc(Wave& wave, const Operation& op) { wave.set_scalar64(op.destination[0].index, wave.pc); }

void run_setpc(Wave& wave, const Operation& op) {
  wave.pc = read_scalar_source<uint64_t>(wave, op.source[0]);
}

void run_swappc(Wave& wave, const Operation& op) {
  const auto target = read_scalar_source<uint64_t>(wave, op.source[0]);
  wave.set_scalar64(op.destination[0].index, wave.pc);
  wave.pc = target;
}

Semantics jump(std::string_view name, Execute run, ValueType destination, ValueType source) {
  Semantics row = custom(name, Unit::scalar, run, run);
  row.destinations[0] = destination;
  row.sources[0] = source;
  row.unit = Unit::scalar;
  return row;
}

void add_branches(Rows& rows) {
  rows.push_back(custom("s_branch", Unit::branch, run_branch, run_branch, prepare_branch));
  add_branch(rows, "s_cbranch_scc0", [](const Wave& wave) { return !wave.scc; });
  add_branch(rows, "s_cbranch_scc1", [](const Wave& wave) { return wave.scc; });
  add_branch(rows, "s_cbranch_vccz", [](const Wave& wave) { return wave.mask(scalar::vcc) == 0; });
  add_branch(rows, "s_cbranch_vccnz", [](const Wave& wave) { return wave.mask(scalar::vcc) != 0; });
  add_branch(rows, "s_cbranch_execz", [](const Wave& wave) { return wave.exec() == 0; });
  add_branch(rows, "s_cbranch_execnz", [](const Wave& wave) { return wave.exec() != 0; });
  rows.push_back(custom("s_call_b64", Unit::branch, run_call, run_call, prepare_call));
  rows.push_back(jump("s_getpc_b64", run_getpc, ValueType::u64, ValueType::none));
  rows.push_back(jump("s_setpc_b64", run_setpc, ValueType::none, ValueType::u64));
  rows.push_back(jump("s_swappc_b64", run_swappc, ValueType::u64, ValueType::u64));
}

// --- Ends, barriers, messages ---

void run_end(Wave& wave, const Operation&) { wave.state = Wave::State::ended; }

void run_barrier(Wave& wave, const Operation&) { reach_barrier(wave); }

void run_grid_barrier(Wave& wave, const Operation&) { reach_grid_barrier(wave); }

void run_sleep(Wave& wave, const Operation&) {
  // The wave waits for another one: let that run.
  wave.state = Wave::State::yielded;
}

void run_trap(Wave&, const Operation& op) {
  throw KernelFault{
      Fault::Kind::assertion,
      fmt::format("trap {}: the kernel called abort(), failed an assertion or reached code that must "
                  "not be reached",
                  op.immediate)};
}

void prepare_trap(const Instruction& instruction, const Chip&, Operation& op) {
  op.immediate = instruction.operands.empty() ? 0 : instruction.operands[0].integer;
}

void prepare_message(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.empty()) throw std::invalid_argument("message expected");
  op.immediate = instruction.operands[0].text.find("MSG_INTERRUPT") != std::string::npos;
}

void run_message(Wave& wave, const Operation& op) {
  if (op.immediate != 0) serve_host_calls(wave);
}

void prepare_message_with_reply(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 2 || instruction.operands[0].kind != TextOperand::Kind::scalar)
    throw std::invalid_argument("register and message expected");
  const std::string& message = instruction.operands[1].text;
  if (message.find("MSG_RTN_GET_REALTIME") == std::string::npos &&
      message.find("MSG_RTN_GET_DOORBELL") == std::string::npos)
    throw std::invalid_argument("message not known");
  op.destination[0] = {From::scalar, instruction.operands[0].index};
}

// A clock of 100 MHz, as the chips have.
uint64_t clock_ticks() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) / 10;
}

void run_clock(Wave& wave, const Operation& op) { wave.set_scalar64(op.destination[0].index, clock_ticks()); }
void run_short_clock(Wave& wave, const Operation& op) {
  wave.set_scalar(op.destination[0].index, static_cast<uint32_t>(clock_ticks()));
}

// --- Hardware registers ---

enum class HardwareRegister : uint32_t {
  mode,
  cycles_low,
  cycles_high,
  flat_scratch_low,
  flat_scratch_high,
  zero
};

HardwareRegister hardware_register(std::string_view name) {
  if (name == "HW_REG_MODE" || name == "HW_REG_WAVE_MODE") return HardwareRegister::mode;
  if (name == "HW_REG_SHADER_CYCLES" || name == "HW_REG_SHADER_CYCLES_LO")
    return HardwareRegister::cycles_low;
  if (name == "HW_REG_SHADER_CYCLES_HI") return HardwareRegister::cycles_high;
  if (name == "HW_REG_FLAT_SCR_LO") return HardwareRegister::flat_scratch_low;
  if (name == "HW_REG_FLAT_SCR_HI") return HardwareRegister::flat_scratch_high;
  // Where a wave runs: there is one place only.
  for (const std::string_view known :
       {"HW_REG_HW_ID", "HW_REG_HW_ID1", "HW_REG_HW_ID2", "HW_REG_XCC_ID", "HW_REG_TRAPSTS", "HW_REG_STATUS",
        "HW_REG_GPR_ALLOC", "HW_REG_LDS_ALLOC", "HW_REG_IB_STS", "HW_REG_IB_STS2"})
    if (name == known) return HardwareRegister::zero;
  throw std::invalid_argument(fmt::format("hardware register '{}' not known", name));
}

// hwreg(NAME) or hwreg(NAME, first bit, bits). The printer splits nothing inside the brackets.
void read_hardware_register(const TextOperand& operand, Operation& op) {
  std::string_view text = operand.text;
  if (!text.starts_with("hwreg(") || !text.ends_with(')')) throw std::invalid_argument("hwreg(...) expected");
  text = text.substr(6, text.size() - 7);
  const std::size_t comma = text.find(',');
  op.flags = static_cast<uint32_t>(hardware_register(text.substr(0, comma)));
  op.offset = 0;
  op.offset1 = 32;
  if (comma != std::string_view::npos) {
    const std::string numbers(text.substr(comma + 1));
    const std::size_t second = numbers.find(',');
    op.offset = std::stoi(numbers.substr(0, second));
    if (second != std::string::npos) op.offset1 = std::stoi(numbers.substr(second + 1));
  }
  if (op.offset < 0 || op.offset1 < 1 || op.offset + op.offset1 > 32)
    throw std::invalid_argument("bits out of range");
}

uint32_t field_mask(const Operation& op) {
  const uint64_t ones = (1ull << op.offset1) - 1;
  return static_cast<uint32_t>(ones << op.offset);
}

void prepare_getreg(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 2) throw std::invalid_argument("two operands expected");
  op.destination[0] = {From::scalar, instruction.operands[0].index};
  read_hardware_register(instruction.operands[1], op);
}

void prepare_setreg(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 2) throw std::invalid_argument("two operands expected");
  read_hardware_register(instruction.operands[0], op);
  const TextOperand& value = instruction.operands[1];
  if (value.kind == TextOperand::Kind::scalar)
    op.source[0] = {.from = From::scalar, .index = value.index};
  else
    op.source[0] = {.from = From::constant, .bits = static_cast<uint32_t>(value.integer)};
}

void run_getreg(Wave& wave, const Operation& op) {
  uint32_t value = 0;
  switch (static_cast<HardwareRegister>(op.flags)) {
    case HardwareRegister::mode:
      value = wave.mode;
      break;
    case HardwareRegister::cycles_low:
      value = static_cast<uint32_t>(clock_ticks());
      break;
    case HardwareRegister::cycles_high:
      value = static_cast<uint32_t>(clock_ticks() >> 32);
      break;
    case HardwareRegister::flat_scratch_low:
      value = wave.scalars[scalar::flat_scratch];
      break;
    case HardwareRegister::flat_scratch_high:
      value = wave.scalars[scalar::flat_scratch + 1];
      break;
    case HardwareRegister::zero:
      break;
  }
  wave.set_scalar(op.destination[0].index, (value & field_mask(op)) >> op.offset);
}

void run_setreg(Wave& wave, const Operation& op) {
  const uint32_t mask = field_mask(op);
  const uint32_t value = read_scalar_source<uint32_t>(wave, op.source[0]) << op.offset & mask;
  const auto merge = [&](uint32_t& target) { target = (target & ~mask) | value; };
  switch (static_cast<HardwareRegister>(op.flags)) {
    case HardwareRegister::mode:
      merge(wave.mode);
      break;
    case HardwareRegister::flat_scratch_low:
      merge(wave.scalars[scalar::flat_scratch]);
      break;
    case HardwareRegister::flat_scratch_high:
      merge(wave.scalars[scalar::flat_scratch + 1]);
      break;
    default:
      break;
  }
}

void prepare_number(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 1) throw std::invalid_argument("one operand expected");
  op.immediate = instruction.operands[0].integer;
}
void run_round_mode(Wave& wave, const Operation& op) {
  wave.mode = (wave.mode & ~0xfu) | (static_cast<uint32_t>(op.immediate) & 0xf);
}
void run_denorm_mode(Wave& wave, const Operation& op) {
  wave.mode = (wave.mode & ~0xf0u) | (static_cast<uint32_t>(op.immediate) & 0xf) << 4;
}

// --- Indexing mode of gfx9 ---

// gpr_idx(SRC0,DST) or a number.
uint8_t parse_index_mode(const TextOperand& operand) {
  if (operand.kind == TextOperand::Kind::integer || operand.kind == TextOperand::Kind::literal)
    return static_cast<uint8_t>(operand.integer & 15);
  uint8_t mode = 0;
  if (operand.text.find("SRC0") != std::string::npos) mode |= 1;
  if (operand.text.find("SRC1") != std::string::npos) mode |= 2;
  if (operand.text.find("SRC2") != std::string::npos) mode |= 4;
  if (operand.text.find("DST") != std::string::npos) mode |= 8;
  return mode;
}

void prepare_index_on(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 2) throw std::invalid_argument("two operands expected");
  const TextOperand& index = instruction.operands[0];
  if (index.kind == TextOperand::Kind::scalar)
    op.source[0] = {.from = From::scalar, .index = index.index};
  else
    op.source[0] = {.from = From::constant, .bits = static_cast<uint32_t>(index.integer)};
  op.immediate = parse_index_mode(instruction.operands[1]);
}

void set_index(Wave& wave, const Operation& op) {
  const uint32_t index = read_scalar_source<uint32_t>(wave, op.source[0]) & 0xff;
  wave.scalars[scalar::m0] = (wave.scalars[scalar::m0] & ~0xffu) | index;
}
void run_index_on(Wave& wave, const Operation& op) {
  set_index(wave, op);
  wave.scalars[scalar::m0] = (wave.scalars[scalar::m0] & ~0xf000u) | static_cast<uint32_t>(op.immediate)
                                                                         << 12;
  wave.index_mode = static_cast<uint8_t>(op.immediate);
}
void run_index_off(Wave& wave, const Operation&) { wave.index_mode = 0; }

void prepare_index_mode(const Instruction& instruction, const Chip&, Operation& op) {
  if (instruction.operands.size() != 1) throw std::invalid_argument("one operand expected");
  op.immediate = parse_index_mode(instruction.operands[0]);
}
void run_index_mode(Wave& wave, const Operation& op) { wave.index_mode = static_cast<uint8_t>(op.immediate); }

}  // namespace

void add_control(Rows& rows) {
  add_branches(rows);
  for (const std::string_view name : {"s_endpgm", "s_endpgm_saved"})
    rows.push_back(custom(name, Unit::other, run_end, run_end, prepare_nothing));
  for (const std::string_view name : {"s_barrier", "s_barrier_wait"})
    rows.push_back(custom(name, Unit::wait, run_barrier, run_barrier, prepare_nothing));
  for (const std::string_view name : {"ds_gws_barrier"})
    rows.push_back(custom(name, Unit::wait, run_grid_barrier, run_grid_barrier, prepare_nothing));
  for (const std::string_view name : {"s_sleep", "s_sleep_var", "s_wakeup"})
    rows.push_back(custom(name, Unit::wait, run_sleep, run_sleep, prepare_nothing));
  rows.push_back(custom("s_trap", Unit::other, run_trap, run_trap, prepare_trap));
  rows.push_back(custom("s_sendmsg", Unit::other, run_message, run_message, prepare_message));
  rows.push_back(
      custom("s_sendmsg_rtn_b32", Unit::other, run_short_clock, run_short_clock, prepare_message_with_reply));
  rows.push_back(custom("s_sendmsg_rtn_b64", Unit::other, run_clock, run_clock, prepare_message_with_reply));
  for (const std::string_view name : {"s_memtime", "s_memrealtime"})
    rows.push_back(jump(name, run_clock, ValueType::u64, ValueType::none));
  rows.push_back(custom("s_getreg_b32", Unit::scalar, run_getreg, run_getreg, prepare_getreg));
  for (const std::string_view name : {"s_setreg_b32", "s_setreg_imm32_b32"})
    rows.push_back(custom(name, Unit::scalar, run_setreg, run_setreg, prepare_setreg));
  rows.push_back(custom("s_round_mode", Unit::other, run_round_mode, run_round_mode, prepare_number));
  rows.push_back(custom("s_denorm_mode", Unit::other, run_denorm_mode, run_denorm_mode, prepare_number));
  rows.push_back(custom("s_set_gpr_idx_on", Unit::scalar, run_index_on, run_index_on, prepare_index_on));
  rows.push_back(custom("s_set_gpr_idx_off", Unit::scalar, run_index_off, run_index_off, prepare_nothing));
  rows.push_back(
      custom("s_set_gpr_idx_mode", Unit::scalar, run_index_mode, run_index_mode, prepare_index_mode));
  rows.push_back(jump("s_set_gpr_idx_idx", set_index, ValueType::none, ValueType::u32));
  // Order in the pipeline, caches of code and power: nothing to do, because every instruction here is
  // complete when the next one begins.
  for (const std::string_view name : {"s_nop",
                                      "s_waitcnt",
                                      "s_waitcnt_vscnt",
                                      "s_waitcnt_vmcnt",
                                      "s_waitcnt_expcnt",
                                      "s_waitcnt_lgkmcnt",
                                      "s_waitcnt_depctr",
                                      "s_wait_idle",
                                      "s_wait_event",
                                      "s_wait_loadcnt",
                                      "s_wait_storecnt",
                                      "s_wait_samplecnt",
                                      "s_wait_bvhcnt",
                                      "s_wait_expcnt",
                                      "s_wait_dscnt",
                                      "s_wait_kmcnt",
                                      "s_wait_alu",
                                      "s_wait_loadcnt_dscnt",
                                      "s_wait_storecnt_dscnt",
                                      "s_delay_alu",
                                      "s_clause",
                                      "s_setprio",
                                      "s_inst_prefetch",
                                      "s_set_inst_prefetch_distance",
                                      "s_icache_inv",
                                      "s_version",
                                      "s_code_end",
                                      "s_ttracedata",
                                      "s_ttracedata_imm",
                                      "s_sethalt",
                                      "s_setkill",
                                      "s_set_gpr_idx_off",
                                      "s_barrier_signal",
                                      "ds_gws_init",
                                      "s_incperflevel",
                                      "s_decperflevel"})
    rows.push_back(custom(name, Unit::wait, run_nothing, run_nothing, prepare_nothing));
}

}  // namespace hipemu::semantics
