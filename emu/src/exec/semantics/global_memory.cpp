// Loads and stores of global, flat and scratch memory.
#include "exec/semantics/memory.h"

namespace hipemu::semantics {
namespace {

// global: vdst, vaddr, saddr. flat: vdst, vaddr. scratch: vdst, vaddr or off, saddr or off.
void expect_base(const Instruction& instruction) {
  const std::size_t count = instruction.mnemonic.starts_with("flat_") ? 2 : 3;
  expect_operands(instruction, count, count);
}

void prepare_load(const Instruction& instruction, const Chip&, Operation& op) {
  expect_base(instruction);
  op.destination[0] = vector_destination(instruction, 0);
  op.source[address_source] = optional_vector_source(instruction, 1);
  if (instruction.operands.size() == 3) op.source[base_source] = optional_scalar_source(instruction, 2);
  read_memory_modifiers(instruction, op);
}
void prepare_store(const Instruction& instruction, const Chip&, Operation& op) {
  expect_base(instruction);
  op.source[address_source] = optional_vector_source(instruction, 0);
  op.source[data_source] = vector_source(instruction, 1);
  if (instruction.operands.size() == 3) op.source[base_source] = optional_scalar_source(instruction, 2);
  read_memory_modifiers(instruction, op);
}
void prepare_load_high(const Instruction& instruction, const Chip& chip, Operation& op) {
  prepare_load(instruction, chip, op);
  op.flags |= memory_flag::high_half;
}
void prepare_store_high(const Instruction& instruction, const Chip& chip, Operation& op) {
  prepare_store(instruction, chip, op);
  op.flags |= memory_flag::high_half;
}

template <class Addressing>
struct Names;
template <>
struct Names<Global> {
  static constexpr std::string_view prefix = "global_";
  static constexpr Unit unit = Unit::global_memory;
};
template <>
struct Names<Flat> {
  static constexpr std::string_view prefix = "flat_";
  static constexpr Unit unit = Unit::global_memory;
};
template <>
struct Names<Scratch> {
  static constexpr std::string_view prefix = "scratch_";
  static constexpr Unit unit = Unit::scratch;
};

template <class Addressing>
void add_loads_and_stores(Rows& rows) {
  const auto add = [&]<class Action>(Action, Prepare prepare, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      rows.push_back(memory_row<Addressing, Action>(lasting_name(Names<Addressing>::prefix, name),
                                                    Names<Addressing>::unit, prepare));
  };
  add(LoadValue<uint8_t>(), prepare_load, {"load_ubyte", "load_u8"});
  add(LoadValue<int8_t>(), prepare_load, {"load_sbyte", "load_i8"});
  add(LoadValue<uint16_t>(), prepare_load, {"load_ushort", "load_u16"});
  add(LoadValue<int16_t>(), prepare_load, {"load_sshort", "load_i16"});
  add(LoadHalf<uint8_t>(), prepare_load, {"load_ubyte_d16", "load_d16_u8"});
  add(LoadHalf<int8_t>(), prepare_load, {"load_sbyte_d16", "load_d16_i8"});
  add(LoadHalf<uint16_t>(), prepare_load, {"load_short_d16", "load_d16_b16"});
  add(LoadHalf<uint8_t>(), prepare_load_high, {"load_ubyte_d16_hi", "load_d16_hi_u8"});
  add(LoadHalf<int8_t>(), prepare_load_high, {"load_sbyte_d16_hi", "load_d16_hi_i8"});
  add(LoadHalf<uint16_t>(), prepare_load_high, {"load_short_d16_hi", "load_d16_hi_b16"});
  add(LoadValue<uint32_t>(), prepare_load, {"load_dword", "load_b32"});
  add(LoadDwords<2>(), prepare_load, {"load_dwordx2", "load_b64"});
  add(LoadDwords<3>(), prepare_load, {"load_dwordx3", "load_b96"});
  add(LoadDwords<4>(), prepare_load, {"load_dwordx4", "load_b128"});
  add(StoreValue<uint8_t>(), prepare_store, {"store_byte", "store_b8"});
  add(StoreValue<uint16_t>(), prepare_store, {"store_short", "store_b16"});
  add(StoreValue<uint8_t>(), prepare_store_high, {"store_byte_d16_hi", "store_d16_hi_b8"});
  add(StoreValue<uint16_t>(), prepare_store_high, {"store_short_d16_hi", "store_d16_hi_b16"});
  add(StoreValue<uint32_t>(), prepare_store, {"store_dword", "store_b32"});
  add(StoreDwords<2>(), prepare_store, {"store_dwordx2", "store_b64"});
  add(StoreDwords<3>(), prepare_store, {"store_dwordx3", "store_b96"});
  add(StoreDwords<4>(), prepare_store, {"store_dwordx4", "store_b128"});
}

}  // namespace

void add_global_memory(Rows& rows) {
  add_loads_and_stores<Global>(rows);
  add_loads_and_stores<Flat>(rows);
  add_loads_and_stores<Scratch>(rows);
  add_cache_control(rows);
  add_loads_to_lds(rows);
  add_transposed_loads(rows);
  add_accesses_by_lane(rows);
}

}  // namespace hipemu::semantics
