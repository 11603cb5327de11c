// LossScaler: dynamic loss scaling in the graph.
#include <algorithm>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/optim.h"
#include "hearth/precision.h"

namespace hearth {

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), scale_(full({}, options.initial_scale)), good_steps_(zeros({}, DType::i64)) {
  const auto check = [](bool condition, const char* option, double value) {
    if (!condition)
      throw ValueError(std::string("[LossScaler] ") + option + " is out of range: " + std::to_string(value));
  };
  check(options.initial_scale > 0, "initial_scale", options.initial_scale);
  check(options.growth > 1, "growth", options.growth);
  check(options.backoff > 0 && options.backoff < 1, "backoff", options.backoff);
  check(options.growth_interval > 0, "growth_interval", static_cast<double>(options.growth_interval));
}

Tensor LossScaler::scale(const Tensor& loss) const { return loss * scale_.detach(); }

void LossScaler::unscale(optim::Optimizer& optimizer) {
  if (std::find(unscaled_.begin(), unscaled_.end(), &optimizer) != unscaled_.end()) {
    throw Error("[LossScaler] the gradients are unscaled already; update() comes first");
  }
  const NoGrad no_grad;
  const Tensor inverse = reciprocal(scale_);
  for (Tensor parameter : optimizer.parameters()) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.dtype() == DType::f16) {
      throw DTypeError(
          "[LossScaler] f16 gradients would vanish when unscaled; keep parameters in f32 and use Autocast");
    }
    const Tensor unscaled = (gradient * inverse).to(gradient.dtype());
    parameter.set_grad(unscaled);
    const Tensor finite = all(isfinite(unscaled));
    finite_ = finite_.defined() ? logical_and(finite_, finite) : finite;
  }
  unscaled_.push_back(&optimizer);
}

void LossScaler::step(optim::Optimizer& optimizer) {
  if (std::find(unscaled_.begin(), unscaled_.end(), &optimizer) == unscaled_.end()) unscale(optimizer);
  optimizer.step(finite_);
}

void LossScaler::update() {
  if (!finite_.defined()) throw Error("[LossScaler] update() before any gradient was unscaled");
  const NoGrad no_grad;
  const Tensor good = good_steps_ + 1;
  const Tensor grow = good == options_.growth_interval;
  const Tensor larger = scale_ * options_.growth;  // not beyond f32, from where no backoff leads back
  scale_.assign(
      where(finite_, where(logical_and(grow, isfinite(larger)), larger, scale_), scale_ * options_.backoff));
  good_steps_.assign(where(logical_and(finite_, logical_not(grow)), good, 0));
  finite_ = {};
  unscaled_.clear();
}

StateDict LossScaler::state_dict() const { return {{"scale", scale_}, {"good_steps", good_steps_}}; }

void LossScaler::load_state_dict(const StateDict& state) {
  load_state(state_dict(), state, true, "LossScaler::load_state_dict");
}

}  // namespace hearth
