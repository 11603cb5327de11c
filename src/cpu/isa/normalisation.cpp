// softmax, layer_norm, rms_norm and their gradients, row by row. A row is read a few times while it is in the
// cache.
#include "cpu/normalisation_kernels.h"

#include "cpu/isa/rows.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

// A row further on, which is fetched while the one at hand is computed with: memory would stand idle then.
template <typename S, bool gradient>
struct NextRow {
  const S *x, *dy;

  // The elements of a pack from i on.
  HEARTH_INLINE void fetch(std::int64_t i) const {
    constexpr std::int64_t elements_per_line = 64 / sizeof(S);
    for (std::int64_t at = i; at < i + pack_lanes<Compute<S>>; at += elements_per_line) {
      __builtin_prefetch(x + at, 0, 2);  // not into the innermost cache, where the row at hand is
      if constexpr (gradient) __builtin_prefetch(dy + at, 0, 2);
    }
  }
};

// Calls row(x, dy, out, next) for every row, with halves widened before and narrowed after.
template <typename S, bool gradient, typename Row>
HEARTH_INLINE void for_each_row(const NormalisationRows& rows, const Row& row) {
  using C = Compute<S>;
  const S* x = static_cast<const S*>(rows.x);
  const S* dy = static_cast<const S*>(rows.dy);
  S* out = static_cast<S*>(rows.out);
  C* scratch = static_cast<C*>(rows.scratch);
  const std::int64_t n = rows.size, far_enough = 1 + 1024 / n;
  for (std::int64_t r = 0; r < rows.rows; ++r, x += rows.x_stride, out += n) {
    const std::int64_t ahead = r + far_enough < rows.rows ? far_enough : 0;
    const NextRow<S, gradient> next{x + ahead * rows.x_stride,
                                    gradient ? dy + ahead * rows.dy_stride : nullptr};
    if constexpr (std::is_same_v<S, C>) {
      row(x, dy, out, next);
    } else {
      widen(x, scratch, n);
      if constexpr (gradient) widen(dy, scratch + n, n);
      row(scratch, scratch + n, scratch + 2 * n, next);
      narrow(scratch + 2 * n, out, n);
    }
    if constexpr (gradient) dy += rows.dy_stride;
  }
}

template <typename C, typename Next, typename Term>
HEARTH_INLINE void map_and_fetch(C* out, std::int64_t n, const Next& next, const Term& term) {
  map(out, n, [&]<typename V>(std::int64_t i) HEARTH_LAMBDA {
    next.fetch(i);
    return term.template operator()<V>(i);
  });
}

template <typename C>
HEARTH_INLINE C largest(const C* x, std::int64_t n) {
  return reduce<C>(n, Larger{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(x + i); });
}
template <typename C>
HEARTH_INLINE C sum(const C* x, std::int64_t n) {
  return reduce<C>(n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(x + i); });
}
template <typename C>
HEARTH_INLINE C dot(const C* a, const C* b, std::int64_t n) {
  return reduce<C>(n, Plus{},
                   [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(a + i) * load<V>(b + i); });
}

// The sum of e^(x - top). each(i, terms) is called with the terms from i on, as a pack or one number.
template <typename C, typename Each>
HEARTH_INLINE C sum_of_exponentials(const C* x, std::int64_t n, C top, const Each& each) {
  return reduce<C>(n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
    const V value = math::exp_of_negative(load<V>(x + i) - top);
    each(i, value);
    return value;
  });
}
template <typename Each>
HEARTH_INLINE float sum_of_exponentials(const float* x, std::int64_t n, float top, const Each& each) {
  using V = Pack<float>;
  constexpr std::int64_t lanes = pack_lanes<float>;
  std::int64_t i = 0;
  float total = 0;
  if (n >= lanes) {
    math::RunningExponential<V> exponential;
    exponential.next(load<V>(x) - top);
    Vector<float> sum{};
    const auto add = [&](std::int64_t at, V next_x) HEARTH_LAMBDA {
      const V value = exponential.next(next_x);
      each(at, value);
      sum += combine_registers(value, Plus{});
    };
    for (i = lanes; i + 2 * lanes <= n; i += 2 * lanes) {
      add(i - lanes, load<V>(x + i) - top);
      add(i, load<V>(x + i + lanes) - top);
    }
    if (i + lanes <= n) {
      add(i - lanes, load<V>(x + i) - top);
      i += lanes;
    }
    add(i - lanes, V(0.0f));
    total = combine_lanes<float>(sum, Plus{});
  }
  for (; i < n; ++i) {
    const float value = math::exp_of_negative(x[i] - top);
    each(i, value);
    total += value;
  }
  return total;
}

