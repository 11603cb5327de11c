// Atomic operations on memory of any kind. Workgroups run on several threads of the host, so these are atomic
// there too; lanes of one wave go in order.
#pragma once

#include <cmath>

#include "exec/semantics/memory.h"

namespace hipemu::semantics {

// Each gives the new value of the memory from the old one and the data of the lane.
struct AtomicAdd {
  template <class T>
  static T next(T memory, T data, T) {
    return memory + data;
  }
};
struct AtomicSub {
  template <class T>
  static T next(T memory, T data, T) {
    return memory - data;
  }
};
struct AtomicReverseSub {
  template <class T>
  static T next(T memory, T data, T) {
    return data - memory;
  }
};
struct AtomicSwap {
  template <class T>
  static T next(T, T data, T) {
    return data;
  }
};
// `second` is what the memory must hold.
struct AtomicCompareSwap {
  template <class T>
  static T next(T memory, T data, T second) {
    return memory == second ? data : memory;
  }
};
struct AtomicMin {
  template <class T>
  static T next(T memory, T data, T) {
    return data < memory ? data : memory;
  }
};
struct AtomicMax {
  template <class T>
  static T next(T memory, T data, T) {
    return data > memory ? data : memory;
  }
};
struct AtomicAnd {
  template <class T>
  static T next(T memory, T data, T) {
    return memory & data;
  }
};
struct AtomicOr {
  template <class T>
  static T next(T memory, T data, T) {
    return memory | data;
  }
};
struct AtomicXor {
  template <class T>
  static T next(T memory, T data, T) {
    return memory ^ data;
  }
};
struct AtomicIncrement {  // counts up to data, then from zero
  template <class T>
  static T next(T memory, T data, T) {
    return memory >= data ? 0 : memory + 1;
  }
};
struct AtomicDecrement {  // counts down from data
  template <class T>
  static T next(T memory, T data, T) {
    return memory == 0 || memory > data ? data : memory - 1;
  }
};
struct AtomicSubClamped {
  template <class T>
  static T next(T memory, T data, T) {
    return memory >= data ? memory - data : 0;
  }
};
struct AtomicConditionalSub {
  template <class T>
  static T next(T memory, T data, T) {
    return memory >= data ? memory - data : memory;
  }
};
struct AtomicMaskedOr {  // clears the bits of data, sets those of second
  template <class T>
  static T next(T memory, T data, T second) {
    return (memory & ~data) | second;
  }
};
struct AtomicWrap {
  template <class T>
  static T next(T memory, T data, T second) {
    return memory >= data ? memory - data : memory + second;
  }
};
// A number wins over a NaN.
struct AtomicFloatMin {
  template <class T>
  static T next(T memory, T data, T) {
    return std::fmin(memory, data);
  }
};
struct AtomicFloatMax {
  template <class T>
  static T next(T memory, T data, T) {
    return std::fmax(memory, data);
  }
};
struct AtomicAddHalves {  // two f16
  static uint32_t next(uint32_t memory, uint32_t data, uint32_t) {
    const auto sum = [](uint32_t a, uint32_t b) {
      return static_cast<uint32_t>(
          float_to_half(half_to_float(static_cast<uint16_t>(a)) + half_to_float(static_cast<uint16_t>(b))));
    };
    return sum(memory, data) | sum(memory >> 16, data >> 16) << 16;
  }
};
struct AtomicAddBfloats {  // two bf16
  static uint32_t next(uint32_t memory, uint32_t data, uint32_t) {
    const auto sum = [](uint32_t a, uint32_t b) {
      return static_cast<uint32_t>(float_to_bfloat(bfloat_to_float(static_cast<uint16_t>(a)) +
                                                   bfloat_to_float(static_cast<uint16_t>(b))));
    };
    return sum(memory, data) | sum(memory >> 16, data >> 16) << 16;
  }
};
// Each half of the memory is replaced when the top bit of that half of the data is set, by its other bits.
struct AtomicConditionalExchange {
  static uint64_t next(uint64_t memory, uint64_t data, uint64_t) {
    constexpr uint64_t low = 0xffffffffull, flag = 0x80000000ull;
    const uint64_t low_part = (data & flag) != 0 ? data & (flag - 1) : memory & low;
    const uint64_t high_part = (data >> 32 & flag) != 0 ? data >> 32 & (flag - 1) : memory >> 32;
    return high_part << 32 | low_part;
  }
};

template <class T>
using AtomicBits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Returns what was there before.
template <class T, class Operator>
inline T update(std::byte* at, T data, T second) {
  using Bits = AtomicBits<T>;
  Bits* memory = reinterpret_cast<Bits*>(at);
  if constexpr (std::is_same_v<Operator, AtomicAdd> && std::is_integral_v<T>)
    return static_cast<T>(__atomic_fetch_add(memory, static_cast<Bits>(data), __ATOMIC_SEQ_CST));
  if constexpr (std::is_same_v<Operator, AtomicSwap>)
    return std::bit_cast<T>(__atomic_exchange_n(memory, std::bit_cast<Bits>(data), __ATOMIC_SEQ_CST));
  Bits old = __atomic_load_n(memory, __ATOMIC_SEQ_CST);
  while (true) {
    const Bits next = std::bit_cast<Bits>(Operator::next(std::bit_cast<T>(old), data, second));
    if (__atomic_compare_exchange_n(memory, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return std::bit_cast<T>(old);
  }
}

template <int W, class T>
inline T read_lane(const uint32_t* row, int lane) {
  return from_dwords<T>(row[lane], sizeof(T) == 8 ? row[W + lane] : 0);
}

template <int W, class T, class Operator>
void run_atomic(Wave& wave, const Operation& op, const Target<W>& target) {
  const uint32_t* data = wave.row(op.source[data_source].index);
  const uint32_t* second = data;
  if (op.source[second_data_source].from == From::vector)
    second = wave.row(op.source[second_data_source].index);
  uint32_t* result = (op.flags & memory_flag::returns) != 0 ? wave.row(op.destination[0].index) : nullptr;
  for_each_lane(target.mask, [&](int lane) {
    const T old =
        update<T, Operator>(target.at(lane), read_lane<W, T>(data, lane), read_lane<W, T>(second, lane));
    if (result == nullptr) return;
    result[lane] = low_dword(old);
    if constexpr (sizeof(T) == 8) result[W + lane] = high_dword(old);
  });
}

template <class T, class Operator>
struct Atomic {
  template <int W>
  static constexpr Body<W> body{.bytes = sizeof(T),
                                .kind = AccessKind::atomic,
                                .moves_rows = true,
                                .run = run_atomic<W, T, Operator>,
                                .compares = std::is_same_v<Operator, AtomicCompareSwap>};
};

// What global, flat and buffer instructions have. `prepare` is given the number of registers from the data to
// the second data (what to compare with), 0 where there is none.
struct AtomicPrepare {
  Prepare plain, compare32, compare64;
};

template <class Addressing>
void add_memory_atomics(Rows& rows, std::string_view prefix, const AtomicPrepare& prepare) {
  const auto add = [&]<class Action>(Action, Prepare how, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      rows.push_back(memory_row<Addressing, Action>(lasting_name(prefix, name), Unit::global_memory, how));
  };
  const Prepare plain = prepare.plain;
  add(Atomic<uint32_t, AtomicSwap>(), plain, {"swap", "swap_b32"});
  add(Atomic<uint64_t, AtomicSwap>(), plain, {"swap_x2", "swap_b64"});
  add(Atomic<uint32_t, AtomicCompareSwap>(), prepare.compare32, {"cmpswap", "cmpswap_b32"});
  add(Atomic<uint64_t, AtomicCompareSwap>(), prepare.compare64, {"cmpswap_x2", "cmpswap_b64"});
  add(Atomic<float, AtomicCompareSwap>(), prepare.compare32, {"fcmpswap", "cmpswap_f32"});
  add(Atomic<double, AtomicCompareSwap>(), prepare.compare64, {"fcmpswap_x2"});
  add(Atomic<uint32_t, AtomicAdd>(), plain, {"add", "add_u32"});
  add(Atomic<uint64_t, AtomicAdd>(), plain, {"add_x2", "add_u64"});
  add(Atomic<uint32_t, AtomicSub>(), plain, {"sub", "sub_u32"});
  add(Atomic<uint64_t, AtomicSub>(), plain, {"sub_x2", "sub_u64"});
  add(Atomic<uint32_t, AtomicSubClamped>(), plain, {"csub", "csub_u32", "sub_clamp_u32"});
  add(Atomic<uint32_t, AtomicConditionalSub>(), plain, {"cond_sub_u32"});
  add(Atomic<int32_t, AtomicMin>(), plain, {"smin", "min_i32"});
  add(Atomic<int64_t, AtomicMin>(), plain, {"smin_x2", "min_i64"});
  add(Atomic<uint32_t, AtomicMin>(), plain, {"umin", "min_u32"});
  add(Atomic<uint64_t, AtomicMin>(), plain, {"umin_x2", "min_u64"});
  add(Atomic<int32_t, AtomicMax>(), plain, {"smax", "max_i32"});
  add(Atomic<int64_t, AtomicMax>(), plain, {"smax_x2", "max_i64"});
  add(Atomic<uint32_t, AtomicMax>(), plain, {"umax", "max_u32"});
  add(Atomic<uint64_t, AtomicMax>(), plain, {"umax_x2", "max_u64"});
  add(Atomic<uint32_t, AtomicAnd>(), plain, {"and", "and_b32"});
  add(Atomic<uint64_t, AtomicAnd>(), plain, {"and_x2", "and_b64"});
  add(Atomic<uint32_t, AtomicOr>(), plain, {"or", "or_b32"});
  add(Atomic<uint64_t, AtomicOr>(), plain, {"or_x2", "or_b64"});
  add(Atomic<uint32_t, AtomicXor>(), plain, {"xor", "xor_b32"});
  add(Atomic<uint64_t, AtomicXor>(), plain, {"xor_x2", "xor_b64"});
  add(Atomic<uint32_t, AtomicIncrement>(), plain, {"inc", "inc_u32"});
  add(Atomic<uint64_t, AtomicIncrement>(), plain, {"inc_x2", "inc_u64"});
  add(Atomic<uint32_t, AtomicDecrement>(), plain, {"dec", "dec_u32"});
  add(Atomic<uint64_t, AtomicDecrement>(), plain, {"dec_x2", "dec_u64"});
  add(Atomic<float, AtomicAdd>(), plain, {"add_f32"});
  add(Atomic<double, AtomicAdd>(), plain, {"add_f64"});
  add(Atomic<float, AtomicFloatMin>(), plain, {"fmin", "min_f32", "min_num_f32"});
  add(Atomic<double, AtomicFloatMin>(), plain, {"fmin_x2", "min_f64"});
  add(Atomic<float, AtomicFloatMax>(), plain, {"fmax", "max_f32", "max_num_f32"});
  add(Atomic<double, AtomicFloatMax>(), plain, {"fmax_x2", "max_f64"});
  add(Atomic<uint32_t, AtomicAddHalves>(), plain, {"pk_add_f16"});
  add(Atomic<uint32_t, AtomicAddBfloats>(), plain, {"pk_add_bf16"});
}

}  // namespace hipemu::semantics
