// Comparisons of lanes: every one gives a lane mask, and the v_cmpx form EXEC as well.
#include <deque>
#include <string>

#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

// v_cmpx: EXEC gets the mask too. Decoding made EXEC the destination where the text has none.
template <int W, Execute Compare>
void run_and_set_exec(Wave& wave, const Operation& op) {
  Compare(wave, op);
  wave.set_mask(scalar::exec, wave.mask(op.destination[0].index));
}

// The names of rows made at run time live here, as long as the process.
std::string_view keep(std::string name) {
  static auto& names = *new std::deque<std::string>;
  return names.emplace_back(std::move(name));
}

struct Below {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct Equal {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct Ordered {
  template <class T>
  static bool of(T a, T b) {
    return a == a && b == b;
  }
};
struct Never {
  template <class T>
  static bool of(T, T) {
    return false;
  }
};
template <class C>
struct Swapped {
  template <class T>
  static bool of(T a, T b) {
    return C::of(b, a);
  }
};
template <class A, class B>
struct Either {
  template <class T>
  static bool of(T a, T b) {
    return A::of(a, b) | B::of(a, b);
  }
};
template <class C>
struct Not {
  template <class T>
  static bool of(T a, T b) {
    return !C::of(a, b);
  }
};
using BelowOrEqual = Either<Below, Equal>;
using Above = Swapped<Below>;
using AboveOrEqual = Swapped<BelowOrEqual>;
using BelowOrAbove = Either<Below, Above>;

// Halves compare as floats.
template <class T>
T comparable(T value) {
  return value;
}
float comparable(Half16 value) { return static_cast<float>(value); }

template <class F>
void add_both(Rows& rows, const std::string& name, F function) {
  Semantics row = vector_alu(keep("v_cmp_" + name), function);
  rows.push_back(row);
  row.name = keep("v_cmpx_" + name);
  row.wave32 = run_and_set_exec<32, run_vector<32, F>>;
  row.wave64 = run_and_set_exec<64, run_vector<64, F>>;
  rows.push_back(row);
}
template <class F>
void add_both_in_mode(Rows& rows, const std::string& name, F function) {
  Semantics row = float_alu(keep("v_cmp_" + name), function);
  rows.push_back(row);
  row.name = keep("v_cmpx_" + name);
  row.wave32 = run_and_set_exec<32, run_float<32, F>>;
  row.wave64 = run_and_set_exec<64, run_float<64, F>>;
  rows.push_back(row);
}

template <class T, class C>
void add_compare(Rows& rows, const std::string& condition, const std::string& type) {
  const auto compare = [](T a, T b) { return C::of(comparable(a), comparable(b)); };
  if constexpr (is_float(value_type<T>()))
    add_both_in_mode(rows, condition + "_" + type, compare);
  else
    add_both(rows, condition + "_" + type, compare);
}

template <class T>
void add_float_compares(Rows& rows, const std::string& type) {
  add_compare<T, Never>(rows, "f", type);
  add_compare<T, Below>(rows, "lt", type);
  add_compare<T, Equal>(rows, "eq", type);
  add_compare<T, BelowOrEqual>(rows, "le", type);
  add_compare<T, Above>(rows, "gt", type);
  add_compare<T, BelowOrAbove>(rows, "lg", type);
  add_compare<T, AboveOrEqual>(rows, "ge", type);
  add_compare<T, Ordered>(rows, "o", type);
  add_compare<T, Not<Ordered>>(rows, "u", type);
  add_compare<T, Not<AboveOrEqual>>(rows, "nge", type);
  add_compare<T, Not<BelowOrAbove>>(rows, "nlg", type);
  add_compare<T, Not<Above>>(rows, "ngt", type);
  add_compare<T, Not<BelowOrEqual>>(rows, "nle", type);
  add_compare<T, Not<Equal>>(rows, "neq", type);
  add_compare<T, Not<Below>>(rows, "nlt", type);
  add_compare<T, Not<Never>>(rows, "tru", type);
  add_compare<T, Not<Never>>(rows, "t", type);
}

template <class T>
void add_integer_compares(Rows& rows, const std::string& type) {
  add_compare<T, Never>(rows, "f", type);
  add_compare<T, Below>(rows, "lt", type);
  add_compare<T, Equal>(rows, "eq", type);
  add_compare<T, BelowOrEqual>(rows, "le", type);
  add_compare<T, Above>(rows, "gt", type);
  add_compare<T, Not<Equal>>(rows, "ne", type);
  add_compare<T, AboveOrEqual>(rows, "ge", type);
  add_compare<T, Not<Never>>(rows, "t", type);
}

// Is the value of one of the kinds in `kinds`? Bits: signaling NaN, quiet NaN, then from -infinity up:
// -infinity, normal, subnormal, zero, +zero, subnormal, normal, infinity.
template <class Bits>
bool is_of_kind(Bits bits, Bits infinity, Bits quiet, uint32_t kinds) {
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const Bits size = bits & static_cast<Bits>(~sign);
  const bool negative = (bits & sign) != 0;
  const Bits least_normal = infinity & static_cast<Bits>(-infinity);  // the lowest bit of the exponent
  const int magnitude = size == 0 ? 0 : (size < least_normal ? 1 : (size < infinity ? 2 : 3));
  int kind = negative ? 5 - magnitude : 6 + magnitude;
  kind = size > infinity ? ((bits & quiet) != 0 ? 1 : 0) : kind;
  return (kinds >> kind & 1) != 0;
}

void add_class_compares(Rows& rows) {
  const auto single = [](float a, uint32_t kinds) {
    return is_of_kind<uint32_t>(bits_of(a), 0x7f800000u, 0x00400000u, kinds);
  };
  const auto wide = [](double a, uint32_t kinds) {
    return is_of_kind<uint64_t>(bits_of(a), 0x7ffull << 52, 1ull << 51, kinds);
  };
  const auto half = [](Half16 a, uint16_t kinds) {
    return is_of_kind<uint16_t>(a.bits, 0x7c00, 0x0200, kinds);
  };
  add_both(rows, "class_f32", single);
  add_both(rows, "class_f64", wide);
  add_both(rows, "class_f16", half);
}

}  // namespace

void add_vector_compares(Rows& rows) {
  add_float_compares<Half16>(rows, "f16");
  add_float_compares<float>(rows, "f32");
  add_float_compares<double>(rows, "f64");
  add_integer_compares<int16_t>(rows, "i16");
  add_integer_compares<uint16_t>(rows, "u16");
  add_integer_compares<int32_t>(rows, "i32");
  add_integer_compares<uint32_t>(rows, "u32");
  add_integer_compares<int64_t>(rows, "i64");
  add_integer_compares<uint64_t>(rows, "u64");
  add_class_compares(rows);
}

}  // namespace hipemu::semantics
