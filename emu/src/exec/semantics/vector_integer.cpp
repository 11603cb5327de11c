// Integer arithmetic on lanes: sums with and without carry, products, least and greatest, sums of
// differences. Where the clamp bit makes an instruction saturate, that is the second lambda.
#include <algorithm>
#include <bit>
#include <limits>

#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

using u16 = uint16_t;
using i16 = int16_t;
using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

// The nearest value of T; Wide holds the exact result.
template <class T, class Wide>
T saturated(Wide exact) {
  constexpr Wide least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return static_cast<T>(exact < least ? least : (exact > most ? most : exact));
}

i32 low24(i32 value) { return static_cast<i32>(static_cast<u32>(value) << 8) >> 8; }
u32 low24(u32 value) { return value & 0xffffffu; }

template <class T>
T median(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

void add_sums(Rows& rows) {
  add_named(rows, {"v_add_u32", "v_add_nc_u32"},
            vector_alu(
                "", [](u32 a, u32 b) { return a + b; },
                [](u32 a, u32 b) { return saturated<u32>(static_cast<i64>(a) + b); }));
  add_named(rows, {"v_sub_u32", "v_sub_nc_u32"},
            vector_alu(
                "", [](u32 a, u32 b) { return a - b; },
                [](u32 a, u32 b) { return saturated<u32>(static_cast<i64>(a) - b); }));
  add_named(rows, {"v_subrev_u32", "v_subrev_nc_u32"},
            vector_alu(
                "", [](u32 a, u32 b) { return b - a; },
                [](u32 a, u32 b) { return saturated<u32>(static_cast<i64>(b) - a); }));
  add_named(rows, {"v_add_i32", "v_add_nc_i32"},
            vector_alu(
                "", [](i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b)); },
                [](i32 a, i32 b) { return saturated<i32>(static_cast<i64>(a) + b); }));
  add_named(rows, {"v_sub_i32", "v_sub_nc_i32"},
            vector_alu(
                "", [](i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) - static_cast<u32>(b)); },
                [](i32 a, i32 b) { return saturated<i32>(static_cast<i64>(a) - b); }));
  add_named(rows, {"v_add_u16", "v_add_nc_u16"},
            vector_alu(
                "", [](u16 a, u16 b) { return static_cast<u16>(a + b); },
                [](u16 a, u16 b) { return saturated<u16>(a + b); }));
  add_named(rows, {"v_sub_u16", "v_sub_nc_u16"},
            vector_alu(
                "", [](u16 a, u16 b) { return static_cast<u16>(a - b); },
                [](u16 a, u16 b) { return saturated<u16>(a - b); }));
  rows.push_back(vector_alu(
      "v_subrev_u16", [](u16 a, u16 b) { return static_cast<u16>(b - a); },
      [](u16 a, u16 b) { return saturated<u16>(b - a); }));
  add_named(rows, {"v_add_i16", "v_add_nc_i16"},
            vector_alu(
                "", [](i16 a, i16 b) { return static_cast<i16>(a + b); },
                [](i16 a, i16 b) { return saturated<i16>(a + b); }));
  add_named(rows, {"v_sub_i16", "v_sub_nc_i16"},
            vector_alu(
                "", [](i16 a, i16 b) { return static_cast<i16>(a - b); },
                [](i16 a, i16 b) { return saturated<i16>(a - b); }));
  rows.push_back(vector_alu("v_add3_u32", [](u32 a, u32 b, u32 c) { return a + b + c; }));
  rows.push_back(vector_alu("v_xad_u32", [](u32 a, u32 b, u32 c) { return (a ^ b) + c; }));
  rows.push_back(vector_alu("v_lshl_add_u32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; }));
  rows.push_back(vector_alu("v_add_lshl_u32", [](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); }));
  rows.push_back(vector_alu("v_lshl_add_u64", [](u64 a, u32 b, u64 c) { return (a << (b & 7)) + c; }));
  rows.push_back(vector_alu("v_add_nc_u64", [](u64 a, u64 b) { return a + b; }));
  rows.push_back(vector_alu("v_sub_nc_u64", [](u64 a, u64 b) { return a - b; }));
}

