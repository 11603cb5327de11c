// Learning rates over time.
//
// A Schedule is a function of the step; a Scheduler drives an optimiser by it:
//
//   Scheduler scheduler(optimizer, schedule::warmup(2000, schedule::cosine(98000)));
//   ... optimizer.step(); scheduler.step(); ...
//
// Formulas are PyTorch's. Call step() outside a compiled function: it sets the tensor the compiled step
// reads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "hearth/state_dict.h"

namespace hearth {

namespace optim {
class Optimizer;
}

// The learning rate at step t = 0, 1, ..., given the one the optimiser was made with.
using Schedule = std::function<double(double base, std::int64_t t)>;

namespace schedule {

Schedule constant();
Schedule step(std::int64_t every, double gamma = 0.1);                          // * gamma every so many steps
Schedule multi_step(std::vector<std::int64_t> milestones, double gamma = 0.1);  // * gamma at each milestone
Schedule exponential(double gamma);                                             // base * gamma^t
Schedule linear(double start_factor, double end_factor, std::int64_t steps);    // then end_factor * base
Schedule polynomial(std::int64_t steps, double power = 1.0);  // base * (1 - t / steps)^power
Schedule cosine(std::int64_t steps, double minimum = 0.0);    // half a cosine from base down
// Cosines of length `first`, first * factor, first * factor^2, ..., each starting from base.
Schedule cosine_warm_restarts(std::int64_t first, std::int64_t factor = 1, double minimum = 0.0);
// Linearly from start_factor * base to base, then `then`, which counts from 0.
Schedule warmup(std::int64_t steps, Schedule then = constant(), double start_factor = 0.0);
Schedule lambda(std::function<double(std::int64_t t)> factor);  // base * factor(t)

struct OneCycleOptions {
  double warm_share = 0.3;      // of the steps that go up
  bool linear = false;          // straight lines instead of cosines
  double start_divisor = 25.0;  // starts from maximum / start_divisor
  double end_divisor = 1e4;     // ends at the start / end_divisor
  bool three_phase = false;     // down symmetrically to the start, then to the end
};
// Up to `maximum` and down over `steps`, then constant; the base does not matter. Only the learning rate is
// cycled.
Schedule one_cycle(double maximum, std::int64_t steps, const OneCycleOptions& options = {});

}  // namespace schedule

// Applies a schedule to every group of an optimiser, which must outlive it.
class Scheduler {
 public:
  // Takes the present learning rates as bases and sets those of step 0.
  Scheduler(optim::Optimizer& optimizer, Schedule schedule);
  void step();
  std::int64_t count() const { return count_; }
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  void set_rates();
  optim::Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> bases_;
  std::int64_t count_ = 0;
};

struct PlateauOptions {
  bool maximize = false;  // the metric should grow
  double factor = 0.1;
  std::int64_t patience = 10;  // steps without improvement that are borne
  double threshold = 1e-4;     // smallest change that counts as improvement
  bool relative = true;        // the threshold is a share of the best value
  std::int64_t cooldown = 0;   // steps after a reduction in which nothing is counted
  double minimum = 0.0;
  double epsilon = 1e-8;  // smaller reductions are not made
};
// Lowers the learning rate when a metric stops improving.
class ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(optim::Optimizer& optimizer, const PlateauOptions& options = {});
  void step(double metric);
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  bool improves(double metric) const;
  optim::Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t bad_steps_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace hearth
