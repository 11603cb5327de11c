// Evaluation and compiled functions.
#include <nanobind/stl/function.h>

#include "bindings.h"
#include "hearth/eval.h"

namespace hearth::python {

void bind_compile(nb::module_& m) {
  m.def(
      "eval",
      [](const nb::args& arguments) {
        std::vector<Tensor> tensors;
        for (const nb::handle argument : arguments) {
          if (nb::isinstance<Tensor>(argument))
            tensors.push_back(tensor_of(argument));
          else
            for (const nb::handle element : nb::iter(argument)) tensors.push_back(nb::cast<Tensor>(element));
        }
        evaluate(tensors);
      },
      "tensors"_a, "Computes tensors (or sequences of them) in one plan.");
  m.def(
      "explain",
      [](const nb::args& arguments) {
        std::vector<Tensor> tensors;
        for (const nb::handle argument : arguments) tensors.push_back(nb::cast<Tensor>(argument));
        return explain(tensors);
      },
      "tensors"_a, "What eval(tensors) would do: passes, steps, memory.");
  m.def("is_compiling", &tracing, "Whether a function is being traced in this thread.");

  nb::class_<Compiled>(m, "_Compiled")
      .def(
          "__init__",
          [](Compiled* self, nb::callable function) {
            // Called while the GIL is released; the object itself is let go of with the Compiled, under the
            // GIL.
            auto held = std::make_shared<nb::callable>(std::move(function));
            new (self) Compiled([held](const std::vector<Tensor>& arguments) {
              const nb::gil_scoped_acquire locked;
              return nb::cast<std::vector<Tensor>>((*held)(arguments));
            });
          },
          "function"_a)
      .def(
          "__call__",
          [](Compiled& self, const std::vector<Tensor>& arguments) {
            if (!tracing()) evaluate({});
            const nb::gil_scoped_release unlocked;
            return self(arguments);
          },
          "arguments"_a)
      .def("traces", &Compiled::traces)
      .def("last_trace", &Compiled::last_trace)
      .def("explain", &Compiled::explain);

  m.def(
      "plan_cache_stats",
      [] {
        const PlanCacheStats stats = plan_cache_stats();
        nb::dict result;
        result["hits"] = stats.hits;
        result["misses"] = stats.misses;
        result["entries"] = stats.entries;
        return result;
      },
      "How often a plan was found for a graph.");
  m.def("clear_plan_cache", &clear_plan_cache);
  m.def(
      "last_plan_stats",
      [] {
        const PlanStats stats = last_plan_stats();
        nb::dict result;
        result["nodes"] = stats.nodes;
        result["steps"] = stats.steps;
        result["fused_nodes"] = stats.fused_nodes;
        result["arena_bytes"] = stats.arena_bytes;
        result["output_bytes"] = stats.output_bytes;
        result["from_cache"] = stats.from_cache;
        return result;
      },
      "Figures of the plan that ran last in this thread.");
}

}  // namespace hearth::python
