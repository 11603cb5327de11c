// Loads and stores of LDS.
#include "exec/semantics/memory.h"

namespace hipemu::semantics {
namespace {

void prepare_read(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 2, 2);
  op.destination[0] = vector_destination(instruction, 0);
  op.source[address_source] = vector_source(instruction, 1);
  read_memory_modifiers(instruction, op);
}
void prepare_write(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 2, 2);
  op.source[address_source] = vector_source(instruction, 0);
  op.source[data_source] = vector_source(instruction, 1);
  read_memory_modifiers(instruction, op);
}
void prepare_read_high(const Instruction& instruction, const Chip& chip, Operation& op) {
  prepare_read(instruction, chip, op);
  op.flags |= memory_flag::high_half;
}
void prepare_write_high(const Instruction& instruction, const Chip& chip, Operation& op) {
  prepare_write(instruction, chip, op);
  op.flags |= memory_flag::high_half;
}

// Two places, whose offsets count in units of the element, or of 64 of them.
template <int Unit>
void prepare_read_pair(const Instruction& instruction, const Chip& chip, Operation& op) {
  prepare_read(instruction, chip, op);
  op.offset = instruction.number("offset0", 0) * Unit;
  op.offset1 = instruction.number("offset1", 0) * Unit;
}
template <int Unit>
void prepare_write_pair(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 3, 3);
  op.source[address_source] = vector_source(instruction, 0);
  op.source[data_source] = vector_source(instruction, 1);
  op.source[second_data_source] = vector_source(instruction, 2);
  read_memory_modifiers(instruction, op);
  op.offset = instruction.number("offset0", 0) * Unit;
  op.offset1 = instruction.number("offset1", 0) * Unit;
}

template <int W, int N>
void read_pair(Wave& wave, const Operation& op) {
  static constexpr Body<W> first{4 * N, AccessKind::load, true, load_dwords<W, N>};
  static constexpr Body<W> second{4 * N, AccessKind::load, true, load_dwords<W, N, N>, N};
  // The address register may be one of the destinations.
  Lanes<W> address;
  std::memcpy(address.lane, wave.row(op.source[address_source].index), sizeof address.lane);
  const uint64_t mask = active_lanes<W>(wave);
  access_lds<W>(wave, op, first, address.lane, static_cast<uint32_t>(op.offset), mask);
  access_lds<W>(wave, op, second, address.lane, static_cast<uint32_t>(op.offset1), mask);
}

template <int W, int N>
void write_pair(Wave& wave, const Operation& op) {
  static constexpr Body<W> first{4 * N, AccessKind::store, true, store_dwords<W, N>};
  static constexpr Body<W> second{4 * N, AccessKind::store, true, store_dwords<W, N, second_data_source>,
                                  0,     second_data_source};
  const uint32_t* address = wave.row(op.source[address_source].index);
  const uint64_t mask = active_lanes<W>(wave);
  access_lds<W>(wave, op, first, address, static_cast<uint32_t>(op.offset), mask);
  access_lds<W>(wave, op, second, address, static_cast<uint32_t>(op.offset1), mask);
}

// The address is that of the lane's number: no address register.
void prepare_read_by_lane(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 1, 1);
  op.destination[0] = vector_destination(instruction, 0);
  read_memory_modifiers(instruction, op);
}
void prepare_write_by_lane(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 1, 1);
  op.source[data_source] = vector_source(instruction, 0);
  read_memory_modifiers(instruction, op);
}
struct LdsByLane {
  template <int W>
  static void each(Wave& wave, const Operation& op, const Body<W>& body) {
    Lanes<W> offsets;
    for (uint32_t i = 0; i < W; ++i) offsets.lane[i] = 4 * i;
    access_lds<W>(wave, op, body, offsets.lane,
                  static_cast<uint32_t>(op.offset) + (wave.scalars[scalar::m0] & 0xffff),
                  active_lanes<W>(wave));
  }
};

// Adds the number of active lanes to a counter in LDS, or takes it away: each lane gets what was there.
template <int Sign>
struct CountLanes {
  template <int W>
  static void run(Wave& wave, const Operation& op) {
    const uint64_t mask = active_lanes<W>(wave);
    if (mask == 0) return;
    static constexpr Body<W> body{
        4, AccessKind::atomic, false, [](Wave& inner, const Operation& operation, const Target<W>& target) {
          const uint64_t lanes = active_lanes<W>(inner);
          const uint32_t change = static_cast<uint32_t>(Sign * std::popcount(lanes));
          auto* counter = reinterpret_cast<uint32_t*>(target.at(std::countr_zero(target.mask)));
          const uint32_t old = __atomic_fetch_add(counter, change, __ATOMIC_SEQ_CST);
          uint32_t* row = inner.row(operation.destination[0].index);
          for_each_lane(lanes, [&](int lane) { row[lane] = old; });
        }};
    static constexpr uint32_t zeros[W] = {};
    access_lds<W>(wave, op, body, zeros,
                  static_cast<uint32_t>(op.offset) + (wave.scalars[scalar::m0] & 0xffff), mask & (~mask + 1));
  }
};

}  // namespace