// Carry out goes to a lane mask; with carry in, it comes from one.
void add_carries(Rows& rows) {
  rows.push_back(vector_alu(
      "v_add_co_u32",
      [](u32 a, u32 b) {
        return WithMask<u32>{a + b, a + b < a};
      },
      [](u32 a, u32 b) {
        return WithMask<u32>{a + b < a ? ~0u : a + b, a + b < a};
      }));
  rows.push_back(vector_alu(
      "v_sub_co_u32",
      [](u32 a, u32 b) {
        return WithMask<u32>{a - b, b > a};
      },
      [](u32 a, u32 b) {
        return WithMask<u32>{b > a ? 0 : a - b, b > a};
      }));
  rows.push_back(vector_alu(
      "v_subrev_co_u32",
      [](u32 a, u32 b) {
        return WithMask<u32>{b - a, a > b};
      },
      [](u32 a, u32 b) {
        return WithMask<u32>{a > b ? 0 : b - a, a > b};
      }));
  add_named(rows, {"v_addc_co_u32", "v_add_co_ci_u32"}, vector_alu("", [](u32 a, u32 b, bool carry) {
              const u64 sum = static_cast<u64>(a) + b + (carry ? 1u : 0u);
              return WithMask<u32>{static_cast<u32>(sum), (sum >> 32) != 0};
            }));
  add_named(rows, {"v_subb_co_u32", "v_sub_co_ci_u32"}, vector_alu("", [](u32 a, u32 b, bool carry) {
              const u64 taken = static_cast<u64>(b) + (carry ? 1u : 0u);
              return WithMask<u32>{static_cast<u32>(a - taken), taken > a};
            }));
  add_named(rows, {"v_subbrev_co_u32", "v_subrev_co_ci_u32"}, vector_alu("", [](u32 a, u32 b, bool carry) {
              const u64 taken = static_cast<u64>(a) + (carry ? 1u : 0u);
              return WithMask<u32>{static_cast<u32>(b - taken), taken > b};
            }));
}

void add_products(Rows& rows) {
  rows.push_back(vector_alu("v_mul_lo_u32", [](u32 a, u32 b) { return a * b; }));
  rows.push_back(vector_alu("v_mul_lo_i32", [](u32 a, u32 b) { return a * b; }));
  rows.push_back(vector_alu("v_mul_hi_u32",
                            [](u32 a, u32 b) { return static_cast<u32>((static_cast<u64>(a) * b) >> 32); }));
  rows.push_back(vector_alu("v_mul_hi_i32",
                            [](i32 a, i32 b) { return static_cast<i32>((static_cast<i64>(a) * b) >> 32); }));
  rows.push_back(vector_alu("v_mul_u32_u24", [](u32 a, u32 b) { return low24(a) * low24(b); }));
  rows.push_back(vector_alu("v_mul_i32_i24", [](i32 a, i32 b) {
    return static_cast<i32>(static_cast<u32>(low24(a)) * static_cast<u32>(low24(b)));
  }));
  rows.push_back(vector_alu("v_mul_hi_u32_u24", [](u32 a, u32 b) {
    return static_cast<u32>((static_cast<u64>(low24(a)) * low24(b)) >> 32);
  }));
  rows.push_back(vector_alu("v_mul_hi_i32_i24", [](i32 a, i32 b) {
    return static_cast<i32>((static_cast<i64>(low24(a)) * low24(b)) >> 32);
  }));
  rows.push_back(vector_alu("v_mul_lo_u16", [](u16 a, u16 b) { return static_cast<u16>(u32{a} * b); }));
  rows.push_back(vector_alu("v_mul_u64", [](u64 a, u64 b) { return a * b; }));

  rows.push_back(vector_alu(
      "v_mad_u32_u24", [](u32 a, u32 b, u32 c) { return low24(a) * low24(b) + c; },
      [](u32 a, u32 b, u32 c) {
        return saturated<u32>(static_cast<i64>(low24(a)) * low24(b) + static_cast<i64>(c));
      }));
  rows.push_back(vector_alu(
      "v_mad_i32_i24",
      [](i32 a, i32 b, i32 c) {
        return static_cast<i32>(static_cast<u32>(low24(a)) * static_cast<u32>(low24(b)) +
                                static_cast<u32>(c));
      },
      [](i32 a, i32 b, i32 c) { return saturated<i32>(static_cast<i64>(low24(a)) * low24(b) + c); }));
  add_named(rows, {"v_mad_u16", "v_mad_legacy_u16"},
            vector_alu(
                "", [](u16 a, u16 b, u16 c) { return static_cast<u16>(u32{a} * b + c); },
                [](u16 a, u16 b, u16 c) { return saturated<u16>(static_cast<i64>(u32{a} * b) + c); }));
  add_named(rows, {"v_mad_i16", "v_mad_legacy_i16"},
            vector_alu(
                "", [](i16 a, i16 b, i16 c) { return static_cast<i16>(a * b + c); },
                [](i16 a, i16 b, i16 c) { return saturated<i16>(a * b + c); }));
  rows.push_back(vector_alu(
      "v_mad_u32_u16", [](u16 a, u16 b, u32 c) { return u32{a} * b + c; },
      [](u16 a, u16 b, u32 c) { return saturated<u32>(static_cast<i64>(u32{a} * b) + c); }));
  rows.push_back(vector_alu(
      "v_mad_i32_i16",
      [](i16 a, i16 b, i32 c) { return static_cast<i32>(static_cast<u32>(a * b) + static_cast<u32>(c)); },
      [](i16 a, i16 b, i32 c) { return saturated<i32>(static_cast<i64>(a * b) + c); }));
  add_named(rows, {"v_mad_u64_u32", "v_mad_co_u64_u32"}, vector_alu("", [](u32 a, u32 b, u64 c) {
              const u64 sum = static_cast<u64>(a) * b + c;
              return WithMask<u64>{sum, sum < c};
            }));
  add_named(rows, {"v_mad_i64_i32", "v_mad_co_i64_i32"}, vector_alu("", [](i32 a, i32 b, i64 c) {
              const i64 product = static_cast<i64>(a) * b;
              const i64 sum = static_cast<i64>(static_cast<u64>(product) + static_cast<u64>(c));
              return WithMask<i64>{sum, ((product ^ sum) & (c ^ sum)) < 0};
            }));
  rows.push_back(
      vector_alu("v_mad_nc_u64_u32", [](u32 a, u32 b, u64 c) { return static_cast<u64>(a) * b + c; }));
}

