// Encoders of the block formats.
#include "base/block_formats.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "hearth/error.h"

namespace hearth::blocks {
namespace {

std::uint16_t half_bits(float value) {
  const float16 half(value);
  if (!std::isfinite(static_cast<float>(half)))
    throw ValueError("[quantise] a scale is beyond what f16 holds");
  return half.bits;
}
float half_value(std::uint16_t bits) {
  float16 half;
  half.bits = bits;
  return half;
}

float inverse(float value) { return value != 0 ? 1.0f / value : 0.0f; }
int nearest(float value, int low, int high) {
  return std::clamp(static_cast<int>(std::lrint(std::clamp(value, -1e6f, 1e6f))), low, high);
}

// The element of largest magnitude, with its sign.
float largest(const float* x, int count) {
  float result = 0;
  for (int i = 0; i < count; ++i)
    if (std::abs(x[i]) > std::abs(result)) result = x[i];
  return result;
}

// ---- scales with the least squared error, in which each element counts as much as it is important. They are
// looked for among those that fit the roundings of scales near the plain one.

constexpr int steps_tried = 8;  // on each side of the plain scale

float weight_of(const float* importance, int i) { return importance ? importance[i] : 1.0f; }
bool all_zero(const float* values, int count) {
  return std::all_of(values, values + count, [](float value) { return value == 0; });
}

// scale * q - offset, q in [0, most], at most 32 of them; scale not negative, nor offset where zero is to be
// in the range.
struct Range {
  float scale = 0, offset = 0;
};
Range fit_range(const float* x, const float* importance, int count, int most, bool with_zero) {
  if (importance && all_zero(importance, count)) importance = nullptr;
  const auto [lowest, highest] = std::minmax_element(x, x + count);
  const float low = with_zero ? std::min(0.0f, *lowest) : *lowest, high = *highest;
  if (!(high > low)) return {0, -low};
  Range best{(high - low) / static_cast<float>(most), -low};
  double least = -1;
  for (int step = -steps_tried; step <= steps_tried; ++step) {
    const float by = (static_cast<float>(most) + 0.1f * static_cast<float>(step)) / (high - low);
    double n = 0, sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
    int q[32];
    for (int i = 0; i < count; ++i) {
      q[i] = nearest((x[i] - low) * by, 0, most);
      const double w = weight_of(importance, i), wq = w * q[i];
      n += w, sum_q += wq, sum_qq += wq * q[i], sum_x += w * x[i], sum_qx += wq * x[i];
    }
    const double determinant = n * sum_qq - sum_q * sum_q;
    double scale = 0, offset = -1;
    if (determinant > 0) {
      scale = (n * sum_qx - sum_q * sum_x) / determinant;
      offset = (sum_q * scale - sum_x) / n;
    } else if (!with_zero) {
      continue;
    }
    if (with_zero && offset < 0) offset = 0, scale = sum_qx / sum_qq;
    double error = 0;
    for (int i = 0; i < count; ++i)
      error += weight_of(importance, i) * std::pow(scale * q[i] - offset - x[i], 2);
    if (scale > 0 && (least < 0 || error < least))
      least = error, best = {static_cast<float>(scale), static_cast<float>(offset)};
  }
  return best;
}

// scale * q, q in [-half, half - 1].
float fit_symmetric(const float* x, const float* importance, int count, int half) {
  if (importance && all_zero(importance, count)) importance = nullptr;
  const float most = largest(x, count);
  if (most == 0) return 0;
  float best = most / static_cast<float>(-half);
  double gained = 0;
  for (int step = -steps_tried; step <= steps_tried; ++step) {
    const float by = -(static_cast<float>(half) + 0.1f * static_cast<float>(step)) / most;
    double sum_qq = 0, sum_qx = 0;
    for (int i = 0; i < count; ++i) {
      const int q = nearest(x[i] * by, -half, half - 1);
      const double wq = static_cast<double>(weight_of(importance, i)) * q;
      sum_qq += wq * q, sum_qx += wq * x[i];
    }
    if (sum_qq > 0 && sum_qx * sum_qx / sum_qq > gained)
      gained = sum_qx * sum_qx / sum_qq, best = static_cast<float>(sum_qx / sum_qq);
  }
  return best;
}

// ---- 32 elements with one scale

// Around zero: the largest element becomes the lowest number, -half.
std::uint16_t encode_symmetric(const float* x, const float* importance, int half, int* q) {
  if (importance) {
    const std::uint16_t d = half_bits(fit_symmetric(x, importance, 32, half));
    const float by = inverse(half_value(d));
    for (int i = 0; i < 32; ++i) q[i] = nearest(x[i] * by, -half, half - 1) + half;
    return d;
  }
  const float d = largest(x, 32) / static_cast<float>(-half), by = inverse(d);
  for (int i = 0; i < 32; ++i)
    q[i] = std::min(2 * half - 1, static_cast<int>(x[i] * by + static_cast<float>(half) + 0.5f));
  return half_bits(d);
}

// From the smallest element to the largest.
void encode_range(const float* x, const float* importance, int most, std::uint16_t& d, std::uint16_t& m,
                  int* q) {
  if (importance) {
    const Range range = fit_range(x, importance, 32, most, false);
    d = half_bits(range.scale);
    m = half_bits(-range.offset);
    const float by = inverse(half_value(d));
    for (int i = 0; i < 32; ++i) q[i] = nearest((x[i] - half_value(m)) * by, 0, most);
    return;
  }
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float step = (*high - *low) / static_cast<float>(most), by = inverse(step);
  d = half_bits(step);
  m = half_bits(*low);
  for (int i = 0; i < 32; ++i) q[i] = std::min(most, static_cast<int>((x[i] - *low) * by + 0.5f));
}

void pack_halves(const int* q, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) out[i] = static_cast<std::uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4);
}
void pack_fifth_bits(const int* q, std::uint8_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = 0;
  for (int i = 0; i < 32; ++i) out[i / 8] |= static_cast<std::uint8_t>((q[i] >> 4) << i % 8);
}

