// Follows undefined values through registers.
#include "exec/check/undefined.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "exec/check/report.h"

namespace hipemu {
namespace {

// A few consecutive registers that an instruction reads or writes.
struct Rows {
  uint16_t first = 0;
  uint16_t count = 0;
};
struct Operands {
  std::array<Rows, 5> sources;
  int source_count = 0;
  Rows destination;
};

uint64_t active(const Wave& wave) { return wave.lanes == 64 ? wave.exec() : wave.exec() & 0xffffffffull; }

// Matrix instructions of CDNA read and write all lanes, whatever EXEC says.
uint64_t concerned(const Wave& wave, const Operation& op) {
  const std::string_view name = op.semantics->name;
  return name.starts_with("v_mfma") || name.starts_with("v_smfmac") ? ~0ull : active(wave);
}

Operands operands_of(const Operation& op) {
  Operands operands;
  const auto add_source = [&](uint32_t first, uint32_t count) {
    if (operands.source_count < 5)
      operands.sources[static_cast<std::size_t>(operands.source_count++)] = {static_cast<uint16_t>(first),
                                                                             static_cast<uint16_t>(count)};
  };
  const Semantics& row = *op.semantics;
  if (row.prepare != nullptr) {
    // Matrix instructions: the text has the destination first, and the number of registers of each operand.
    const auto& text = op.instruction.operands;
    for (std::size_t k = 0; k < text.size(); ++k) {
      if (text[k].kind != TextOperand::Kind::vector) continue;
      if (k == 0) operands.destination = {text[k].index, text[k].count};
      // The sparse ones add to their destination.
      const bool accumulates = row.name.starts_with("v_smfmac") || row.name.starts_with("v_swmmac");
      if (k > 0 || accumulates) add_source(text[k].index, text[k].count);
    }
    return operands;
  }
  if (op.destination[0].from == From::vector)
    operands.destination = {op.destination[0].index,
                            static_cast<uint16_t>(std::max(1, dwords(row.destinations[0])))};
  for (int k = 0; k < op.source_count; ++k) {
    const Source& source = op.source[static_cast<std::size_t>(k)];
    if (source.from != From::vector) {
      add_source(0, 0);
      continue;
    }
    ValueType type = k < 4 ? row.sources[static_cast<std::size_t>(k)] : ValueType::none;
    if (type == ValueType::none) type = row.destinations[0];  // the old value of the destination
    add_source(source.index, static_cast<uint32_t>(std::max(1, dwords(type))));
  }
  return operands;
}

// The instructions that add M0 to the numbers of their registers. What is beyond the registers of the kernel
// is a fault of the instruction itself.
void add_m0(const Wave& wave, std::string_view name, Operands& operands) {
  if (!name.starts_with("v_movrel") && !name.starts_with("v_swaprel")) return;
  const uint32_t m0 = wave.scalars[scalar::m0];
  const bool two = name == "v_movrelsd_2_b32" || name == "v_swaprel_b32";
  const uint32_t source = name == "v_movreld_b32" ? 0 : two ? m0 & 0x3ff : m0;
  const uint32_t destination = name == "v_movrels_b32" ? 0 : two ? m0 >> 16 & 0x3ff : m0;
  const auto moved = [](uint16_t first, uint32_t by) {
    return static_cast<uint16_t>(by < 256 && first + by < 256 ? first + by : first);
  };
  operands.destination.first = moved(operands.destination.first, destination);
  if (operands.sources[0].count > 0) operands.sources[0].first = moved(operands.sources[0].first, source);
}

// The lanes, after DPP, whose value of this operand is undefined.
uint64_t undefined_lanes(const Wave& wave, const Operation& op, int k, uint32_t row) {
  const uint64_t marks = wave.undefined[row];
  if (marks == 0 || k != 0 || op.permutation == nullptr) return marks;
  uint64_t lanes = 0;
  for (int lane = 0; lane < wave.lanes; ++lane) {
    const int from = op.permutation->source[static_cast<std::size_t>(lane)];
    if (from >= 0 && (marks >> from & 1) != 0) lanes |= 1ull << lane;
  }
  return lanes;
}

[[noreturn]] void fail(const Wave& wave, uint32_t row, uint64_t lanes, std::string_view use) {
  const int lane = std::countr_zero(lanes);
  const LdsShadow& shadow = wave.group->lds_shadow;
  // The latest load into this register; after a move, the latest of the wave.
  const LdsShadow::UndefinedLoad* origin = nullptr;
  const std::size_t kept = std::min<std::size_t>(shadow.undefined_load_count, shadow.undefined_loads.size());
  for (std::size_t i = 0; i < kept; ++i) {
    const auto& load =
        shadow.undefined_loads[(shadow.undefined_load_count - 1 - i) % shadow.undefined_loads.size()];
    if (load.wave != wave.number) continue;
    if (origin == nullptr) origin = &load;
    if (load.row != row) continue;
    origin = &load;
    break;
  }
  std::string where = "memory";
  uint64_t address = 0;
  std::string by;
  if (origin != nullptr) {
    address = origin->address;
    where = origin->space == LdsShadow::UndefinedLoad::Space::lds
                ? fmt::format("LDS address {:#x}", address)
                : fmt::format("{:#x} ({})", address, describe_address(address, 4));
    const Launch* launch = wave.dispatch->launch;
    if (launch != nullptr && launch->code != nullptr) {
      const auto* code = reinterpret_cast<const void*>(origin->pc);
      by = fmt::format(" (loaded at {:#x}", launch->code->virtual_address(code));
      const std::string line = launch->code->source_line(code);
      by += line.empty() ? ")" : fmt::format(", {})", line);
    }
  }
  const std::string name = row < 256 ? fmt::format("v{}", row) : fmt::format("a{}", row - 256);
  throw KernelFault{
      Fault::Kind::uninitialised,
      fmt::format("{} {}, which holds what was in {}{}: nobody has written it", use, name, where, by), lane,
      address};
}

void require_defined(const Wave& wave, uint32_t first, uint32_t count, uint64_t lanes, std::string_view use) {
  for (uint32_t k = 0; k < count; ++k) {
    const uint64_t bad = wave.undefined[first + k] & lanes;
    if (bad != 0) fail(wave, first + k, bad, use);
  }
}

// Address and, of atomics, data. What a store writes is no use yet: the mark goes to memory.
void track_memory(Wave& wave, const Operation& op) {
  const uint64_t lanes = active(wave);
  const std::string_view name = op.semantics->name;
  const auto& text = op.instruction.operands;
  const bool atomic = name.find("atomic") != std::string_view::npos;
  const bool store = name.find("store") != std::string_view::npos || name.starts_with("ds_write");
  const bool load = name.find("load") != std::string_view::npos || name.starts_with("ds_read");
  const bool lds_atomic = op.semantics->unit == Unit::lds && !store && !load;
  // Stores: address, data (buffers: data, address). Loads and returning atomics: destination first.
  for (std::size_t k = 0; k < text.size(); ++k) {
    if (text[k].kind != TextOperand::Kind::vector) continue;
    bool data = false, destination = false;
    if (name.find("addtid") != std::string_view::npos) {
      data = store;
      destination = load;
    } else if (name.starts_with("buffer_")) {
      data = k == 0;
      destination = load && k == 0;
    } else if (store) {
      data = k >= 1;
    } else if (load) {
      destination = k == 0;
    } else {
      destination = k == 0 && (op.flags & 1) != 0;
    }
    if (destination || (data && !atomic && !lds_atomic)) continue;
    require_defined(wave, text[k].index, text[k].count, lanes,
                    data || ((atomic || lds_atomic) && k >= 2) ? "atomic with" : "address in");
  }
}

// Data that goes from lane to lane.
void track_lane_move(Wave& wave, const Operation& op) {
  const auto& text = op.instruction.operands;
  if (text.size() < 2) return;
  const uint64_t lanes = active(wave);
  const bool swizzle = op.owned_permutation != nullptr;
  const Rows data{text[text.size() - 1].index, 1};
  if (!swizzle) require_defined(wave, text[1].index, 1, lanes, "lane number in");
  const uint64_t marks = wave.undefined[data.first];
  uint64_t result = 0;
  if (marks != 0) {
    const uint32_t* address = swizzle ? nullptr : wave.row(text[1].index);
    const bool forward = op.semantics->name.starts_with("ds_permute");
    for (uint64_t rest = lanes; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      const int other = swizzle ? op.owned_permutation->source[static_cast<std::size_t>(lane)]
                                : static_cast<int>((address[lane] + static_cast<uint32_t>(op.offset)) / 4 %
                                                   static_cast<uint32_t>(wave.lanes));
      const int from = forward ? lane : other, to = forward ? other : lane;
      if ((lanes >> from & 1) != 0 && (marks >> from & 1) != 0) result |= 1ull << to;
    }
  }
  set_undefined(wave, text[0].index, lanes & ~result, false);
  set_undefined(wave, text[0].index, lanes & result, true);
}

// What the destination is marked with once the instruction is done; rows beyond the eighth are defined.
struct Update {
  Rows rows;
  std::array<uint64_t, 8> marks{};
};

Update follow_vector(Wave& wave, const Operation& op) {
  Operands operands = operands_of(op);
  const std::string_view name = op.semantics->name;
  add_m0(wave, name, operands);
  const uint64_t lanes = concerned(wave, op);
  Update update;
  update.rows = operands.destination;
  if (!op.semantics->moves_data) {
    for (int k = 0; k < operands.source_count; ++k) {
      const Rows& source = operands.sources[static_cast<std::size_t>(k)];
      for (uint32_t i = 0; i < source.count; ++i) {
        const uint64_t bad = undefined_lanes(wave, op, k, source.first + i) & lanes;
        if (bad != 0) fail(wave, source.first + i, bad, "use of");
      }
    }
    return update;
  }

  if (name.starts_with("v_readfirstlane")) {
    const Rows& source = operands.sources[0];
    if (source.count > 0 && lanes != 0)
      require_defined(wave, source.first, source.count, lanes & (~lanes + 1), "use of");
    return {};
  }
  if (name.starts_with("v_readlane") || name.starts_with("v_writelane")) return {};
  if (name.starts_with("v_swap")) {
    const uint32_t a = operands.destination.first, b = operands.sources[0].first;
    const uint64_t of_a = wave.undefined[a] & lanes, of_b = wave.undefined[b] & lanes;
    set_undefined(wave, a, lanes, false);
    set_undefined(wave, b, lanes, false);
    set_undefined(wave, a, of_b, true);
    set_undefined(wave, b, of_a, true);
    return {};
  }
  auto& marks = update.marks;
  const uint32_t count = std::min<uint32_t>(operands.destination.count, 8);
  if (!name.starts_with("v_permlane")) {  // which cross lanes: what they move counts as defined
    for (int k = 0; k < operands.source_count; ++k) {
      const Rows& source = operands.sources[static_cast<std::size_t>(k)];
      uint64_t chosen = ~0ull;
      if (name.starts_with("v_cndmask") && k < 2) {
        const Source& select = op.source[2];
        const uint64_t mask = select.from == From::scalar ? wave.mask(select.index) : wave.mask(scalar::vcc);
        chosen = k == 1 ? mask : ~mask;
      }
      for (uint32_t i = 0; i < source.count; ++i) {
        const uint64_t bits = undefined_lanes(wave, op, k, source.first + i) & chosen;
        if (source.count == count)
          marks[i] |= bits;
        else
          for (uint32_t d = 0; d < count; ++d) marks[d] |= bits;
      }
    }
  }
  return update;
}

void apply(Wave& wave, const Operation& op, const Update& update) {
  const uint64_t lanes = concerned(wave, op);
  for (uint32_t i = 0; i < update.rows.count; ++i) {
    const uint64_t marks = i < update.marks.size() ? update.marks[i] & lanes : 0;
    set_undefined(wave, update.rows.first + i, lanes & ~marks, false);
    if (marks != 0) set_undefined(wave, update.rows.first + i, marks, true);
  }
}

// Both halves of a pair read before either writes.
void track_vector(Wave& wave, const Operation& op) {
  const Update first = follow_vector(wave, op);
  if (op.second != nullptr) apply(wave, *op.second, follow_vector(wave, *op.second));
  apply(wave, op, first);
}

}  // namespace

void set_undefined(Wave& wave, uint32_t row, uint64_t lanes, bool undefined) {
  if (row >= wave.undefined.size()) return;
  uint64_t& marks = wave.undefined[row];
  const uint64_t before = marks;
  marks = undefined ? marks | lanes : marks & ~lanes;
  wave.undefined_rows += static_cast<int>(marks != 0) - static_cast<int>(before != 0);
}

void track_undefined(Wave& wave, const Operation& op) {
  switch (op.semantics->unit) {
    case Unit::vector:
    case Unit::matrix:
      track_vector(wave, op);
      break;
    case Unit::global_memory:
    case Unit::scratch:
      track_memory(wave, op);
      break;
    case Unit::lds:
      if (op.semantics->moves_data)
        track_lane_move(wave, op);
      else
        track_memory(wave, op);
      break;
    default:
      break;
  }
}

}  // namespace hipemu
