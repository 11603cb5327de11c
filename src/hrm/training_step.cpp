// The training step.
#include "hrm/training_step.h"

#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/random.h"
#include "hrm/losses.h"
#include "tensor/key_value_cache.h"

namespace hearth::hrm {
namespace {

Tensor new_where(const Tensor& halted, const Tensor& fresh, const Tensor& present) {
  Shape rows{halted.size(0)};
  for (std::size_t i = 1; i < present.ndim(); ++i) rows.push_back(1);
  return where(halted.reshape(rows), fresh, present);
}

}  // namespace

TrainingStep::TrainingStep(std::shared_ptr<Hrm> model, std::int64_t batch, const StepOptions& options)
    : model_(std::move(model)),
      options_(options),
      optimizer_(model_->parameters(), {.learning_rate = options.learning_rate,
                                        .beta1 = options.beta1,
                                        .beta2 = options.beta2,
                                        .weight_decay = options.weight_decay}),
      puzzle_rate_(full({}, options.puzzle_learning_rate)),
      step_(compile([this](const std::vector<Tensor>& a) {
        return traced({a[0], a[1], a[2]});
      })) {
  if (batch < 1) throw ValueError(fmt::format("[TrainingStep] the batch must be positive, got {}", batch));
  const HrmConfig& config = model_->config();
  if (options.ema_decay > 0) ema_.emplace(model_->parameters(), options.ema_decay);
  // All sequences count as halted, so the first step replaces them.
  const Shape states{batch, config.position_count(), config.features};
  z_h_ = zeros(states, config.precision);
  z_l_ = zeros(states, config.precision);
  tokens_ = zeros({batch, config.length}, DType::i32);
  labels_ = zeros({batch, config.length}, DType::i32);
  puzzles_ = zeros({batch}, DType::i32);
  segments_ = zeros({batch}, DType::i32);
  halted_ = ones({batch}, DType::bool_);
  sums_ = zeros({8});
}

std::vector<Tensor> TrainingStep::traced(const Examples& fresh) {
  const HrmConfig& config = model_->config();
  const Tensor ended = halted_.detach();

  // 1. New sequences in the place of those that ended.
  const Tensor tokens = new_where(ended, fresh.tokens, tokens_);
  const Tensor labels = new_where(ended, fresh.labels, labels_);
  const Tensor puzzles = new_where(ended, fresh.puzzles, puzzles_);
  const Carry carry = model_->reset({z_h_, z_l_}, ended);
  const Tensor segments = where(ended, 0, segments_) + 1;

  // 2. One segment.
  Tensor vectors;
  if (config.prefix > 0) {
    vectors = model_->puzzle_vectors(puzzles).detach();
    vectors.requires_grad_();
  }
  const SegmentResult result = model_->segment(carry, model_->embed(tokens, vectors));

  // 3. Which sequences end: those that the model is sure of, or that have taken long enough; some must go on
  // for a while in any case, so that the model sees what that gives.
  const bool learns_to_continue = config.q_continue && config.most_segments > 1;
  const Verdict verdict = judge(result.scores.detach(), labels);
  Tensor halted, continue_target;
  {
    const NoGrad no_grad;
    const Tensor last = segments >= config.most_segments;
    const Tensor threshold =
        learns_to_continue ? result.q_continue : full_like(result.q_halt, config.halt_above);
    halted = logical_or(last, result.q_halt > threshold);
    if (config.exploration > 0 && config.most_segments > 1) {
      const Shape batch{segments.size(0)};
      const Tensor least =
          where(rand(batch) < config.exploration, randint(2, config.most_segments + 1, batch, DType::i32), 0);
      halted = logical_and(halted, segments >= least);
    }
    if (learns_to_continue) {
      const SegmentResult next = model_->segment(result.carry, model_->embed(tokens, vectors));
      continue_target = sigmoid(where(last, next.q_halt, maximum(next.q_halt, next.q_continue))).detach();
    }
  }

  // 4. Losses and gradients.
  const Tensor token_loss = mean(token_losses(result.scores, labels, config.loss));
  Tensor q_loss = bce_with_logits_loss(result.q_halt, verdict.exact.to(DType::f32));
  if (learns_to_continue) q_loss = q_loss + bce_with_logits_loss(result.q_continue, continue_target);
  const Tensor loss = token_loss + q_loss * 0.5;
  std::vector<Tensor> wanted = model_->parameters();
  if (vectors.defined()) wanted.push_back(vectors);
  const std::vector<Tensor> slopes = gradients(loss, wanted);

  // 5. The optimisers.
  const NoGrad no_grad;
  for (std::size_t i = 0; i < model_->parameters().size(); ++i) wanted[i].set_grad(slopes[i]);
  optimizer_.step();
  optimizer_.zero_grad();
  if (ema_) ema_->update();
  if (vectors.defined()) {
    // Rows of the same puzzle add up their gradients, and so all compute the same new vector.
    const Tensor same = (puzzles.unsqueeze(0) == puzzles.unsqueeze(1)).to(DType::f32);
    const Tensor direction = sign(matmul(same, slopes.back()));
    const Tensor moved =
        vectors * (1.0 - puzzle_rate_ * options_.puzzle_weight_decay) - direction * puzzle_rate_;
    model_->puzzle_table.assign(store_rows(model_->puzzle_table, puzzles.to(DType::i64), moved));
  }

  // 6. What the next step goes on from, and the sums.
  z_h_.assign(result.carry.z_h);
  z_l_.assign(result.carry.z_l);
  tokens_.assign(tokens);
  labels_.assign(labels);
  puzzles_.assign(puzzles);
  segments_.assign(segments);
  halted_.assign(halted);
  const auto over_halted = [&](const Tensor& x) { return sum(where(halted, x.to(DType::f32), 0.0)); };
  const Tensor q_right = (result.q_halt >= 0) == verdict.exact;
  const Tensor added =
      stack({ones({}), loss, token_loss, sum(halted.to(DType::f32)), over_halted(verdict.share),
             over_halted(verdict.exact), over_halted(q_right), over_halted(segments)});
  sums_.assign(sums_ + added.detach());
  return {};
}

void TrainingStep::run(const Examples& fresh, double rate) {
  optimizer_.set_learning_rate(options_.learning_rate * rate);
  puzzle_rate_.assign(full({}, options_.puzzle_learning_rate * rate));
  step_({fresh.tokens, fresh.labels, fresh.puzzles});
}

StepSums TrainingStep::read_sums() {
  const std::vector<double> v = sums_.to_vector<double>();
  sums_.assign(zeros({8}));
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
}

bool TrainingStep::is_finite() const {
  const NoGrad no_grad;
  std::vector<Tensor> verdicts{all(isfinite(sums_))};
  for (const Tensor& parameter : model_->parameters()) verdicts.push_back(all(isfinite(parameter)));
  return all(stack(verdicts)).item<bool>();
}

StateDict TrainingStep::own_variables() const {
  return {{"z_h", z_h_},         {"z_l", z_l_},           {"tokens", tokens_}, {"labels", labels_},
          {"puzzles", puzzles_}, {"segments", segments_}, {"halted", halted_}, {"sums", sums_}};
}

namespace {
StateDict with_prefix(const std::string& prefix, const StateDict& part) {
  StateDict result;
  for (const auto& [name, value] : part) result.emplace(prefix + name, value);
  return result;
}
StateDict without_prefix(const std::string& prefix, const StateDict& state) {
  StateDict result;
  for (const auto& [name, value] : state)
    if (name.starts_with(prefix)) result.emplace(name.substr(prefix.size()), value);
  return result;
}
}  // namespace

StateDict TrainingStep::state_dict() const {
  StateDict state = with_prefix("model.", model_->state_dict());
  state.merge(with_prefix("optimizer.", optimizer_.state_dict()));
  state.merge(with_prefix("sequences.", own_variables()));
  if (ema_) state.merge(with_prefix("ema.", ema_->state_dict()));
  return state;
}

void TrainingStep::load_state_dict(const StateDict& state) {
  model_->load_state_dict(without_prefix("model.", state));
  optimizer_.load_state_dict(without_prefix("optimizer.", state));
  load_state(own_variables(), without_prefix("sequences.", state), true, "TrainingStep::load_state_dict");
  if (ema_) ema_->load_state_dict(without_prefix("ema.", state));
}

}  // namespace hearth::hrm
