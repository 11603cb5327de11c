// Programs of tensor operations drawn at random, to be computed in different ways that must agree.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "hearth/tensor.h"

namespace hearth::testing {

// A program without loops: every value is an input or is computed from earlier ones.
class RandomProgram {
 public:
  // The same seed gives the same program everywhere.
  explicit RandomProgram(std::uint64_t seed);
  RandomProgram(const RandomProgram&) = delete;
  RandomProgram& operator=(const RandomProgram&) = delete;

  // Of its least exact floating values.
  DType precision() const { return mixed_ ? product_type_ : precision_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  // The results that were chosen as outputs. Draws random numbers.
  std::vector<Tensor> outputs(const std::vector<Tensor>& inputs) const;
  // A number that depends on all floating outputs.
  static Tensor loss(const std::vector<Tensor>& outputs);
  std::string text() const;

 private:
  using Values = std::vector<Tensor>;
  struct Step {
    std::string text;
    std::function<Tensor(const Values&)> compute;  // null: the next input
  };

  // ---- choices
  std::int64_t below(std::int64_t limit);  // [0, limit)
  bool one_in(std::int64_t n) { return below(n) == 0; }
  double number(double low, double high);
  std::int64_t dimension();
  Shape shape();
  std::size_t any_value();
  // A floating value with at least `rank` axes and no axis of size 0; the count of values if there is none.
  std::size_t floating_value(std::size_t rank = 0);
  std::size_t partner(std::size_t a);  // floating, broadcasts with a
  std::int64_t axis_of(std::size_t a);
  Axes axes_of(std::size_t a);

  // ---- additions
  std::size_t add_input(const Shape& shape, DType dtype, double low, double high);
  std::size_t add_parameter(const Shape& shape) { return add_input(shape, precision_, -1, 1); }
  // What a product takes and gives in a program of mixed precision.
  Tensor as_operand(const Tensor& x) const { return mixed_ ? x.to(product_type_) : x; }
  Tensor as_value(const Tensor& x) const { return mixed_ ? x.to(precision_) : x; }
  bool add(std::string text, std::function<Tensor(const Values&)> compute);
  std::string name(std::size_t value) const { return "v" + std::to_string(value); }

  // Each adds one operation, or finds that it does not fit.
  bool add_unary();
  bool add_with_number();
  bool add_binary();
  bool add_random();
  bool add_choice();
  bool add_integers();
  bool add_reduction();
  bool add_along_axis();
  bool add_shape_change();
  bool add_view();
  bool add_joined();
  bool add_indexing();
  bool add_product();
  bool add_convolution();
  bool add_pooling();
  bool add_normalisation();
  bool add_attention();
  bool add_block();
  bool add_loss();
  bool add_cast();

  std::mt19937_64 random_;
  DType precision_;     // of most of its floating values
  bool mixed_ = false;  // products are of product_type_, as under Autocast
  DType product_type_ = DType::bf16;
  std::int64_t most_elements_;
  std::vector<std::int64_t> dimensions_;
  std::vector<Tensor> inputs_;
  Values values_;  // as computed while the program was drawn, to keep numbers in bounds
  std::vector<Step> steps_;
  std::vector<std::size_t> outputs_;
};

}  // namespace hearth::testing
