// Instructions that C++ does not have: approximations, packed halves, conversions, dot products and bit
// fields. The host's side of each is written out here.
#include "../prelude.h"

constexpr int n = 500;

#define rdna3_chips (gfx1100 | gfx1201)

#if CORPUS_DEVICE
#define ON_CHIP(chip, host) chip
#else
#define ON_CHIP(chip, host) host
#endif

#define UNARY(name, T, expression, values_, output) \
  KERNEL name(T* result, const T* a, int count) {   \
    const int i = static_cast<int>(global_x());     \
    if (i >= count) return;                         \
    const T x = a[i];                               \
    result[i] = expression;                         \
  }                                                 \
  CASE(name, over(n), output, values_, n)

// ---- Approximations: within one unit (two where the manual says so) ----

#if CORPUS_HOST
// Computed in f64, rounded once.
f32 wide(f64 x) { return static_cast<f32>(x); }
#endif
#define normal_f32 between<f32>(n, -1000, 1000)
#define positive_f32 between<f32>(n, 1e-6, 1e6)
UNARY(hardware_rcp_f32, f32, ON_CHIP(__builtin_amdgcn_rcpf(x), wide(1.0 / x)), normal_f32,
      out<f32>(n).within(1))
UNARY(hardware_rsq_f32, f32, ON_CHIP(__builtin_amdgcn_rsqf(x), wide(1.0 / std::sqrt(f64(x)))), positive_f32,
      out<f32>(n).within(1))
UNARY(hardware_sqrt_f32, f32, ON_CHIP(__builtin_amdgcn_sqrtf(x), wide(std::sqrt(f64(x)))), positive_f32,
      out<f32>(n).within(1))
UNARY(hardware_exp2_f32, f32, ON_CHIP(__builtin_amdgcn_exp2f(x), wide(std::exp2(f64(x)))),
      between<f32>(n, -100, 100), out<f32>(n).within(2))
UNARY(hardware_log2_f32, f32, ON_CHIP(__builtin_amdgcn_logf(x), wide(std::log2(f64(x)))), positive_f32,
      out<f32>(n).within(2).near(1e-6))
UNARY(hardware_sin_f32, f32, ON_CHIP(__builtin_amdgcn_sinf(x), wide(std::sin(f64(x) * 2 * M_PI))),
      between<f32>(n, -4, 4), out<f32>(n).near(1e-5))
UNARY(hardware_cos_f32, f32, ON_CHIP(__builtin_amdgcn_cosf(x), wide(std::cos(f64(x) * 2 * M_PI))),
      between<f32>(n, -4, 4), out<f32>(n).near(1e-5))
UNARY(hardware_fract_f32, f32,
      ON_CHIP(__builtin_amdgcn_fractf(x), std::fmin(x - std::floor(x), 0x1.fffffep-1f)),
      between<f32>(n, -99, 99), out<f32>(n))
UNARY(hardware_frexp_f32, f32,
      ON_CHIP(__builtin_amdgcn_frexp_mantf(x) * 4 + __builtin_amdgcn_frexp_expf(x),
              [&] {
                int e = 0;
                const f32 m = std::frexp(x, &e);
                return m * 4 + e;
              }()),
      normal_f32, out<f32>(n))
UNARY(hardware_rcp_f16, f16, ON_CHIP(__builtin_amdgcn_rcph(x), f16(1.0 / x)), between<f16>(n, 0.1, 100),
      out<f16>(n).within(1))
UNARY(hardware_rsq_f16, f16, ON_CHIP(__builtin_amdgcn_rsqh(x), f16(1.0 / std::sqrt(f64(x)))),
      between<f16>(n, 0.1, 100), out<f16>(n).within(1))
UNARY(hardware_sqrt_f16, f16, ON_CHIP(__builtin_amdgcn_sqrth(x), f16(std::sqrt(f64(x)))),
      between<f16>(n, 0.1, 100), out<f16>(n).within(1))
UNARY(hardware_fract_f16, f16,
      ON_CHIP(__builtin_amdgcn_fracth(x), f16(std::fmin(f32(x) - std::floor(f32(x)), 0.99951171875f))),
      between<f16>(n, -99, 99), out<f16>(n))
