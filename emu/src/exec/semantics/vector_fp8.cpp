// Conversions between f32 and floats of eight bits. gfx942 has formats of its own (FNUZ), gfx12 those of the
// OCP.
#include "exec/semantics/float_mode.h"
#include "exec/semantics/small_floats.h"

namespace hipemu::semantics {
namespace {

using u32 = uint32_t;

constexpr uint32_t fnuz = 1;                    // in Operation::flags
constexpr uint32_t saturating_mode = 1u << 23;  // MODE.FP16_OVFL

constexpr Part bytes[] = {Part::byte0, Part::byte1, Part::byte2, Part::byte3};

void read_format(const Instruction&, const Chip& chip, Operation& op) {
  op.flags = chip.fp8_is_fnuz ? fnuz : 0;
}

// byte_sel picks the byte of the source.
void read_source_byte(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_format(instruction, chip, op);
  if (const int64_t byte = instruction.number("byte_sel", 0); byte != 0) {
    op.source[0].part = bytes[byte & 3];
    op.plain = false;
  }
}
// The other half of the register stays.
void keep_other_half(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_format(instruction, chip, op);
  op.keep_mask = 0xffff0000u;
}
// One byte of the register is written: byte_sel, or the last two bits of op_sel.
void read_destination_byte(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_format(instruction, chip, op);
  int64_t byte = instruction.number("byte_sel", 0);
  const auto select = instruction.list("op_sel");
  if (select.size() > 2 && select[2] != 0) byte |= 1;
  if (select.size() > 3 && select[3] != 0) byte |= 2;
  op.destination_part = bytes[byte & 3];
  op.plain = false;
}

template <class Format>
PackedF32 decode_two(u32 a) {
  return {decode_small<Format>(static_cast<uint8_t>(a)), decode_small<Format>(static_cast<uint8_t>(a >> 8))};
}

// MODE is the same for all lanes, and lambdas have no state: it travels beside them.
bool& saturate() {
  static thread_local bool value = false;
  return value;
}
template <class Format>
uint16_t encode_two(float a, float b) {
  return static_cast<uint16_t>(encode_small<Format>(a, nullptr, saturate()) |
                               encode_small<Format>(b, nullptr, saturate()) << 8);
}
template <class Format>
u32 encode_randomly(float a, u32 random) {
  return encode_small<Format>(a, &random, saturate());
}

template <int W, class Ocp, class Fnuz>
void run_by_format(Wave& wave, const Operation& op) {
  saturate() = (wave.mode & saturating_mode) != 0;
  if (op.flags == fnuz)
    run_vector<W, Fnuz>(wave, op);
  else
    run_vector<W, Ocp>(wave, op);
}
template <class Ocp, class Fnuz>
Semantics by_format(std::string_view name, Ocp ocp, Fnuz,
                    void (*refine)(const Instruction&, const Chip&, Operation&)) {
  Semantics row = vector_alu(name, ocp);
  row.wave32 = run_by_format<32, Ocp, Fnuz>;
  row.wave64 = run_by_format<64, Ocp, Fnuz>;
  row.refine = refine;
  return row;
}

}  // namespace

void add_vector_fp8(Rows& rows) {
  rows.push_back(by_format(
      "v_cvt_f32_fp8", [](u32 a) { return decode_small<E4m3>(static_cast<uint8_t>(a)); },
      [](u32 a) { return decode_small<E4m3Fnuz>(static_cast<uint8_t>(a)); }, read_source_byte));
  rows.push_back(by_format(
      "v_cvt_f32_bf8", [](u32 a) { return decode_small<E5m2>(static_cast<uint8_t>(a)); },
      [](u32 a) { return decode_small<E5m2Fnuz>(static_cast<uint8_t>(a)); }, read_source_byte));
  rows.push_back(by_format(
      "v_cvt_pk_f32_fp8", [](u32 a) { return decode_two<E4m3>(a); },
      [](u32 a) { return decode_two<E4m3Fnuz>(a); }, read_format));
  rows.push_back(by_format(
      "v_cvt_pk_f32_bf8", [](u32 a) { return decode_two<E5m2>(a); },
      [](u32 a) { return decode_two<E5m2Fnuz>(a); }, read_format));
  rows.push_back(by_format(
      "v_cvt_pk_fp8_f32", [](float a, float b) { return encode_two<E4m3>(a, b); },
      [](float a, float b) { return encode_two<E4m3Fnuz>(a, b); }, keep_other_half));
  rows.push_back(by_format(
      "v_cvt_pk_bf8_f32", [](float a, float b) { return encode_two<E5m2>(a, b); },
      [](float a, float b) { return encode_two<E5m2Fnuz>(a, b); }, keep_other_half));
  rows.push_back(by_format(
      "v_cvt_sr_fp8_f32", [](float a, u32 b) { return encode_randomly<E4m3>(a, b); },
      [](float a, u32 b) { return encode_randomly<E4m3Fnuz>(a, b); }, read_destination_byte));
  rows.push_back(by_format(
      "v_cvt_sr_bf8_f32", [](float a, u32 b) { return encode_randomly<E5m2>(a, b); },
      [](float a, u32 b) { return encode_randomly<E5m2Fnuz>(a, b); }, read_destination_byte));
}

}  // namespace hipemu::semantics
