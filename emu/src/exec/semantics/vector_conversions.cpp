// Conversions between integers and floats of all sizes. To integers they saturate, and what is not a number
// becomes zero.
#include <limits>

#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

using u16 = uint16_t;
using i16 = int16_t;
using u32 = uint32_t;
using i32 = int32_t;

// Toward zero. Every limit of a 32-bit integer is a double.
template <class T>
T to_integer(double value) {
  constexpr double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  const double number = value == value ? value : 0.0;
  const double limited = number < least ? least : (number > most ? most : number);
  return static_cast<T>(limited);
}

// [-1, 1] or [0, 1] to the whole range of the integer.
template <class T>
u16 normalized(float value) {
  constexpr float least = std::numeric_limits<T>::min() == 0 ? 0.0f : -1.0f;
  constexpr float range = std::numeric_limits<T>::max();
  const float number = value == value ? value : 0.0f;
  const float limited = number < least ? least : (number > 1.0f ? 1.0f : number);
  return static_cast<u16>(static_cast<T>(std::rint(limited * range)));
}

u32 packed(u32 low, u32 high) { return (low & 0xffffu) | high << 16; }

// f16 toward zero, whatever MODE says.
u16 half_toward_zero(float value) { return round_to_half(value, Rounding::toward_zero); }

template <class T>
T limited_to(i32 value) {
  constexpr i32 least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return static_cast<T>(value < least ? least : (value > most ? most : value));
}

void add_integers_to_floats(Rows& rows) {
  rows.push_back(float_alu("v_cvt_f32_i32", [](i32 a) { return static_cast<float>(a); }));
  rows.push_back(float_alu("v_cvt_f32_u32", [](u32 a) { return static_cast<float>(a); }));
  rows.push_back(float_alu("v_cvt_f64_i32", [](i32 a) { return static_cast<double>(a); }));
  rows.push_back(float_alu("v_cvt_f64_u32", [](u32 a) { return static_cast<double>(a); }));
  rows.push_back(float_alu("v_cvt_f16_i16", [](i16 a) { return HalfOf{static_cast<float>(a)}; }));
  rows.push_back(float_alu("v_cvt_f16_u16", [](u16 a) { return HalfOf{static_cast<float>(a)}; }));
  rows.push_back(vector_alu("v_cvt_f32_ubyte0", [](u32 a) { return static_cast<float>(a & 0xff); }));
  rows.push_back(vector_alu("v_cvt_f32_ubyte1", [](u32 a) { return static_cast<float>(a >> 8 & 0xff); }));
  rows.push_back(vector_alu("v_cvt_f32_ubyte2", [](u32 a) { return static_cast<float>(a >> 16 & 0xff); }));
  rows.push_back(vector_alu("v_cvt_f32_ubyte3", [](u32 a) { return static_cast<float>(a >> 24); }));
  // Four signed bits, in sixteenths.
  rows.push_back(vector_alu("v_cvt_off_f32_i4", [](u32 a) {
    return static_cast<float>(static_cast<i32>(a << 28) >> 28) * 0.0625f;
  }));
}

void add_floats_to_integers(Rows& rows) {
  rows.push_back(float_alu("v_cvt_i32_f32", [](float a) { return to_integer<i32>(a); }));
  rows.push_back(float_alu("v_cvt_u32_f32", [](float a) { return to_integer<u32>(a); }));
  rows.push_back(float_alu("v_cvt_i32_f64", [](double a) { return to_integer<i32>(a); }));
  rows.push_back(float_alu("v_cvt_u32_f64", [](double a) { return to_integer<u32>(a); }));
  rows.push_back(float_alu("v_cvt_i16_f16", [](Half16 a) { return to_integer<i16>(static_cast<float>(a)); }));
  rows.push_back(float_alu("v_cvt_u16_f16", [](Half16 a) { return to_integer<u16>(static_cast<float>(a)); }));
  add_named(rows, {"v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32"},
            float_alu("", [](float a) { return to_integer<i32>(std::floor(a + 0.5f)); }));
  add_named(rows, {"v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32"},
            float_alu("", [](float a) { return to_integer<i32>(std::floor(a)); }));
  rows.push_back(
      float_alu("v_cvt_norm_i16_f16", [](Half16 a) { return normalized<i16>(static_cast<float>(a)); }));
  rows.push_back(
      float_alu("v_cvt_norm_u16_f16", [](Half16 a) { return normalized<u16>(static_cast<float>(a)); }));
}

