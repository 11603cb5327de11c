// Module: registration, traversal, state.
#include "hearth/module.h"

#include <algorithm>
#include <unordered_set>

#include "hearth/error.h"
#include "tensor/variable.h"

namespace hearth::nn {

namespace {

// Calls visit(prefix, module) for the module and all below it, depth first; a module reached twice is visited
// twice.
template <typename Visitor>
void visit_named(const Module& module, const std::string& prefix, const Visitor& visit) {
  visit(prefix, module);
  for (const auto& [name, child] : module.named_children()) visit_named(*child, prefix + name + ".", visit);
}

Module::NamedTensors without_repeats(const Module::NamedTensors& tensors) {
  Module::NamedTensors result;
  std::unordered_set<const void*> seen;
  for (const auto& entry : tensors) {
    if (seen.insert(entry.second.variable().get()).second) result.push_back(entry);
  }
  return result;
}

// Makes the variable name its value in another dtype or on another device, which assign() does not do.
template <typename Target>
void convert(Tensor variable, Target target) {
  const bool leaf = variable.requires_grad();
  variable.requires_grad_(false);
  variable.variable()->node = node_of(variable.to(target));
  variable.requires_grad_(leaf);
}

}  // namespace

Tensor Module::forward(const Tensor&) { throw Error("[Module] this module has no forward of one tensor"); }

Module::NamedTensors Module::all_tensors(NamedTensors Module::*own) const {
  NamedTensors result;
  visit_named(*this, "", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, tensor] : module.*own) result.emplace_back(prefix + name, tensor);
  });
  return result;
}

Module::NamedTensors Module::named_parameters() const {
  return without_repeats(all_tensors(&Module::parameters_));
}

Module::NamedTensors Module::named_buffers() const { return without_repeats(all_tensors(&Module::buffers_)); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : named_parameters()) result.push_back(tensor);
  return result;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

std::vector<Tensor> Module::variables() const {
  std::vector<Tensor> result = parameters();
  for (const auto& [name, tensor] : named_buffers()) result.push_back(tensor);
  return result;
}

StateDict Module::state_dict() const {
  StateDict result;
  for (const auto& [name, tensor] : all_tensors(&Module::parameters_)) result.emplace(name, tensor);
  for (const auto& [name, tensor] : all_tensors(&Module::buffers_)) result.emplace(name, tensor);
  return result;
}

LoadReport Module::load_state_dict(const StateDict& state, bool strict) {
  return load_state(state_dict(), state, strict, "load_state_dict");
}

void Module::train(bool training) {
  for (Module* module : modules()) module->training_ = training;
}

void Module::zero_grad() {
  for (Tensor parameter : parameters()) parameter.zero_grad();
}

void Module::requires_grad_(bool value) {
  for (Tensor parameter : parameters()) parameter.requires_grad_(value);
}

void Module::to(DType dtype) {
  if (!is_floating(dtype)) {
    throw DTypeError("[Module::to] only floating dtypes, got " + std::string(dtype_name(dtype)));
  }
  for (const Tensor& variable : variables()) {
    if (is_floating(variable.dtype())) convert(variable, dtype);
  }
}

void Module::to(Device device) {
  for (const Tensor& variable : variables()) convert(variable, device);
}

std::vector<std::shared_ptr<Module>> Module::children() const {
  std::vector<std::shared_ptr<Module>> result;
  for (const auto& [name, child] : children_) result.push_back(child);
  return result;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> result{this};
  for (const auto& [name, child] : children_) {
    for (Module* module : child->modules()) {
      if (std::find(result.begin(), result.end(), module) == result.end()) result.push_back(module);
    }
  }
  return result;
}

void Module::apply(const std::function<void(Module&)>& function) {
  for (const auto& [name, child] : children_) child->apply(function);
  function(*this);
}

void Module::check_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw ValueError("[Module] a name must not be empty or have a '.', got \"" + name + "\"");
  }
  const auto named = [&](const auto& entry) { return entry.first == name; };
  if (std::any_of(parameters_.begin(), parameters_.end(), named) ||
      std::any_of(buffers_.begin(), buffers_.end(), named) ||
      std::any_of(children_.begin(), children_.end(), named)) {
    throw ValueError("[Module] the name \"" + name + "\" is already registered");
  }
}

Tensor Module::register_parameter(const std::string& name, const Tensor& value) {
  check_name(name);
  if (!value.defined()) return value;
  parameters_.emplace_back(name, value);
  return parameters_.back().second.requires_grad_();
}

Tensor Module::register_buffer(const std::string& name, const Tensor& value) {
  check_name(name);
  if (value.defined()) buffers_.emplace_back(name, value);
  return value;
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> module) {
  check_name(name);
  if (!module) throw ValueError("[Module] the module \"" + name + "\" is null");
  children_.emplace_back(name, std::move(module));
}

Sequential::Sequential(const std::vector<std::shared_ptr<Module>>& modules) {
  for (const auto& module : modules) push_back(module);
}

Sequential& Sequential::push_back(std::shared_ptr<Module> module) {
  register_module(std::to_string(named_children().size()), std::move(module));
  return *this;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor result = x;
  for (const auto& [name, module] : named_children()) result = module->forward(result);
  return result;
}

}  // namespace hearth::nn
