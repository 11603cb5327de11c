// Global memory in unusual ways: loads that go to LDS without passing a register, loads that transpose a
// matrix, addresses made of the lane's number.
#include "exec/semantics/memory.h"

namespace hipemu::semantics {
namespace {

// vaddr, saddr. The bytes go to LDS at M0 + offset + 4 * lane, extended to a dword.
void prepare_to_lds(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 2, 2);
  op.source[address_source] = optional_vector_source(instruction, 0);
  op.source[base_source] = optional_scalar_source(instruction, 1);
  read_memory_modifiers(instruction, op);
}

// A tile of 16 by 16 elements: every lane reads eight elements and gets one of each of eight lanes. Which
// ones differs by the size of the element; both as measured on gfx1201.
//   16 bits: lane l has, as element j, element l % 8 of lane 8 * (l / 8) + j.
//    8 bits: ... element l % 8 of lane 16 * (l / 16) + 8 * (j / 4) + 4 * (l / 8 % 2) + j % 4.
template <class Element>
constexpr int transposed_lane(int lane, int j) {
  if constexpr (sizeof(Element) == 2) return (lane & ~7) + j;
  return (lane & ~15) + 8 * (j / 4) + 4 * (lane / 8 % 2) + j % 4;
}

template <int W, class Element>
void load_transposed(Wave& wave, const Operation& op, const Target<W>& target) {
  constexpr int dwords = 8 * sizeof(Element) / 4;
  Element rows[W][8] = {};
  for_each_lane(target.mask, [&](int lane) { std::memcpy(rows[lane], target.at(lane), sizeof rows[lane]); });
  uint32_t* row = wave.row(op.destination[0].index);
  for_each_lane(target.mask, [&](int lane) {
    Element column[8];
    for (int j = 0; j < 8; ++j) column[j] = rows[transposed_lane<Element>(lane, j)][lane & 7];
    uint32_t values[dwords];
    std::memcpy(values, column, sizeof values);
    for (int k = 0; k < dwords; ++k) row[k * W + lane] = values[k];
  });
}

template <class Element>
struct LoadTransposed {
  template <int W>
  static constexpr Body<W> body{8 * sizeof(Element), AccessKind::load, true, load_transposed<W, Element>};
};

void prepare_transposed(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 3, 3);
  op.destination[0] = vector_destination(instruction, 0);
  op.source[address_source] = vector_source(instruction, 1);
  op.source[base_source] = optional_scalar_source(instruction, 2);
  read_memory_modifiers(instruction, op);
}

// saddr or off; the lane's number gives the rest of the address.
struct GlobalByLane {
  template <int W>
  static void each(Wave& wave, const Operation& op, const Body<W>& body) {
    Lanes<W> offsets;
    for (uint32_t i = 0; i < W; ++i) offsets.lane[i] = 4 * i;
    const Source& base = op.source[base_source];
    const uint64_t address = base.from == From::scalar ? wave.get_scalar64(base.index) : 0;
    access_global<W>(wave, op, body, address + static_cast<uint64_t>(op.offset), offsets.lane,
                     active_lanes<W>(wave));
  }
};
void prepare_load_by_lane(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 2, 2);
  op.destination[0] = vector_destination(instruction, 0);
  op.source[base_source] = optional_scalar_source(instruction, 1);
  read_memory_modifiers(instruction, op);
}
void prepare_store_by_lane(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 2, 2);
  op.source[data_source] = vector_source(instruction, 0);
  op.source[base_source] = optional_scalar_source(instruction, 1);
  read_memory_modifiers(instruction, op);
}

}  // namespace

void add_accesses_by_lane(Rows& rows) {
  for (const std::string_view name : {"global_load_dword_addtid", "global_load_addtid_b32"})
    rows.push_back(
        memory_row<GlobalByLane, LoadValue<uint32_t>>(name, Unit::global_memory, prepare_load_by_lane));
  for (const std::string_view name : {"global_store_dword_addtid", "global_store_addtid_b32"})
    rows.push_back(
        memory_row<GlobalByLane, StoreValue<uint32_t>>(name, Unit::global_memory, prepare_store_by_lane));
}

void add_loads_to_lds(Rows& rows) {
  const auto add = [&]<class T>(T, std::string_view name) {
    rows.push_back(memory_row<Global, LoadToLds<T>>(lasting_name("global_load_lds_", name),
                                                    Unit::global_memory, prepare_to_lds));
    rows.push_back(memory_row<Scratch, LoadToLds<T>>(lasting_name("scratch_load_lds_", name), Unit::scratch,
                                                     prepare_to_lds));
  };
  add(uint8_t{}, "ubyte");
  add(int8_t{}, "sbyte");
  add(uint16_t{}, "ushort");
  add(int16_t{}, "sshort");
  add(uint32_t{}, "dword");
}

void add_transposed_loads(Rows& rows) {
  // Wave32 only: in waves of 64 lanes they would have half as many registers.
  const auto add = [&]<class Element>(Element, std::string_view name) {
    rows.push_back(custom(name, Unit::global_memory, run_memory<32, Global, LoadTransposed<Element>>, nullptr,
                          prepare_transposed));
  };
  add(uint16_t{}, "global_load_tr_b128");
  add(uint8_t{}, "global_load_tr_b64");
}

}  // namespace hipemu::semantics
