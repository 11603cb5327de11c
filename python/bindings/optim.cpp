// Optimisers, schedules of the learning rate, loss scaling.
#include "hearth/optim.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>

#include "bindings.h"
#include "hearth/eval.h"
#include "hearth/precision.h"
#include "hearth/schedule.h"

namespace hearth::python {
namespace {

// Computes what a step has assigned, outside of compiled functions.
void finish(const optim::Optimizer& optimizer) {
  if (tracing()) return;
  evaluate(optimizer.variables());
}

// One option of a group by its name in Python.
template <typename Options, typename T>
struct Option {
  const char* name;
  T Options::*member;
};

// A class whose constructor takes groups: a list of (parameters, {option: value}).
template <typename O, typename Options, typename... T>
void bind_optimizer(nb::module_& m, const char* name, Option<Options, T>... options) {
  nb::class_<O, optim::Optimizer>(m, name).def(
      "__init__",
      [=](O* self, const std::vector<std::pair<std::vector<Tensor>, nb::dict>>& groups) {
        std::vector<optim::ParameterGroup<Options>> converted;
        for (const auto& [parameters, given_options] : groups) {
          optim::ParameterGroup<Options> group{parameters};
          std::size_t known = 0;
          const auto read = [&](const auto& option) {
            if (!given_options.contains(option.name)) return;
            ++known;
            using Member = std::remove_reference_t<decltype(group.options.*option.member)>;
            group.options.*option.member = nb::cast<Member>(given_options[option.name]);
          };
          (read(options), ...);
          if (known != given_options.size())
            throw ValueError("[optim] a group has an option that is not known");
          converted.push_back(std::move(group));
        }
        new (self) O(converted);
      },
      "groups"_a);
}

}  // namespace

void bind_optim(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_optim", "Optimisers and schedules.");
  using namespace optim;

  nb::class_<Optimizer>(m, "Optimizer")
      .def(
          "step",
          [](Optimizer& self) {
            self.step();
            finish(self);
          },
          "Updates every parameter that has a gradient.")
      .def("zero_grad", &Optimizer::zero_grad)
      .def("parameters", &Optimizer::parameters)
      .def("group_count", &Optimizer::group_count)
      .def(
          "learning_rate", [](const Optimizer& self, std::size_t group) { return self.learning_rate(group); },
          "group"_a = 0)
      .def(
          "set_learning_rate",
          [](Optimizer& self, std::size_t group, double rate) { self.set_learning_rate(group, rate); },
          "group"_a, "rate"_a)
      .def("step_count", &Optimizer::step_count, nb::call_guard<nb::gil_scoped_release>())
      .def("variables", &Optimizer::variables)
      .def("state_dict", &Optimizer::state_dict)
      .def("load_state_dict", &Optimizer::load_state_dict, "state"_a);

  using S = SGDOptions;
  bind_optimizer<SGD>(
      m, "SGD", Option<S, double>{"lr", &S::learning_rate}, Option<S, double>{"momentum", &S::momentum},
      Option<S, double>{"dampening", &S::dampening}, Option<S, double>{"weight_decay", &S::weight_decay},
      Option<S, bool>{"nesterov", &S::nesterov}, Option<S, bool>{"master_weights", &S::master_weights});
  const auto adam_like = [&]<typename O, typename P>(const char* name, std::type_identity<O>,
                                                     std::type_identity<P>) {
    bind_optimizer<O>(
        m, name, Option<P, double>{"lr", &P::learning_rate}, Option<P, double>{"beta1", &P::beta1},
        Option<P, double>{"beta2", &P::beta2}, Option<P, double>{"eps", &P::epsilon},
        Option<P, double>{"weight_decay", &P::weight_decay}, Option<P, bool>{"amsgrad", &P::amsgrad},
        Option<P, bool>{"master_weights", &P::master_weights});
  };
  adam_like("Adam", std::type_identity<Adam>(), std::type_identity<AdamOptions>());
  adam_like("AdamW", std::type_identity<AdamW>(), std::type_identity<AdamWOptions>());
  using R = RMSpropOptions;
  bind_optimizer<RMSprop>(
      m, "RMSprop", Option<R, double>{"lr", &R::learning_rate}, Option<R, double>{"alpha", &R::alpha},
      Option<R, double>{"eps", &R::epsilon}, Option<R, double>{"weight_decay", &R::weight_decay},
      Option<R, double>{"momentum", &R::momentum}, Option<R, bool>{"centered", &R::centered},
      Option<R, bool>{"master_weights", &R::master_weights});
  using G = AdagradOptions;
  bind_optimizer<Adagrad>(m, "Adagrad", Option<G, double>{"lr", &G::learning_rate},
                          Option<G, double>{"lr_decay", &G::learning_rate_decay},
                          Option<G, double>{"weight_decay", &G::weight_decay},
                          Option<G, double>{"initial_accumulator_value", &G::initial_accumulator},
                          Option<G, double>{"eps", &G::epsilon},
                          Option<G, bool>{"master_weights", &G::master_weights});
  const auto sign_like = [&]<typename O, typename P>(const char* name, std::type_identity<O>,
                                                     std::type_identity<P>) {
    bind_optimizer<O>(m, name, Option<P, double>{"lr", &P::learning_rate},
                      Option<P, double>{"beta1", &P::beta1}, Option<P, double>{"beta2", &P::beta2},
                      Option<P, double>{"weight_decay", &P::weight_decay},
                      Option<P, bool>{"master_weights", &P::master_weights});
  };
  sign_like("AdamATan2", std::type_identity<AdamATan2>(), std::type_identity<AdamATan2Options>());
  sign_like("Lion", std::type_identity<Lion>(), std::type_identity<LionOptions>());

  m.def("clip_grad_norm", &clip_grad_norm, "parameters"_a, "max_norm"_a, "norm_type"_a = 2.0,
        "Scales all gradients so that their norm together is at most max_norm. Returns the norm before.");
  m.def("clip_grad_value", &clip_grad_value, "parameters"_a, "clip_value"_a,
        "Limits every element of every gradient.");

  nb::class_<Ema>(m, "EMA", "A moving average of parameters.")
      .def(nb::init<std::vector<Tensor>, double>(), "parameters"_a, "decay"_a)
      .def("update",
           [](Ema& self) {
             self.update();
             if (!tracing()) evaluate(self.averages());
           })
      .def("apply", &Ema::apply, "Puts the averages in the place of the parameters.")
      .def("restore", &Ema::restore, "Undoes apply().")
      .def("averages", &Ema::averages)
      .def("state_dict", &Ema::state_dict)
      .def("load_state_dict", &Ema::load_state_dict, "state"_a);

  nb::class_<LossScaler>(m, "GradScaler", "Keeps small float16 gradients from vanishing.")
      .def(
          "__init__",
          [](LossScaler* self, double init_scale, double growth, double backoff, std::int64_t interval) {
            new (self) LossScaler({init_scale, growth, backoff, interval});
          },
          "init_scale"_a = 65536.0, "growth_factor"_a = 2.0, "backoff_factor"_a = 0.5,
          "growth_interval"_a = 2000)
      .def("scale", &LossScaler::scale, "loss"_a)
      .def("unscale_", &LossScaler::unscale, "optimizer"_a)
      .def(
          "step",
          [](LossScaler& self, Optimizer& optimizer) {
            self.step(optimizer);
            finish(optimizer);
          },
          "optimizer"_a)
      .def("update", &LossScaler::update)
      .def("get_scale",
           [](const LossScaler& self) {
             const nb::gil_scoped_release unlocked;
             return self.current_scale().item<double>();
           })
      .def("state_dict", &LossScaler::state_dict)
      .def("load_state_dict", &LossScaler::load_state_dict, "state"_a);

  // Schedules are functions in C++, handed from here to Scheduler as they are.
  m.def("step", &schedule::step, "every"_a, "gamma"_a);
  m.def("multi_step", &schedule::multi_step, "milestones"_a, "gamma"_a);
  m.def("exponential", &schedule::exponential, "gamma"_a);
  m.def("linear", &schedule::linear, "start_factor"_a, "end_factor"_a, "steps"_a);
  m.def("polynomial", &schedule::polynomial, "steps"_a, "power"_a);
  m.def("cosine", &schedule::cosine, "steps"_a, "minimum"_a);
  m.def("cosine_warm_restarts", &schedule::cosine_warm_restarts, "first"_a, "factor"_a, "minimum"_a);
  m.def("warmup", &schedule::warmup, "steps"_a, "then"_a, "start_factor"_a);
  m.def("constant", &schedule::constant);
  m.def("lambda_", &schedule::lambda, "factor"_a);
  m.def(
      "one_cycle",
      [](double maximum, std::int64_t steps, double warm_share, bool linear, double start, double end,
         bool three) {
        return schedule::one_cycle(maximum, steps, {warm_share, linear, start, end, three});
      },
      "maximum"_a, "steps"_a, "warm_share"_a, "linear"_a, "start_divisor"_a, "end_divisor"_a,
      "three_phase"_a);
  nb::class_<Scheduler>(m, "Scheduler")
      .def(nb::init<Optimizer&, Schedule>(), "optimizer"_a, "schedule"_a, nb::keep_alive<1, 2>())
      .def("step", &Scheduler::step)
      .def("count", &Scheduler::count)
      .def("state_dict", &Scheduler::state_dict)
      .def("load_state_dict", &Scheduler::load_state_dict, "state"_a);
  nb::class_<ReduceOnPlateau>(m, "ReduceOnPlateau")
      .def(
          "__init__",
          [](ReduceOnPlateau* self, Optimizer& optimizer, bool maximize, double factor, std::int64_t patience,
             double threshold, bool relative, std::int64_t cooldown, double minimum, double epsilon) {
            new (self) ReduceOnPlateau(
                optimizer, {maximize, factor, patience, threshold, relative, cooldown, minimum, epsilon});
          },
          "optimizer"_a, "maximize"_a, "factor"_a, "patience"_a, "threshold"_a, "relative"_a, "cooldown"_a,
          "minimum"_a, "epsilon"_a, nb::keep_alive<1, 2>())
      .def("step", &ReduceOnPlateau::step, "metric"_a)
      .def("state_dict", &ReduceOnPlateau::state_dict)
      .def("load_state_dict", &ReduceOnPlateau::load_state_dict, "state"_a);
}

}  // namespace hearth::python
