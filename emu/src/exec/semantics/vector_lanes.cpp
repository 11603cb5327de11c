// Instructions that know which lane they are in: reading and writing one lane, permutations, counting lanes
// below, registers addressed through M0.
#include <bit>
#include <string>
#include <utility>

#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

using u32 = uint32_t;

template <class F>
Semantics with_functions(Semantics row, F, Execute wave32, Execute wave64) {
  row.wave32 = wave32;
  row.wave64 = wave64;
  return row;
}
// A row that reads operands like the lambda says, and does something else with them.
template <class F>
Semantics lane_row(std::string_view name, F types, Execute wave32, Execute wave64) {
  return moving(with_functions(vector_alu(name, types), types, wave32, wave64));
}
constexpr auto one_source = [](u32 a) { return a; };
constexpr auto two_sources = [](u32 a, u32) { return a; };
constexpr auto three_sources = [](u32 a, u32, u32) { return a; };

u32 scalar_value(const Wave& wave, const Source& source) {
  return source.from == From::scalar ? wave.get_scalar(source.index) : static_cast<u32>(source.bits);
}
u32 value_in_lane(Wave& wave, const Source& source, int lane) {
  return source.from == From::vector ? wave.row(source.index)[lane] : scalar_value(wave, source);
}

template <int W>
void read_lane(Wave& wave, const Operation& op) {
  const int lane = static_cast<int>(scalar_value(wave, op.source[1]) % W);
  wave.set_scalar(op.destination[0].index, value_in_lane(wave, op.source[0], lane));
}

template <int W>
void read_first_lane(Wave& wave, const Operation& op) {
  const uint64_t exec = wave.exec();
  const int lane = exec == 0 ? 0 : std::countr_zero(exec) % W;
  wave.set_scalar(op.destination[0].index, value_in_lane(wave, op.source[0], lane));
}

template <int W>
void write_lane(Wave& wave, const Operation& op) {
  const int lane = static_cast<int>(scalar_value(wave, op.source[1]) % W);
  wave.row(op.destination[0].index)[lane] = scalar_value(wave, op.source[0]);
}

// How many bits of the mask belong to lanes below; lo has those of lanes 0 to 31, hi the others.
template <int W, bool High>
void count_below(Wave& wave, const Operation& op) {
  Reading reading{wave.exec()};
  const SourceLanes<W, u32> mask(wave, op, 0, reading), base(wave, op, 1, reading);
  Lanes<W> result, unused;
  for (int i = 0; i < W; ++i) {
    const int below = High ? i - 32 : i;
    const u32 lower = below >= 32 ? ~0u : (below <= 0 ? 0u : (1u << below) - 1);
    result.lane[i] = base[i] + static_cast<u32>(std::popcount(mask[i] & lower));
  }
  write_result<W, u32>(wave, op, result, unused, reading.write_mask);
}

constexpr uint32_t fetch_inactive = 1, zero_when_inactive = 2;

// op_sel of the permutations says what happens with lanes that are switched off.
void read_permute_flags(const Instruction& instruction, const Chip&, Operation& op) {
  const auto select = instruction.list("op_sel");
  op.flags = 0;
  if (!select.empty() && select[0] != 0) op.flags |= fetch_inactive;
  if (select.size() > 1 && select[1] != 0) op.flags |= zero_when_inactive;
  for (Source& source : op.source) source.part = Part::dword;
  op.destination_part = Part::dword;
}

// Each lane reads one of the 16 lanes of its row, or of the row beside it.
template <int W, class Select>
void permute_rows(Wave& wave, const Operation& op, bool other_row, Select select) {
  const uint64_t exec = wave.exec();
  uint64_t write_mask = exec;
  Lanes<W> result;
  for (int i = 0; i < W; ++i) {
    const int from = ((i & ~15) ^ (other_row ? 16 : 0)) + static_cast<int>(select(i) & 15);
    const bool readable = (op.flags & fetch_inactive) != 0 || ((exec >> from) & 1) != 0;
    result.lane[i] = readable ? value_in_lane(wave, op.source[0], from) : 0;
    if (!readable && (op.flags & zero_when_inactive) == 0) write_mask &= ~(1ull << i);
  }
  write_row<W>(wave.row(op.destination[0].index), result.lane, write_mask);
}
template <int W, bool OtherRow>
void permute_by_scalars(Wave& wave, const Operation& op) {
  const uint64_t selectors =
      static_cast<uint64_t>(scalar_value(wave, op.source[2])) << 32 | scalar_value(wave, op.source[1]);
  permute_rows<W>(wave, op, OtherRow, [&](int lane) { return selectors >> (4 * (lane & 15)); });
}
template <int W, bool OtherRow>
void permute_by_lanes(Wave& wave, const Operation& op) {
  permute_rows<W>(wave, op, OtherRow, [&](int lane) { return value_in_lane(wave, op.source[1], lane); });
}

template <int W>
void swap_halves(Wave& wave, const Operation& op) {
  Lanes<W> result;
  for (int i = 0; i < W; ++i) result.lane[i] = value_in_lane(wave, op.source[0], W == 64 ? i ^ 32 : i);
  write_row<W>(wave.row(op.destination[0].index), result.lane, wave.exec());
}

