// Optimisers: they turn gradients into new parameter values.
//
// step() builds the update of every parameter as a graph and assigns it; nothing is computed yet. All that
// changes from step to step (learning rate, step count, moments) lives in tensors the graph reads, so a
// compiled training step replays with the values of the moment. Outside a compiled function call
// eval(optimizer.variables()) after step(), or the graph of the steps before is kept alive; in one call
// zero_grad() last, because gradients that are left are results of the plan and take memory.
//
// Formulas and defaults are PyTorch's unless said otherwise. One step counter serves all parameters: a
// parameter that gets its first gradient late is corrected for bias as if it had been there from the start.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hearth/state_dict.h"
#include "hearth/tensor.h"

namespace hearth::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter that has a gradient. `apply`: undefined, or a 0-d bool; where it turns out false
  // nothing changes, the step count included.
  void step(const Tensor& apply = {});
  void zero_grad();

  std::vector<Tensor> parameters() const;  // of all groups
  std::size_t group_count() const { return groups_.size(); }
  double learning_rate(std::size_t group = 0) const { return groups_.at(group).learning_rate; }
  void set_learning_rate(double rate);  // of every group
  void set_learning_rate(std::size_t group, double rate);
  // Steps taken. Waits for the value.
  std::int64_t step_count() const { return step_.item<std::int64_t>(); }

  // All that step() assigns: parameters, their state, the step counter.
  std::vector<Tensor> variables() const;

  // "step", "groups.0.learning_rate", ..., "state.<index of parameter>.<name>", ... Options other than the
  // learning rate belong to the constructor.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 protected:
  struct GroupSetup {
    std::vector<Tensor> parameters;
    double learning_rate;
    bool master_weights;
  };
  // `name` goes into errors.
  Optimizer(const char* name, std::vector<GroupSetup> groups);

  // One more tensor of state for every parameter of the group, of its shape; in f32 for 16-bit parameters.
  void add_state(std::size_t group, const std::string& name, double initial = 0.0);

  // One parameter on its way through a step; value and gradient are in f32 or f64.
  struct Update {
    Tensor value;
    Tensor gradient;
    std::vector<Tensor> state;  // in the order of add_state
  };
  // Replaces value and state of each. Called without gradient recording.
  virtual void update(std::size_t group, std::vector<Update>& updates) const = 0;

  // For update(): 0-d f32 tensors.
  const Tensor& rate(std::size_t group) const { return groups_[group].rate; }
  Tensor step_number() const;                  // of the step being taken, from 1
  Tensor bias_correction(double decay) const;  // 1 - decay^step_number, accurate for decay near 1

  // Throws ValueError naming the option unless `condition`.
  void check(bool condition, const char* option, double value) const;

 private:
  struct Parameter {
    Tensor value;
    Tensor master;  // f32 copy that takes the updates; undefined without master weights
    std::vector<std::pair<std::string, Tensor>> state;
  };
  struct Group {
    std::vector<Parameter> parameters;
    double learning_rate;  // as set; `rate` is what the graph reads
    Tensor rate;
  };
  StateDict state_variables() const;  // all but parameters and learning rates

  std::string name_;
  std::vector<Group> groups_;
  Tensor step_;  // 0-d i64
};

// Parameters with options of their own.
template <typename Options>
struct ParameterGroup {
  std::vector<Tensor> parameters;
  Options options{};
};

// An optimiser whose groups have `Options`.
template <typename Options>
class GroupOptimizer : public Optimizer {
 protected:
  GroupOptimizer(const char* name, const std::vector<ParameterGroup<Options>>& groups)
      : Optimizer(name, setups(groups)) {
    for (const auto& group : groups) options_.push_back(group.options);
  }
  std::vector<Options> options_;  // per group

 private:
  static std::vector<GroupSetup> setups(const std::vector<ParameterGroup<Options>>& groups) {
    std::vector<GroupSetup> result;
    for (const auto& [parameters, options] : groups)
      result.push_back({parameters, options.learning_rate, options.master_weights});
    return result;
  }
};

// master_weights, in all options: 16-bit parameters are updated in an f32 copy, of which they are the rounded
// image. The copy is made by the constructor, so load a model's weights before.

struct SGDOptions {
  double learning_rate = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;  // needs momentum and no dampening
  bool master_weights = false;
};
class SGD : public GroupOptimizer<SGDOptions> {
 public:
  explicit SGD(const std::vector<ParameterGroup<SGDOptions>>& groups);
  explicit SGD(const std::vector<Tensor>& parameters, const SGDOptions& options = {})
      : SGD({ParameterGroup<SGDOptions>{parameters, options}}) {}

