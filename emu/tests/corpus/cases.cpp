// The list of cases, numbers to feed to kernels, and the comparison of results.
#include "prelude.h"

#include <algorithm>
#include <limits>
#include <random>

#if defined(__x86_64__) && !defined(__AVX512BF16__)
// Rounding to bf16 is a library call on x86, and libgcc has it since version 13 only.
extern "C" __attribute__((weak)) __bf16 __truncsfbf2(float value) {
  u32 bits = bits_as<u32>(value);
  if (value != value)
    bits |= 0x400000;
  else
    bits += 0x7fff + (bits >> 16 & 1);
  return bits_as<__bf16>(static_cast<u16>(bits >> 16));
}
extern "C" __attribute__((weak)) __bf16 __truncdfbf2(double value) {
  // To f32 with rounding to odd, which does not disturb the rounding that follows.
  float narrow = static_cast<float>(value);
  if (value == value && static_cast<double>(narrow) != value && (bits_as<u32>(narrow) & 1) == 0) {
    const bool away = (static_cast<double>(narrow) > value) == (value > 0);
    narrow = bits_as<float>(bits_as<u32>(narrow) + (away ? -1u : 1u));
  }
  return __truncsfbf2(narrow);
}
#endif

namespace corpus {
namespace {

using Random = std::mt19937_64;

template <class T>
struct Unsigned;
template <>
struct Unsigned<f16> {
  using type = u16;
  static constexpr int mantissa = 10;
};
template <>
struct Unsigned<bf16> {
  using type = u16;
  static constexpr int mantissa = 7;
};
template <>
struct Unsigned<f32> {
  using type = u32;
  static constexpr int mantissa = 23;
};
template <>
struct Unsigned<f64> {
  using type = u64;
  static constexpr int mantissa = 52;
};

template <class T>
T any_float(Random& random) {
  using U = typename Unsigned<T>::type;
  constexpr int bits = sizeof(T) * 8, mantissa = Unsigned<T>::mantissa;
  constexpr U sign = static_cast<U>(U{1} << (bits - 1));
  constexpr U infinity = static_cast<U>(((U{1} << (bits - 1 - mantissa)) - 1) << mantissa);
  const u64 word = random();
  const auto coin = static_cast<U>((word & 1) != 0 ? sign : 0);
  U result = 0;
  switch (word >> 1 & 31) {
    case 0:
      result = coin;
      break;
    case 1:
      result = coin | infinity;
      break;
    case 2:
      result = coin | infinity | static_cast<U>(U{1} << (mantissa - 1)) | static_cast<U>(word >> 40 & 3);
      break;
    case 3:
      result = coin | 1;
      break;  // least denormal
    case 4:
      result = coin | static_cast<U>((U{1} << mantissa) - 1);
      break;  // greatest denormal
    case 5:
      result = coin | static_cast<U>(U{1} << mantissa);
      break;  // least normal
    case 6:
      result = coin | static_cast<U>(infinity - 1);
      break;  // greatest
    case 7:
      result = coin | static_cast<U>(random() & ((U{1} << mantissa) - 1));
      break;  // denormal
    case 8:
    case 9: {  // a power of two, and its neighbours
      const double power = std::ldexp((word & 1) != 0 ? -1.0 : 1.0, static_cast<int>(word >> 8 & 127) - 32);
      result = static_cast<U>(bits_as<U>(static_cast<T>(static_cast<f32>(power))) +
                              static_cast<U>(word >> 20 & 3) - 1);
      // Not below zero, nor beyond infinity.
      if ((result & infinity) == infinity) result = coin | infinity;
      break;
    }
    case 10: {  // around the limits of the integers, and halves
      static constexpr double limits[] = {
          127,   128,   255,        256,        32767,      32768,
          65535, 65504, 2147483647, 2147483648, 4294967295, 9.22337203685477581e18,
          0.5,   1.5,   2.5,        0.49999997, 16777217,   1.0};
      const double limit = limits[(word >> 8) % std::size(limits)];
      result = bits_as<U>(static_cast<T>(static_cast<f32>((word & 1) != 0 ? -limit : limit)));
      break;
    }
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
    case 16:
      return static_cast<T>(static_cast<f32>(std::uniform_real_distribution<double>(-4, 4)(random)));
    case 17:
    case 18:
    case 19:
      return static_cast<T>(static_cast<f32>(std::uniform_real_distribution<double>(-1000, 1000)(random)));
    case 20:
    case 21:
      return static_cast<T>(static_cast<f32>(static_cast<i64>(word >> 8 & 255) - 128));
    case 22:
    case 23:
    case 24:
    case 25: {  // near 1: products and quotients that stay in range
      result = static_cast<U>(coin | (static_cast<U>((U{1} << (bits - 2 - mantissa)) - 1) << mantissa) |
                              (random() & ((U{1} << mantissa) - 1)));
      break;
    }
    default: {
      result = static_cast<U>(random());  // of any magnitude
      if ((result & infinity) == infinity) result ^= static_cast<U>(U{1} << mantissa);
    }
  }
  return bits_as<T>(result);
}

template <class T>
T any_integer(Random& random) {
  constexpr int bits = sizeof(T) * 8;
  const u64 word = random();
  switch (word & 15) {
    case 0:
      return 0;
    case 1:
      return static_cast<T>(-1);
    case 2:
      return std::numeric_limits<T>::max();
    case 3:
      return std::numeric_limits<T>::min();
    case 4:
      return static_cast<T>((1ull << (word >> 8) % bits) + (word >> 20) % 3 - 1);
    case 5:
      return static_cast<T>(-(1ll << (word >> 8) % (bits - 1)));
    case 6:
    case 7:
    case 8:
      return static_cast<T>(word >> 8 & 127);
    case 9:
      return static_cast<T>(static_cast<i64>(word >> 8 & 127) - 64);
    default:
      return static_cast<T>(random() >> (word >> 8) % bits);
  }
}

// Numbers as places on a line, so that neighbours differ by one.
template <class T>
double place(T value) {
  using U = typename Unsigned<T>::type;
  constexpr U sign = static_cast<U>(U{1} << (sizeof(T) * 8 - 1));
  const U bits = bits_as<U>(value);
  const auto magnitude = static_cast<double>(static_cast<U>(bits & ~sign));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

template <class T>
std::string differences_of(const Argument& argument, const std::byte* expected, const std::byte* actual) {
  std::string text;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < argument.count; ++i) {
    T want, got;
    std::memcpy(&want, expected + i * sizeof(T), sizeof(T));
    std::memcpy(&got, actual + i * sizeof(T), sizeof(T));
    if (std::memcmp(&want, &got, sizeof(T)) == 0) continue;
    if constexpr (is_float<T>) {
      if (want != want && got != got) continue;
      if (argument.ulp > 0 && want == want && got == got &&
          std::abs(place(want) - place(got)) <= argument.ulp)
        continue;
      const double distance =
          std::abs(static_cast<double>(static_cast<f64>(want)) - static_cast<double>(got));
      if (distance <= argument.absolute) continue;
    }
    if (++wrong > 4) continue;
    u64 want_bits = 0, got_bits = 0;
    std::memcpy(&want_bits, &want, sizeof(T));
    std::memcpy(&got_bits, &got, sizeof(T));
    char line[200];
    if constexpr (is_float<T>)
      std::snprintf(line, sizeof line, "[%zu] is %.9g (0x%llx), should be %.9g (0x%llx)\n", i,
                    static_cast<double>(got), got_bits, static_cast<double>(want), want_bits);
    else
      std::snprintf(line, sizeof line, "[%zu] is 0x%llx, should be 0x%llx\n", i, got_bits, want_bits);
    text += line;
  }
  if (wrong > 0) text += std::to_string(wrong) + " of " + std::to_string(argument.count) + " differ\n";
  return text;
}

constexpr std::size_t sizes[] = {2, 2, 4, 8, 1, 1, 2, 2, 4, 4, 8, 8};

template <class T>
T any_value(Random& random) {
  if constexpr (is_float<T>)
    return any_float<T>(random);
  else
    return any_integer<T>(random);
}

template <class T>
T number(double value) {
  if constexpr (sizeof(T) == 2 && is_float<T>)
    return static_cast<T>(static_cast<float>(value));
  else if constexpr (is_float<T>)
    return static_cast<T>(value);
  else
    return static_cast<T>(static_cast<i64>(value));
}

template <class T>
T value_of(const Argument& argument, std::size_t i, Random& random) {
  const double low = argument.low, high = argument.high;
  switch (argument.fill) {
    case Fill::any:
      return any_value<T>(random);
    case Fill::between: {
      const double at = i < 2 ? static_cast<double>(i) : std::uniform_real_distribution<double>(0, 1)(random);
      return number<T>(low + (high - low) * at);
    }
    case Fill::whole:
      return number<T>(
          std::uniform_int_distribution<int>(static_cast<int>(low), static_cast<int>(high))(random));
    case Fill::counting:
      return number<T>(low + high * static_cast<double>(i));
    default:
      return T{};
  }
}

}  // namespace

std::size_t Argument::bytes() const { return buffer ? count * sizes[static_cast<int>(dtype)] : size; }

void Argument::write(std::byte* to, uint64_t seed) const {
  if (fill == Fill::custom) return custom(to, count, seed);
  if (fill == Fill::pattern) {
    std::memset(to, 0xa5, bytes());
    return;
  }
  Random random(seed);
  switch (dtype) {
#define WRITE(T, ...)                                    \
  case Dtype::T:                                         \
    for (std::size_t i = 0; i < count; ++i) {            \
      const T made = value_of<T>(*this, i, random);      \
      std::memcpy(to + i * sizeof(T), &made, sizeof(T)); \
    }                                                    \
    break;
    ALL_TYPES(WRITE, )
#undef WRITE
  }
}

Argument Argument::within(double units) const {
  Argument copy = *this;
  copy.ulp = units;
  return copy;
}
Argument Argument::near(double distance) const {
  Argument copy = *this;
  copy.absolute = distance;
  return copy;
}
Argument Argument::misaligned(std::size_t offset) const {
  Argument copy = *this;
  copy.misalignment = offset;
  return copy;
}

Shape Shape::together() const {
  Shape copy = *this;
  copy.synchronised = true;
  return copy;
}
Shape Shape::lds(uint32_t bytes) const {
  Shape copy = *this;
  copy.dynamic_lds = bytes;
  return copy;
}
Shape Shape::only(unsigned set) const {
  Shape copy = *this;
  copy.chips = set;
  return copy;
}
Shape over(std::size_t threads, uint32_t block) {
  return shape({static_cast<uint32_t>((threads + block - 1) / block), 1, 1}, {block, 1, 1});
}
Shape shape(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block) {
  Shape made;
  made.grid = grid;
  made.block = block;
  return made;
}

std::vector<Entry>& entries() {
  static std::vector<Entry> list;
  return list;
}

bool add(const char* kernel, const char* file, void (*describe)(Case&), void (*function)(),
         void (*call)(void (*)(), const std::byte*), bool whole_grid) {
  std::string subject = file;
  subject = subject.substr(subject.rfind('/') + 1);
  entries().push_back({kernel, subject.substr(0, subject.find('.')), describe, function, call, whole_grid});
  return true;
}

void run_reference(const Entry& entry, const Case& launch, int lanes, const std::byte* arguments) {
  lanes_per_wave = static_cast<u32>(lanes);
  if (entry.whole_grid)
    entry.call(entry.function, arguments);
  else
    run_grid(launch.shape, [&] { entry.call(entry.function, arguments); });
}

std::string differences(const Argument& argument, const std::byte* expected, const std::byte* actual) {
  switch (argument.dtype) {
#define COMPARE(T, ...) \
  case Dtype::T:        \
    return differences_of<T>(argument, expected, actual);
    ALL_TYPES(COMPARE, )
#undef COMPARE
  }
  return {};
}

}  // namespace corpus
