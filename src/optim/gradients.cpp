// What is done to gradients before a step and to parameters after it: clipping, moving averages.
#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/optim.h"

namespace hearth::optim {

namespace {

// Replaces each gradient there is by f(gradient).
template <typename F>
void change_gradients(const std::vector<Tensor>& parameters, const F& f) {
  for (Tensor parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) parameter.set_grad(f(gradient).to(gradient.dtype()));
  }
}

}  // namespace

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double p) {
  if (!(max_norm > 0))
    throw ValueError("[clip_grad_norm] max_norm must be positive, got " + std::to_string(max_norm));
  const NoGrad no_grad;
  std::vector<Tensor> norms;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) norms.push_back(norm(gradient.to(DType::f32), p));
  }
  if (norms.empty()) return zeros({});
  const Tensor total = norm(stack(norms), p);
  const Tensor factor = minimum(max_norm / (total + 1e-6), 1.0);
  change_gradients(parameters, [&](const Tensor& gradient) { return gradient * factor; });
  return total;
}

void clip_grad_value(const std::vector<Tensor>& parameters, double limit) {
  if (!(limit >= 0))
    throw ValueError("[clip_grad_value] limit must not be negative, got " + std::to_string(limit));
  const NoGrad no_grad;
  change_gradients(parameters, [&](const Tensor& gradient) { return clamp(gradient, -limit, limit); });
}

Ema::Ema(std::vector<Tensor> parameters, double decay) : parameters_(std::move(parameters)), decay_(decay) {
  if (!(decay >= 0 && decay < 1))
    throw ValueError("[Ema] decay must be in [0, 1), got " + std::to_string(decay));
  for (const Tensor& parameter : parameters_) {
    averages_.push_back(parameter.detach().to(promote(parameter.dtype(), DType::f32)));
  }
}

void Ema::update() {
  if (!saved_.empty()) throw Error("[Ema] update() while the averages are applied; restore() first");
  const NoGrad no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    averages_[i].assign(averages_[i] * decay_ + parameters_[i].detach() * (1.0 - decay_));
  }
}

void Ema::apply() {
  if (!saved_.empty()) throw Error("[Ema] apply() twice; restore() first");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    saved_.push_back(parameters_[i].detach());
    parameters_[i].assign(averages_[i].detach().to(parameters_[i].dtype()));
  }
}

void Ema::restore() {
  if (saved_.empty()) throw Error("[Ema] restore() without apply()");
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].assign(saved_[i]);
  saved_.clear();
}

StateDict Ema::state_dict() const {
  StateDict result;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    result.emplace("average." + std::to_string(i), averages_[i]);
  return result;
}

void Ema::load_state_dict(const StateDict& state) {
  load_state(state_dict(), state, true, "Ema::load_state_dict");
}

}  // namespace hearth::optim
