// The host's side of prelude.h: where a thread stands, operations of a wave, and the lines that describe a
// launch.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cases.h"

#define KERNEL extern "C" void
#define SHARED static
#define DEVICE_VARIABLE
#define CONSTANT_VARIABLE
#define LAUNCH_BOUNDS(...)
#define DEVICE

namespace corpus {

struct Position {
  u32 thread[3], block[3], block_size[3], blocks[3];
};
extern Position position;
extern u32 lanes_per_wave;
alignas(16) extern unsigned char dynamic_lds_bytes[65536];

// The lanes that take part in one operation of a wave, and what each brought along.
struct Lanes {
  u64 active;
  const u64* values;
  const u64* extras;
};
using Resolve = u64 (*)(const Lanes& lanes, u32 lane);
u32 current_lane();
// `site` orders operations where lanes have diverged: lower ones go first.
u64 wave_operation(u64 value, u64 extra, Resolve resolve, int site);
void wait_for_block();

}  // namespace corpus

template <class T>
inline T* dynamic_lds() {
  return reinterpret_cast<T*>(corpus::dynamic_lds_bytes);
}

inline u32 thread_x() { return corpus::position.thread[0]; }
inline u32 thread_y() { return corpus::position.thread[1]; }
inline u32 thread_z() { return corpus::position.thread[2]; }
inline u32 block_x() { return corpus::position.block[0]; }
inline u32 block_y() { return corpus::position.block[1]; }
inline u32 block_z() { return corpus::position.block[2]; }
inline u32 blocks_x() { return corpus::position.blocks[0]; }
inline u32 blocks_y() { return corpus::position.blocks[1]; }
inline u32 blocks_z() { return corpus::position.blocks[2]; }
inline u32 block_size_x() { return corpus::position.block_size[0]; }
inline u32 block_size_y() { return corpus::position.block_size[1]; }
inline u32 block_size_z() { return corpus::position.block_size[2]; }

inline void barrier() { corpus::wait_for_block(); }
#define wave_size corpus::lanes_per_wave
inline u32 lane_id() { return corpus::current_lane(); }

inline u64 ballot(bool predicate, int site = __builtin_LINE()) {
  return corpus::wave_operation(
      predicate, 0,
      [](const corpus::Lanes& lanes, u32) {
        u64 mask = 0;
        for (u32 i = 0; i < wave_size; ++i)
          if ((lanes.active >> i & 1) != 0 && lanes.values[i] != 0) mask |= 1ull << i;
        return mask;
      },
      site);
}
// Reads of lanes that are not there give 0 here; kernels do not rely on it.
inline u32 shuffle_word(u32 value, u32 lane, int site = __builtin_LINE()) {
  return corpus::wave_operation(
      value, lane % wave_size,
      [](const corpus::Lanes& lanes, u32 self) {
        const u64 from = lanes.extras[self];
        return (lanes.active >> from & 1) != 0 ? lanes.values[from] : 0;
      },
      site);
}
inline u32 push_word(u32 value, u32 lane, int site = __builtin_LINE()) {
  return corpus::wave_operation(
      value, lane % wave_size,
      [](const corpus::Lanes& lanes, u32 self) {
        u64 result = 0;
        for (u32 i = 0; i < wave_size; ++i)
          if ((lanes.active >> i & 1) != 0 && lanes.extras[i] == self) result = lanes.values[i];
        return result;
      },
      site);
}
inline u32 first_lane_word(u32 value, int site = __builtin_LINE()) {
  return corpus::wave_operation(
      value, 0, [](const corpus::Lanes& lanes, u32) { return lanes.values[__builtin_ctzll(lanes.active)]; },
      site);
}
inline u32 read_lane_word(u32 value, u32 lane, int site = __builtin_LINE()) {
  return shuffle_word(value, lane, site);
}

