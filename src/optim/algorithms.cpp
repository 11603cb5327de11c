// The update rules.
//
// p is the parameter, g its gradient, lr the learning rate and t the number of the step, from 1. Factors that
// are the same for all parameters of a group are 0-d tensors computed once, before the loop.

#include "hearth/ops.h"
#include "hearth/optim.h"

namespace hearth::optim {

namespace {

// decay * average + (1 - decay) * x
Tensor moving_average(const Tensor& average, const Tensor& x, double decay) {
  return average * decay + x * (1.0 - decay);
}

// The gradient with that of weight_decay / 2 * |p|^2.
Tensor with_decay(const Tensor& gradient, const Tensor& value, double weight_decay) {
  return weight_decay == 0.0 ? gradient : gradient + value * weight_decay;
}

// Decoupled weight decay: the factor of p, or undefined.
Tensor shrinkage(const Tensor& rate, double weight_decay) {
  return weight_decay == 0.0 ? Tensor() : 1.0 - rate * weight_decay;
}

Tensor shrink(const Tensor& value, const Tensor& factor) { return factor.defined() ? value * factor : value; }

bool is_decay(double x) { return x >= 0.0 && x < 1.0; }

}  // namespace

// ---- g += wd p;  m = mu m + (1 - dampening) g, but m = g in the first step;  p -= lr m, or lr (g + mu m)
SGD::SGD(const std::vector<ParameterGroup<SGDOptions>>& groups) : GroupOptimizer("SGD", groups) {
  for (std::size_t g = 0; g < options_.size(); ++g) {
    const SGDOptions& o = options_[g];
    check(o.momentum >= 0, "momentum", o.momentum);
    check(o.weight_decay >= 0, "weight_decay", o.weight_decay);
    check(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
          "dampening (nesterov needs momentum and none of it)", o.dampening);
    if (o.momentum != 0) add_state(g, "momentum_buffer");
  }
}

void SGD::update(std::size_t group, std::vector<Update>& updates) const {
  const SGDOptions& o = options_[group];
  const Tensor& lr = rate(group);
  const Tensor inflow = o.dampening == 0 ? Tensor() : where(step_number() == 1, 1.0, 1.0 - o.dampening);
  for (Update& u : updates) {
    Tensor g = with_decay(u.gradient, u.value, o.weight_decay);
    if (o.momentum != 0) {
      Tensor& m = u.state[0];
      m = m * o.momentum + (inflow.defined() ? g * inflow : g);
      g = o.nesterov ? g + m * o.momentum : m;
    }
    u.value = u.value - g * lr;
  }
}

// ---- m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) +
// epsilon)
Adam::Adam(const std::vector<ParameterGroup<AdamOptions>>& groups) : Adam("Adam", groups) {}

Adam::Adam(const char* name, const std::vector<ParameterGroup<AdamOptions>>& groups)
    : GroupOptimizer(name, groups) {
  for (std::size_t g = 0; g < options_.size(); ++g) {
    const AdamOptions& o = options_[g];
    check(is_decay(o.beta1), "beta1", o.beta1);
    check(is_decay(o.beta2), "beta2", o.beta2);
    check(o.epsilon >= 0, "epsilon", o.epsilon);
    check(o.weight_decay >= 0, "weight_decay", o.weight_decay);
    add_state(g, "exp_avg");
    add_state(g, "exp_avg_sq");
    if (o.amsgrad) add_state(g, "max_exp_avg_sq");
  }
}

void Adam::update(std::size_t group, std::vector<Update>& updates) const {
  const AdamOptions& o = options_[group];
  const Tensor step_size = rate(group) / bias_correction(o.beta1);
  const Tensor root_correction = rsqrt(bias_correction(o.beta2));
  const Tensor factor = o.decoupled ? shrinkage(rate(group), o.weight_decay) : Tensor();
  for (Update& u : updates) {
    const Tensor g = o.decoupled ? u.gradient : with_decay(u.gradient, u.value, o.weight_decay);
    Tensor& m = u.state[0];
    Tensor& v = u.state[1];
    m = moving_average(m, g, o.beta1);
    v = moving_average(v, square(g), o.beta2);
    if (o.amsgrad) u.state[2] = maximum(u.state[2], v);
    const Tensor& largest = o.amsgrad ? u.state[2] : v;
    u.value = shrink(u.value, factor) - m * step_size / (sqrt(largest) * root_correction + o.epsilon);
  }
}

namespace {
std::vector<ParameterGroup<AdamOptions>> decoupled(const std::vector<ParameterGroup<AdamWOptions>>& groups) {
  std::vector<ParameterGroup<AdamOptions>> result;
  for (const auto& [parameters, o] : groups) {
    result.push_back({parameters,
                      {.learning_rate = o.learning_rate,
                       .beta1 = o.beta1,
                       .beta2 = o.beta2,
                       .epsilon = o.epsilon,
                       .weight_decay = o.weight_decay,
                       .decoupled = true,
                       .amsgrad = o.amsgrad,
                       .master_weights = o.master_weights}});
  }
  return result;
}
}  // namespace

AdamW::AdamW(const std::vector<ParameterGroup<AdamWOptions>>& groups) : Adam("AdamW", decoupled(groups)) {}

// ---- v = a v + (1 - a) g^2;  d = g / (sqrt(v) + epsilon), or with v - mean(g)^2;  p -= lr d, or lr (m = mu
// m + d)
RMSprop::RMSprop(const std::vector<ParameterGroup<RMSpropOptions>>& groups)
    : GroupOptimizer("RMSprop", groups) {
  for (std::size_t g = 0; g < options_.size(); ++g) {
    const RMSpropOptions& o = options_[g];
    check(is_decay(o.alpha), "alpha", o.alpha);
    check(o.epsilon >= 0, "epsilon", o.epsilon);
    check(o.momentum >= 0, "momentum", o.momentum);
    check(o.weight_decay >= 0, "weight_decay", o.weight_decay);
    add_state(g, "square_avg");
    if (o.centered) add_state(g, "grad_avg");
    if (o.momentum != 0) add_state(g, "momentum_buffer");
  }
}

void RMSprop::update(std::size_t group, std::vector<Update>& updates) const {
  const RMSpropOptions& o = options_[group];
  for (Update& u : updates) {
    const Tensor g = with_decay(u.gradient, u.value, o.weight_decay);
    Tensor& v = u.state[0];
    v = moving_average(v, square(g), o.alpha);
    Tensor spread = v;
    if (o.centered) {
      u.state[1] = moving_average(u.state[1], g, o.alpha);
      spread = v - square(u.state[1]);
    }
    Tensor direction = g / (sqrt(spread) + o.epsilon);
    if (o.momentum != 0) direction = u.state.back() = u.state.back() * o.momentum + direction;
    u.value = u.value - direction * rate(group);
  }
}

// ---- s += g^2;  p -= lr / (1 + (t - 1) decay) g / (sqrt(s) + epsilon)
Adagrad::Adagrad(const std::vector<ParameterGroup<AdagradOptions>>& groups)
    : GroupOptimizer("Adagrad", groups) {
  for (std::size_t g = 0; g < options_.size(); ++g) {
    const AdagradOptions& o = options_[g];
    check(o.learning_rate_decay >= 0, "learning_rate_decay", o.learning_rate_decay);
    check(o.initial_accumulator >= 0, "initial_accumulator", o.initial_accumulator);
    check(o.epsilon >= 0, "epsilon", o.epsilon);
    check(o.weight_decay >= 0, "weight_decay", o.weight_decay);
    add_state(g, "sum", o.initial_accumulator);
  }
}

void Adagrad::update(std::size_t group, std::vector<Update>& updates) const {
  const AdagradOptions& o = options_[group];
  Tensor lr = rate(group);
  if (o.learning_rate_decay != 0) lr = lr / ((step_number() - 1.0) * o.learning_rate_decay + 1.0);
  for (Update& u : updates) {
    const Tensor g = with_decay(u.gradient, u.value, o.weight_decay);
    Tensor& s = u.state[0];
    s = s + square(g);
    u.value = u.value - g * lr / (sqrt(s) + o.epsilon);
  }
}

// ---- m, v as Adam;  p = p (1 - lr wd) - lr / (1 - b1^t) atan2(m, sqrt(v / (1 - b2^t)))
AdamATan2::AdamATan2(const std::vector<ParameterGroup<AdamATan2Options>>& groups)
    : GroupOptimizer("AdamATan2", groups) {
  for (std::size_t g = 0; g < options_.size(); ++g) {
    const AdamATan2Options& o = options_[g];
    check(is_decay(o.beta1), "beta1", o.beta1);
    check(is_decay(o.beta2), "beta2", o.beta2);
    check(o.weight_decay >= 0, "weight_decay", o.weight_decay);
    add_state(g, "exp_avg");
    add_state(g, "exp_avg_sq");
  }
}

void AdamATan2::update(std::size_t group, std::vector<Update>& updates) const {
  const AdamATan2Options& o = options_[group];
  const Tensor step_size = rate(group) / bias_correction(o.beta1);
  const Tensor root_correction = rsqrt(bias_correction(o.beta2));
  const Tensor factor = shrinkage(rate(group), o.weight_decay);
  for (Update& u : updates) {
    Tensor& m = u.state[0];
    Tensor& v = u.state[1];
    m = moving_average(m, u.gradient, o.beta1);
    v = moving_average(v, square(u.gradient), o.beta2);
    u.value = shrink(u.value, factor) - atan2(m, sqrt(v) * root_correction) * step_size;
  }
}

// ---- p = p (1 - lr wd) - lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g
Lion::Lion(const std::vector<ParameterGroup<LionOptions>>& groups) : GroupOptimizer("Lion", groups) {
  for (std::size_t g = 0; g < options_.size(); ++g) {
    const LionOptions& o = options_[g];
    check(is_decay(o.beta1), "beta1", o.beta1);
    check(is_decay(o.beta2), "beta2", o.beta2);
    check(o.weight_decay >= 0, "weight_decay", o.weight_decay);
    add_state(g, "exp_avg");
  }
}

void Lion::update(std::size_t group, std::vector<Update>& updates) const {
  const LionOptions& o = options_[group];
  const Tensor factor = shrinkage(rate(group), o.weight_decay);
  for (Update& u : updates) {
    Tensor& m = u.state[0];
    u.value = shrink(u.value, factor) - sign(moving_average(m, u.gradient, o.beta1)) * rate(group);
    m = moving_average(m, u.gradient, o.beta2);
  }
}

}  // namespace hearth::optim