template <class T>
void add_orders(Rows& rows, std::initializer_list<std::string_view> names) {
  const std::string_view* name = names.begin();
  rows.push_back(vector_alu(name[0], [](T a, T b) { return a < b ? a : b; }));
  rows.push_back(vector_alu(name[1], [](T a, T b) { return a > b ? a : b; }));
  rows.push_back(vector_alu(name[2], [](T a, T b, T c) { return std::min(std::min(a, b), c); }));
  rows.push_back(vector_alu(name[3], [](T a, T b, T c) { return std::max(std::max(a, b), c); }));
  rows.push_back(vector_alu(name[4], [](T a, T b, T c) { return median(a, b, c); }));
}

u32 absolute_difference(u32 a, u32 b) { return a > b ? a - b : b - a; }
u32 byte_of(u32 value, int byte) { return value >> (8 * byte) & 0xff; }
u32 sum_of_byte_differences(u32 a, u32 b) {
  u32 sum = 0;
  for (int byte = 0; byte < 4; ++byte) sum += absolute_difference(byte_of(a, byte), byte_of(b, byte));
  return sum;
}
u32 sum_of_word_differences(u32 a, u32 b) {
  return absolute_difference(a & 0xffff, b & 0xffff) + absolute_difference(a >> 16, b >> 16);
}
// Bytes of the reference that are zero do not count.
u32 masked_byte_differences(u32 a, u32 reference) {
  u32 sum = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const u32 other = byte_of(reference, byte);
    sum += other == 0 ? 0 : absolute_difference(byte_of(a, byte), other);
  }
  return sum;
}

// Four windows of four bytes, one byte apart, each compared with the reference.
template <class Difference>
u64 four_windows(u64 bytes, u32 reference, u64 sums, Difference difference) {
  u64 result = 0;
  for (int window = 0; window < 4; ++window) {
    const u32 sum = difference(static_cast<u32>(bytes >> (8 * window)), reference) +
                    static_cast<u32>(sums >> (16 * window) & 0xffff);
    result |= static_cast<u64>(std::min(sum, 0xffffu)) << (16 * window);
  }
  return result;
}

// v_mqsad_u32_u8 has sums of 32 bits: four registers, which no lambda returns.
template <int W>
void run_mqsad_u32(Wave& wave, const Operation& op) {
  Reading reading{wave.exec()};
  const SourceLanes<W, u64> bytes(wave, op, 0, reading);
  const SourceLanes<W, u32> reference(wave, op, 1, reading);
  Lanes<W> sums[4];
  const uint32_t* before[4];
  for (int window = 0; window < 4; ++window)
    before[window] = op.source[2].from == From::vector ? wave.row(op.source[2].index + window) : nullptr;
  for (int window = 0; window < 4; ++window)
    for (int i = 0; i < W; ++i)
      sums[window].lane[i] =
          masked_byte_differences(static_cast<u32>(bytes[i] >> (8 * window)), reference[i]) +
          (before[window] != nullptr ? before[window][i] : static_cast<u32>(op.source[2].bits));
  for (int window = 0; window < 4; ++window)
    write_row<W>(wave.row(op.destination[0].index + window), sums[window].lane, reading.write_mask);
}

