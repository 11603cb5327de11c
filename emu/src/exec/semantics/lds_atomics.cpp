// Atomics on LDS. Most exist with and without result: ds_add_u32, ds_add_rtn_u32.
#include "exec/semantics/atomics.h"

namespace hipemu::semantics {
namespace {

void read_operands(const Instruction& instruction, Operation& op, bool returns, int data_count,
                   bool compare_first) {
  expect_operands(instruction, (returns ? 2u : 1u) + static_cast<std::size_t>(data_count),
                  (returns ? 2u : 1u) + static_cast<std::size_t>(data_count));
  read_memory_modifiers(instruction, op);
  std::size_t next = 0;
  if (returns) {
    op.destination[0] = vector_destination(instruction, next++);
    op.flags |= memory_flag::returns;
  }
  op.source[address_source] = vector_source(instruction, next++);
  op.source[data_source] = vector_source(instruction, next++);
  if (data_count == 2) op.source[second_data_source] = vector_source(instruction, next++);
  if (compare_first) std::swap(op.source[data_source], op.source[second_data_source]);
}

template <bool Returns, int DataCount, bool CompareFirst = false>
void prepare_atomic(const Instruction& instruction, const Chip&, Operation& op) {
  read_operands(instruction, op, Returns, DataCount, CompareFirst);
}

// Swaps two places at once.
template <int Unit>
void prepare_swap_pair(const Instruction& instruction, const Chip&, Operation& op) {
  read_operands(instruction, op, true, 2, false);
  op.offset = instruction.number("offset0", 0) * Unit;
  op.offset1 = instruction.number("offset1", 0) * Unit;
}

template <int W, class T, int Data, int RowOffset>
void swap_one(Wave& wave, const Operation& op, const Target<W>& target) {
  const uint32_t* data = wave.row(op.source[Data].index);
  uint32_t* result = wave.row(op.destination[0].index + RowOffset);
  for_each_lane(target.mask, [&](int lane) {
    const T old = update<T, AtomicSwap>(target.at(lane), read_lane<W, T>(data, lane), T{});
    result[lane] = low_dword(old);
    if constexpr (sizeof(T) == 8) result[W + lane] = high_dword(old);
  });
}

template <int W, class T>
void swap_pair(Wave& wave, const Operation& op) {
  constexpr int rows = sizeof(T) / 4;
  static constexpr Body<W> first{sizeof(T), AccessKind::atomic, true, swap_one<W, T, data_source, 0>};
  static constexpr Body<W> second{sizeof(T), AccessKind::atomic,
                                  true,      swap_one<W, T, second_data_source, rows>,
                                  rows,      second_data_source};
  Lanes<W> address;
  std::memcpy(address.lane, wave.row(op.source[address_source].index), sizeof address.lane);
  // The first result may land on the data of the second.
  Lanes<W> data[rows];
  uint32_t* data_row = wave.row(op.source[second_data_source].index);
  std::memcpy(data, data_row, sizeof data);
  const uint64_t mask = active_lanes<W>(wave);
  access_lds<W>(wave, op, first, address.lane, static_cast<uint32_t>(op.offset), mask);
  const int distance = op.source[second_data_source].index - op.destination[0].index;
  if (distance <= -rows || distance >= rows) {
    access_lds<W>(wave, op, second, address.lane, static_cast<uint32_t>(op.offset1), mask);
    return;
  }
  Lanes<W> results[rows];
  std::memcpy(results, wave.row(op.destination[0].index), sizeof results);
  std::memcpy(data_row, data, sizeof data);
  access_lds<W>(wave, op, second, address.lane, static_cast<uint32_t>(op.offset1), mask);
  for (int k = 0; k < rows; ++k)
    write_row<W>(wave.row(op.destination[0].index + static_cast<uint32_t>(k)), results[k].lane, mask);
}

}  // namespace

void add_lds_atomics(Rows& rows) {
  // "add", "u32" -> ds_add_u32 and ds_add_rtn_u32
  const auto add_form = [&]<class Action>(Action, std::string_view name, std::string_view type, Prepare plain,
                                          Prepare returning) {
    const auto middle = [&](std::string_view between) {
      return lasting_name("ds_", std::string(name) + std::string(between) + std::string(type));
    };
    if (plain != nullptr) rows.push_back(memory_row<Lds, Action>(middle("_"), Unit::lds, plain));
    rows.push_back(memory_row<Lds, Action>(middle("_rtn_"), Unit::lds, returning));
  };
  const auto add = [&]<class Action>(Action action, std::string_view name, std::string_view type) {
    add_form(action, name, type, prepare_atomic<false, 1>, prepare_atomic<true, 1>);
  };
  const auto add_integers = [&]<class Operator>(Operator, std::string_view name, std::string_view letter) {
    add(Atomic<uint32_t, Operator>(), name, lasting_name(letter, "32"));
    add(Atomic<uint64_t, Operator>(), name, lasting_name(letter, "64"));
  };
  add_integers(AtomicAdd(), "add", "u");
  add_integers(AtomicSub(), "sub", "u");
  add_integers(AtomicReverseSub(), "rsub", "u");
  add_integers(AtomicIncrement(), "inc", "u");
  add_integers(AtomicDecrement(), "dec", "u");
  add_integers(AtomicMin(), "min", "u");
  add_integers(AtomicMax(), "max", "u");
  add(Atomic<int32_t, AtomicMin>(), "min", "i32");
  add(Atomic<int64_t, AtomicMin>(), "min", "i64");
  add(Atomic<int32_t, AtomicMax>(), "max", "i32");
  add(Atomic<int64_t, AtomicMax>(), "max", "i64");
  add_integers(AtomicAnd(), "and", "b");
  add_integers(AtomicOr(), "or", "b");
  add_integers(AtomicXor(), "xor", "b");
  add(Atomic<float, AtomicAdd>(), "add", "f32");
  add(Atomic<double, AtomicAdd>(), "add", "f64");
  for (const std::string_view name : {"min", "min_num"}) {
    add(Atomic<float, AtomicFloatMin>(), name, "f32");
    add(Atomic<double, AtomicFloatMin>(), name, "f64");
  }
  for (const std::string_view name : {"max", "max_num"}) {
    add(Atomic<float, AtomicFloatMax>(), name, "f32");
    add(Atomic<double, AtomicFloatMax>(), name, "f64");
  }
  add(Atomic<uint32_t, AtomicAddHalves>(), "pk_add", "f16");
  add(Atomic<uint32_t, AtomicAddBfloats>(), "pk_add", "bf16");
  add(Atomic<uint32_t, AtomicSubClamped>(), "sub_clamp", "u32");
  add(Atomic<uint32_t, AtomicConditionalSub>(), "cond_sub", "u32");
  for (const std::string_view name : {"wrxchg", "storexchg"}) {
    add_form(Atomic<uint32_t, AtomicSwap>(), name, "b32", nullptr, prepare_atomic<true, 1>);
    add_form(Atomic<uint64_t, AtomicSwap>(), name, "b64", nullptr, prepare_atomic<true, 1>);
  }
  add_form(Atomic<uint64_t, AtomicConditionalExchange>(), "condxchg32", "b64", nullptr,
           prepare_atomic<true, 1>);
  add_form(Atomic<uint32_t, AtomicMaskedOr>(), "mskor", "b32", prepare_atomic<false, 2>,
           prepare_atomic<true, 2>);
  add_form(Atomic<uint64_t, AtomicMaskedOr>(), "mskor", "b64", prepare_atomic<false, 2>,
           prepare_atomic<true, 2>);
  add_form(Atomic<uint32_t, AtomicWrap>(), "wrap", "b32", nullptr, prepare_atomic<true, 2>);
  // Up to gfx10 what to compare with comes first, from gfx11 on the new value does.
  const auto add_compare = [&]<class T>(T, std::string_view type) {
    add_form(Atomic<T, AtomicCompareSwap>(), "cmpst", type, prepare_atomic<false, 2, true>,
             prepare_atomic<true, 2, true>);
    add_form(Atomic<T, AtomicCompareSwap>(), "cmpstore", type, prepare_atomic<false, 2>,
             prepare_atomic<true, 2>);
  };
  add_compare(uint32_t{}, "b32");
  add_compare(uint64_t{}, "b64");
  add_compare(float{}, "f32");
  add_compare(double{}, "f64");

  const auto add_pair = [&](Execute wave32, Execute wave64, Prepare prepare,
                            std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      rows.push_back(custom(name, Unit::lds, wave32, wave64, prepare));
  };
  add_pair(swap_pair<32, uint32_t>, swap_pair<64, uint32_t>, prepare_swap_pair<4>,
           {"ds_wrxchg2_rtn_b32", "ds_storexchg_2addr_rtn_b32"});
  add_pair(swap_pair<32, uint64_t>, swap_pair<64, uint64_t>, prepare_swap_pair<8>,
           {"ds_wrxchg2_rtn_b64", "ds_storexchg_2addr_rtn_b64"});
  add_pair(swap_pair<32, uint32_t>, swap_pair<64, uint32_t>, prepare_swap_pair<4 * 64>,
           {"ds_wrxchg2st64_rtn_b32", "ds_storexchg_2addr_stride64_rtn_b32"});
  add_pair(swap_pair<32, uint64_t>, swap_pair<64, uint64_t>, prepare_swap_pair<8 * 64>,
           {"ds_wrxchg2st64_rtn_b64", "ds_storexchg_2addr_stride64_rtn_b64"});
}

}  // namespace hipemu::semantics
