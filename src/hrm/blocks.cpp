// The layers, in the order the data flows.
#include "hrm/blocks.h"

#include <cmath>

#include "hearth/init.h"
#include "hearth/ops.h"

namespace hearth::hrm {

Tensor cut_normal(const Shape& shape, double deviation) {
  if (deviation == 0) return init::zeros(shape);
  // The deviation of a standard normal number given that it lies within +-2.
  constexpr double cut_deviation = 0.87962566103423978;
  const double wide = deviation / cut_deviation;
  return init::truncated_normal(shape, 0, wide, -2 * wide, 2 * wide);
}

CastedLinear::CastedLinear(std::int64_t in, std::int64_t out)
    : weight(register_parameter("weight", cut_normal({out, in}, 1 / std::sqrt(static_cast<double>(in))))) {}

Tensor CastedLinear::forward(const Tensor& x) { return linear(x, weight.to(x.dtype())); }

SelfAttention::SelfAttention(const HrmConfig& config)
    : heads_(config.heads),
      rotates_(config.positions == Positions::rope),
      rope_base_(config.rope_base),
      qkv_proj_(
          register_module("qkv_proj", std::make_shared<CastedLinear>(config.features, 3 * config.features))),
      o_proj_(register_module("o_proj", std::make_shared<CastedLinear>(config.features, config.features))) {}

Tensor SelfAttention::forward(const Tensor& x) {
  const std::int64_t batch = x.size(0), positions = x.size(1), features = x.size(2);
  const Tensor joined = qkv_proj_->forward(x).reshape({batch, positions, 3 * heads_, features / heads_});
  const auto part = [&](std::int64_t i) { return narrow(joined, 2, i * heads_, heads_).transpose(1, 2); };
  Tensor q = part(0), k = part(1);
  if (rotates_) {
    const Tensor numbers = arange(positions);
    q = rope(q, numbers, rope_base_);
    k = rope(k, numbers, rope_base_);
  }
  const Tensor mixed = attention(q, k, part(2));
  return o_proj_->forward(mixed.transpose(1, 2).reshape({batch, positions, features}));
}

namespace {
// silu(first half) * second half
Tensor gated(const Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  return silu(narrow(x, -1, 0, half)) * narrow(x, -1, half, half);
}
}  // namespace

namespace {
// (3, 81, 81): which cells share a row, a column, a box. An eighth is a mean's ninth that bf16 has exactly.
Tensor unit_membership() {
  std::vector<float> values;
  for (int kind = 0; kind < 3; ++kind)
    for (int a = 0; a < 81; ++a)
      for (int b = 0; b < 81; ++b) {
        const bool row = a / 9 == b / 9, column = a % 9 == b % 9;
        const bool box = a / 27 == b / 27 && a % 9 / 3 == b % 9 / 3;
        values.push_back((kind == 0 ? row : kind == 1 ? column : box) ? 0.125f : 0.0f);
      }
  return tensor(values, {3, 81, 81});
}
}  // namespace

UnitMixing::UnitMixing(const HrmConfig& config)
    : features_(config.unit_features),
      membership_(unit_membership().to(config.precision).eval()),
      gate_up_proj_(
          register_module("gate_up_proj", std::make_shared<CastedLinear>(config.features, 6 * features_))),
      down_proj_(
          register_module("down_proj", std::make_shared<CastedLinear>(3 * features_, config.features))) {}

Tensor UnitMixing::forward(const Tensor& x) {
  const std::int64_t batch = x.size(0);
  const Tensor gate_up = gate_up_proj_->forward(x).reshape({batch, 81, 2, 3, features_});
  const auto half = [&](std::int64_t i) { return select(gate_up, 2, i).transpose(1, 2); };
  const Tensor messages = silu(half(0)) * half(1);  // (batch, kind of unit, cell, features)
  const Tensor received = matmul(membership_.to(x.device()), messages);
  return down_proj_->forward(received.transpose(1, 2).reshape({batch, 81, 3 * features_}));
}

SwiGlu::SwiGlu(const HrmConfig& config)
    : gate_up_proj_(register_module(
          "gate_up_proj", std::make_shared<CastedLinear>(config.features, 2 * config.inner_features()))),
      down_proj_(register_module("down_proj",
                                 std::make_shared<CastedLinear>(config.inner_features(), config.features))) {}

Tensor SwiGlu::forward(const Tensor& x) { return down_proj_->forward(gated(gate_up_proj_->forward(x))); }

HrmBlock::HrmBlock(const HrmConfig& config) : epsilon_(config.epsilon) {
  if (config.mixing == Mixing::attention)
    mixing_ = register_module("self_attn", std::make_shared<SelfAttention>(config));
  else
    mixing_ = register_module("units", std::make_shared<UnitMixing>(config));
  mlp_ = register_module("mlp", std::make_shared<SwiGlu>(config));
}

Tensor HrmBlock::forward(const Tensor& x) {
  const Tensor mixed = rms_norm(x + mixing_->forward(x), {}, epsilon_);
  return rms_norm(mixed + mlp_->forward(mixed), {}, epsilon_);
}

HrmLevel::HrmLevel(const HrmConfig& config, std::int64_t layers)
    : layers_(register_module("layers", std::make_shared<nn::ModuleList<HrmBlock>>())) {
  for (std::int64_t i = 0; i < layers; ++i) layers_->push_back(std::make_shared<HrmBlock>(config));
}

Tensor HrmLevel::forward(const Tensor& x) {
  Tensor h = x;
  for (const auto& layer : *layers_) h = layer->forward(h);
  return h;
}

}  // namespace hearth::hrm