void add_lds(Rows& rows) {
  const auto add = [&]<class Action>(Action, Prepare prepare, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      rows.push_back(memory_row<Lds, Action>(lasting_name("ds_", name), Unit::lds, prepare));
  };
  add(LoadValue<uint8_t>(), prepare_read, {"read_u8", "load_u8"});
  add(LoadValue<int8_t>(), prepare_read, {"read_i8", "load_i8"});
  add(LoadValue<uint16_t>(), prepare_read, {"read_u16", "load_u16"});
  add(LoadValue<int16_t>(), prepare_read, {"read_i16", "load_i16"});
  add(LoadHalf<uint8_t>(), prepare_read, {"read_u8_d16", "load_u8_d16"});
  add(LoadHalf<int8_t>(), prepare_read, {"read_i8_d16", "load_i8_d16"});
  add(LoadHalf<uint16_t>(), prepare_read, {"read_u16_d16", "load_u16_d16"});
  add(LoadHalf<uint8_t>(), prepare_read_high, {"read_u8_d16_hi", "load_u8_d16_hi"});
  add(LoadHalf<int8_t>(), prepare_read_high, {"read_i8_d16_hi", "load_i8_d16_hi"});
  add(LoadHalf<uint16_t>(), prepare_read_high, {"read_u16_d16_hi", "load_u16_d16_hi"});
  add(LoadValue<uint32_t>(), prepare_read, {"read_b32", "load_b32"});
  add(LoadDwords<2>(), prepare_read, {"read_b64", "load_b64"});
  add(LoadDwords<3>(), prepare_read, {"read_b96", "load_b96"});
  add(LoadDwords<4>(), prepare_read, {"read_b128", "load_b128"});
  add(StoreValue<uint8_t>(), prepare_write, {"write_b8", "store_b8"});
  add(StoreValue<uint16_t>(), prepare_write, {"write_b16", "store_b16"});
  add(StoreValue<uint8_t>(), prepare_write_high, {"write_b8_d16_hi", "store_b8_d16_hi"});
  add(StoreValue<uint16_t>(), prepare_write_high, {"write_b16_d16_hi", "store_b16_d16_hi"});
  add(StoreValue<uint32_t>(), prepare_write, {"write_b32", "store_b32"});
  add(StoreDwords<2>(), prepare_write, {"write_b64", "store_b64"});
  add(StoreDwords<3>(), prepare_write, {"write_b96", "store_b96"});
  add(StoreDwords<4>(), prepare_write, {"write_b128", "store_b128"});

  const auto add_pair = [&](Execute wave32, Execute wave64, Prepare prepare,
                            std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      rows.push_back(custom(name, Unit::lds, wave32, wave64, prepare));
  };
  add_pair(read_pair<32, 1>, read_pair<64, 1>, prepare_read_pair<4>, {"ds_read2_b32", "ds_load_2addr_b32"});
  add_pair(read_pair<32, 2>, read_pair<64, 2>, prepare_read_pair<8>, {"ds_read2_b64", "ds_load_2addr_b64"});
  add_pair(read_pair<32, 1>, read_pair<64, 1>, prepare_read_pair<4 * 64>,
           {"ds_read2st64_b32", "ds_load_2addr_stride64_b32"});
  add_pair(read_pair<32, 2>, read_pair<64, 2>, prepare_read_pair<8 * 64>,
           {"ds_read2st64_b64", "ds_load_2addr_stride64_b64"});
  add_pair(write_pair<32, 1>, write_pair<64, 1>, prepare_write_pair<4>,
           {"ds_write2_b32", "ds_store_2addr_b32"});
  add_pair(write_pair<32, 2>, write_pair<64, 2>, prepare_write_pair<8>,
           {"ds_write2_b64", "ds_store_2addr_b64"});
  add_pair(write_pair<32, 1>, write_pair<64, 1>, prepare_write_pair<4 * 64>,
           {"ds_write2st64_b32", "ds_store_2addr_stride64_b32"});
  add_pair(write_pair<32, 2>, write_pair<64, 2>, prepare_write_pair<8 * 64>,
           {"ds_write2st64_b64", "ds_store_2addr_stride64_b64"});

  for (const std::string_view name : {"ds_read_addtid_b32", "ds_load_addtid_b32"})
    rows.push_back(memory_row<LdsByLane, LoadValue<uint32_t>>(name, Unit::lds, prepare_read_by_lane));
  for (const std::string_view name : {"ds_write_addtid_b32", "ds_store_addtid_b32"})
    rows.push_back(memory_row<LdsByLane, StoreValue<uint32_t>>(name, Unit::lds, prepare_write_by_lane));
  rows.push_back(
      custom("ds_append", Unit::lds, CountLanes<1>::run<32>, CountLanes<1>::run<64>, prepare_read_by_lane));
  rows.push_back(custom("ds_consume", Unit::lds, CountLanes<-1>::run<32>, CountLanes<-1>::run<64>,
                        prepare_read_by_lane));
  add_lds_atomics(rows);
  add_lds_lanes(rows);
}

}  // namespace hipemu::semantics
