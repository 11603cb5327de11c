// The layers of a reasoning module.
#pragma once

#include <memory>

#include "hearth/hrm.h"

namespace hearth::hrm {

// A normal distribution cut at two deviations whose own deviation is the given one.
Tensor cut_normal(const Shape& shape, double deviation);

// A matrix (out, in) whose f32 values are rounded to the type of what they multiply at every use, so that
// gradients of several uses add up in f32.
class CastedLinear : public nn::Module {
 public:
  CastedLinear(std::int64_t in, std::int64_t out);
  Tensor forward(const Tensor& x) override;
  Tensor weight;
};

// What lets positions see each other: (batch, positions, features) to the same.
class SelfAttention : public nn::Module {
 public:
  explicit SelfAttention(const HrmConfig& config);
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t heads_;
  bool rotates_;
  double rope_base_;
  std::shared_ptr<CastedLinear> qkv_proj_, o_proj_;
};

// Sudoku: gated features of the cells, added up over each row, each column and each box.
class UnitMixing : public nn::Module {
 public:
  explicit UnitMixing(const HrmConfig& config);
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t features_;
  Tensor membership_;  // a constant
  std::shared_ptr<CastedLinear> gate_up_proj_, down_proj_;
};

class SwiGlu : public nn::Module {
 public:
  explicit SwiGlu(const HrmConfig& config);
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<CastedLinear> gate_up_proj_, down_proj_;
};

// x = rms(x + mixing(x)), x = rms(x + mlp(x)); the norms have no weights.
class HrmBlock : public nn::Module {
 public:
  explicit HrmBlock(const HrmConfig& config);
  Tensor forward(const Tensor& x) override;

 private:
  double epsilon_;
  std::shared_ptr<nn::Module> mixing_;
  std::shared_ptr<SwiGlu> mlp_;
};

// One of the two modules: a sum of inputs through its blocks.
class HrmLevel : public nn::Module {
 public:
  HrmLevel(const HrmConfig& config, std::int64_t layers);
  Tensor forward(const Tensor& x) override;
  const nn::ModuleList<HrmBlock>& layers() const { return *layers_; }

 private:
  std::shared_ptr<nn::ModuleList<HrmBlock>> layers_;
};

}  // namespace hearth::hrm