namespace corpus {

// The lane that a DPP control reads, or -1. Controls as the ISA manuals number them.
constexpr int dpp_source(int control, int lane, int lanes) {
  const int row = lane & ~15, in_row = lane & 15;
  const auto within = [&](int at) { return at >= 0 && at < 16 ? row + at : -1; };
  if (control < 0x100) return (lane & ~3) + (control >> 2 * (lane & 3) & 3);  // quad_perm
  const int amount = control & 15;
  switch (control & ~15) {
    case 0x100:
      return within(in_row + amount);  // row_shl
    case 0x110:
      return within(in_row - amount);  // row_shr
    case 0x120:
      return row + ((in_row - amount) & 15);  // row_ror
    case 0x150:
      return row + amount;  // row_share (row_newbcast on gfx90a)
    case 0x160:
      return row + (in_row ^ amount);  // row_xmask
    default:
      break;
  }
  switch (control) {
    case 0x130:
      return lane + 1 < lanes ? lane + 1 : -1;  // wave_shl:1
    case 0x134:
      return (lane + 1) % lanes;  // wave_rol:1
    case 0x138:
      return lane - 1;  // wave_shr:1
    case 0x13c:
      return (lane + lanes - 1) % lanes;  // wave_ror:1
    case 0x140:
      return row + 15 - in_row;  // row_mirror
    case 0x141:
      return (lane & ~7) + 7 - (lane & 7);  // row_half_mirror
    case 0x142:
      return row > 0 ? row - 1 : -1;  // row_bcast:15
    case 0x143:
      return lane >= 32 ? 31 : -1;  // row_bcast:31
    default:
      return -1;
  }
}

}  // namespace corpus

