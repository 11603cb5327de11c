// Reductions, and what works along one axis.
#include "bindings.h"
#include "hearth/ops.h"

namespace hearth::python {

void bind_reductions(nb::module_& m, TensorClass& tensor) {
  const auto both = [&](const char* name, auto function, const char* doc, auto... arguments) {
    m.def(name, function, "x"_a, arguments..., doc);
    tensor.def(name, function, arguments..., doc);
  };
  using Reduction = Tensor (*)(const Tensor&, const Axes&, bool);
  const auto reduction = [&](const char* name, Reduction function, const char* doc) {
    both(name, given(function), doc, "dim"_a = nb::none(), "keepdim"_a = false);
  };
  reduction("sum", &sum, "Sum over axes (None: all). Of integers: int64.");
  reduction("prod", &prod, "Product over axes.");
  reduction("mean", &mean, "Mean over axes.");
  reduction("all", &all, "Whether all are true.");
  reduction("any", &any, "Whether any is true.");
  reduction("logsumexp", &logsumexp, "log(sum(e^x)) over axes.");
  // max(x, dim) reduces, max(a, b) is the larger of two.
  const auto extreme = [&](const char* name, Reduction reduce, Tensor (*pair)(const Tensor&, const Tensor&)) {
    const auto function = [reduce, pair](const In& x, nb::handle second, bool keepdim) {
      if (nb::isinstance<Tensor>(second)) return pair(x, tensor_of(second));
      nb::detail::make_caster<AxesIn> axes;
      if (!axes.from_python(second, 0, nullptr)) throw nb::type_error("dim is an axis, several, or None");
      return reduce(x, static_cast<AxesIn&>(axes), keepdim);
    };
    both(name, function, "The largest or smallest over axes (values only; see argmax), or of two tensors.",
         nb::arg("dim").none() = nb::none(), "keepdim"_a = false);
  };
  extreme("max", &max, &maximum);
  extreme("min", &min, &minimum);
  both("argmax", given(&argmax), "Index of the first largest; of all, or along an axis.",
       "dim"_a = nb::none(), "keepdim"_a = false);
  both("argmin", given(&argmin), "Index of the first smallest; of all, or along an axis.",
       "dim"_a = nb::none(), "keepdim"_a = false);
  both("var", given(&var), "Variance over axes; divides by count - correction.", "dim"_a = nb::none(),
       "correction"_a = 1.0, "keepdim"_a = false);
  both("std", given(&std), "Standard deviation over axes; divides by count - correction.",
       "dim"_a = nb::none(), "correction"_a = 1.0, "keepdim"_a = false);
  both("norm", given(&norm), "p-norm over axes.", "p"_a = 2.0, "dim"_a = nb::none(), "keepdim"_a = false);

  both("cumsum", given(&cumsum), "Running sum.", "dim"_a);
  both("cumprod", given(&cumprod), "Running product.", "dim"_a);
  both("sort", given(&sort), "Sorted along an axis, stable; NaN is largest.", "dim"_a = -1,
       "descending"_a = false);
  both("argsort", given(&argsort), "Indices that sort.", "dim"_a = -1, "descending"_a = false);
  both("topk", given(&topk), "The k largest (or smallest) in order, and their indices.", "k"_a, "dim"_a = -1,
       "largest"_a = true);
  both("softmax", given(&softmax), "e^x / sum(e^x) along an axis.", "dim"_a = -1);
  both("log_softmax", given(&log_softmax), "log(softmax(x)).", "dim"_a = -1);
}

}  // namespace hearth::python
