// softmax, layer_norm, rms_norm and their gradients, row by row. A row is read a few times while it is in the
// cache.
#include "cpu/normalisation_kernels.h"

#include "cpu/isa/rows.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

// Calls row(x, dy, out) for every row, with halves widened before and narrowed after.
template <typename S, bool gradient, typename Row>
HEARTH_INLINE void for_each_row(const NormalisationRows& rows, const Row& row) {
  using C = Compute<S>;
  const S* x = static_cast<const S*>(rows.x);
  const S* dy = static_cast<const S*>(rows.dy);
  S* out = static_cast<S*>(rows.out);
  C* scratch = static_cast<C*>(rows.scratch);
  const std::int64_t n = rows.size;
  for (std::int64_t r = 0; r < rows.rows; ++r, x += rows.x_stride, out += n) {
    if constexpr (std::is_same_v<S, C>) {
      row(x, dy, out);
    } else {
      widen(x, scratch, n);
      if constexpr (gradient) widen(dy, scratch + n, n);
      row(scratch, scratch + n, scratch + 2 * n);
      narrow(scratch + 2 * n, out, n);
    }
    if constexpr (gradient) dy += rows.dy_stride;
  }
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

// A row of -inf or with a NaN becomes NaN throughout: x - largest is NaN somewhere, and so is the sum.
template <typename S>
void softmax(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  for_each_row<S, false>(rows, [n](const C* x, const C*, C* out) HEARTH_LAMBDA {
    const C top = largest(x, n);
    const C scale = C(1) / reduce<C>(n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
                      const V value = math::exp_of_negative(load<V>(x + i) - top);
                      store(out + i, value);
                      return value;
                    });
    for (std::int64_t i = 0; i < n; ++i) out[i] *= scale;
  });
}

template <typename S>
void softmax_grad(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  for_each_row<S, true>(rows, [n](const C* y, const C* dy, C* out) HEARTH_LAMBDA {
    const C projection = dot(y, dy, n);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = y[i] * (dy[i] - projection);
  });
}

template <typename S>
void log_softmax(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  for_each_row<S, false>(rows, [n](const C* x, const C*, C* out) HEARTH_LAMBDA {
    const C top = largest(x, n);
    const C logarithm = math::log(reduce<C>(n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
      return math::exp_of_negative(load<V>(x + i) - top);
    }));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - top) - logarithm;
  });
}

template <typename S>
void log_softmax_grad(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  for_each_row<S, true>(rows, [n](const C* y, const C* dy, C* out) HEARTH_LAMBDA {
    const C total = sum(dy, n);
    map(out, n, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
      return load<V>(dy + i) - math::exp_of_negative(load<V>(y + i)) * total;
    });
  });
}

template <typename C>
struct Moments {
  C mean, scale;  // scale = 1 / sqrt(variance + epsilon)
};

template <typename C>
HEARTH_INLINE Moments<C> moments(const C* x, std::int64_t n, C epsilon) {
  const C share = C(1) / static_cast<C>(n), mean = sum(x, n) * share;
  const C squares = reduce<C>(n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
    const V centred = load<V>(x + i) - mean;
    return centred * centred;
  });
  return {mean, C(1) / math::sqrt(squares * share + epsilon)};
}

template <typename S>
void layer_norm(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  const C epsilon = static_cast<C>(rows.epsilon);
  const C* weight = static_cast<const C*>(rows.weight);
  const C* bias = static_cast<const C*>(rows.bias);
  for_each_row<S, false>(rows, [=](const C* x, const C*, C* out) HEARTH_LAMBDA {
    const auto [mean, scale] = moments(x, n, epsilon);
    if (bias) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
    } else if (weight) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i];
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale;
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
  for_each_row<S, true>(rows, [=](const C* x, const C* dy, C* out) HEARTH_LAMBDA {
    const auto [mean, scale] = moments(x, n, epsilon);
    const C count = static_cast<C>(n), centre = mean, factor = scale;
    const C mean_g = (weighted ? dot(dy, weight, n) : sum(dy, n)) / count;
    const C mean_gz = factor / count * reduce<C>(n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
                        const V product = load<V>(dy + i) * (load<V>(x + i) - centre);
                        if constexpr (weighted)
                          return product * load<V>(weight + i);
                        else
                          return product;
                      });
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const C g = weighted ? dy[i] * weight[i] : dy[i];
      out[i] = factor * (g - mean_g - (x[i] - centre) * factor * mean_gz);
    }
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
  for_each_row<S, false>(rows, [=](const C* x, const C*, C* out) HEARTH_LAMBDA {
    const C scale = rms_scale(x, n, epsilon);
    if (weight) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * scale;
    }
  });
}

// With g = dy * weight: dx = scale * (g - x * scale^2 * mean(g * x)).
template <bool weighted, typename S>
HEARTH_INLINE void rms_norm_grad_rows(const NormalisationRows& rows) {
  using C = Compute<S>;
  const std::int64_t n = rows.size;
  const C epsilon = static_cast<C>(rows.epsilon);
  const C* weight = static_cast<const C*>(rows.weight);
  for_each_row<S, true>(rows, [=](const C* x, const C* dy, C* out) HEARTH_LAMBDA {
    const C scale = rms_scale(x, n, epsilon);
    const C total = reduce<C>(n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA {
      const V product = load<V>(dy + i) * load<V>(x + i);
      if constexpr (weighted)
        return product * load<V>(weight + i);
      else
        return product;
    });
    const C slope = scale * scale * total / static_cast<C>(n);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const C g = weighted ? dy[i] * weight[i] : dy[i];
      out[i] = scale * (g - x[i] * slope);
    }
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