void add_differences(Rows& rows) {
  rows.push_back(vector_alu(
      "v_sad_u8", [](u32 a, u32 b, u32 c) { return sum_of_byte_differences(a, b) + c; },
      [](u32 a, u32 b, u32 c) {
        return saturated<u32>(static_cast<i64>(sum_of_byte_differences(a, b)) + c);
      }));
  rows.push_back(vector_alu(
      "v_sad_hi_u8", [](u32 a, u32 b, u32 c) { return (sum_of_byte_differences(a, b) << 16) + c; },
      [](u32 a, u32 b, u32 c) {
        return saturated<u32>((static_cast<i64>(sum_of_byte_differences(a, b)) << 16) + c);
      }));
  rows.push_back(vector_alu(
      "v_sad_u16", [](u32 a, u32 b, u32 c) { return sum_of_word_differences(a, b) + c; },
      [](u32 a, u32 b, u32 c) {
        return saturated<u32>(static_cast<i64>(sum_of_word_differences(a, b)) + c);
      }));
  rows.push_back(vector_alu(
      "v_sad_u32", [](u32 a, u32 b, u32 c) { return absolute_difference(a, b) + c; },
      [](u32 a, u32 b, u32 c) { return saturated<u32>(static_cast<i64>(absolute_difference(a, b)) + c); }));
  rows.push_back(vector_alu(
      "v_msad_u8", [](u32 a, u32 b, u32 c) { return masked_byte_differences(a, b) + c; },
      [](u32 a, u32 b, u32 c) {
        return saturated<u32>(static_cast<i64>(masked_byte_differences(a, b)) + c);
      }));
  rows.push_back(vector_alu("v_qsad_pk_u16_u8", [](u64 a, u32 b, u64 c) {
    return four_windows(a, b, c, sum_of_byte_differences);
  }));
  rows.push_back(vector_alu("v_mqsad_pk_u16_u8", [](u64 a, u32 b, u64 c) {
    return four_windows(a, b, c, masked_byte_differences);
  }));
  Semantics mqsad = vector_alu("v_mqsad_u32_u8", [](u64, u32, u64) { return u64{0}; });
  mqsad.wave32 = run_mqsad_u32<32>;
  mqsad.wave64 = run_mqsad_u32<64>;
  rows.push_back(mqsad);
  rows.push_back(vector_alu("v_lerp_u8", [](u32 a, u32 b, u32 c) {
    u32 result = 0;
    for (int byte = 0; byte < 4; ++byte)
      result |= ((byte_of(a, byte) + byte_of(b, byte) + (byte_of(c, byte) & 1)) >> 1) << (8 * byte);
    return result;
  }));
}

}  // namespace

void add_vector_integer(Rows& rows) {
  add_sums(rows);
  add_carries(rows);
  add_products(rows);
  add_orders<i32>(rows, {"v_min_i32", "v_max_i32", "v_min3_i32", "v_max3_i32", "v_med3_i32"});
  add_orders<u32>(rows, {"v_min_u32", "v_max_u32", "v_min3_u32", "v_max3_u32", "v_med3_u32"});
  add_orders<i16>(rows, {"v_min_i16", "v_max_i16", "v_min3_i16", "v_max3_i16", "v_med3_i16"});
  add_orders<u16>(rows, {"v_min_u16", "v_max_u16", "v_min3_u16", "v_max3_u16", "v_med3_u16"});
  rows.push_back(vector_alu("v_minmax_i32", [](i32 a, i32 b, i32 c) { return std::max(std::min(a, b), c); }));
  rows.push_back(vector_alu("v_maxmin_i32", [](i32 a, i32 b, i32 c) { return std::min(std::max(a, b), c); }));
  rows.push_back(vector_alu("v_minmax_u32", [](u32 a, u32 b, u32 c) { return std::max(std::min(a, b), c); }));
  rows.push_back(vector_alu("v_maxmin_u32", [](u32 a, u32 b, u32 c) { return std::min(std::max(a, b), c); }));
  add_differences(rows);
}

}  // namespace hipemu::semantics