void encode_block(const float* x, const float* importance, Q4_0& block) {
  int q[32];
  block.d = encode_symmetric(x, importance, 8, q);
  pack_halves(q, block.q);
}
void encode_block(const float* x, const float* importance, Q4_1& block) {
  int q[32];
  encode_range(x, importance, 15, block.d, block.m, q);
  pack_halves(q, block.q);
}
void encode_block(const float* x, const float* importance, Q5_0& block) {
  int q[32];
  block.d = encode_symmetric(x, importance, 16, q);
  pack_halves(q, block.q);
  pack_fifth_bits(q, block.high);
}
void encode_block(const float* x, const float* importance, Q5_1& block) {
  int q[32];
  encode_range(x, importance, 31, block.d, block.m, q);
  pack_halves(q, block.q);
  pack_fifth_bits(q, block.high);
}
void encode_block(const float* x, const float*, Q8_0& block) {  // fine enough for all to be the same
  const float d = std::abs(largest(x, 32)) / 127.0f, by = inverse(d);
  block.d = half_bits(d);
  for (int i = 0; i < 32; ++i) block.q[i] = static_cast<std::int8_t>(std::round(x[i] * by));
}

// ---- 32 elements, numbers from a table

// Twice the numbers half way between neighbours of the table.
constexpr auto iq4_nl_bounds = [] {
  std::array<float, 15> bounds{};
  for (std::size_t i = 0; i < bounds.size(); ++i)
    bounds[i] = static_cast<float>(iq4_nl_numbers[i] + iq4_nl_numbers[i + 1]);
  return bounds;
}();

// The place of the number nearest to x: four times the half that it is in.
int nearest_iq4_nl(float x) {
  int place = 0;
  for (const int step : {8, 4, 2, 1})
    if (2 * x > iq4_nl_bounds[static_cast<std::size_t>(place + step - 1)]) place += step;
  return place;
}