 protected:
  void update(std::size_t group, std::vector<Update>& updates) const override;
};

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;  // decay the weights themselves (AdamW), not through the gradient
  bool amsgrad = false;
  bool master_weights = false;
};
class Adam : public GroupOptimizer<AdamOptions> {
 public:
  explicit Adam(const std::vector<ParameterGroup<AdamOptions>>& groups);
  explicit Adam(const std::vector<Tensor>& parameters, const AdamOptions& options = {})
      : Adam({ParameterGroup<AdamOptions>{parameters, options}}) {}

 protected:
  Adam(const char* name, const std::vector<ParameterGroup<AdamOptions>>& groups);
  void update(std::size_t group, std::vector<Update>& updates) const override;
};

// Adam with decoupled weight decay.
struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;
  bool master_weights = false;
};
class AdamW : public Adam {
 public:
  explicit AdamW(const std::vector<ParameterGroup<AdamWOptions>>& groups);
  explicit AdamW(const std::vector<Tensor>& parameters, const AdamWOptions& options = {})
      : AdamW({ParameterGroup<AdamWOptions>{parameters, options}}) {}
};

struct RMSpropOptions {
  double learning_rate = 1e-2;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  bool master_weights = false;
};
class RMSprop : public GroupOptimizer<RMSpropOptions> {
 public:
  explicit RMSprop(const std::vector<ParameterGroup<RMSpropOptions>>& groups);
  explicit RMSprop(const std::vector<Tensor>& parameters, const RMSpropOptions& options = {})
      : RMSprop({ParameterGroup<RMSpropOptions>{parameters, options}}) {}

 protected:
  void update(std::size_t group, std::vector<Update>& updates) const override;
};

struct AdagradOptions {
  double learning_rate = 1e-2;
  double learning_rate_decay = 0.0;
  double weight_decay = 0.0;
  double initial_accumulator = 0.0;
  double epsilon = 1e-10;
  bool master_weights = false;
};
class Adagrad : public GroupOptimizer<AdagradOptions> {
 public:
  explicit Adagrad(const std::vector<ParameterGroup<AdagradOptions>>& groups);
  explicit Adagrad(const std::vector<Tensor>& parameters, const AdagradOptions& options = {})
      : Adagrad({ParameterGroup<AdagradOptions>{parameters, options}}) {}

 protected:
  void update(std::size_t group, std::vector<Update>& updates) const override;
};

// Adam with atan2(m, sqrt(v)) for m / (sqrt(v) + epsilon): no epsilon, a bounded step, independent of the
// scale of the loss. Weight decay is decoupled. (Everett et al. 2024; as used to train HRM.)
struct AdamATan2Options {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double weight_decay = 0.0;
  bool master_weights = false;
};
class AdamATan2 : public GroupOptimizer<AdamATan2Options> {
 public:
  explicit AdamATan2(const std::vector<ParameterGroup<AdamATan2Options>>& groups);
  explicit AdamATan2(const std::vector<Tensor>& parameters, const AdamATan2Options& options = {})
      : AdamATan2({ParameterGroup<AdamATan2Options>{parameters, options}}) {}

 protected:
  void update(std::size_t group, std::vector<Update>& updates) const override;
};

// The sign of an interpolation of momentum and gradient, with decoupled weight decay (Chen et al. 2023).
struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;
  bool master_weights = false;
};
class Lion : public GroupOptimizer<LionOptions> {
 public:
  explicit Lion(const std::vector<ParameterGroup<LionOptions>>& groups);
  explicit Lion(const std::vector<Tensor>& parameters, const LionOptions& options = {})
      : Lion({ParameterGroup<LionOptions>{parameters, options}}) {}

 protected:
  void update(std::size_t group, std::vector<Update>& updates) const override;
};

// ---- gradients. Those of several backward() calls add up; for the mean over n of them divide each loss by
// n.

// Scales all gradients by one factor so that the p-norm of all of them together is at most `max_norm`.
// Returns the norm before that (0-d f32). p may be infinity.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double p = 2.0);
// Limits every element of every gradient to [-limit, limit].
void clip_grad_value(const std::vector<Tensor>& parameters, double limit);

// A moving average of parameters: average = decay * average + (1 - decay) * parameter at each update().
class Ema {
 public:
  // Starts from the parameters as they are. decay in [0, 1).
  Ema(std::vector<Tensor> parameters, double decay);
  void update();

  // apply() puts the averages in the place of the parameters, restore() undoes it. Both throw Error out of
  // turn, and update() while applied.
  void apply();
  void restore();

  // The averages, in f32 for 16-bit parameters. eval(ema.averages()) computes what is pending.
  const std::vector<Tensor>& averages() const { return averages_; }
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  std::vector<Tensor> parameters_, averages_, saved_;
  double decay_;
};

}  // namespace hearth::optim