UNARY(hardware_rcp_f64, f64, ON_CHIP(__builtin_amdgcn_rcp(x), 1.0 / x), between<f64>(n, 0.1, 100),
      out<f64>(n).within(1 << 29))
UNARY(hardware_rsq_f64, f64, ON_CHIP(__builtin_amdgcn_rsq(x), 1.0 / std::sqrt(x)), between<f64>(n, 0.1, 100),
      out<f64>(n).within(1 << 29))
UNARY(hardware_fract_f64, f64,
      ON_CHIP(__builtin_amdgcn_fract(x), std::fmin(x - std::floor(x), 0x1.fffffffffffffp-1)),
      between<f64>(n, -99, 99), out<f64>(n))
UNARY(hardware_frexp_f64, f64,
      ON_CHIP(__builtin_amdgcn_frexp_mant(x) * 4 + __builtin_amdgcn_frexp_exp(x),
              [&] {
                int e = 0;
                const f64 m = std::frexp(x, &e);
                return m * 4 + e;
              }()),
      between<f64>(n, -1e9, 1e9), out<f64>(n))

// Functions that the compiler makes from these.
UNARY(builtin_exp_f32, f32, __builtin_expf(x), between<f32>(n, -80, 80), out<f32>(n).within(3))
UNARY(builtin_exp2_f32, f32, __builtin_exp2f(x), between<f32>(n, -130, 120), out<f32>(n).within(3).near(0))
UNARY(builtin_log_f32, f32, __builtin_logf(x), positive_f32, out<f32>(n).within(3).near(1e-6))
UNARY(builtin_log2_f32, f32, __builtin_log2f(x), positive_f32, out<f32>(n).within(3).near(1e-6))
UNARY(builtin_log10_f32, f32, __builtin_log10f(x), positive_f32, out<f32>(n).within(3).near(1e-6))
UNARY(builtin_exp_f16, f16, static_cast<f16>(ON_CHIP(__builtin_expf16(x), std::exp(f32(x)))),
      between<f16>(n, -8, 10), out<f16>(n).within(2))
UNARY(builtin_log_f16, f16, static_cast<f16>(ON_CHIP(__builtin_logf16(x), std::log(f32(x)))),
      between<f16>(n, 0.1, 100), out<f16>(n).within(2).near(1e-3))
UNARY(sigmoid_f32, f32, 1 / (1 + __builtin_expf(-x)), between<f32>(n, -20, 20), out<f32>(n).within(6))
UNARY(silu_f32, f32, x / (1 + __builtin_expf(-x)), between<f32>(n, -20, 20), out<f32>(n).within(6))

// ---- f32 helpers: exponents, classes, medians ----

KERNEL scale_by_power(f32* result, f64* doubles, const f32* a, const f64* b, const i32* powers, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[i] = __builtin_ldexpf(a[i], powers[i]);
  doubles[i] = __builtin_ldexp(b[i], powers[i]);
}
CASE(scale_by_power, over(n), out<f32>(n), out<f64>(n), any<f32>(n), any<f64>(n), between<i32>(n, -60, 60), n)

KERNEL classes(u32* result, const f32* a, const f64* b, const f16* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const f32 x = a[i];
  const f64 y = b[i];
  const f16 z = c[i];
  result[i] = (x != x) | (__builtin_isinf(x) != 0) << 1 | (__builtin_isfinite(x) != 0) << 2 |
              (__builtin_isnormal(x) != 0) << 3 | (__builtin_signbit(x) != 0) << 4 |
              (__builtin_isinf(y) != 0) << 5 | (__builtin_isnormal(y) != 0) << 6 |
              (__builtin_signbit(y) != 0) << 7 | (__builtin_isnan(f32(z)) != 0) << 8 |
              (__builtin_isfpclass(x, 0x0f0) != 0) << 9 | (__builtin_isfpclass(y, 0x3c0) != 0) << 10 |
              (__builtin_isfpclass(z, 0x090) != 0) << 11;
}
CASE(classes, over(n), out<u32>(n), any<f32>(n), any<f64>(n), any<f16>(n), n)