// A row of -inf or with a NaN becomes NaN throughout: x - largest is NaN somewhere, and so is the sum.
template <typename S>
void softmax(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  C* terms = static_cast<C*>(rows.scratch);
  for_each_row<S, false>(rows, [=](const C* x, const C*, C* out, auto next) HEARTH_LAMBDA {
    // Not in `out`: a row that is written twice may be sent to memory twice.
    const C sum =
        sum_of_exponentials(x, n, largest(x, n), [=]<typename V>(std::int64_t i, V value) HEARTH_LAMBDA {
          next.fetch(i);
          store(terms + i, value);
        });
    const C scale = C(1) / sum;
    map(out, n, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(terms + i) * scale; });
  });
}

template <typename S>
void softmax_grad(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  for_each_row<S, true>(rows, [n](const C* y, const C* dy, C* out, auto next) HEARTH_LAMBDA {
    const C projection = dot(y, dy, n);
    map_and_fetch(out, n, next, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
      return load<V>(y + i) * (load<V>(dy + i) - projection);
    });
  });
}

template <typename S>
void log_softmax(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  for_each_row<S, false>(rows, [n](const C* x, const C*, C* out, auto next) HEARTH_LAMBDA {
    const C top = largest(x, n);
    const C logarithm = math::log(
        sum_of_exponentials(x, n, top, [=]<typename V>(std::int64_t i, V) HEARTH_LAMBDA { next.fetch(i); }));
    map(out, n, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return (load<V>(x + i) - top) - logarithm; });
  });
}

template <typename S>
void log_softmax_grad(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  for_each_row<S, true>(rows, [n](const C* y, const C* dy, C* out, auto next) HEARTH_LAMBDA {
    const C total = sum(dy, n);
    map_and_fetch(out, n, next, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
      return load<V>(dy + i) - math::exp_of_negative(load<V>(y + i)) * total;
    });
  });
}

// The mean is shift + offset: elements are centred as (x - shift) - offset, which keeps the digits that a
// mean rounded to C would lose.
template <typename C>
struct Moments {
  C shift, offset, scale;  // scale = 1 / sqrt(variance + epsilon)

  template <typename V>
  HEARTH_INLINE V centred(V x) const {
    return (x - shift) - offset;
  }
};

template <typename C>
HEARTH_INLINE Moments<C> moments(const C* x, std::int64_t n, C epsilon) {
  // Both sums in one pass. If the mean is far from 0, or a sum overflows, their difference has lost its
  // digits; a second pass then shifts by the mean.
  const C share = C(1) / static_cast<C>(n);
  const auto [sum, squares] =
      two_sums<C>(n, [=]<typename V>(std::int64_t i, V& first, V& second) HEARTH_LAMBDA {
        const V value = load<V>(x + i);
        first = first + value;
        second = second + value * value;
      });
  const C mean = sum * share, variance = squares * share - mean * mean;
  if (mean * mean <= C(16) * variance) return {C(0), mean, C(1) / math::sqrt(variance + epsilon)};

  const C shift = math::isfinite(mean) ? mean : x[0];
  const auto [shifted_sum, shifted_squares] =
      two_sums<C>(n, [=]<typename V>(std::int64_t i, V& first, V& second) HEARTH_LAMBDA {
        const V shifted = load<V>(x + i) - shift;
        first = first + shifted;
        second = second + shifted * shifted;
      });
  const C offset = shifted_sum * share, rest = shifted_squares * share - offset * offset;
  return {shift, offset, C(1) / math::sqrt((rest < C(0) ? C(0) : rest) + epsilon)};
}

template <typename S>
void layer_norm(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  const C epsilon = static_cast<C>(rows.epsilon);
  const C* weight = static_cast<const C*>(rows.weight);
  const C* bias = static_cast<const C*>(rows.bias);
  for_each_row<S, false>(rows, [=](const C* x, const C*, C* out, auto next) HEARTH_LAMBDA {
    const Moments<C> m = moments(x, n, epsilon);
    if (m.shift != C(0)) {  // rarely
      map(out, n, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(x + i) - m.shift; });
      x = out;
    }
    const auto normalised = [=]<typename V>(std::int64_t i, V)
                                HEARTH_LAMBDA { return (load<V>(x + i) - m.offset) * m.scale; };
    if (bias) {
      map_and_fetch(out, n, next, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
        return normalised(i, V(C(0))) * load<V>(weight + i) + load<V>(bias + i);
      });
    } else if (weight) {
      map_and_fetch(out, n, next, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
        return normalised(i, V(C(0))) * load<V>(weight + i);
      });
    } else {
      map_and_fetch(out, n, next,
                    [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return normalised(i, V(C(0))); });
    }
  });
}

