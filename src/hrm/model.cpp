// The model: embedding, the cycles of a segment, the two heads.
#include <fmt/format.h>

#include <cmath>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/init.h"
#include "hearth/ops.h"
#include "hrm/blocks.h"

namespace hearth::hrm {
namespace {

// A table of vectors, registered as the reference names it.
class Embedding : public nn::Module {
 public:
  Embedding(std::int64_t rows, std::int64_t features)
      : weight(register_parameter(
            "embedding_weight", cut_normal({rows, features}, 1 / std::sqrt(static_cast<double>(features))))) {
  }
  Tensor weight;
};

class Head : public nn::Module {
 public:
  Head(const Tensor& initial_weight, const Tensor& initial_bias)
      : weight(register_parameter("weight", initial_weight)),
        bias(register_parameter("bias", initial_bias)) {}
  Tensor weight, bias;
};

class PuzzleTable : public nn::Module {
 public:
  explicit PuzzleTable(const Shape& shape) : weights(register_buffer("weights", init::zeros(shape))) {}
  Tensor weights;
};

}  // namespace

Hrm::Hrm(const HrmConfig& config) : config_(config) {
  check(config_);
  const std::int64_t features = config_.features;
  embed_tokens_ =
      register_module("embed_tokens", std::make_shared<Embedding>(config_.vocabulary, features))->weight;
  lm_head_ = register_module("lm_head", std::make_shared<CastedLinear>(features, config_.vocabulary))->weight;
  // Almost surely "not yet", so that nothing halts before it has learned to.
  const auto q =
      register_module("q_head", std::make_shared<Head>(init::zeros({2, features}), init::constant({2}, -5)));
  q_weight_ = q->weight;
  q_bias_ = q->bias;
  if (config_.prefix > 0)
    puzzle_table =
        register_module("puzzle_emb",
                        std::make_shared<PuzzleTable>(Shape{config_.puzzles, config_.prefix * features}))
            ->weights;
  if (config_.positions == Positions::learned)
    embed_positions_ =
        register_module("embed_pos", std::make_shared<Embedding>(config_.position_count(), features))->weight;
  if (!config_.shared)
    h_level_ = register_module("H_level", std::make_shared<HrmLevel>(config_, config_.h_layers));
  l_level_ = register_module("L_level", std::make_shared<HrmLevel>(config_, config_.l_layers));
  if (config_.shared) h_level_ = l_level_;
  h_init_ = register_buffer("H_init", cut_normal({features}, 1).to(config_.precision));
  l_init_ = register_buffer("L_init", cut_normal({features}, 1).to(config_.precision));
}

Carry Hrm::initial_carry(std::int64_t batch) const {
  const Shape shape{batch, config_.position_count(), config_.features};
  const auto everywhere = [&](const Tensor& state) {
    return state.to(config_.precision).detach().broadcast_to(shape);
  };
  return {everywhere(h_init_), everywhere(l_init_)};
}

Carry Hrm::reset(const Carry& carry, const Tensor& reset) const {
  const Carry initial = initial_carry(carry.z_h.size(0));
  const Tensor rows = reset.reshape({-1, 1, 1});
  return {where(rows, initial.z_h, carry.z_h), where(rows, initial.z_l, carry.z_l)};
}

Tensor Hrm::puzzle_vectors(const Tensor& puzzle_ids) const {
  return config_.prefix > 0 ? take(puzzle_table, puzzle_ids, 0) : Tensor();
}

Tensor Hrm::embed(const Tensor& tokens, const Tensor& puzzle_vectors) const {
  if (tokens.ndim() != 2 || tokens.size(1) != config_.length)
    throw ShapeError(
        fmt::format("[Hrm] tokens {} are not (batch, {})", to_string(tokens.shape()), config_.length));
  const DType low = config_.precision;
  // As a product: there are few different tokens, so the gradient of a look-up would add up tens of thousands
  // of rows in each of a handful.
  Tensor x = matmul(one_hot(tokens, config_.vocabulary, low), embed_tokens_.to(low));
  if (config_.prefix > 0) {
    const Tensor prefix = puzzle_vectors.to(low).reshape({-1, config_.prefix, config_.features});
    x = concat({prefix, x}, 1);
  }
  if (embed_positions_.defined()) x = (x + embed_positions_.to(low)) * 0.707106781;
  return x * std::sqrt(static_cast<double>(config_.features));
}

SegmentResult Hrm::segment(const Carry& carry, const Tensor& input) const {
  Tensor z_h = carry.z_h, z_l = carry.z_l;
  const auto update_l = [&] { z_l = l_level_->forward(z_l + (z_h + input)); };
  const auto update_h = [&] { z_h = h_level_->forward(z_h + z_l); };
  const bool whole_cycle = config_.gradient == GradientPath::last_cycle;
  {
    const NoGrad no_grad;
    for (std::int64_t h = 0; h < config_.h_cycles; ++h) {
      const bool last = h + 1 == config_.h_cycles;
      for (std::int64_t l = 0; l < config_.l_cycles; ++l) {
        if (last && (whole_cycle || l + 1 == config_.l_cycles)) break;
        update_l();
      }
      if (!last) update_h();
    }
  }
  for (std::int64_t l = whole_cycle ? 0 : config_.l_cycles - 1; l < config_.l_cycles; ++l) update_l();
  update_h();

  const Tensor scores = narrow(linear(z_h, lm_head_.to(z_h.dtype())), 1, config_.prefix, config_.length);
  const Tensor summary = config_.prefix > 0 ? select(z_h, 1, 0) : mean(z_h, {1});
  const Tensor q = linear(summary, q_weight_.to(z_h.dtype()), q_bias_.to(z_h.dtype())).to(DType::f32);
  return {{z_h.detach(), z_l.detach()}, scores, select(q, 1, 0), select(q, 1, 1)};
}

}  // namespace hearth::hrm
