// Evaluation: graphs become plans, plans run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hearth/tensor.h"

namespace hearth {

// Computes all of them in one plan.
void eval(const std::vector<Tensor>& tensors);

// What eval(tensors) would do: the passes and what each changed, the steps, the memory. Computes nothing.
std::string explain(const std::vector<Tensor>& tensors);

// A function traced once per signature (shapes and dtypes of its arguments) and replayed from its plan.
//
// The function runs only while tracing, so side effects other than on tensors happen only then. Tensors it
// captures are read anew at every call, and variables it assigns (parameters, optimiser state, gradients,
// running statistics) are assigned at every call; random numbers go on from the generator. Numbers it
// captures are fixed at tracing. A function that throws while it is traced has changed nothing; a call that
// fails later, at an index out of range, may have written over the variables it assigns. A Compiled may be
// called from one thread at a time.
class Compiled {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  explicit Compiled(Function function);
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments);
  std::size_t traces() const;      // how often the function has been traced
  std::size_t last_trace() const;  // which of these traces, counted from 0, the last call replayed
  std::string explain() const;     // of the plan used last

 private:
  struct State;
  std::shared_ptr<State> state_;
};
inline Compiled compile(Compiled::Function function) { return Compiled(std::move(function)); }
// Whether a function is being traced in this thread: then nothing can be computed.
bool tracing();

struct PlanCacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::size_t entries = 0;
};
PlanCacheStats plan_cache_stats();
void clear_plan_cache();

// Figures of the plan that ran last in this thread.
struct PlanStats {
  std::size_t nodes = 0;           // of the graph
  std::size_t steps = 0;           // kernels run
  std::size_t fused_nodes = 0;     // nodes that share a kernel with another
  std::size_t arena_bytes = 0;     // memory for intermediate values
  std::size_t required_bytes = 0;  // largest sum of intermediate values alive at one step
  std::size_t output_bytes = 0;    // memory of the results
  std::size_t replaced_bytes = 0;  // ... of which written over the values they replace
  bool from_cache = false;
};
PlanStats last_plan_stats();

}  // namespace hearth
