// The training loop over modules, losses and callbacks that are written in Python.
#include "hearth/train.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>

#include "loader.h"

namespace hearth::python {
namespace {

using namespace train;

// What the trainer sees of a Python module: its parameters, buffers and children under their names.
class BoundModule : public nn::Module {
 public:
  void add_parameter(const std::string& name, const Tensor& value) { register_parameter(name, value); }
  void add_buffer(const std::string& name, const Tensor& value) { register_buffer(name, value); }
  void add_child(const std::string& name, const std::shared_ptr<BoundModule>& child) {
    register_module(name, child);
  }
};

nb::dict dict_of(const Evaluation& evaluation) {
  nb::dict result;
  result["loss"] = evaluation.loss;
  for (const auto& [name, value] : evaluation.metrics) result[name.c_str()] = value;
  result["samples"] = evaluation.samples;
  result["seconds"] = evaluation.seconds;
  return result;
}

nb::dict dict_of(const Record& record) {
  nb::dict result;
  result["step"] = record.step;
  result["epoch"] = record.epoch;
  result["train_loss"] = record.train_loss;
  result["learning_rate"] = record.learning_rate;
  result["evaluation"] = record.evaluation ? nb::object(dict_of(*record.evaluation)) : nb::none();
  return result;
}

nb::dict dict_of(const Result& result) {
  nb::dict d;
  d["ending"] = name_of(result.ending);
  d["steps"] = result.steps;
  d["epochs"] = result.epochs;
  d["train_loss"] = result.train_loss;
  nb::list history;
  for (const Record& record : result.history) history.append(dict_of(record));
  d["history"] = history;
  d["best"] = nb::cast(result.best);
  d["best_step"] = result.best_step;
  d["resumed_from"] = result.resumed_from;
  d["seconds"] = result.seconds;
  return d;
}

// Hands what happens to a Python object, which gets the Python trainer.
class PythonCallback : public Callback {
 public:
  PythonCallback(nb::object callback, nb::object trainer)
      : callback_(std::move(callback)), trainer_(std::move(trainer)) {}
  ~PythonCallback() override {
    const nb::gil_scoped_acquire locked;
    callback_.reset();
    trainer_.reset();
  }
  PythonCallback(const PythonCallback&) = delete;
  PythonCallback& operator=(const PythonCallback&) = delete;

  void on_begin(Trainer&) override { call("on_begin"); }
  void on_step(Trainer&, std::int64_t step, double loss) override { call("on_step", step, loss); }
  void on_record(Trainer&, const Record& record) override {
    const nb::gil_scoped_acquire locked;
    call("on_record", dict_of(record));
  }
  void on_checkpoint(Trainer&, const std::filesystem::path& path) override { call("on_checkpoint", path); }
  void on_end(Trainer&, const Result& result) override {
    const nb::gil_scoped_acquire locked;
    call("on_end", dict_of(result));
  }

 private:
  template <typename... Arguments>
  void call(const char* method, const Arguments&... arguments) {
    const nb::gil_scoped_acquire locked;
    if (nb::hasattr(callback_, method)) callback_.attr(method)(trainer_, arguments...);
  }
  nb::object callback_, trainer_;
};

// A metric written in Python: name, update(output, target), value(), reset(), larger_is_better.
class PythonMetric : public metrics::Metric {
 public:
  explicit PythonMetric(nb::object metric) : metric_(std::move(metric)) {}
  ~PythonMetric() override {
    const nb::gil_scoped_acquire locked;
    metric_.reset();
  }
  PythonMetric(const PythonMetric&) = delete;
  PythonMetric& operator=(const PythonMetric&) = delete;

  std::string name() const override {
    const nb::gil_scoped_acquire locked;
    return nb::cast<std::string>(metric_.attr("name"));
  }
  void update(const Tensor& output, const Tensor& target) override {
    const nb::gil_scoped_acquire locked;
    metric_.attr("update")(output, target);
  }
  double value() const override {
    const nb::gil_scoped_acquire locked;
    return nb::cast<double>(nb::float_(metric_.attr("value")()));
  }
  void reset() override {
    const nb::gil_scoped_acquire locked;
    metric_.attr("reset")();
  }
  bool larger_is_better() const override {
    const nb::gil_scoped_acquire locked;
    return nb::cast<bool>(metric_.attr("larger_is_better"));
  }

