// Metrics.
#include "hearth/metrics.h"

#include "bindings.h"

namespace hearth::python {
namespace {

using namespace metrics;

template <typename M, typename... Arguments, typename... Extra>
void bind_metric(nb::module_& m, const char* name, const char* doc, const Extra&... extra) {
  nb::class_<M, Metric>(m, name, doc).def(nb::init<Arguments...>(), extra...);
}

Average average_of(const std::string& name) {
  if (name == "macro") return Average::macro;
  if (name == "micro") return Average::micro;
  if (name == "binary") return Average::binary;
  throw ValueError("[metrics] average is macro, micro or binary, not '" + name + "'");
}

}  // namespace

void bind_metrics(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_metrics", "How good a model is.");
  nb::class_<Metric>(m, "CoreMetric", "update(output, target) as often as you like, then value().")
      .def_prop_ro("name", &Metric::name)
      .def_prop_ro("larger_is_better", &Metric::larger_is_better)
      .def(
          "update",
          [](Metric& self, const In& output, const In& target) {
            const Tensor x = computed(output), y = computed(target);
            const nb::gil_scoped_release unlocked;
            self.update(x, y);
          },
          "output"_a, "target"_a)
      .def("value", &Metric::value, "NaN before any update.")
      .def("reset", &Metric::reset);
  bind_metric<Accuracy>(m, "Accuracy", "Share of targets met.");
  bind_metric<TopK, std::int64_t>(m, "TopK", "Share of targets among the k largest scores.", "k"_a = 5);
  const auto counted = [&]<typename M>(const char* name, const char* doc, std::type_identity<M>) {
    nb::class_<M, Metric>(m, name, doc)
        .def(
            "__init__",
            [](M* self, std::int64_t classes, const std::string& average) {
              new (self) M(classes, average_of(average));
            },
            "classes"_a, "average"_a = "macro");
  };
  counted("Precision", "Share of what was taken for a class that is of it.", std::type_identity<Precision>());
  counted("Recall", "Share of a class that was taken for it.", std::type_identity<Recall>());
  counted("F1", "Harmonic mean of precision and recall.", std::type_identity<F1>());
  nb::class_<ConfusionMatrix>(m, "ConfusionMatrix",
                              "How often a sample of class `row` was taken for class `column`.")
      .def(nb::init<std::int64_t>(), "classes"_a)
      .def(
          "update",
          [](ConfusionMatrix& self, const In& output, const In& target) { self.update(output, target); },
          "output"_a, "target"_a)
      .def("value", &ConfusionMatrix::value)
      .def("reset", &ConfusionMatrix::reset);
  bind_metric<Auc>(m, "AUC", "Area under the receiver operating characteristic.");
  bind_metric<Perplexity>(m, "Perplexity", "e to the mean cross entropy.");
  bind_metric<MeanSquaredError>(m, "MeanSquaredError", "Mean of squared differences.");
  bind_metric<RootMeanSquaredError>(m, "RootMeanSquaredError", "Its square root.");
  bind_metric<MeanAbsoluteError>(m, "MeanAbsoluteError", "Mean of absolute differences.");
  bind_metric<R2>(m, "R2", "Share of the variance that is explained.");
}

}  // namespace hearth::python
