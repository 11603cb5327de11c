// One step of training as one compiled plan: halted sequences make room for new ones, all others go on from
// their states, one segment forwards and backwards, the optimisers.
//
// Nothing is read back: which sequences halt, what replaces them and what is counted stays on the device, so
// the host only hands over examples and asks for the sums now and then.
#pragma once

#include "hearth/eval.h"
#include "hearth/hrm_train.h"
#include "hearth/optim.h"

namespace hearth::hrm {

struct Examples {
  Tensor tokens;   // (batch, length) i32
  Tensor labels;   // (batch, length) i32; ignored_label where nothing is asked
  Tensor puzzles;  // (batch) i32, rows of the table of puzzle vectors
};

struct StepOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.95;
  double weight_decay = 1.0;
  double puzzle_learning_rate = 1e-4;
  double puzzle_weight_decay = 1.0;
  double ema_decay = 0;  // 0: no average is kept
};

// Sums since they were read last.
struct StepSums {
  double steps = 0;                 // training steps
  double loss = 0, token_loss = 0;  // means over the batch, summed over steps
  double halted = 0;                // sequences that ended; the rest is about those
  double accuracy = 0, exact = 0;   // right tokens (as shares), right sequences
  double q_right = 0;               // the Q head knew whether the answer was right
  double segments = 0;              // that they took
};

class TrainingStep {
 public:
  // On the default device, where the model must be.
  TrainingStep(std::shared_ptr<Hrm> model, std::int64_t batch, const StepOptions& options);

  // `rate`: what the learning rates are multiplied by in this step.
  void run(const Examples& fresh, double rate = 1);
  // Waits for all steps.
  StepSums read_sums();
  // Whether all parameters and the losses since the sums were read are finite. Waits too.
  bool is_finite() const;

  Hrm& model() { return *model_; }
  // Averaged weights, or null.
  optim::Ema* ema() { return ema_ ? &*ema_ : nullptr; }
  std::string explain() const { return step_.explain(); }

  // All that a run needs to go on, the model included.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  std::vector<Tensor> traced(const Examples& fresh);
  StateDict own_variables() const;

  std::shared_ptr<Hrm> model_;
  StepOptions options_;
  optim::AdamATan2 optimizer_;
  std::optional<optim::Ema> ema_;
  Tensor puzzle_rate_;                                                // 0-d
  Tensor z_h_, z_l_, tokens_, labels_, puzzles_, segments_, halted_;  // of the sequences being worked on
  Tensor sums_;                                                       // (8), in the order of StepSums
  Compiled step_;
};

}  // namespace hearth::hrm