template <int control, int row_mask = 15, int bank_mask = 15, bool bound_control = false>
inline u32 dpp(u32 old, u32 value, int site = __builtin_LINE()) {
  return corpus::wave_operation(
      value, old,
      [](const corpus::Lanes& lanes, u32 self) -> u64 {
        if ((row_mask >> self / 16 % 4 & 1) == 0 || (bank_mask >> self / 4 % 4 & 1) == 0)
          return lanes.extras[self];
        const int from = corpus::dpp_source(control, static_cast<int>(self), static_cast<int>(wave_size));
        if (from >= 0 && (lanes.active >> from & 1) != 0) return lanes.values[from];
        return bound_control ? 0 : lanes.extras[self];
      },
      site);
}
template <int pattern>
inline u32 swizzle(u32 value, int site = __builtin_LINE()) {
  return corpus::wave_operation(
      value, 0,
      [](const corpus::Lanes& lanes, u32 self) -> u64 {
        u32 from = 0;
        if ((pattern & 0x8000) != 0)
          from = (self & ~3u) + (pattern >> 2 * (self & 3) & 3);
        else
          from = (self & ~31u) + (((self & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
        return (lanes.active >> from & 1) != 0 ? lanes.values[from] : 0;
      },
      site);
}

// ---- Cases ----

namespace corpus {

template <class T>
constexpr Dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, f16>)
    return Dtype::f16;
  else if constexpr (std::is_same_v<U, bf16>)
    return Dtype::bf16;
  else if constexpr (std::is_same_v<U, f32>)
    return Dtype::f32;
  else if constexpr (std::is_same_v<U, f64>)
    return Dtype::f64;
  else if constexpr (std::is_same_v<U, i8>)
    return Dtype::i8;
  else if constexpr (std::is_same_v<U, i16>)
    return Dtype::i16;
  else if constexpr (std::is_same_v<U, u16>)
    return Dtype::u16;
  else if constexpr (std::is_same_v<U, i32>)
    return Dtype::i32;
  else if constexpr (std::is_same_v<U, u32>)
    return Dtype::u32;
  else if constexpr (std::is_same_v<U, i64>)
    return Dtype::i64;
  else if constexpr (std::is_same_v<U, u64>)
    return Dtype::u64;
  else
    return Dtype::u8;
}

template <class T>
Argument filled(std::size_t count, Fill fill, double low = 0, double high = 0) {
  Argument argument;
  argument.buffer = true;
  argument.dtype = dtype_of<T>();
  argument.count = dtype_of<T>() == Dtype::u8 ? count * sizeof(T) : count;
  argument.fill = fill;
  argument.low = low;
  argument.high = high;
  return argument;
}
template <class T>
Argument out(std::size_t count) {
  return filled<T>(count, Fill::pattern);
}
template <class T>
Argument zeros(std::size_t count) {
  return filled<T>(count, Fill::zeros);
}
template <class T>
Argument any(std::size_t count) {
  return filled<T>(count, Fill::any);
}
template <class T>
Argument between(std::size_t count, double low, double high) {
  return filled<T>(count, Fill::between, low, high);
}
// Sums and products of these stay exact whatever the order.
template <class T>
Argument whole(std::size_t count, int low, int high) {
  return filled<T>(count, Fill::whole, low, high);
}
template <class T>
Argument counting(std::size_t count, double first = 0, double step = 1) {
  return filled<T>(count, Fill::counting, first, step);
}
template <class T>
Argument custom(std::size_t count, void (*fill)(std::byte*, std::size_t, uint64_t)) {
  Argument argument = filled<T>(count, Fill::custom);
  argument.custom = fill;
  return argument;
}

template <class P>
P read_argument(const std::byte* block, std::size_t& at) {
  at = (at + alignof(P) - 1) / alignof(P) * alignof(P);
  const std::byte* from = block + at;
  at += sizeof(P);
  return *reinterpret_cast<const P*>(from);
}

template <class... P>
void call_with_block(void (*function)(), const std::byte* block) {
  std::size_t at = 0;
  std::tuple<P...> values{read_argument<P>(block, at)...};  // braces: in this order
  std::apply(reinterpret_cast<void (*)(P...)>(function), values);
}
template <class... P>
constexpr auto caller(void (*)(P...)) {
  return &call_with_block<P...>;
}

template <class P>
void append(Case& made, const Argument& argument) {
  static_assert(std::is_pointer_v<P>);
  made.arguments.push_back(argument);
}
template <class P>
void append(Case& made, const P& value) {
  Argument argument;
  static_assert(sizeof(P) <= sizeof argument.value);
  argument.size = sizeof(P);
  argument.alignment = alignof(P);
  std::memcpy(argument.value, &value, sizeof(P));
  made.arguments.push_back(argument);
}
// A kernel's arguments must be of the types that it takes, or buffers for its pointers.
template <class... P, class... A>
void append_all(Case& made, void (*)(P...), const A&... values) {
  static_assert(sizeof...(P) == sizeof...(A));
  (append<P>(made, values), ...);
}

// Runs `thread` for every thread of the grid.
void run_grid(const Shape& shape, const std::function<void()>& thread);

bool add(const char* kernel, const char* file, void (*describe)(Case&), void (*function)(),
         void (*call)(void (*)(), const std::byte*), bool whole_grid);

}  // namespace corpus

using namespace corpus;  // NOLINT: kernels are programs, not a library

// CASE(kernel, shape, arguments...): the kernel itself, run on the host, is the reference.
// CASE_AGAINST(kernel, reference, shape, arguments...): `reference` does the work of the whole grid in one
// call.
#define CASE(kernel, shape_, ...) ADD_CASE(kernel, kernel, false, shape_, __VA_ARGS__)
#define CASE_AGAINST(kernel, reference, shape_, ...) ADD_CASE(kernel, reference, true, shape_, __VA_ARGS__)
#define ADD_CASE(kernel, reference, whole_grid, shape_, ...)                            \
  static const bool registered_##kernel = corpus::add(                                  \
      #kernel, __FILE__,                                                                \
      [](corpus::Case& made) {                                                          \
        made.shape = shape_;                                                            \
        corpus::append_all(made, static_cast<decltype(&kernel)>(nullptr), __VA_ARGS__); \
      },                                                                                \
      reinterpret_cast<void (*)()>(static_cast<decltype(&kernel)>(&reference)),         \
      corpus::caller(static_cast<decltype(&kernel)>(nullptr)), whole_grid);