// The numbers nearest to 32 of x times `by`: steps from the lowest on, all x at a time, as vectors.
void round_to_iq4_nl(const float* x, float by, float* numbers) {
  for (int i = 0; i < 32; ++i) numbers[i] = iq4_nl_numbers[0];
  for (std::size_t k = 0; k < iq4_nl_bounds.size(); ++k) {
    const auto step = static_cast<float>(iq4_nl_numbers[k + 1] - iq4_nl_numbers[k]);
    for (int i = 0; i < 32; ++i) numbers[i] += 2 * (x[i] * by) > iq4_nl_bounds[k] ? step : 0.0f;
  }
}

// The scale of 32 elements.
float fit_iq4_nl(const float* x, const float* importance) {
  if (importance && all_zero(importance, 32)) importance = nullptr;
  const float most = largest(x, 32);
  float d = 0;
  double gained = 0;
  // The largest element becomes about the number at one end of the table, or the other.
  for (const float end : {-127.0f, 113.0f})
    for (int step = -steps_tried; most != 0 && step <= steps_tried; ++step) {
      float numbers[32];
      round_to_iq4_nl(x, (end + 2 * static_cast<float>(step)) / most, numbers);
      double products = 0, squares = 0;
      for (int i = 0; i < 32; ++i) {
        const double number = numbers[i], w = weight_of(importance, i);
        products += w * number * x[i];
        squares += w * number * number;
      }
      if (squares > 0 && products * products / squares > gained)
        gained = products * products / squares, d = static_cast<float>(products / squares);
    }
  return d;
}
void pack_iq4_nl(const float* x, float d, std::uint8_t* out) {
  const float by = inverse(d);
  int q[32];
  for (int i = 0; i < 32; ++i) q[i] = nearest_iq4_nl(x[i] * by);
  pack_halves(q, out);
}
void encode_block(const float* x, const float* importance, IQ4_NL& block) {
  block.d = half_bits(fit_iq4_nl(x, importance));
  pack_iq4_nl(x, half_value(block.d), block.q);
}

int nearest_mxfp4(float x) {
  int best = 0;
  for (int i = 1; i < 16; ++i)
    if (std::abs(x - mxfp4_numbers[i]) < std::abs(x - mxfp4_numbers[best])) best = i;
  return best;
}

// Plainly, the exponent is that of the largest element over that of the table's largest number; what is
// important may be better off with the next smaller or larger.
void encode_block(const float* x, const float* importance, MXFP4& block) {
  const float most = std::abs(largest(x, 32));
  const int plain = most > 0 ? std::ilogb(most) - 2 + 127 : 0;
  const auto error_of = [&](int e) {
    const float d = mxfp4_scale(static_cast<std::uint8_t>(e));
    double error = 0;
    for (int i = 0; i < 32; ++i)
      error += weight_of(importance, i) *
               std::pow(d * mxfp4_numbers[nearest_mxfp4(x[i] / d)] - static_cast<double>(x[i]), 2);
    return error;
  };
  int best = std::clamp(plain, 0, 254);
  if (importance) {
    if (all_zero(importance, 32)) importance = nullptr;
    const int middle = best;
    for (const int other : {middle - 1, middle + 1})
      if (other >= 0 && other < 255 && error_of(other) < error_of(best)) best = other;
  }
  block.e = static_cast<std::uint8_t>(best);
  int q[32];
  for (int i = 0; i < 32; ++i) q[i] = nearest_mxfp4(x[i] / mxfp4_scale(block.e));
  pack_halves(q, block.q);
}

// ---- 256 elements in sub-blocks

const float* part(const float* importance, int first) { return importance ? importance + first : nullptr; }

// A block of SUBS sub-blocks with scales and offsets up to `most_scale`, elements up to `most`.
template <int SUBS>
struct RangeBlock {
  static constexpr int size = 256 / SUBS;
  int q[256], scale[SUBS], offset[SUBS];
  std::uint16_t d, dmin;

