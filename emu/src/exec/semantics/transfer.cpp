// Loads from global memory that go to LDS without passing a register, and loads that transpose a matrix.
#include "exec/semantics/memory.h"

namespace hipemu::HIPEMU_VARIANT {
namespace {

// vaddr, saddr. The bytes go to LDS at M0 + offset + 4 * lane, extended to a dword.
void prepare_to_lds(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 2, 2);
  op.source[address_source] = optional_vector_source(instruction, 0);
  op.source[base_source] = optional_scalar_source(instruction, 1);
  read_memory_modifiers(instruction, op);
}

// Each group of eight lanes reads eight rows of eight elements and gets them transposed: lane l has element
// l % 8 of every row.
template <int W, class Element>
void load_transposed(Wave& wave, const Operation& op, const Target<W>& target) {
  constexpr int dwords = 8 * sizeof(Element) / 4;
  Element rows[W][8] = {};
  for_each_lane(target.mask, [&](int lane) { std::memcpy(rows[lane], target.at(lane), sizeof rows[lane]); });
  uint32_t* row = wave.row(op.destination[0].index);
  for_each_lane(target.mask, [&](int lane) {
    Element column[8];
    for (int j = 0; j < 8; ++j) column[j] = rows[(lane & ~7) + j][lane & 7];
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

}  // namespace

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
  for (const std::string_view name : {"global_load_tr_b128", "global_load_tr_b128_w32"})
    rows.push_back(memory_row<Global, LoadTransposed<uint16_t>>(name, Unit::global_memory, prepare_transposed));
}

}  // namespace hipemu::HIPEMU_VARIANT