KERNEL copy_signs(f32* result, f64* doubles, f16* halves, const f32* a, const f64* b, const f16* c,
                  int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const int j = count - 1 - i;
  result[i] = __builtin_copysignf(a[i], a[j]);
  doubles[i] = __builtin_copysign(b[i], b[j]);
  halves[i] = __builtin_copysignf16(c[i], c[j]);
}
CASE(copy_signs, over(n), out<f32>(n), out<f64>(n), out<f16>(n), any<f32>(n), any<f64>(n), any<f16>(n), n)

#if CORPUS_HOST
template <class T>
T middle(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
#endif
KERNEL medians(f32* result, f16* halves, const f32* a, const f16* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const f32 x = a[i], y = a[(i + 1) % count], z = a[(i + 2) % count];
  result[i] = ON_CHIP(__builtin_amdgcn_fmed3f(x, y, z), middle(x, y, z));
  (void)b;
  halves[i] =
      ON_CHIP(static_cast<f16>(__builtin_amdgcn_fmed3f(b[i], 0, 1)), middle<f16>(b[i], f16(0), f16(1)));
}
CASE(medians, over(n), out<f32>(n), out<f16>(n), between<f32>(n, -5, 5), between<f16>(n, -2, 2), n)

// ---- Integers of the chip ----

#if CORPUS_HOST
u32 absolute_differences(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 32; k += 8) {
    const i32 x = a >> k & 255, y = b >> k & 255;
    c += static_cast<u32>(x > y ? x - y : y - x);
  }
  return c;
}
u32 masked_differences(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 32; k += 8) {
    const i32 x = a >> k & 255, y = b >> k & 255;
    if (y != 0) c += static_cast<u32>(x > y ? x - y : y - x);
  }
  return c;
}
u32 halves_differences(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 32; k += 16) {
    const i32 x = a >> k & 65535, y = b >> k & 65535;
    c += static_cast<u32>(x > y ? x - y : y - x);
  }
  return c;
}
u32 averages(u32 a, u32 b, u32 c) {
  u32 result = 0;
  for (int k = 0; k < 32; k += 8) result |= (((a >> k & 255) + (b >> k & 255) + (c >> k & 1)) >> 1) << k;
  return result;
}
u32 field(u32 a, u32 offset, u32 width) {
  return width == 0 ? 0 : a >> offset & static_cast<u32>((1ull << width) - 1);
}
i32 signed_field(u32 a, u32 offset, u32 width) {
  return width == 0 ? 0 : static_cast<i32>(field(a, offset, width) << (32 - width)) >> (32 - width);
}
#endif
KERNEL sums_of_differences(u32* result, const u32* a, const u32* b, const u32* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[5 * i] = ON_CHIP(__builtin_amdgcn_sad_u8(a[i], b[i], c[i]), absolute_differences(a[i], b[i], c[i]));
  result[5 * i + 1] =
      ON_CHIP(__builtin_amdgcn_msad_u8(a[i], b[i], c[i]), masked_differences(a[i], b[i], c[i]));
  result[5 * i + 2] =
      ON_CHIP(__builtin_amdgcn_sad_u16(a[i], b[i], c[i]), halves_differences(a[i], b[i], c[i]));
  result[5 * i + 3] = ON_CHIP(__builtin_amdgcn_sad_hi_u8(a[i], b[i], c[i]),
                              (absolute_differences(a[i], b[i], 0) << 16) + c[i]);
  result[5 * i + 4] = ON_CHIP(__builtin_amdgcn_lerp(a[i], b[i], c[i]), averages(a[i], b[i], c[i]));
}
CASE(sums_of_differences, over(n), out<u32>(5 * n), any<u32>(n), any<u32>(n), any<u32>(n), n)

KERNEL bit_fields(u32* result, const u32* a, const u32* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32 offset = b[i] & 15, width = b[i] >> 8 & 15, x = a[i];
  result[4 * i] = ON_CHIP(__builtin_amdgcn_ubfe(x, offset, width), field(x, offset, width));
  result[4 * i + 1] =
      static_cast<u32>(ON_CHIP(__builtin_amdgcn_sbfe(x, offset, width), signed_field(x, offset, width)));
  result[4 * i + 2] =
      ON_CHIP(__builtin_amdgcn_alignbit(x, b[i], offset), static_cast<u32>((u64(x) << 32 | b[i]) >> offset));
  result[4 * i + 3] = ON_CHIP(__builtin_amdgcn_alignbyte(x, b[i], offset & 3),
                              static_cast<u32>((u64(x) << 32 | b[i]) >> 8 * (offset & 3)));
}
CASE(bit_fields, over(n), out<u32>(4 * n), any<u32>(n), any<u32>(n), n)