// With z = (x - mean) * scale and g = dy * weight: dx = scale * (g - mean(g) - z * mean(g * z)).
template <bool weighted, typename S>
HEARTH_INLINE void layer_norm_grad_rows(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  const C epsilon = static_cast<C>(rows.epsilon);
  const C* weight = static_cast<const C*>(rows.weight);
  for_each_row<S, true>(rows, [=](const C* x, const C* dy, C* out, auto next) HEARTH_LAMBDA {
    const Moments<C> m = moments(x, n, epsilon);
    const auto weighted_dy = [=]<typename V>(std::int64_t i, V) HEARTH_LAMBDA {
      if constexpr (weighted)
        return load<V>(dy + i) * load<V>(weight + i);
      else
        return load<V>(dy + i);
    };
    const auto [sum_g, sum_gz] =
        two_sums<C>(n, [=]<typename V>(std::int64_t i, V& first, V& second) HEARTH_LAMBDA {
          const V g = weighted_dy(i, V(C(0)));
          first = first + g;
          second = second + g * m.centred(load<V>(x + i));
        });
    const C mean_g = sum_g / static_cast<C>(n), slope = m.scale * m.scale * sum_gz / static_cast<C>(n);
    map_and_fetch(out, n, next, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
      return m.scale * (weighted_dy(i, V(C(0))) - mean_g - m.centred(load<V>(x + i)) * slope);
    });
  });
}

template <typename S>
void layer_norm_grad(const NormalisationRows& rows) {
  if (rows.weight)
    layer_norm_grad_rows<true, S>(rows);
  else
    layer_norm_grad_rows<false, S>(rows);
}

template <typename C>
HEARTH_INLINE C rms_scale(const C* x, std::int64_t n, C epsilon) {
  return C(1) / math::sqrt(dot(x, x, n) / static_cast<C>(n) + epsilon);
}

template <typename S>
void rms_norm(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  const C epsilon = static_cast<C>(rows.epsilon);
  const C* weight = static_cast<const C*>(rows.weight);
  for_each_row<S, false>(rows, [=](const C* x, const C*, C* out, auto next) HEARTH_LAMBDA {
    const C scale = rms_scale(x, n, epsilon);
    if (weight)
      map_and_fetch(out, n, next, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
        return load<V>(x + i) * scale * load<V>(weight + i);
      });
    else
      map_and_fetch(out, n, next,
                    [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(x + i) * scale; });
  });
}

// With g = dy * weight: dx = scale * (g - x * scale^2 * mean(g * x)).
template <bool weighted, typename S>
HEARTH_INLINE void rms_norm_grad_rows(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  const C epsilon = static_cast<C>(rows.epsilon);
  const C* weight = static_cast<const C*>(rows.weight);
  for_each_row<S, true>(rows, [=](const C* x, const C* dy, C* out, auto next) HEARTH_LAMBDA {
    const auto weighted_dy = [=]<typename V>(std::int64_t i, V) HEARTH_LAMBDA {
      if constexpr (weighted)
        return load<V>(dy + i) * load<V>(weight + i);
      else
        return load<V>(dy + i);
    };
    const auto [squares, total] =
        two_sums<C>(n, [=]<typename V>(std::int64_t i, V& first, V& second) HEARTH_LAMBDA {
          const V value = load<V>(x + i);
          first = first + value * value;
          second = second + value * weighted_dy(i, value);
        });
    const C count = static_cast<C>(n), scale = C(1) / math::sqrt(squares / count + epsilon);
    const C slope = scale * scale * total / count;
    map_and_fetch(out, n, next, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
      const V value = load<V>(x + i);
      return scale * (weighted_dy(i, value) - value * slope);
    });
  });
}

template <typename S>
void rms_norm_grad(const NormalisationRows& rows) {
  if (rows.weight)
    rms_norm_grad_rows<true, S>(rows);
  else
    rms_norm_grad_rows<false, S>(rows);
}

}  // namespace

#define HEARTH_BY_DTYPE(function) \
  { function<float16>, function<bfloat16>, function<float>, function<double> }

extern const NormalisationKernels normalisation_kernels_table = {
    HEARTH_BY_DTYPE(softmax),          HEARTH_BY_DTYPE(softmax_grad), HEARTH_BY_DTYPE(log_softmax),
    HEARTH_BY_DTYPE(log_softmax_grad), HEARTH_BY_DTYPE(layer_norm),   HEARTH_BY_DTYPE(layer_norm_grad),
    HEARTH_BY_DTYPE(rms_norm),         HEARTH_BY_DTYPE(rms_norm_grad)};

}  // namespace hearth::cpu::HEARTH_ISA