// A register whose number has an offset from M0 added.
uint32_t* indexed_row(Wave& wave, uint32_t base, uint32_t offset) {
  if (base + offset >= 256 || (wave.vector_rows != 0 && base + offset >= wave.vector_rows))
    throw KernelFault{Fault::Kind::illegal_address, "v" + std::to_string(base) +
                                                        " indexed by M0 = " + std::to_string(offset) +
                                                        " is beyond the registers of the kernel"};
  return wave.row(base + offset);
}

// What M0 adds to the source and to the destination.
struct Offsets {
  uint32_t source, destination;
};
template <int W>
void move_indexed(Wave& wave, const Operation& op, Offsets offsets) {
  Lanes<W> value;
  if (op.source[0].from == From::vector)
    std::memcpy(value.lane, indexed_row(wave, op.source[0].index, offsets.source), sizeof value.lane);
  else
    broadcast<W>(value.lane, scalar_value(wave, op.source[0]));
  write_row<W>(indexed_row(wave, op.destination[0].index, offsets.destination), value.lane, wave.exec());
}
template <int W>
void swap_rows(Wave& wave, const Operation& op, Offsets offsets) {
  uint32_t* first = indexed_row(wave, op.destination[0].index, offsets.destination);
  uint32_t* second = indexed_row(wave, op.source[0].index, offsets.source);
  const uint64_t exec = wave.exec();
  for (int i = 0; i < W; ++i)
    if ((exec >> i) & 1) std::swap(first[i], second[i]);
}
uint32_t m0(const Wave& wave) { return wave.scalars[scalar::m0]; }
Offsets source_offset(const Wave& wave) { return {m0(wave), 0}; }
Offsets destination_offset(const Wave& wave) { return {0, m0(wave)}; }
Offsets same_offset(const Wave& wave) { return {m0(wave), m0(wave)}; }
Offsets two_offsets(const Wave& wave) { return {m0(wave) & 0x3ff, m0(wave) >> 16 & 0x3ff}; }

template <int W, Offsets (*OffsetsOf)(const Wave&)>
void run_move(Wave& wave, const Operation& op) {
  move_indexed<W>(wave, op, OffsetsOf(wave));
}
template <int W>
void run_swap(Wave& wave, const Operation& op) {
  swap_rows<W>(wave, op, {0, 0});
}
template <int W>
void run_swap_indexed(Wave& wave, const Operation& op) {
  swap_rows<W>(wave, op, two_offsets(wave));
}

void do_nothing(Wave&, const Operation&) {}

}  // namespace

void add_vector_lanes(Rows& rows) {
  rows.push_back(lane_row("v_readlane_b32", two_sources, read_lane<32>, read_lane<64>));
  rows.push_back(lane_row("v_readfirstlane_b32", one_source, read_first_lane<32>, read_first_lane<64>));
  rows.push_back(lane_row("v_writelane_b32", two_sources, write_lane<32>, write_lane<64>));

  const auto counting = [&](std::string_view name, Execute wave32, Execute wave64) {
    Semantics row = lane_row(name, two_sources, wave32, wave64);
    row.moves_data = false;
    rows.push_back(row);
  };
  counting("v_mbcnt_lo_u32_b32", count_below<32, false>, count_below<64, false>);
  counting("v_mbcnt_hi_u32_b32", count_below<32, true>, count_below<64, true>);

  const auto permutation = [&](Semantics row) {
    row.refine = read_permute_flags;
    rows.push_back(row);
  };
  permutation(lane_row("v_permlane16_b32", three_sources, permute_by_scalars<32, false>,
                       permute_by_scalars<64, false>));
  permutation(lane_row("v_permlanex16_b32", three_sources, permute_by_scalars<32, true>,
                       permute_by_scalars<64, true>));
  permutation(lane_row("v_permlane16_var_b32", two_sources, permute_by_lanes<32, false>,
                       permute_by_lanes<64, false>));
  permutation(
      lane_row("v_permlanex16_var_b32", two_sources, permute_by_lanes<32, true>, permute_by_lanes<64, true>));
  rows.push_back(lane_row("v_permlane64_b32", one_source, swap_halves<32>, swap_halves<64>));

  rows.push_back(lane_row("v_movreld_b32", one_source, run_move<32, destination_offset>,
                          run_move<64, destination_offset>));
  rows.push_back(
      lane_row("v_movrels_b32", one_source, run_move<32, source_offset>, run_move<64, source_offset>));
  rows.push_back(
      lane_row("v_movrelsd_b32", one_source, run_move<32, same_offset>, run_move<64, same_offset>));
  rows.push_back(
      lane_row("v_movrelsd_2_b32", one_source, run_move<32, two_offsets>, run_move<64, two_offsets>));
  add_named(rows, {"v_swap_b32"}, lane_row("", one_source, run_swap<32>, run_swap<64>));
  rows.push_back(lane_row("v_swaprel_b32", one_source, run_swap_indexed<32>, run_swap_indexed<64>));

  for (const std::string_view name : {"v_nop", "v_pipeflush", "v_clrexcp"})
    rows.push_back(custom(name, Unit::vector, do_nothing, do_nothing));
}

}  // namespace hipemu::semantics
