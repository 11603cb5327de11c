// Reductions built from sums, products and extremes: variance, deviation, logsumexp, norms.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "hearth/error.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// `reduced` has its axes as size 1: drops them unless they are to stay.
Tensor finish(const Tensor& reduced, const Axes& axes, bool keepdims, DType dtype) {
  Tensor result = as(reduced, dtype);
  if (keepdims || result.ndim() == 0) return result;
  return squeeze(result, normalize_axes(axes, result.ndim(), "squeeze"));
}

Tensor variance(const Tensor& x, const Axes& axes, double correction, const char* name) {
  node_of(x, name);
  const Axes chosen = normalize_axes(axes, x.ndim(), name);
  const Moments m = moments(x, chosen);
  // With too few elements the result is NaN (0 / 0) or infinite, as PyTorch's.
  return m.squares / std::max(0.0, static_cast<double>(m.count) - correction);
}

// (sum |x|^p)^(1/p) for the p that have no shorter form.
Tensor general_norm(const Tensor& magnitude, double p, const Axes& axes) {
  Tensor powers;
  if (p >= 1) {
    powers = pow(magnitude, p);
  } else {
    // The slope of |x|^p at 0 is infinite; the gradient there is taken as 0.
    const Tensor zero = magnitude == 0;
    powers = where(zero, p > 0 ? 0.0 : infinity, pow(where(zero, 1, magnitude), p));
  }
  const Tensor total = sum(powers, axes, true);
  const Tensor zero = total == 0;
  return where(zero, p > 0 ? 0.0 : infinity, pow(where(zero, 1, total), 1 / p));
}

}  // namespace

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keepdims) {
  return finish(variance(x, axes, correction, "var"), axes, keepdims, floating_dtype(x));
}

Tensor std(const Tensor& x, const Axes& axes, double correction, bool keepdims) {
  return finish(sqrt_flat_at_zero(variance(x, axes, correction, "std")), axes, keepdims, floating_dtype(x));
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims) {
  node_of(x, "logsumexp");
  const Axes chosen = normalize_axes(axes, x.ndim(), "logsumexp");
  const Tensor wide = as(x, wide_dtype(x));
  Tensor result;
  if (x.numel() == 0) {
    result = log(sum(exp(wide), chosen, true));
  } else {
    // Shifted by the largest element so that exp stays finite; an infinite one would give inf - inf.
    const Tensor largest = max(wide, chosen, true).detach();
    const Tensor shift = where(isfinite(largest), largest, 0);
    result = log(sum(exp(wide - shift), chosen, true)) + shift;
  }
  return finish(result, chosen, keepdims, floating_dtype(x));
}

Tensor norm(const Tensor& x, double p, const Axes& axes, bool keepdims) {
  node_of(x, "norm");
  if (std::isnan(p)) throw ValueError("[norm] p is NaN");
  const Axes chosen = normalize_axes(axes, x.ndim(), "norm");
  const Tensor wide = as(x, wide_dtype(x));
  Tensor result;
  if (p == 2)
    result = sqrt_flat_at_zero(sum(square(wide), chosen, true));
  else if (p == 1 || (p == infinity && x.numel() == 0))  // of nothing: 0 either way
    result = sum(abs(wide), chosen, true);
  else if (p == 0)
    result = sum(where(false, wide, as(wide != 0, wide.dtype())), chosen, true);  // gradient 0, but there
  else if (std::isinf(p))
    result = p > 0 ? max(abs(wide), chosen, true) : min(abs(wide), chosen, true);
  else
    result = general_norm(abs(wide), p, chosen);
  return finish(result, chosen, keepdims, floating_dtype(x));
}

}  // namespace hearth
