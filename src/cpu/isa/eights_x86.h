// Eight pieces of quantised weights at once, for AVX2: those of a block, or of eight neighbouring blocks.
//
// element = scale * byte - offset. Scales and offsets are vectors with an element for each half of a piece,
// in the order of the sums of x, so that unpacking them costs an instruction where it would cost eight.
#pragma once

#include "cpu/isa/pieces.h"

namespace hearth::cpu::HEARTH_ISA {

struct Factors {
  __m256 scale[2], offset[2];  // of pieces 0 to 3, and 4 to 7
};

template <typename Block>
constexpr bool has_signed_bytes = std::is_same_v<Block, Q8_0> || std::is_same_v<Block, IQ4_NL> ||
                                  std::is_same_v<Block, IQ4_XS> || std::is_same_v<Block, MXFP4>;
template <typename Block>  // an offset, or a number without a sign that stands for 0
constexpr bool takes_offset = !has_signed_bytes<Block>;

// ---- bytes

HEARTH_INLINE __m256i load_32(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
HEARTH_INLINE __m256i these_bits(__m256i bytes, int bits) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(static_cast<char>(bits)));
}
// To the left, or to the right where `by` is negative, across bytes.
HEARTH_INLINE __m256i shifted(__m256i bytes, int by) {
  return by < 0 ? _mm256_srli_epi16(bytes, -by) : _mm256_slli_epi16(bytes, by);
}
// Low halves of 16 bytes, then their high halves.
HEARTH_INLINE __m256i halves_of(const std::uint8_t* q) {
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  return these_bits(_mm256_blend_epi32(twice, _mm256_srli_epi16(twice, 4), 0xf0), 15);
}
HEARTH_INLINE __m256i looked_up(const std::int8_t (&table)[16], __m256i indices) {
  const __m128i numbers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(numbers), indices);
}
// 16 in the bytes whose bit is set.
HEARTH_INLINE __m256i fifth_bits(const std::uint8_t (&high)[4]) {
  std::int32_t word;
  std::memcpy(&word, high, sizeof word);
  const __m256i places = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2,
                                          2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(static_cast<std::int64_t>(0x8040201008040201));
  const __m256i bytes = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), places), bit);
  return these_bits(_mm256_cmpeq_epi8(bytes, bit), 16);
}

// Those of piece `p`, from the first of the blocks. Numbers without a sign are at most 127.
HEARTH_INLINE __m256i bytes_of(const Q4_0* b, int p) { return halves_of(b[p].q); }
HEARTH_INLINE __m256i bytes_of(const Q4_1* b, int p) { return halves_of(b[p].q); }
HEARTH_INLINE __m256i bytes_of(const Q5_0* b, int p) {
  return _mm256_or_si256(halves_of(b[p].q), fifth_bits(b[p].high));
}
HEARTH_INLINE __m256i bytes_of(const Q5_1* b, int p) {
  return _mm256_or_si256(halves_of(b[p].q), fifth_bits(b[p].high));
}
HEARTH_INLINE __m256i bytes_of(const Q8_0* b, int p) { return load_32(b[p].q); }
HEARTH_INLINE __m256i bytes_of(const IQ4_NL* b, int p) {
  return looked_up(iq4_nl_numbers, halves_of(b[p].q));
}
HEARTH_INLINE __m256i bytes_of(const MXFP4* b, int p) { return looked_up(mxfp4_numbers, halves_of(b[p].q)); }
HEARTH_INLINE __m256i bytes_of(const IQ4_XS* b, int p) {
  return looked_up(iq4_nl_numbers, halves_of(b->q + 16 * p));
}
HEARTH_INLINE __m256i bytes_of(const Q2_K* b, int p) {
  return these_bits(shifted(load_32(b->q + p / 4 * 32), -2 * (p % 4)), 3);
}
HEARTH_INLINE __m256i bytes_of(const Q3_K* b, int p) {
  return _mm256_or_si256(these_bits(shifted(load_32(b->q + p / 4 * 32), -2 * (p % 4)), 3),
                         these_bits(shifted(load_32(b->high), 2 - p), 4));
}
HEARTH_INLINE __m256i bytes_of(const Q4_K* b, int p) {
  return these_bits(shifted(load_32(b->q + p / 2 * 32), -4 * (p % 2)), 15);
}
HEARTH_INLINE __m256i bytes_of(const Q5_K* b, int p) {
  return _mm256_or_si256(these_bits(shifted(load_32(b->q + p / 2 * 32), -4 * (p % 2)), 15),
                         these_bits(shifted(load_32(b->high), 4 - p), 16));
}
HEARTH_INLINE __m256i bytes_of(const Q6_K* b, int p) {
  const int n = p / 4, c = p % 4;
  return _mm256_or_si256(these_bits(shifted(load_32(b->low + 64 * n + 32 * (c % 2)), -4 * (c / 2)), 15),
                         these_bits(shifted(load_32(b->high + 32 * n), 4 - 2 * c), 0x30));
}

// ---- scales and offsets

HEARTH_INLINE __m256 each_twice(__m128 four) {
  return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(four), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}