// 24 bits times 24 bits; sign-extended bytes and halves in arithmetic (SDWA on gfx9).
KERNEL narrow_arithmetic(u32* result, const u32* a, const u32* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32 x = a[i], y = b[i];
  const i32 sx = static_cast<i32>(x << 8) >> 8, sy = static_cast<i32>(y << 8) >> 8;
  result[3 * i] =
      (x & 0xffffff) * (y & 0xffffff) + static_cast<u32>(static_cast<u64>(static_cast<i64>(sx) * sy) >> 32);
  result[3 * i + 1] =
      (x >> 16) * (y & 0xffff) + static_cast<u32>(static_cast<i8>(x >> 8) - static_cast<i8>(y >> 24)) +
      ((x >> 8 & 255) << 3) + static_cast<u32>(static_cast<i16>(x) * static_cast<i16>(y >> 16));
  const u16 h = static_cast<u16>(x) + static_cast<u16>(y >> 16),
            g = static_cast<u16>(static_cast<u16>(x >> 16) >> (y & 15));
  result[3 * i + 2] = h | static_cast<u32>(g) << 16;
}
CASE(narrow_arithmetic, over(n), out<u32>(3 * n), any<u32>(n), any<u32>(n), n)

KERNEL three_operands(u32* result, const u32* a, const u32* b, const u32* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32 x = a[i], y = b[i], z = c[i];
  const i32 sx = static_cast<i32>(x), sy = static_cast<i32>(y), sz = static_cast<i32>(z);
  u32 mixed = (x + y + z) ^ ((x << (z & 31)) + y) ^ ((x + y) << (z & 31)) ^ ((x << 7) | y) ^ ((x & y) | z) ^
              (x ^ y ^ z) ^ (x | y | z);
  mixed += sx < sy ? (sy < sz ? 1 : 2) : (sx > sz ? 3 : 4);
  const i32 least = sx < sy ? sx : sy, most = sx > sy ? sx : sy;
  mixed ^= static_cast<u32>(least < sz ? least : sz) + static_cast<u32>(most > sz ? most : sz);
  result[i] = mixed + ((x & ~z) | (y & z)) + (~(x ^ y) & 0xff);
}
CASE(three_operands, over(n), out<u32>(n), any<u32>(n), any<u32>(n), any<u32>(n), n)

// ---- Packed halves ----

using Half2 = Vector<f16, 2>;
using Short2 = Vector<u16, 2>;
using ShortInt2 = Vector<i16, 2>;
KERNEL packed_f16(Half2* result, const Half2* a, const Half2* b, const Half2* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Half2 x = a[i], y = b[i], z = c[i];
  result[4 * i] = x + y;
  result[4 * i + 1] = x * y;
  result[4 * i + 2] = -x * y.yx - z;
  result[4 * i + 3] = Half2{x.y, y.x} + z.xx;
}
CASE(packed_f16, over(n), out<f16>(8 * n), any<f16>(2 * n), any<f16>(2 * n), any<f16>(2 * n), n)

KERNEL packed_f16_extremes(Half2* result, const Half2* a, const Half2* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[2 * i] = __builtin_elementwise_max(a[i], b[i]);
  result[2 * i + 1] = __builtin_elementwise_min(a[i], b[i].yx);
}
CASE(packed_f16_extremes, over(n), out<f16>(4 * n), between<f16>(2 * n, -9, 9), between<f16>(2 * n, -9, 9), n)