 private:
  nb::object metric_;
};

template <typename T>
T choice(const nb::dict& options, const char* name, T otherwise,
         std::initializer_list<std::pair<const char*, T>> known) {
  if (!options.contains(name)) return otherwise;
  const auto text = nb::cast<std::string>(options[name]);
  for (const auto& [word, value] : known)
    if (text == word) return value;
  throw ValueError(std::string("[Trainer] ") + name + " cannot be '" + text + "'");
}

TrainerConfig config_of(const nb::dict& options) {
  TrainerConfig config;
  const auto read = [&](const char* name, auto& member) {
    if (options.contains(name)) member = nb::cast<std::remove_reference_t<decltype(member)>>(options[name]);
  };
  read("epochs", config.epochs);
  read("steps", config.steps);
  read("accumulate", config.accumulate);
  read("clip_norm", config.clip_norm);
  read("clip_value", config.clip_value);
  read("ema_decay", config.ema_decay);
  read("evaluate_steps", config.evaluate_steps);
  read("monitor", config.monitor);
  read("compile", config.use_compile);
  read("handle_interrupts", config.handle_interrupts);
  read("patience", config.early_stopping.patience);
  read("minimum_change", config.early_stopping.minimum_change);
  read("checkpoint_folder", config.checkpoints.folder);
  read("checkpoint_steps", config.checkpoints.every_steps);
  read("keep_last", config.checkpoints.keep_last);
  read("schedule", config.schedule);
  read("progress", config.progress.enabled);
  config.precision =
      choice(options, "precision", Precision::f32,
             {{"float32", Precision::f32}, {"bfloat16", Precision::bf16}, {"float16", Precision::f16}});
  config.schedule_interval = choice(options, "schedule_interval", Interval::step,
                                    {{"step", Interval::step}, {"epoch", Interval::epoch}});
  config.checkpoints.resume =
      choice(options, "resume", Resume::never,
             {{"never", Resume::never}, {"automatic", Resume::automatic}, {"required", Resume::required}});
  return config;
}

}  // namespace

const char* name_of(Ending ending) {
  constexpr const char* names[] = {"finished", "stopped_early", "interrupted", "stopped"};
  return names[static_cast<int>(ending)];
}

void bind_train(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_train", "The training loop.");
  nb::class_<BoundModule>(m, "BoundModule")
      .def("__init__", [](BoundModule* self) { new (self) BoundModule(); })
      .def("add_parameter", &BoundModule::add_parameter, "name"_a, "value"_a)
      .def("add_buffer", &BoundModule::add_buffer, "name"_a, "value"_a)
      .def("add_child", &BoundModule::add_child, "name"_a, "child"_a)
      .def_prop_ro("training", [](const BoundModule& self) { return self.training(); });

  // forward(batch) -> (loss, output or None, target or None)
  nb::class_<Trainer>(m, "Trainer")
      .def(
          "__init__",
          [](Trainer* self, std::shared_ptr<BoundModule> model, std::shared_ptr<optim::Optimizer> optimizer,
             nb::callable forward, const nb::dict& options) {
            auto held = std::make_shared<nb::callable>(std::move(forward));
            new (self) Trainer(std::move(model), std::move(optimizer),
                               Trainer::ForwardFunction([held](const data::Batch& batch) {
                                 const nb::gil_scoped_acquire locked;
                                 if (PyErr_CheckSignals() != 0) throw nb::python_error();
                                 const nb::tuple result = nb::cast<nb::tuple>((*held)(batch));
                                 const auto tensor = [&](int i) {
                                   return result[i].is_none() ? Tensor() : nb::cast<Tensor>(result[i]);
                                 };
                                 return Forward{tensor(0), tensor(1), tensor(2)};
                               }),
                               config_of(options));
          },
          "model"_a, "optimizer"_a, "forward"_a, "options"_a)
      .def(
          "add_metric",
          [](Trainer& self, nb::object metric) {
            self.add_metric(std::make_unique<PythonMetric>(std::move(metric)));
          },
          "metric"_a)
      .def(
          "add_callback",
          [](Trainer& self, nb::object callback, nb::object trainer) {
            self.add_callback(std::make_shared<PythonCallback>(std::move(callback), std::move(trainer)));
          },
          "callback"_a, "trainer"_a)
      .def(
          "fit",
          [](Trainer& self, Loader& train, Loader* evaluation) {
            Result result;
            {
              const nb::gil_scoped_release unlocked;
              result = self.fit(train, evaluation);
            }
            return dict_of(result);
          },
          "train"_a, "evaluation"_a.none())
      .def(
          "evaluate",
          [](Trainer& self, Loader& loader) {
            Evaluation evaluation;
            {
              const nb::gil_scoped_release unlocked;
              evaluation = self.evaluate(loader);
            }
            return dict_of(evaluation);
          },
          "loader"_a)
      .def("stop", &Trainer::stop)
      .def("step", &Trainer::step)
      .def("explain", &Trainer::explain)
      .def(
          "save",
          [](const Trainer& self, const std::filesystem::path& path, const Loader& train) {
            const nb::gil_scoped_release unlocked;
            self.save(path, train);
          },
          "path"_a, "train"_a)
      .def(
          "load",
          [](Trainer& self, const std::filesystem::path& path, Loader& train) {
            const nb::gil_scoped_release unlocked;
            self.load(path, train);
          },
          "path"_a, "train"_a);
  m.def(
      "load_model",
      [](BoundModule& model, const std::filesystem::path& checkpoint, bool averaged) {
        load_model(model, checkpoint, averaged);
      },
      "model"_a, "checkpoint"_a, "averaged"_a = true);
  m.def("list_checkpoints", &list_checkpoints, "folder"_a);
  m.def("best_checkpoint", &best_checkpoint, "folder"_a);
}

}  // namespace hearth::python
