// Rows of the table of instructions, made from lambdas over the values of one lane.
//
//   rows.push_back(vector_alu("v_add_f32", [](float a, float b) { return a + b; }));
//
// The types of the parameters are the types of the sources, the type of the result that of the destination. A
// bool source is a lane mask (VCC or a scalar register), a bool result makes one. The loop over the lanes is
// written here, once, and vectorises when the lambda has no branches.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "exec/operands.h"

namespace hipemu::semantics {

using Rows = std::vector<Semantics>;

// A value and a bit for the lane mask in the second destination (carry out, v_div_scale).
template <class T>
struct WithMask {
  T value;
  bool bit;
};

template <class T>
struct FunctionTraits : FunctionTraits<decltype(&T::operator())> {};
template <class F, class R, class... A>
struct FunctionTraits<R (F::*)(A...) const> {
  using Result = R;
  using Arguments = std::tuple<A...>;
  static constexpr std::size_t count = sizeof...(A);
};

template <class T>
struct ResultTraits {
  using Value = T;
  static constexpr bool has_mask = false;
};
template <class T>
struct ResultTraits<WithMask<T>> {
  using Value = T;
  static constexpr bool has_mask = true;
};

template <int W, class F, class... A>
inline void compute(Wave& wave, const Operation& op, const Reading& reading,
                    const SourceLanes<W, A>&... sources) {
  using Result = typename FunctionTraits<F>::Result;
  using Value = typename ResultTraits<Result>::Value;
  const F function{};
  if constexpr (std::is_same_v<Value, bool>) {
    alignas(64) uint8_t bits[W];
    for (int i = 0; i < W; ++i) bits[i] = function(sources[i]...);
    wave.set_mask(op.destination[0].index, pack_mask<W>(bits) & reading.write_mask);
  } else {
    Lanes<W> low, high;  // high is for 64-bit values only
    alignas(64) uint8_t bits[W];
    for (int i = 0; i < W; ++i) {
      const Result result = function(sources[i]...);
      Value value;
      if constexpr (ResultTraits<Result>::has_mask) {
        value = result.value;
        bits[i] = result.bit;
      } else {
        value = result;
      }
      low.lane[i] = low_dword(value);
      if constexpr (sizeof(Value) == 8) high.lane[i] = high_dword(value);
    }
    write_result<W, Value>(wave, op, low, high, reading.write_mask);
    if constexpr (ResultTraits<Result>::has_mask)
      wave.set_mask(op.destination[1].index, pack_mask<W>(bits) & reading.write_mask);
  }
}

template <int W, class F, class... A, std::size_t... K>
inline void read_and_compute(Wave& wave, const Operation& op, std::tuple<A...>*, std::index_sequence<K...>) {
  Reading reading{wave.exec()};
  compute<W, F, A...>(wave, op, reading, SourceLanes<W, A>(wave, op, static_cast<int>(K), reading)...);
}

template <int W, class F>
void run_vector(Wave& wave, const Operation& op) {
  using Traits = FunctionTraits<F>;
  read_and_compute<W, F>(wave, op, static_cast<typename Traits::Arguments*>(nullptr),
                         std::make_index_sequence<Traits::count>());
}

template <class... A>
inline void set_source_types(Semantics& row, std::tuple<A...>*) {
  std::size_t k = 0;
  ((row.sources[k++] = value_type<A>()), ...);
}

template <class F>
Semantics vector_alu(std::string_view name, F) {
  using Traits = FunctionTraits<F>;
  using Result = ResultTraits<typename Traits::Result>;
  Semantics row;
  row.name = name;
  row.wave32 = run_vector<32, F>;
  row.wave64 = run_vector<64, F>;
  static_assert(value_type<typename Result::Value>() != ValueType::none, "not the type of a register");
  row.destinations[0] = value_type<typename Result::Value>();
  if (Result::has_mask) row.destinations[1] = ValueType::mask;
  set_source_types(row, static_cast<typename Traits::Arguments*>(nullptr));
  return row;
}

// An integer operation that also exists with the clamp bit: `saturating` is run then.
template <class F, class G>
Semantics vector_alu(std::string_view name, F function, G saturating) {
  Semantics row = vector_alu(name, function);
  const Semantics other = vector_alu(name, saturating);
  row.saturating32 = other.wave32;
  row.saturating64 = other.wave64;
  return row;
}

// The last parameter of the lambda is the old value of the destination (v_fmac_f32 and the like).
template <class F>
Semantics accumulating(std::string_view name, F function) {
  Semantics row = vector_alu(name, function);
  row.sources[FunctionTraits<F>::count - 1] = ValueType::none;
  row.accumulates = true;
  return row;
}

// Only copies or selects bits: see Semantics::moves_data.
inline Semantics moving(Semantics row) {
  row.moves_data = true;
  return row;
}

// --- Scalar instructions: the lambda takes the wave (for SCC and EXEC) and up to three values ---

template <class T>
inline T read_scalar_source(const Wave& wave, const Source& source) {
  uint64_t bits = source.bits;
  if (source.from == From::scalar)
    bits = sizeof(T) == 8 ? wave.get_scalar64(source.index) : wave.get_scalar(source.index);
  return from_dwords<T>(static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32));
}

