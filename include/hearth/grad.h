// Automatic differentiation.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "hearth/tensor.h"

namespace hearth {

// While one lives, operations in this thread are not recorded for gradients.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

bool grad_enabled();

// Gradients of a scalar (or of sum(output * seed)) with respect to `inputs`; zeros where there is no
// dependence. Does not touch any .grad(). With create_graph the gradients can be differentiated again.
std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs,
                              const Tensor& seed = {}, bool create_graph = false);

// The functional form: (value, gradients with respect to all arguments) of a function with a scalar result.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;
std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)> value_and_grad(
    TensorFunction f);

}  // namespace hearth
