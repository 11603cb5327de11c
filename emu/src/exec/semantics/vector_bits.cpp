// Bits of lanes: moves, logic, shifts, fields, counting, bytes put together.
#include <bit>

#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

using u16 = uint16_t;
using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;

// One byte of the eight in `bytes`, or a constant or a sign spread out, as a selector of v_perm_b32 says.
u32 permuted_byte(u64 bytes, u32 selector) {
  const u32 chosen = static_cast<u32>(bytes >> (8 * (selector & 7))) & 0xff;
  const u32 sign = static_cast<u32>(bytes >> (16 * (selector & 3) + 15)) & 1;  // of bytes 1, 3, 5, 7
  u32 result = selector < 8 ? chosen : sign * 0xff;
  result = selector == 12 ? 0 : result;
  return selector > 12 ? 0xff : result;
}

u32 leading_sign_bits(u32 value) {  // the first bit from above that differs from the sign, or -1
  const u32 differing = value ^ static_cast<u32>(static_cast<i32>(value) >> 31);
  return differing == 0 ? ~0u : static_cast<u32>(std::countl_zero(differing));
}

void add_moves(Rows& rows) {
  add_named(rows, {"v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"},
            moving(vector_alu("", [](u32 a) { return a; })));
  rows.push_back(moving(vector_alu("v_mov_b16", [](u16 a) { return a; })));
  rows.push_back(moving(vector_alu("v_mov_b64", [](u64 a) { return a; })));
  rows.push_back(
      moving(vector_alu("v_cndmask_b32", [](u32 a, u32 b, bool second) { return second ? b : a; })));
  rows.push_back(
      moving(vector_alu("v_cndmask_b16", [](u16 a, u16 b, bool second) { return second ? b : a; })));
}

void add_logic(Rows& rows) {
  rows.push_back(vector_alu("v_not_b32", [](u32 a) { return ~a; }));
  rows.push_back(vector_alu("v_and_b32", [](u32 a, u32 b) { return a & b; }));
  rows.push_back(vector_alu("v_or_b32", [](u32 a, u32 b) { return a | b; }));
  rows.push_back(vector_alu("v_xor_b32", [](u32 a, u32 b) { return a ^ b; }));
  rows.push_back(vector_alu("v_xnor_b32", [](u32 a, u32 b) { return ~(a ^ b); }));
  rows.push_back(vector_alu("v_not_b16", [](u16 a) { return static_cast<u16>(~a); }));
  rows.push_back(vector_alu("v_and_b16", [](u16 a, u16 b) { return static_cast<u16>(a & b); }));
  rows.push_back(vector_alu("v_or_b16", [](u16 a, u16 b) { return static_cast<u16>(a | b); }));
  rows.push_back(vector_alu("v_xor_b16", [](u16 a, u16 b) { return static_cast<u16>(a ^ b); }));
  rows.push_back(vector_alu("v_and_or_b32", [](u32 a, u32 b, u32 c) { return (a & b) | c; }));
  rows.push_back(vector_alu("v_or3_b32", [](u32 a, u32 b, u32 c) { return a | b | c; }));
  rows.push_back(vector_alu("v_xor3_b32", [](u32 a, u32 b, u32 c) { return a ^ b ^ c; }));
  rows.push_back(vector_alu("v_lshl_or_b32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) | c; }));
}

// "rev": the amount comes first.
void add_shifts(Rows& rows) {
  rows.push_back(vector_alu("v_lshlrev_b32", [](u32 a, u32 b) { return b << (a & 31); }));
  rows.push_back(vector_alu("v_lshrrev_b32", [](u32 a, u32 b) { return b >> (a & 31); }));
  rows.push_back(vector_alu("v_ashrrev_i32", [](u32 a, i32 b) { return b >> (a & 31); }));
  rows.push_back(vector_alu("v_lshlrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); }));
  rows.push_back(vector_alu("v_lshrrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); }));
  rows.push_back(
      vector_alu("v_ashrrev_i16", [](u16 a, int16_t b) { return static_cast<int16_t>(b >> (a & 15)); }));
  rows.push_back(vector_alu("v_lshlrev_b64", [](u32 a, u64 b) { return b << (a & 63); }));
  rows.push_back(vector_alu("v_lshrrev_b64", [](u32 a, u64 b) { return b >> (a & 63); }));
  rows.push_back(vector_alu("v_ashrrev_i64", [](u32 a, int64_t b) { return b >> (a & 63); }));
  rows.push_back(vector_alu("v_alignbit_b32", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>((static_cast<u64>(a) << 32 | b) >> (c & 31));
  }));
  rows.push_back(vector_alu("v_alignbyte_b32", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>((static_cast<u64>(a) << 32 | b) >> (8 * (c & 3)));
  }));
}

void add_fields(Rows& rows) {
  rows.push_back(vector_alu("v_bfe_u32", [](u32 a, u32 offset, u32 width) {
    return (a >> (offset & 31)) & ((1u << (width & 31)) - 1);
  }));
  rows.push_back(vector_alu("v_bfe_i32", [](i32 a, u32 offset, u32 width) {
    const u32 unused = (32 - (width & 31)) & 31;
    const i32 field = static_cast<i32>(static_cast<u32>(a >> (offset & 31)) << unused) >> unused;
    return (width & 31) == 0 ? 0 : field;
  }));
  rows.push_back(vector_alu("v_bfi_b32", [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); }));
  rows.push_back(vector_alu("v_bfm_b32", [](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); }));
  rows.push_back(vector_alu("v_bfrev_b32", [](u32 a) {
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    a = (a >> 8 & 0x00ff00ffu) | (a & 0x00ff00ffu) << 8;
    return a >> 16 | a << 16;
  }));
  rows.push_back(vector_alu("v_perm_b32", [](u32 a, u32 b, u32 selectors) {
    const u64 bytes = static_cast<u64>(a) << 32 | b;
    u32 result = 0;
    for (int byte = 0; byte < 4; ++byte)
      result |= permuted_byte(bytes, selectors >> (8 * byte) & 0xff) << (8 * byte);
    return result;
  }));
  // On moves of halves the sign modifiers are those of f16, so these are floats here.
  rows.push_back(vector_alu("v_pack_b32_f16", [](Half16 a, Half16 b) {
    return static_cast<u32>(a.bits) | static_cast<u32>(b.bits) << 16;
  }));
}

void add_counts(Rows& rows) {
  add_named(rows, {"v_ffbh_u32", "v_clz_i32_u32"},
            vector_alu("", [](u32 a) { return a == 0 ? ~0u : static_cast<u32>(std::countl_zero(a)); }));
  add_named(rows, {"v_ffbh_i32", "v_cls_i32"}, vector_alu("", [](u32 a) { return leading_sign_bits(a); }));
  add_named(rows, {"v_ffbl_b32", "v_ctz_i32_b32"},
            vector_alu("", [](u32 a) { return a == 0 ? ~0u : static_cast<u32>(std::countr_zero(a)); }));
  rows.push_back(
      vector_alu("v_bcnt_u32_b32", [](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; }));
}

}  // namespace

void add_vector_bits(Rows& rows) {
  add_moves(rows);
  add_logic(rows);
  add_shifts(rows);
  add_fields(rows);
  add_counts(rows);
}

}  // namespace hipemu::semantics
