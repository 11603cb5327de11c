// Which steps a graph becomes on a GPU, and that they compute what the CPU computes.
#pragma once

#include <string>
#include <vector>

#include "gpu_compare.h"

namespace hearth {

class GpuPlans : public GpuComparison {
 protected:
  // Numbers with few digits, so that products of 16-bit ones are about the same however they are summed.
  static Tensor numbers(const Shape& shape, DType dtype) {
    const Tensor x = (randint(-8, 9, shape).to(DType::f32) / 16.0).to(dtype);
    x.eval();
    return x;
  }
  static double tolerance(DType dtype) { return dtype == DType::f32 ? 1e-5 : 1e-2; }

  // How often a plan on a GPU has a product that goes on with this.
  static std::size_t found(const std::string& steps, const std::vector<Tensor>& results) {
    const std::string plan = explain(results);
    std::size_t count = 0;
    for (std::size_t at = plan.find(steps); at != std::string::npos; at = plan.find(steps, at + 1)) ++count;
    return count;
  }
  using Graph = std::function<Tensor(const std::vector<Tensor>&)>;
  static void check(const std::string& what, const std::string& steps, std::size_t times,
                    const std::vector<Tensor>& inputs, const Graph& graph) {
    compare(what, inputs, tolerance(inputs[0].dtype()), graph);
    for (const Device device : gpus()) {
      std::vector<Tensor> moved;
      for (const Tensor& x : inputs) moved.push_back(x.to(device));
      eval(moved);
      EXPECT_EQ(found(steps, {graph(moved)}), times) << what << "\n" << explain({graph(moved)});
    }
  }
};

}  // namespace hearth
