// Instructions of the LDS unit that move data between lanes and touch no memory.
#include <fmt/format.h>

#include <charconv>

#include "exec/semantics/memory.h"

namespace hipemu::semantics {
namespace {

void prepare_permute(const Instruction& instruction, const Chip& chip, Operation& op) {
  expect_operands(instruction, 3, 3);
  op.destination[0] = vector_destination(instruction, 0);
  op.source[address_source] = vector_source(instruction, 1);
  op.source[data_source] = vector_source(instruction, 2);
  read_memory_modifiers(instruction, op);
  op.immediate = chip.generation == Generation::gfx9 ? 64 : 32;  // lanes that data can cross
}

// Which lane an address names, in the lane's half of the wave where data does not cross.
template <int W>
inline int lane_of(const Operation& op, uint32_t address, int lane) {
  const int reach = op.immediate < W ? static_cast<int>(op.immediate) : W;
  const int wanted = static_cast<int>((address + static_cast<uint32_t>(op.offset)) / 4 % W);
  return reach == W ? wanted : (lane & ~(reach - 1)) | (wanted & (reach - 1));
}

// Each lane fetches. From a lane that is switched off comes zero, or its data with `FetchInactive`.
template <int W, bool FetchInactive>
void permute_backward(Wave& wave, const Operation& op) {
  const uint64_t mask = active_lanes<W>(wave);
  const uint32_t* address = wave.row(op.source[address_source].index);
  const uint32_t* data = wave.row(op.source[data_source].index);
  Lanes<W> result;
  for (int i = 0; i < W; ++i) {
    const int from = lane_of<W>(op, address[i], i);
    result.lane[i] = FetchInactive || (mask >> from & 1) != 0 ? data[from] : 0;
  }
  write_row<W>(wave.row(op.destination[0].index), result.lane, mask);
}

// Each lane sends; the highest one wins. Who gets nothing has zero.
template <int W>
void permute_forward(Wave& wave, const Operation& op) {
  const uint64_t mask = active_lanes<W>(wave);
  const uint32_t* address = wave.row(op.source[address_source].index);
  const uint32_t* data = wave.row(op.source[data_source].index);
  Lanes<W> result{};
  for_each_lane(mask, [&](int lane) { result.lane[lane_of<W>(op, address[lane], lane)] = data[lane]; });
  write_row<W>(wave.row(op.destination[0].index), result.lane, mask);
}

// --- ds_swizzle_b32: the pattern is in the 16 bits of the offset ---

std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return parts;
}

uint32_t small_number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > 63)
    throw std::invalid_argument(fmt::format("'{}' is no lane", text));
  return value;
}

constexpr uint32_t bit_mask_pattern(uint32_t keep, uint32_t set, uint32_t flip) {
  return (keep & 31) | (set & 31) << 5 | (flip & 31) << 10;
}

// The macros of the assembler back to bits.
uint32_t swizzle_pattern(std::string_view text) {
  constexpr std::string_view prefix = "swizzle(";
  if (!text.starts_with(prefix) || !text.ends_with(')'))
    throw std::invalid_argument(fmt::format("offset '{}' not understood", text));
  const auto parts = split_arguments(text.substr(prefix.size(), text.size() - prefix.size() - 1));
  const auto argument = [&](std::size_t i) {
    if (i >= parts.size()) throw std::invalid_argument("swizzle needs more arguments");
    return parts[i];
  };
  const auto number = [&](std::size_t i) { return small_number(argument(i)); };
  const std::string_view mode = argument(0);
  if (mode == "QUAD_PERM") {
    uint32_t bits = 0x8000;
    for (std::size_t i = 0; i < 4; ++i) bits |= (number(i + 1) & 3) << (2 * i);
    return bits;
  }
  if (mode == "BROADCAST") return bit_mask_pattern(32 - number(1), number(2), 0);
  if (mode == "SWAP") return bit_mask_pattern(31, 0, number(1));
  if (mode == "REVERSE") return bit_mask_pattern(31, 0, number(1) - 1);
  if (mode == "ROTATE") return 0xc000 | (number(1) & 1) << 10 | (number(2) & 31) << 5;
  if (mode == "FFT") return 0xe000 | (number(1) & 31);
  if (mode == "BITMASK_PERM") {
    std::string_view mask = argument(1);
    while (mask.starts_with(' ') || mask.starts_with('"')) mask.remove_prefix(1);
    while (mask.ends_with('"')) mask.remove_suffix(1);
    if (mask.size() != 5) throw std::invalid_argument("a bit mask has five places");
    uint32_t keep = 0, set = 0, flip = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      const uint32_t bit = 16u >> i;
      if (mask[i] == 'p' || mask[i] == 'i') keep |= bit;
      if (mask[i] == '1') set |= bit;
      if (mask[i] == 'i') flip |= bit;
    }
    return bit_mask_pattern(keep, set, flip);
  }
  throw std::invalid_argument(fmt::format("swizzle mode '{}' not understood", mode));
}