HEARTH_INLINE void each_twice(__m256 eight, __m256 (&to)[2]) {
  to[0] = each_twice(_mm256_castps256_ps128(eight));
  to[1] = each_twice(_mm256_extractf128_ps(eight, 1));
}
// Eight bytes as numbers.
HEARTH_INLINE __m256 small_numbers(std::uint64_t bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<std::int64_t>(bytes))));
}
HEARTH_INLINE __m256 small_signed_numbers(__m128i bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
HEARTH_INLINE __m256 times(__m256 numbers, float by) { return _mm256_mul_ps(numbers, _mm256_set1_ps(by)); }

// One scale for a piece; `zero`: the number that stands for 0.
HEARTH_INLINE Factors with_zero(__m256 scale, float zero) {
  Factors factors;
  each_twice(scale, factors.scale);
  each_twice(times(scale, zero), factors.offset);
  return factors;
}
HEARTH_INLINE Factors with_offsets(__m256 scale, __m256 offset) {
  Factors factors;
  each_twice(scale, factors.scale);
  each_twice(offset, factors.offset);
  return factors;
}

// A number in f16 of each of eight blocks.
template <typename Block>
HEARTH_INLINE __m256 halves_of_eight(const Block* b, std::uint16_t Block::*half) {
  const auto at = [&](int i) { return static_cast<short>(b[i].*half); };
  return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}

HEARTH_INLINE Factors factors_of(const Q4_0* b) { return with_zero(halves_of_eight(b, &Q4_0::d), 8); }
HEARTH_INLINE Factors factors_of(const Q5_0* b) { return with_zero(halves_of_eight(b, &Q5_0::d), 16); }
HEARTH_INLINE Factors factors_of(const Q8_0* b) { return with_zero(halves_of_eight(b, &Q8_0::d), 0); }
HEARTH_INLINE Factors factors_of(const IQ4_NL* b) { return with_zero(halves_of_eight(b, &IQ4_NL::d), 0); }
template <typename Block>
HEARTH_INLINE Factors with_least(const Block* b) {
  return with_offsets(halves_of_eight(b, &Block::d), times(halves_of_eight(b, &Block::m), -1));
}
HEARTH_INLINE Factors factors_of(const Q4_1* b) { return with_least(b); }
HEARTH_INLINE Factors factors_of(const Q5_1* b) { return with_least(b); }
HEARTH_INLINE Factors factors_of(const MXFP4* b) {
  const __m256i e = _mm256_setr_epi32(b[0].e, b[1].e, b[2].e, b[3].e, b[4].e, b[5].e, b[6].e, b[7].e);
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);  // as mxfp4_scale() has it
  const __m256i bits = _mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1)));
  return with_zero(_mm256_castsi256_ps(bits), 0);
}
HEARTH_INLINE Factors factors_of(const IQ4_XS* b) {
  std::uint32_t low;
  std::memcpy(&low, b->scale_low, sizeof low);
  const std::uint64_t numbers =
      _pdep_u64(low, 0x0f0f0f0f0f0f0f0f) | _pdep_u64(b->scale_high, 0x3030303030303030);
  return with_zero(times(_mm256_sub_ps(small_numbers(numbers), _mm256_set1_ps(32)), half_value(b->d)), 0);
}

HEARTH_INLINE Factors factors_of(const Q2_K* b) {
  Factors factors;
  for (int g = 0; g < 2; ++g) {
    std::uint64_t numbers;
    std::memcpy(&numbers, b->scale + 8 * g, sizeof numbers);
    factors.scale[g] = times(small_numbers(numbers & 0x0f0f0f0f0f0f0f0f), half_value(b->d));
    factors.offset[g] = times(small_numbers(numbers >> 4 & 0x0f0f0f0f0f0f0f0f), half_value(b->dmin));
  }
  return factors;
}
HEARTH_INLINE Factors factors_of(const Q3_K* b) {
  Factors factors;
  std::uint64_t low;
  std::uint32_t high;
  std::memcpy(&low, b->scale, sizeof low);
  std::memcpy(&high, b->scale + 8, sizeof high);
  for (int g = 0; g < 2; ++g) {
    const std::uint64_t first = high >> 4 * g & 0x03030303, second = high >> (4 * g + 2) & 0x03030303;
    const std::uint64_t numbers = (low >> 4 * g & 0x0f0f0f0f0f0f0f0f) | (first | second << 32) << 4;
    factors.scale[g] = times(_mm256_sub_ps(small_numbers(numbers), _mm256_set1_ps(32)), half_value(b->d));
    factors.offset[g] = times(factors.scale[g], 4);
  }
  return factors;
}
template <typename Block>
HEARTH_INLINE Factors with_sub_numbers(const Block* b) {
  std::uint32_t words[3];  // scales 0 to 3, offsets 0 to 3, low halves of the others, and the rest on top
  std::memcpy(words, b->scale, sizeof words);
  const auto all = [](std::uint32_t first, std::uint64_t low_halves, std::uint32_t on_top) {
    return (first & 0x3f3f3f3f) | ((low_halves & 0x0f0f0f0f) | (on_top >> 2 & 0x30303030)) << 32;
  };
  return with_offsets(times(small_numbers(all(words[0], words[2], words[0])), half_value(b->d)),
                      times(small_numbers(all(words[1], words[2] >> 4, words[1])), half_value(b->dmin)));
}
HEARTH_INLINE Factors factors_of(const Q4_K* b) { return with_sub_numbers(b); }
HEARTH_INLINE Factors factors_of(const Q5_K* b) { return with_sub_numbers(b); }
HEARTH_INLINE Factors factors_of(const Q6_K* b) {
  Factors factors;
  for (int g = 0; g < 2; ++g) {
    const __m128i numbers = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b->scale + 8 * g));
    factors.scale[g] = times(small_signed_numbers(numbers), half_value(b->d));
    factors.offset[g] = times(factors.scale[g], 32);
  }
  return factors;
}

}  // namespace hearth::cpu::HEARTH_ISA
