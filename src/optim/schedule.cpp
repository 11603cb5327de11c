// Learning rates over time.
#include "hearth/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "hearth/error.h"
#include "hearth/optim.h"

namespace hearth {

namespace schedule {

namespace {
void check_steps(const char* schedule, std::int64_t steps) {
  if (steps > 0) return;
  throw ValueError(std::string("[schedule::") + schedule + "] the number of steps must be positive, got " +
                   std::to_string(steps));
}

// From `start` to `end` along half a cosine as x goes from 0 to 1.
double cosine_between(double start, double end, double x) {
  return end + (start - end) * (1.0 + std::cos(std::numbers::pi * x)) / 2.0;
}
}  // namespace

Schedule constant() {
  return [](double base, std::int64_t) { return base; };
}

Schedule step(std::int64_t every, double gamma) {
  check_steps("step", every);
  return [=](double base, std::int64_t t) { return base * std::pow(gamma, static_cast<double>(t / every)); };
}

Schedule multi_step(std::vector<std::int64_t> milestones, double gamma) {
  std::sort(milestones.begin(), milestones.end());
  return [=](double base, std::int64_t t) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), t) - milestones.begin();
    return base * std::pow(gamma, static_cast<double>(passed));
  };
}

Schedule exponential(double gamma) {
  return [=](double base, std::int64_t t) { return base * std::pow(gamma, static_cast<double>(t)); };
}

Schedule linear(double start_factor, double end_factor, std::int64_t steps) {
  check_steps("linear", steps);
  return [=](double base, std::int64_t t) {
    const double share = static_cast<double>(std::min(t, steps)) / static_cast<double>(steps);
    return base * (start_factor + (end_factor - start_factor) * share);
  };
}

Schedule polynomial(std::int64_t steps, double power) {
  check_steps("polynomial", steps);
  return [=](double base, std::int64_t t) {
    return base * std::pow(1.0 - static_cast<double>(std::min(t, steps)) / static_cast<double>(steps), power);
  };
}

Schedule cosine(std::int64_t steps, double minimum) {
  check_steps("cosine", steps);
  return [=](double base, std::int64_t t) {
    return cosine_between(base, minimum, static_cast<double>(t) / static_cast<double>(steps));
  };
}

Schedule cosine_warm_restarts(std::int64_t first, std::int64_t factor, double minimum) {
  check_steps("cosine_warm_restarts", first);
  check_steps("cosine_warm_restarts", factor);
  return [=](double base, std::int64_t t) {
    std::int64_t length = first;
    if (factor == 1) t %= first;
    while (t >= length) {
      t -= length;
      length *= factor;
    }
    return cosine_between(base, minimum, static_cast<double>(t) / static_cast<double>(length));
  };
}

Schedule warmup(std::int64_t steps, Schedule then, double start_factor) {
  if (steps == 0) return then;
  const Schedule rise = linear(start_factor, 1.0, steps);
  return [=](double base, std::int64_t t) { return t < steps ? rise(base, t) : then(base, t - steps); };
}

Schedule lambda(std::function<double(std::int64_t)> factor) {
  return [=](double base, std::int64_t t) { return base * factor(t); };
}

Schedule one_cycle(double maximum, std::int64_t steps, const OneCycleOptions& options) {
  check_steps("one_cycle", steps);
  const double start = maximum / options.start_divisor, end = start / options.end_divisor;
  const double last = static_cast<double>(steps - 1);
  const double peak = options.warm_share * static_cast<double>(steps) - 1.0;
  struct Phase {
    double stop, from, to;  // stop: the step it ends at
  };
  std::vector<Phase> phases{{peak, start, maximum}};
  if (options.three_phase)
    phases.push_back({2.0 * options.warm_share * static_cast<double>(steps) - 2.0, maximum, start});
  phases.push_back({last, phases.back().to, end});
  return [=](double, std::int64_t t) {
    const double position = std::min(static_cast<double>(t), last);
    double begin = 0.0;
    for (const Phase& phase : phases) {
      if (position <= phase.stop || &phase == &phases.back()) {
        const double share = phase.stop > begin ? (position - begin) / (phase.stop - begin) : 1.0;
        return options.linear ? phase.from + (phase.to - phase.from) * share
                              : cosine_between(phase.from, phase.to, share);
      }
      begin = phase.stop;
    }
    return end;
  };
}

}  // namespace schedule

Scheduler::Scheduler(optim::Optimizer& optimizer, Schedule schedule)
    : optimizer_(optimizer), schedule_(std::move(schedule)) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) bases_.push_back(optimizer.learning_rate(g));
  set_rates();
}

void Scheduler::set_rates() {
  for (std::size_t g = 0; g < bases_.size(); ++g)
    optimizer_.set_learning_rate(g, schedule_(bases_[g], count_));
}

void Scheduler::step() {
  ++count_;
  set_rates();
}

StateDict Scheduler::state_dict() const {
  return {{"count", tensor<std::int64_t>({count_}, {})}, {"bases", tensor(bases_)}};
}

void Scheduler::load_state_dict(const StateDict& state) {
  const StateDict own = state_dict();
  load_state(own, state, true, "Scheduler::load_state_dict");
  count_ = own.at("count").item<std::int64_t>();
  bases_ = own.at("bases").to_vector<double>();
  set_rates();
}

ReduceOnPlateau::ReduceOnPlateau(optim::Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.maximize ? -std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::infinity()) {
  if (!(options.factor < 1.0)) {
    throw ValueError("[ReduceOnPlateau] factor must be below 1, got " + std::to_string(options.factor));
  }
}

bool ReduceOnPlateau::improves(double metric) const {
  const double direction = options_.maximize ? 1.0 : -1.0;
  const double margin = options_.relative ? best_ * options_.threshold : options_.threshold;
  if (!std::isfinite(best_)) return options_.maximize ? metric > best_ : metric < best_;
  const double bound = best_ + direction * margin;
  return options_.maximize ? metric > bound : metric < bound;
}

void ReduceOnPlateau::step(double metric) {
  if (improves(metric)) {
    best_ = metric;
    bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_steps_ = 0;
  }
  if (bad_steps_ <= options_.patience) return;
  for (std::size_t g = 0; g < optimizer_.group_count(); ++g) {
    const double rate = optimizer_.learning_rate(g);
    const double lower = std::max(rate * options_.factor, options_.minimum);
    if (rate - lower > options_.epsilon) optimizer_.set_learning_rate(g, lower);
  }
  cooldown_left_ = options_.cooldown;
  bad_steps_ = 0;
}

StateDict ReduceOnPlateau::state_dict() const {
  return {{"best", tensor<double>({best_}, {})},
          {"bad_steps", tensor<std::int64_t>({bad_steps_}, {})},
          {"cooldown_left", tensor<std::int64_t>({cooldown_left_}, {})}};
}

void ReduceOnPlateau::load_state_dict(const StateDict& state) {
  const StateDict own = state_dict();
  load_state(own, state, true, "ReduceOnPlateau::load_state_dict");
  best_ = own.at("best").item<double>();
  bad_steps_ = own.at("bad_steps").item<std::int64_t>();
  cooldown_left_ = own.at("cooldown_left").item<std::int64_t>();
}

}  // namespace hearth