// From which lane, within 32 lanes, `lane` gets its data.
int swizzled_lane(uint32_t pattern, int lane) {
  const uint32_t i = static_cast<uint32_t>(lane) & 31;
  uint32_t from;
  if (pattern >= 0xe000) {  // bit reversal for FFTs
    const uint32_t mask = pattern & 31;
    uint32_t reversed = 0;
    for (int bit = 0; bit < 5; ++bit) reversed |= (i >> bit & 1) << (4 - bit);
    from = (mask == 31 ? i : (reversed >> std::popcount(mask)) | (i & mask)) & 31;
  } else if (pattern >= 0xc000) {  // rotation; lanes keep the bits of the mask
    const uint32_t mask = pattern & 31, amount = pattern >> 5 & 31;
    const uint32_t turned = (pattern >> 10 & 1) != 0 ? i - amount : i + amount;
    from = ((i & mask) | (turned & ~mask)) & 31;
  } else if ((pattern & 0x8000) != 0) {
    from = (i & ~3u) | (pattern >> (2 * (i & 3)) & 3);
  } else {
    from = ((i & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
  }
  return static_cast<int>(from) | (lane & ~31);
}

void prepare_swizzle(const Instruction& instruction, const Chip&, Operation& op) {
  expect_operands(instruction, 2, 2);
  op.destination[0] = vector_destination(instruction, 0);
  op.source[data_source] = vector_source(instruction, 1);
  uint32_t pattern = 0;
  if (const std::string* value = instruction.find("offset"))
    pattern = value->starts_with("swizzle") ? swizzle_pattern(*value)
                                            : static_cast<uint32_t>(instruction.number("offset", 0));
  op.immediate = pattern;
  auto permutation = std::make_unique<LanePermutation>();
  for (int lane = 0; lane < 64; ++lane)
    permutation->source[static_cast<std::size_t>(lane)] = static_cast<int8_t>(swizzled_lane(pattern, lane));
  op.owned_permutation = std::move(permutation);
}

template <int W>
void swizzle(Wave& wave, const Operation& op) {
  const uint64_t mask = active_lanes<W>(wave);
  const uint32_t* data = wave.row(op.source[data_source].index);
  const auto& source = op.owned_permutation->source;
  Lanes<W> result;
  for (int i = 0; i < W; ++i) {
    const int from = source[static_cast<std::size_t>(i)];
    result.lane[i] = (mask >> from & 1) != 0 ? data[from] : 0;
  }
  write_row<W>(wave.row(op.destination[0].index), result.lane, mask);
}

}  // namespace

void add_lds_lanes(Rows& rows) {
  const auto add = [&](std::string_view name, Execute wave32, Execute wave64, Prepare prepare) {
    rows.push_back(moving(custom(name, Unit::lds, wave32, wave64, prepare)));
  };
  add("ds_bpermute_b32", permute_backward<32, false>, permute_backward<64, false>, prepare_permute);
  add("ds_bpermute_fi_b32", permute_backward<32, true>, permute_backward<64, true>, prepare_permute);
  add("ds_permute_b32", permute_forward<32>, permute_forward<64>, prepare_permute);
  add("ds_swizzle_b32", swizzle<32>, swizzle<64>, prepare_swizzle);
}

}  // namespace hipemu::semantics