  RangeBlock(const float* x, const float* importance, int most, int most_scale) {
    Range ranges[SUBS];
    float scales = 0, offsets = 0;
    for (int s = 0; s < SUBS; ++s) {
      ranges[s] = fit_range(x + s * size, part(importance, s * size), size, most, true);
      scales = std::max(scales, ranges[s].scale);
      offsets = std::max(offsets, ranges[s].offset);
    }
    d = half_bits(scales / static_cast<float>(most_scale));
    dmin = half_bits(offsets / static_cast<float>(most_scale));
    for (int s = 0; s < SUBS; ++s) {
      scale[s] = nearest(ranges[s].scale * inverse(half_value(d)), 0, most_scale);
      offset[s] = nearest(ranges[s].offset * inverse(half_value(dmin)), 0, most_scale);
      const float by = inverse(half_value(d) * static_cast<float>(scale[s]));
      const float shift = half_value(dmin) * static_cast<float>(offset[s]);
      for (int i = s * size; i < (s + 1) * size; ++i) q[i] = nearest((x[i] + shift) * by, 0, most);
    }
  }
};

// ... of 16 sub-blocks with scales in [-most_scale, most_scale - 1], elements in [-half, half - 1], stored +
// half.
struct SymmetricBlock {
  int q[256], scale[16];
  std::uint16_t d;

  SymmetricBlock(const float* x, const float* importance, int half, int most_scale) {
    float scales[16];
    for (int s = 0; s < 16; ++s) scales[s] = fit_symmetric(x + s * 16, part(importance, s * 16), 16, half);
    d = half_bits(largest(scales, 16) / static_cast<float>(-most_scale));
    for (int s = 0; s < 16; ++s) {
      scale[s] = nearest(scales[s] * inverse(half_value(d)), -most_scale, most_scale - 1);
      const float by = inverse(half_value(d) * static_cast<float>(scale[s]));
      for (int i = s * 16; i < s * 16 + 16; ++i) q[i] = nearest(x[i] * by, -half, half - 1) + half;
    }
  }
};

void pack_quarters(const int* q, std::uint8_t* out) {  // two bits of each
  for (int i = 0; i < 64; ++i) {
    const int first = i / 32 * 128 + i % 32;
    out[i] = 0;
    for (int s = 0; s < 4; ++s) out[i] |= static_cast<std::uint8_t>((q[first + 32 * s] & 3) << 2 * s);
  }
}
void pack_bits(const int* q, int bit, std::uint8_t* out) {  // one bit of each
  for (int l = 0; l < 32; ++l) {
    out[l] = 0;
    for (int j = 0; j < 8; ++j) out[l] |= static_cast<std::uint8_t>((q[32 * j + l] >> bit & 1) << j);
  }
}
void pack_pairs(const int* q, std::uint8_t* out) {  // four bits of each
  for (int i = 0; i < 128; ++i) {
    const int first = i / 32 * 64 + i % 32;
    out[i] = static_cast<std::uint8_t>((q[first] & 15) | (q[first + 32] & 15) << 4);
  }
}
void pack_scales(const int* scale, const int* offset, std::uint8_t* out) {  // eight pairs of 6 bits
  for (int i = 0; i < 4; ++i) {
    out[i] = static_cast<std::uint8_t>(scale[i] | scale[i + 4] >> 4 << 6);
    out[i + 4] = static_cast<std::uint8_t>(offset[i] | offset[i + 4] >> 4 << 6);
    out[i + 8] = static_cast<std::uint8_t>((scale[i + 4] & 15) | (offset[i + 4] & 15) << 4);
  }
}

