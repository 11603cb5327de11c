// Module: the base of layers and models, and the containers.
//
// A module registers its parameters, buffers and child modules under names, and keeps the handles as plain
// members. Tensors are handles on variables, so what an optimiser or load_state_dict assigns is seen by the
// member. Modules are not copied; share them as std::shared_ptr. One module must not be used by two threads
// while training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hearth/state_dict.h"
#include "hearth/tensor.h"

namespace hearth::nn {

class Module {
 public:
  using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
  using NamedModules = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;

  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Modules of another signature do not have this one: it throws.
  virtual Tensor forward(const Tensor& x);
  Tensor operator()(const Tensor& x) { return forward(x); }

  // In order of registration, children after own ones, named "layer1.0.conv1.weight". A variable registered
  // twice is listed once, under its first name.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  std::vector<Tensor> parameters() const;
  std::int64_t parameter_count() const;
  // Everything training changes: parameters and buffers. eval(model.variables()) computes all that is
  // pending.
  std::vector<Tensor> variables() const;

  // Parameters and buffers by name, under every name they have. The tensors are the variables themselves.
  StateDict state_dict() const;
  // As load_state() in state_dict.h.
  LoadReport load_state_dict(const StateDict& state, bool strict = true);

  // Modules that behave differently in training (dropout, batch norm) read training(). New modules are in
  // training.
  void train(bool training = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  void zero_grad();
  void requires_grad_(bool value = true);
  // Converts floating parameters and buffers; gradients are dropped.
  void to(DType dtype);
  void to(Device device);

  const NamedModules& named_children() const { return children_; }
  std::vector<std::shared_ptr<Module>> children() const;
  // This module and all below it, depth first, each once.
  std::vector<Module*> modules();
  // Calls `function` on every module below this one, then on this one.
  void apply(const std::function<void(Module&)>& function);

 protected:
  // Names are not empty, have no '.', and are used once: ValueError. An undefined tensor is returned as it is
  // and not registered, as for a layer without bias.
  Tensor register_parameter(const std::string& name, const Tensor& value);
  Tensor register_buffer(const std::string& name, const Tensor& value);
  template <typename M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> module) {
    add_child(name, module);
    return module;
  }

 private:
  void add_child(const std::string& name, std::shared_ptr<Module> module);
  void check_name(const std::string& name) const;
  NamedTensors all_tensors(NamedTensors Module::*own) const;

  NamedTensors parameters_, buffers_;
  NamedModules children_;
  bool training_ = true;
};

// Modules one after the other, named "0", "1", ...
class Sequential : public Module {
 public:
  Sequential() = default;
  explicit Sequential(const std::vector<std::shared_ptr<Module>>& modules);
  // model.add<Linear>(784, 128).add<ReLU>()
  template <typename M, typename... Arguments>
  Sequential& add(Arguments&&... arguments) {
    return push_back(std::make_shared<M>(std::forward<Arguments>(arguments)...));
  }
  Sequential& push_back(std::shared_ptr<Module> module);
  Tensor forward(const Tensor& x) override;
};

// A list of modules of one type, named "0", "1", ...; it has no forward.
template <typename M = Module>
class ModuleList : public Module {
 public:
  ModuleList() = default;
  explicit ModuleList(const std::vector<std::shared_ptr<M>>& modules) {
    for (const auto& module : modules) push_back(module);
  }
  void push_back(std::shared_ptr<M> module) {
    modules_.push_back(register_module(std::to_string(modules_.size()), std::move(module)));
  }
  std::size_t size() const { return modules_.size(); }
  M& operator[](std::size_t i) const { return *modules_[i]; }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  std::vector<std::shared_ptr<M>> modules_;
};

}  // namespace hearth::nn
