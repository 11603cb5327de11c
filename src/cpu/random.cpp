// Random kernels: random_uniform, random_normal, random_bits. graph/random.h says which element gets which
// number.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "base/thread_pool.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/random_kernels.h"
#include "graph/random.h"

namespace hearth::cpu {
namespace {

constexpr std::int64_t chunk_blocks = 256;
constexpr std::int64_t chunk_words = chunk_blocks * 4;

std::uint64_t wide_word(const std::uint32_t* words, std::int64_t i) {
  return words[2 * i] | static_cast<std::uint64_t>(words[2 * i + 1]) << 32;
}

// A number in [0, 1) with the bits that a half cannot hold cut off.
template <typename T>
T rounded_towards_zero(float value) {
  T result;
  if constexpr (std::is_same_v<T, float>) {
    result = value;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    result.bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  } else {
    // Below 2^-14 halves are the multiples of 2^-24, which `value` is one of.
    const std::uint32_t normal = (std::bit_cast<std::uint32_t>(value) - 0x38000000u) >> 13;
    const auto denormal = static_cast<std::uint32_t>(value * 0x1p24f);
    result.bits = static_cast<std::uint16_t>(value < 0x1p-14f ? denormal : normal);
  }
  return result;
}

// Fill `count` elements from the words of whole blocks.

template <typename T>
void uniform_from_words(const std::uint32_t* words, T* out, std::int64_t count) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = 0; i < count; ++i)
      out[i] = static_cast<double>(wide_word(words, i) >> 11) * 0x1p-53;
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto whole = static_cast<std::int32_t>(words[i] >> 8);
      out[i] = rounded_towards_zero<T>(static_cast<float>(whole) * 0x1p-24f);
    }
  }
}

template <typename T>
void normal_from_words(const std::uint32_t* words, T* out, std::int64_t count) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = 0; i < count; i += 2) {
      const double u = static_cast<double>((wide_word(words, i) >> 11) + 1) * 0x1p-53;
      const double angle =
          2 * std::numbers::pi * (static_cast<double>(wide_word(words, i + 1) >> 11) * 0x1p-53);
      const double radius = std::sqrt(-2 * std::log(u));
      out[i] = radius * std::cos(angle);
      if (i + 1 < count) out[i + 1] = radius * std::sin(angle);
    }
  } else {
    float values[chunk_words];
    random_kernels().normal(words, values, (count + 1) / 2 * 2);
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(values[i]);
  }
}

void bits_from_words(const std::uint32_t* words, std::int64_t* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::int64_t>(wide_word(words, i) >> 1);
}

template <typename T, typename FromWords>
std::unique_ptr<Kernel> make_from_words(const Step& step, FromWords from_words) {
  const std::int64_t count = element_count(step.outputs[0].shape);
  const std::int64_t per_block = random_elements_per_block(step.op, step.outputs[0].dtype);
  return kernel([=](const KernelArguments& arguments) {
    T* out = static_cast<T*>(arguments.outputs[0]);
    const auto [seed, offset] = std::pair(arguments.numbers[0].seed, arguments.numbers[0].offset);
    const std::int64_t chunk = chunk_blocks * per_block;
    parallel_for((count + chunk - 1) / chunk, 8, [&](std::int64_t begin, std::int64_t end) {
      std::uint32_t words[chunk_words];
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t elements = std::min(chunk, count - i * chunk);
        random_kernels().philox(seed, offset + static_cast<std::uint64_t>(i * chunk_blocks), words,
                                (elements + per_block - 1) / per_block);
        from_words(words, out + i * chunk, elements);
      }
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_random(const Step& step) {
  const DType dtype = step.outputs[0].dtype;
  if (step.op == Op::random_bits && dtype == DType::i64)
    return make_from_words<std::int64_t>(step, bits_from_words);
  return dispatch(dtype, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Kernel> {
    if constexpr (is_floating_type<T>) {
      if (step.op == Op::random_uniform) return make_from_words<T>(step, uniform_from_words<T>);
      if (step.op == Op::random_normal) return make_from_words<T>(step, normal_from_words<T>);
    }
    throw DTypeError(fmt::format("[{}] no kernel for {}", op_name(step.op), dtype_name(dtype)));
  });
}

}  // namespace hearth::cpu