template <class T>
inline void write_scalar_result(Wave& wave, const Destination& destination, T value) {
  if constexpr (sizeof(T) == 8)
    wave.set_scalar64(destination.index, std::bit_cast<uint64_t>(value));
  else
    wave.set_scalar(destination.index, low_dword(value));
}

template <class F, class... A, std::size_t... K>
inline void run_scalar_with(Wave& wave, const Operation& op, std::tuple<Wave&, A...>*,
                            std::index_sequence<K...>) {
  const F function{};
  using Result = typename FunctionTraits<F>::Result;
  if constexpr (std::is_void_v<Result>)
    function(wave, read_scalar_source<A>(wave, op.source[K])...);
  else
    write_scalar_result<Result>(wave, op.destination[0],
                                function(wave, read_scalar_source<A>(wave, op.source[K])...));
}

template <class F>
void run_scalar(Wave& wave, const Operation& op) {
  using Traits = FunctionTraits<F>;
  run_scalar_with<F>(wave, op, static_cast<typename Traits::Arguments*>(nullptr),
                     std::make_index_sequence<Traits::count - 1>());
}

template <class... A>
inline void set_scalar_source_types(Semantics& row, std::tuple<Wave&, A...>*) {
  set_source_types(row, static_cast<std::tuple<A...>*>(nullptr));
}

// A lambda without result (a compare) has no destination in the text.
template <class F>
Semantics scalar_alu(std::string_view name, F) {
  using Traits = FunctionTraits<F>;
  Semantics row;
  row.name = name;
  row.wave32 = row.wave64 = run_scalar<F>;
  row.unit = Unit::scalar;
  if constexpr (!std::is_void_v<typename Traits::Result>) {
    static_assert(value_type<typename Traits::Result>() != ValueType::none, "not the type of a register");
    row.destinations[0] = value_type<typename Traits::Result>();
  }
  set_scalar_source_types(row, static_cast<typename Traits::Arguments*>(nullptr));
  return row;
}

// An instruction with a function of its own, given for both wave sizes.
inline Semantics custom(std::string_view name, Unit unit, Execute wave32, Execute wave64,
                        void (*prepare)(const Instruction&, const Chip&, Operation&) = nullptr) {
  Semantics row;
  row.name = name;
  row.unit = unit;
  row.wave32 = wave32;
  row.wave64 = wave64;
  row.prepare = prepare;
  return row;
}

// Each file of this folder adds its rows.
void add_scalar_alu(Rows& rows);
void add_control(Rows& rows);
void add_vector_float(Rows& rows);
void add_vector_min_max(Rows& rows);
void add_vector_transcendental(Rows& rows);
void add_vector_division(Rows& rows);
void add_vector_bits(Rows& rows);
void add_vector_fp8(Rows& rows);
void add_vector_mixed(Rows& rows);
void add_scalar_float(Rows& rows);
void add_vector_integer(Rows& rows);
void add_vector_conversions(Rows& rows);
void add_vector_compares(Rows& rows);
void add_vector_packed(Rows& rows);
void add_vector_lanes(Rows& rows);
void add_vector_dot(Rows& rows);
void add_scalar_memory(Rows& rows);
void add_global_memory(Rows& rows);
void add_global_atomics(Rows& rows);
void add_buffer_memory(Rows& rows);
void add_lds(Rows& rows);
void add_wmma(Rows& rows);
void add_mfma(Rows& rows);

}  // namespace hipemu::semantics
