// The part of a step that all optimisers share: groups, state, master weights, assignment.
#include <cmath>
#include <unordered_set>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/optim.h"

namespace hearth::optim {

namespace {

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// What a parameter's arithmetic happens in.
DType compute_type(const Tensor& parameter) {
  return is_half(parameter.dtype()) ? DType::f32 : parameter.dtype();
}

}  // namespace

Optimizer::Optimizer(const char* name, std::vector<GroupSetup> groups)
    : name_(name), step_(zeros({}, DType::i64)) {
  std::unordered_set<const void*> seen;
  for (const GroupSetup& setup : groups) {
    check(setup.learning_rate >= 0, "learning_rate", setup.learning_rate);
    Group group{{}, setup.learning_rate, full({}, setup.learning_rate)};
    for (const Tensor& parameter : setup.parameters) {
      if (!parameter.defined() || !is_floating(parameter.dtype())) {
        throw DTypeError("[" + name_ + "] parameters must be floating tensors");
      }
      if (!seen.insert(parameter.variable().get()).second) {
        throw ValueError("[" + name_ + "] a parameter of shape " + to_string(parameter.shape()) +
                         " is given twice");
      }
      const bool master = setup.master_weights && is_half(parameter.dtype());
      group.parameters.push_back({parameter, master ? parameter.detach().to(DType::f32) : Tensor(), {}});
    }
    groups_.push_back(std::move(group));
  }
  if (seen.empty()) throw ValueError("[" + name_ + "] there are no parameters");
}

void Optimizer::check(bool condition, const char* option, double value) const {
  if (!condition)
    throw ValueError("[" + name_ + "] " + option + " is out of range: " + std::to_string(value));
}

void Optimizer::add_state(std::size_t group, const std::string& name, double initial) {
  for (Parameter& parameter : groups_[group].parameters) {
    const Tensor& value = parameter.value;
    parameter.state.emplace_back(name, full(value.shape(), initial, compute_type(value)).to(value.device()));
  }
}

Tensor Optimizer::step_number() const { return (step_ + 1).to(DType::f32); }

Tensor Optimizer::bias_correction(double decay) const { return -expm1(step_number() * std::log(decay)); }

void Optimizer::step(const Tensor& apply) {
  const NoGrad no_grad;
  const DeviceScope where_parameters_are(parameters().front().device());
  const auto assign = [&](Tensor& variable, const Tensor& value) {
    const Tensor next = value.to(variable.dtype());
    variable.assign(apply.defined() ? where(apply, next, variable) : next);
  };

  bool any = false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<Parameter*> changed;
    std::vector<Update> updates;
    for (Parameter& parameter : groups_[g].parameters) {
      const Tensor gradient = parameter.value.grad();
      if (!gradient.defined()) continue;
      const DType dtype = compute_type(parameter.value);
      const Tensor& value = parameter.master.defined() ? parameter.master : parameter.value;
      Update update{value.detach().to(dtype), gradient.to(dtype), {}};
      for (const auto& [name, tensor] : parameter.state) update.state.push_back(tensor.detach());
      updates.push_back(std::move(update));
      changed.push_back(&parameter);
    }
    if (updates.empty()) continue;
    any = true;
    update(g, updates);
    for (std::size_t i = 0; i < updates.size(); ++i) {
      Parameter& parameter = *changed[i];
      assign(parameter.value, updates[i].value);
      if (parameter.master.defined()) assign(parameter.master, updates[i].value);
      for (std::size_t s = 0; s < parameter.state.size(); ++s)
        assign(parameter.state[s].second, updates[i].state[s]);
    }
  }
  if (any) assign(step_, step_ + 1);
}

void Optimizer::zero_grad() {
  for (Tensor parameter : parameters()) parameter.zero_grad();
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> result;
  for (const Group& group : groups_) {
    for (const Parameter& parameter : group.parameters) result.push_back(parameter.value);
  }
  return result;
}

void Optimizer::set_learning_rate(double rate) {
  for (std::size_t g = 0; g < groups_.size(); ++g) set_learning_rate(g, rate);
}

void Optimizer::set_learning_rate(std::size_t group, double rate) {
  check(group < groups_.size(), "group", static_cast<double>(group));
  check(rate >= 0, "learning_rate", rate);
  groups_[group].learning_rate = rate;
  groups_[group].rate.assign(full({}, rate));
}

StateDict Optimizer::state_variables() const {
  StateDict result{{"step", step_}};
  std::size_t index = 0;
  for (const Group& group : groups_) {
    for (const Parameter& parameter : group.parameters) {
      const std::string prefix = "state." + std::to_string(index++) + ".";
      if (parameter.master.defined()) result.emplace(prefix + "master", parameter.master);
      for (const auto& [name, tensor] : parameter.state) result.emplace(prefix + name, tensor);
    }
  }
  return result;
}

std::vector<Tensor> Optimizer::variables() const {
  std::vector<Tensor> result = parameters();
  for (const auto& [name, tensor] : state_variables()) result.push_back(tensor);
  return result;
}

StateDict Optimizer::state_dict() const {
  StateDict result = state_variables();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    // f64, so that a schedule goes on with the very number.
    result.emplace("groups." + std::to_string(g) + ".learning_rate",
                   full({}, groups_[g].learning_rate, DType::f64));
  }
  return result;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const StateDict variables = state_dict();
  load_state(variables, state, true, name_ + "::load_state_dict");
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    set_learning_rate(g, variables.at("groups." + std::to_string(g) + ".learning_rate").item<double>());
  }
}

}  // namespace hearth::optim