KERNEL packed_u16(Short2* result, const Short2* a, const Short2* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Short2 x = a[i], y = b[i];
  const ShortInt2 sx = __builtin_bit_cast(ShortInt2, x), sy = __builtin_bit_cast(ShortInt2, y);
  result[8 * i] = x + y;
  result[8 * i + 1] = x - y.yx;
  result[8 * i + 2] = x * y + x;
  result[8 * i + 3] = x << (y & 15);
  result[8 * i + 4] = x >> (y & 15);
  result[8 * i + 5] = __builtin_bit_cast(Short2, sx >> (sy & 15));
  result[8 * i + 6] =
      __builtin_elementwise_max(x, y) ^ __builtin_bit_cast(Short2, __builtin_elementwise_min(sx, sy));
  result[8 * i + 7] =
      __builtin_elementwise_add_sat(x, y) ^ __builtin_bit_cast(Short2, __builtin_elementwise_sub_sat(sx, sy));
}
CASE(packed_u16, over(n), out<u16>(16 * n), any<u16>(2 * n), any<u16>(2 * n), n)

using Float2 = Vector<f32, 2>;
KERNEL packed_f32(Float2* result, const Float2* a, const Float2* b, const Float2* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Float2 x = a[i], y = b[i], z = c[i];
  result[3 * i] = x + y.yx;
  result[3 * i + 1] = x * y;
  result[3 * i + 2] = Float2{__builtin_fmaf(x.x, y.x, z.x), __builtin_fmaf(x.y, y.y, z.y)} - z.xx;
}
CASE(packed_f32, over(n), out<f32>(6 * n), any<f32>(2 * n), any<f32>(2 * n), any<f32>(2 * n), n)

// f16 operands in f32 arithmetic: v_fma_mix and v_mad_mix.
KERNEL mixed_precision(f32* result, f16* halves, const f16* a, const f16* b, const f32* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[i] = __builtin_fmaf(a[i], b[i], c[i]);
  halves[i] = static_cast<f16>(__builtin_fmaf(a[i], c[i], -static_cast<f32>(b[i])));
}
CASE(mixed_precision, over(n), out<f32>(n), out<f16>(n), any<f16>(n), any<f16>(n), any<f32>(n), n)

// ---- Conversions of the chip ----

#if CORPUS_HOST
// To f16 towards zero.
u16 half_towards_zero(f32 x) {
  f16 nearest = static_cast<f16>(x);
  u16 bits = bits_as<u16>(nearest);
  if (x == x && std::abs(static_cast<f32>(nearest)) > std::abs(x) && !std::isinf(x)) --bits;
  return bits;
}
i32 clamped(f32 x, i32 low, i32 high) {
  return static_cast<i32>(std::fmin(std::fmax(x, f32(low)), f32(high)));
}
#endif
KERNEL packed_conversions(u32* result, const f32* a, const f32* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const f32 x = a[i], y = b[i];
  result[i] = ON_CHIP(__builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(x, y)),
                      half_towards_zero(x) | u32(half_towards_zero(y)) << 16);
}
CASE(packed_conversions, over(n), out<u32>(n), between<f32>(n, -70000, 70000), between<f32>(n, -2, 2), n)

KERNEL normalised_conversions(u32* result, const f32* a, const f32* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const f32 x = a[i], y = b[i];
  (void)y;
  result[2 * i] = ON_CHIP(__builtin_bit_cast(u32, __builtin_amdgcn_cvt_pk_u16(static_cast<u32>(x), 70000u)),
                          0xffff0000u | std::min(static_cast<u32>(x), 65535u));
  result[2 * i + 1] =
      ON_CHIP(__builtin_bit_cast(u32, __builtin_amdgcn_cvt_pk_i16(static_cast<i32>(x), -40000)),
              0x80000000u | static_cast<u32>(std::min(static_cast<i32>(x), 32767)));
}
CASE(normalised_conversions, over(n), out<u32>(2 * n), between<f32>(n, 0, 70000), between<f32>(n, -1, 1), n)

KERNEL byte_conversions(f32* result, const u32* a, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32 x = a[i];
  result[4 * i] = static_cast<f32>(x & 255);
  result[4 * i + 1] = static_cast<f32>(x >> 8 & 255);
  result[4 * i + 2] = static_cast<f32>(x >> 16 & 255);
  result[4 * i + 3] = static_cast<f32>(x >> 24);
}
CASE(byte_conversions, over(n), out<f32>(4 * n), any<u32>(n), n)

// ---- Dot products ----

