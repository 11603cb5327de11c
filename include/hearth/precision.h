// Mixed precision: matrix work in a 16-bit type, everything delicate in f32.
#pragma once

#include <cstdint>
#include <optional>

#include "hearth/dtype.h"
#include "hearth/state_dict.h"
#include "hearth/tensor.h"

namespace hearth {

namespace optim {
class Optimizer;
}

// While one lives, layers in this thread that multiply matrices (linear, convolution, attention) cast f32
// inputs and weights to `low`; norms, softmax and losses work in f32. Parameters stay as they are. nullopt
// switches an outer one off. Without one, Config::default_precision decides; Config::enable_mixed_precision
// switches all of it off.
class Autocast {
 public:
  // f16 or bf16, else DTypeError; ConfigError where Config::allow_fp16 or allow_bf16 forbids it.
  explicit Autocast(std::optional<DType> low = DType::bf16);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // The type layers cast to now in this thread.
  static std::optional<DType> active();

 private:
  std::optional<std::optional<DType>> before_;
};

// For layers. Both pass undefined tensors and tensors of other dtypes through, and do nothing without an
// Autocast.
Tensor low_precision(const Tensor& x);   // an f32 tensor in the type of the Autocast
Tensor full_precision(const Tensor& x);  // a 16-bit floating tensor in f32

struct LossScalerOptions {
  double initial_scale = 65536.0;
  double growth = 2.0;   // after `growth_interval` good steps in a row
  double backoff = 0.5;  // after a step with an infinite or NaN gradient
  std::int64_t growth_interval = 2000;
};

// Keeps small f16 gradients from vanishing: the loss is multiplied by a scale, gradients are divided by it
// again, and a step whose gradients overflowed changes no parameter but lowers the scale. All of that happens
// in the graph, so the host never waits and a compiled training step replays it.
//
//   scaler.scale(loss).backward();
//   scaler.unscale(optimizer);   // only where gradients are looked at before the step, e.g. to clip them
//   scaler.step(optimizer);
//   scaler.update();
class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;
  // Divides the gradients by the scale. Throws DTypeError for f16 gradients, which would vanish by it: keep
  // the parameters in f32 and use Autocast.
  void unscale(optim::Optimizer& optimizer);
  // Unscales if that has not happened since the last update, then steps the optimiser if all gradients are
  // finite.
  void step(optim::Optimizer& optimizer);
  // Adapts the scale; once after the step (or the steps, with several optimisers).
  void update();

  // The present scale (0-d, f32).
  const Tensor& current_scale() const { return scale_; }
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  LossScalerOptions options_;
  Tensor scale_;       // 0-d f32
  Tensor good_steps_;  // 0-d i64, since the scale changed last
  Tensor finite_;      // 0-d bool; undefined until a gradient has been unscaled after update()
  std::vector<const optim::Optimizer*> unscaled_;
};

}  // namespace hearth