void add_floats_to_floats(Rows& rows) {
  rows.push_back(float_alu("v_cvt_f32_f16", [](Half16 a) { return quieted(static_cast<float>(a)); }));
  rows.push_back(float_alu("v_cvt_f16_f32", [](float a) { return HalfOf{a}; }));
  rows.push_back(float_alu("v_cvt_f32_f64", [](double a) { return static_cast<float>(a); }));
  rows.push_back(float_alu("v_cvt_f64_f32", [](float a) { return static_cast<double>(a); }));
  rows.push_back(vector_alu("v_cvt_f32_bf16", [](Bfloat16 a) { return static_cast<float>(a); }));
}

void add_integers_to_integers(Rows& rows) {
  rows.push_back(vector_alu("v_cvt_i32_i16", [](i16 a) { return static_cast<i32>(a); }));
  rows.push_back(vector_alu("v_cvt_u32_u16", [](u16 a) { return static_cast<u32>(a); }));
  rows.push_back(vector_alu("v_cvt_pk_u16_u32", [](u32 a, u32 b) {
    return packed(a > 0xffff ? 0xffff : a, b > 0xffff ? 0xffff : b);
  }));
  rows.push_back(vector_alu("v_cvt_pk_i16_i32", [](i32 a, i32 b) {
    return packed(static_cast<u16>(limited_to<i16>(a)), static_cast<u16>(limited_to<i16>(b)));
  }));
  rows.push_back(vector_alu("v_sat_pk_u8_i16", [](u32 a) {
    const i32 low = static_cast<i16>(a), high = static_cast<i16>(a >> 16);
    return static_cast<u16>(limited_to<uint8_t>(low) | limited_to<uint8_t>(high) << 8);
  }));
}

void add_packed(Rows& rows) {
  add_named(rows, {"v_cvt_pkrtz_f16_f32", "v_cvt_pk_rtz_f16_f32"},
            float_alu("", [](float a, float b) { return packed(half_toward_zero(a), half_toward_zero(b)); }));
  add_named(rows, {"v_cvt_pknorm_i16_f32", "v_cvt_pk_norm_i16_f32"},
            float_alu("", [](float a, float b) { return packed(normalized<i16>(a), normalized<i16>(b)); }));
  add_named(rows, {"v_cvt_pknorm_u16_f32", "v_cvt_pk_norm_u16_f32"},
            float_alu("", [](float a, float b) { return packed(normalized<u16>(a), normalized<u16>(b)); }));
  add_named(rows, {"v_cvt_pknorm_i16_f16", "v_cvt_pk_norm_i16_f16"}, float_alu("", [](Half16 a, Half16 b) {
              return packed(normalized<i16>(static_cast<float>(a)), normalized<i16>(static_cast<float>(b)));
            }));
  add_named(rows, {"v_cvt_pknorm_u16_f16", "v_cvt_pk_norm_u16_f16"}, float_alu("", [](Half16 a, Half16 b) {
              return packed(normalized<u16>(static_cast<float>(a)), normalized<u16>(static_cast<float>(b)));
            }));
  rows.push_back(float_alu("v_cvt_pk_i16_f32", [](float a, float b) {
    return packed(static_cast<u16>(to_integer<i16>(a)), static_cast<u16>(to_integer<i16>(b)));
  }));
  rows.push_back(float_alu("v_cvt_pk_u16_f32",
                           [](float a, float b) { return packed(to_integer<u16>(a), to_integer<u16>(b)); }));
  rows.push_back(float_alu("v_cvt_pk_u8_f32", [](float a, u32 byte, u32 rest) {
    const u32 shift = 8 * (byte & 3);
    return (rest & ~(0xffu << shift)) | static_cast<u32>(to_integer<uint8_t>(a)) << shift;
  }));
  rows.push_back(float_accumulating("v_cvt_pkaccum_u8_f32", [](float a, u32 byte, u32 rest) {
    const u32 shift = 8 * (byte & 3);
    return (rest & ~(0xffu << shift)) | static_cast<u32>(to_integer<uint8_t>(a)) << shift;
  }));
  rows.push_back(vector_alu("v_cvt_pk_bf16_f32",
                            [](float a, float b) { return packed(float_to_bfloat(a), float_to_bfloat(b)); }));
}

}  // namespace

void add_vector_conversions(Rows& rows) {
  add_integers_to_floats(rows);
  add_floats_to_integers(rows);
  add_floats_to_floats(rows);
  add_integers_to_integers(rows);
  add_packed(rows);
}

}  // namespace hipemu::semantics
