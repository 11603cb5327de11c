// Least, greatest and median of floats, in the three ways the chips treat what is not a number.
#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

// The ways: what is least and greatest of two.
struct Ieee {
  template <class T>
  static T least(T a, T b) {
    return min_ieee(a, b);
  }
  template <class T>
  static T most(T a, T b) {
    return max_ieee(a, b);
  }
};
struct Number {
  template <class T>
  static T least(T a, T b) {
    return min_num(a, b);
  }
  template <class T>
  static T most(T a, T b) {
    return max_num(a, b);
  }
};
struct Propagating {
  template <class T>
  static T least(T a, T b) {
    return minimum(a, b);
  }
  template <class T>
  static T most(T a, T b) {
    return maximum(a, b);
  }
};

// Each operation over float or double. Halves go through float, which changes no result.
template <class Way>
struct Least2 {
  template <class T>
  static T of(T a, T b) {
    return Way::least(a, b);
  }
};
template <class Way>
struct Most2 {
  template <class T>
  static T of(T a, T b) {
    return Way::most(a, b);
  }
};
template <class Way>
struct Least3 {
  template <class T>
  static T of(T a, T b, T c) {
    return Way::least(Way::least(a, b), c);
  }
};
template <class Way>
struct Most3 {
  template <class T>
  static T of(T a, T b, T c) {
    return Way::most(Way::most(a, b), c);
  }
};
template <class Way>
struct LeastThenMost {
  template <class T>
  static T of(T a, T b, T c) {
    return Way::most(Way::least(a, b), c);
  }
};
template <class Way>
struct MostThenLeast {
  template <class T>
  static T of(T a, T b, T c) {
    return Way::least(Way::most(a, b), c);
  }
};
template <class Way>
struct Median {
  template <class T>
  static T of(T a, T b, T c) {
    return median(a, b, c, Way::template least<T>, Way::template most<T>);
  }
};

template <class Of>
Semantics two_floats(std::string_view name) {
  return float_alu(name, [](float a, float b) { return Of::of(a, b); });
}
template <class Of>
Semantics two_doubles(std::string_view name) {
  return float_alu(name, [](double a, double b) { return Of::of(a, b); });
}
template <class Of>
Semantics two_halves(std::string_view name) {
  return float_alu(
      name, [](Half16 a, Half16 b) { return HalfOf{Of::of(static_cast<float>(a), static_cast<float>(b))}; });
}
template <class Of>
Semantics three_floats(std::string_view name) {
  return float_alu(name, [](float a, float b, float c) { return Of::of(a, b, c); });
}
template <class Of>
Semantics three_halves(std::string_view name) {
  return float_alu(name, [](Half16 a, Half16 b, Half16 c) {
    return HalfOf{Of::of(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))};
  });
}

}  // namespace

void add_vector_min_max(Rows& rows) {
  rows.push_back(two_floats<Least2<Ieee>>("v_min_f32"));
  rows.push_back(two_floats<Most2<Ieee>>("v_max_f32"));
  rows.push_back(two_doubles<Least2<Ieee>>("v_min_f64"));
  rows.push_back(two_doubles<Most2<Ieee>>("v_max_f64"));
  rows.push_back(two_halves<Least2<Ieee>>("v_min_f16"));
  rows.push_back(two_halves<Most2<Ieee>>("v_max_f16"));
  rows.push_back(three_floats<Least3<Ieee>>("v_min3_f32"));
  rows.push_back(three_floats<Most3<Ieee>>("v_max3_f32"));
  rows.push_back(three_floats<Median<Ieee>>("v_med3_f32"));
  rows.push_back(three_floats<LeastThenMost<Ieee>>("v_minmax_f32"));
  rows.push_back(three_floats<MostThenLeast<Ieee>>("v_maxmin_f32"));
  rows.push_back(three_halves<Least3<Ieee>>("v_min3_f16"));
  rows.push_back(three_halves<Most3<Ieee>>("v_max3_f16"));
  rows.push_back(three_halves<Median<Ieee>>("v_med3_f16"));
  rows.push_back(three_halves<LeastThenMost<Ieee>>("v_minmax_f16"));
  rows.push_back(three_halves<MostThenLeast<Ieee>>("v_maxmin_f16"));

  rows.push_back(two_floats<Least2<Number>>("v_min_num_f32"));
  rows.push_back(two_floats<Most2<Number>>("v_max_num_f32"));
  rows.push_back(two_doubles<Least2<Number>>("v_min_num_f64"));
  rows.push_back(two_doubles<Most2<Number>>("v_max_num_f64"));
  rows.push_back(two_halves<Least2<Number>>("v_min_num_f16"));
  rows.push_back(two_halves<Most2<Number>>("v_max_num_f16"));
  rows.push_back(three_floats<Least3<Number>>("v_min3_num_f32"));
  rows.push_back(three_floats<Most3<Number>>("v_max3_num_f32"));
  rows.push_back(three_floats<Median<Number>>("v_med3_num_f32"));
  rows.push_back(three_floats<LeastThenMost<Number>>("v_minmax_num_f32"));
  rows.push_back(three_floats<MostThenLeast<Number>>("v_maxmin_num_f32"));
  rows.push_back(three_halves<Least3<Number>>("v_min3_num_f16"));
  rows.push_back(three_halves<Most3<Number>>("v_max3_num_f16"));
  rows.push_back(three_halves<Median<Number>>("v_med3_num_f16"));
  rows.push_back(three_halves<LeastThenMost<Number>>("v_minmax_num_f16"));
  rows.push_back(three_halves<MostThenLeast<Number>>("v_maxmin_num_f16"));

  rows.push_back(two_floats<Least2<Propagating>>("v_minimum_f32"));
  rows.push_back(two_floats<Most2<Propagating>>("v_maximum_f32"));
  rows.push_back(two_doubles<Least2<Propagating>>("v_minimum_f64"));
  rows.push_back(two_doubles<Most2<Propagating>>("v_maximum_f64"));
  rows.push_back(two_halves<Least2<Propagating>>("v_minimum_f16"));
  rows.push_back(two_halves<Most2<Propagating>>("v_maximum_f16"));
  rows.push_back(three_floats<Least3<Propagating>>("v_minimum3_f32"));
  rows.push_back(three_floats<Most3<Propagating>>("v_maximum3_f32"));
  rows.push_back(three_floats<LeastThenMost<Propagating>>("v_minimummaximum_f32"));
  rows.push_back(three_floats<MostThenLeast<Propagating>>("v_maximumminimum_f32"));
  rows.push_back(three_halves<Least3<Propagating>>("v_minimum3_f16"));
  rows.push_back(three_halves<Most3<Propagating>>("v_maximum3_f16"));
  rows.push_back(three_halves<LeastThenMost<Propagating>>("v_minimummaximum_f16"));
  rows.push_back(three_halves<MostThenLeast<Propagating>>("v_maximumminimum_f16"));
}

}  // namespace hipemu::semantics