i32 dot_bytes(u32 a, u32 b, i32 c) {
#if defined(__gfx1100__) || defined(__gfx1201__)
  return __builtin_amdgcn_sudot4(true, static_cast<i32>(a), true, static_cast<i32>(b), c, false);
#elif CORPUS_DEVICE
  return __builtin_amdgcn_sdot4(static_cast<i32>(a), static_cast<i32>(b), c, false);
#else
  for (int k = 0; k < 32; k += 8) c += static_cast<i8>(a >> k) * static_cast<i8>(b >> k);
  return c;
#endif
}
u32 dot_unsigned_bytes(u32 a, u32 b, u32 c) {
#if CORPUS_DEVICE
  return __builtin_amdgcn_udot4(a, b, c, false);
#else
  for (int k = 0; k < 32; k += 8) c += (a >> k & 255) * (b >> k & 255);
  return c;
#endif
}
i32 dot_nibbles(u32 a, u32 b, i32 c) {
#if defined(__gfx1100__) || defined(__gfx1201__)
  return __builtin_amdgcn_sudot8(true, static_cast<i32>(a), true, static_cast<i32>(b), c, false);
#elif CORPUS_DEVICE
  return __builtin_amdgcn_sdot8(static_cast<i32>(a), static_cast<i32>(b), c, false);
#else
  for (int k = 0; k < 32; k += 4)
    c += (static_cast<i32>(a << (28 - k)) >> 28) * (static_cast<i32>(b << (28 - k)) >> 28);
  return c;
#endif
}
u32 dot_unsigned_nibbles(u32 a, u32 b, u32 c) {
#if CORPUS_DEVICE
  return __builtin_amdgcn_udot8(a, b, c, false);
#else
  for (int k = 0; k < 32; k += 4) c += (a >> k & 15) * (b >> k & 15);
  return c;
#endif
}
KERNEL dot_products(u32* result, const u32* a, const u32* b, const u32* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const i32 start = static_cast<i32>(c[i] & 0xffff);
  result[4 * i] = static_cast<u32>(dot_bytes(a[i], b[i], start));
  result[4 * i + 1] = dot_unsigned_bytes(a[i], b[i], c[i] & 0xffff);
  result[4 * i + 2] = static_cast<u32>(dot_nibbles(a[i], b[i], start));
  result[4 * i + 3] = dot_unsigned_nibbles(a[i], b[i], c[i] & 0xffff);
}
CASE(dot_products, over(n), out<u32>(4 * n), any<u32>(n), any<u32>(n), any<u32>(n), n)

#if CORPUS_HOST || defined(__gfx1100__) || defined(__gfx1201__)
KERNEL dot_mixed_signs(u32* result, const u32* a, const u32* b, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
#if CORPUS_DEVICE
  result[2 * i] = static_cast<u32>(
      __builtin_amdgcn_sudot4(true, static_cast<i32>(a[i]), false, static_cast<i32>(b[i]), 7, false));
  result[2 * i + 1] = static_cast<u32>(
      __builtin_amdgcn_sudot4(true, static_cast<i32>(a[i]), true, static_cast<i32>(b[i]), 0x7ffffff0, true));
#else
  i32 mixed = 7;
  i64 wide = 0x7ffffff0;
  for (int k = 0; k < 32; k += 8) {
    mixed += static_cast<i8>(a[i] >> k) * static_cast<i32>(b[i] >> k & 255);
    wide += static_cast<i8>(a[i] >> k) * static_cast<i8>(b[i] >> k);
  }
  result[2 * i] = static_cast<u32>(mixed);
  result[2 * i + 1] = static_cast<u32>(std::min<i64>(wide, 0x7fffffff));
#endif
}
CASE(dot_mixed_signs, over(n).only(rdna3_chips), out<u32>(2 * n), any<u32>(n), any<u32>(n), n)
#endif

KERNEL dot_halves(f32* result, const Half2* a, const Half2* b, const f32* c, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[i] = ON_CHIP(__builtin_amdgcn_fdot2(a[i], b[i], c[i], false),
                      f32(a[i].x) * f32(b[i].x) + f32(a[i].y) * f32(b[i].y) + c[i]);
}
CASE(dot_halves, over(n), out<f32>(n), whole<f16>(2 * n, -30, 30), whole<f16>(2 * n, -30, 30),
     whole<f32>(n, -100, 100), n)