void encode_block(const float* x, const float* importance, Q2_K& block) {
  const RangeBlock<16> fitted(x, importance, 3, 15);
  block.d = fitted.d;
  block.dmin = fitted.dmin;
  for (int s = 0; s < 16; ++s)
    block.scale[s] = static_cast<std::uint8_t>(fitted.scale[s] | fitted.offset[s] << 4);
  pack_quarters(fitted.q, block.q);
}
void encode_block(const float* x, const float* importance, Q3_K& block) {
  const SymmetricBlock fitted(x, importance, 4, 32);
  block.d = fitted.d;
  std::fill(std::begin(block.scale), std::end(block.scale), std::uint8_t{0});
  for (int s = 0; s < 16; ++s) {
    const int scale = fitted.scale[s] + 32;
    block.scale[s % 8] |= static_cast<std::uint8_t>((scale & 15) << 4 * (s / 8));
    block.scale[8 + s % 4] |= static_cast<std::uint8_t>((scale >> 4) << 2 * (s / 4));
  }
  pack_quarters(fitted.q, block.q);
  pack_bits(fitted.q, 2, block.high);
}
void encode_block(const float* x, const float* importance, Q4_K& block) {
  const RangeBlock<8> fitted(x, importance, 15, 63);
  block.d = fitted.d;
  block.dmin = fitted.dmin;
  pack_scales(fitted.scale, fitted.offset, block.scale);
  pack_pairs(fitted.q, block.q);
}
void encode_block(const float* x, const float* importance, Q5_K& block) {
  const RangeBlock<8> fitted(x, importance, 31, 63);
  block.d = fitted.d;
  block.dmin = fitted.dmin;
  pack_scales(fitted.scale, fitted.offset, block.scale);
  pack_pairs(fitted.q, block.q);
  pack_bits(fitted.q, 4, block.high);
}
void encode_block(const float* x, const float* importance, Q6_K& block) {
  const SymmetricBlock fitted(x, importance, 32, 128);
  block.d = fitted.d;
  for (int s = 0; s < 16; ++s) block.scale[s] = static_cast<std::int8_t>(fitted.scale[s]);
  for (int n = 0; n < 2; ++n)
    for (int l = 0; l < 32; ++l) {
      const int* q = fitted.q + 128 * n + l;
      block.low[64 * n + l] = static_cast<std::uint8_t>((q[0] & 15) | (q[64] & 15) << 4);
      block.low[64 * n + 32 + l] = static_cast<std::uint8_t>((q[32] & 15) | (q[96] & 15) << 4);
      block.high[32 * n + l] =
          static_cast<std::uint8_t>(q[0] >> 4 | q[32] >> 4 << 2 | q[64] >> 4 << 4 | q[96] >> 4 << 6);
    }
}
void encode_block(const float* x, const float* importance, IQ4_XS& block) {
  float scales[8];
  for (int s = 0; s < 8; ++s) scales[s] = fit_iq4_nl(x + s * 32, part(importance, s * 32));
  block.d = half_bits(largest(scales, 8) / -32.0f);
  const float d = half_value(block.d);
  unsigned high = 0, low = 0;
  for (int s = 0; s < 8; ++s) {
    const int scale = nearest(scales[s] * inverse(d), -32, 31);
    pack_iq4_nl(x + s * 32, d * static_cast<float>(scale), block.q + s * 16);
    const auto stored = static_cast<unsigned>(scale + 32);
    low |= (stored & 15) << 4 * s;
    high |= stored >> 4 << 2 * s;
  }
  block.scale_high = static_cast<std::uint16_t>(high);
  for (int i = 0; i < 4; ++i) block.scale_low[i] = static_cast<std::uint8_t>(low >> 8 * i);
}

template <typename Block>
void encode_all(const float* values, const float* importance, Block* blocks, std::int64_t elements,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = 0; k < elements; ++k)
      if (!std::isfinite(values[i * elements + k])) throw ValueError("[quantise] a value is NaN or infinite");
    encode_block(values + i * elements, importance ? importance + i * elements : nullptr, blocks[i]);
  }
}

}  // namespace

void encode(DType format, const float* values, void* blocks, std::int64_t count, const float* importance) {
  switch (format) {
#define HEARTH_ENCODE(dtype, Block)                                                             \
  case DType::dtype:                                                                            \
    encode_all(values, importance, static_cast<Block*>(blocks), block_elements(format), count); \
    break;
    HEARTH_BLOCK_FORMATS(HEARTH_ENCODE)
#undef HEARTH_ENCODE
    default:
      throw DTypeError("[quantise] " + std::string(dtype_name(format)) + " is not a block format");
  }
}

}  // namespace hearth::blocks
