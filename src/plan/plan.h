// Plan: the steps that compute a graph, and the memory they use.
//
//   linearize(outputs)  ->  LinearGraph  (plan/linear_graph.h)
//   build_plan(graph)   ->  Plan: common subexpressions, fusion (plan/fusion.h), memory (plan/memory.h),
//   kernels Plan::run(bindings)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"
#include "hearth/eval.h"
#include "plan/linear_graph.h"
#include "plan/replay.h"

namespace hearth {

// Memory a step reads or writes: a leaf's, an output's or a place in the arena.
struct Place {
  enum class Kind : std::uint8_t { leaf, output, arena };
  Kind kind = Kind::arena;
  std::uint32_t index = 0;  // of the leaf or the output buffer
  std::int64_t bytes = 0;   // offset of the first element
};

struct Elements {
  DType dtype = DType::f32;
  std::int64_t count = 0;
};

struct PlannedStep {
  std::shared_ptr<const Kernel> kernel;
  std::uint32_t places_begin = 0;  // inputs, then outputs, in Plan::places
  std::uint32_t inputs = 0, outputs = 0;
  std::uint32_t numbers_begin = 0, numbers = 0;  // in Plan::numbers
  Op op = Op::value;
  std::uint32_t nodes = 1;  // of the graph, computed by this step
  std::size_t scratch = 0;  // where in the arena the kernel's scratch memory is
};

struct PlannedNumber {
  std::uint32_t node = 0;   // of the graph
  bool reciprocal = false;  // 1 / its value: a division has become a multiplication
  Number of(const Number& number) const {
    Number result = number;
    if (reciprocal) result.real = 1.0 / number.real;
    return result;
  }
};

struct PlannedResult {  // one of the nodes asked for
  Place place;
  std::int64_t offset = 0;  // elements from the start of the leaf's or output's buffer
  Strides strides;
  bool from_leaf = false;
};

struct Plan {
  Device device;
  std::vector<PlannedStep> steps;
  std::vector<Place> places;
  std::vector<Elements> elements;         // what is at each place
  std::vector<PlannedNumber> numbers;     // what each immediate takes
  std::vector<std::uint32_t> leaves;      // nodes of the graph that are leaves with storage, in binding order
  std::vector<std::size_t> output_bytes;  // buffers to allocate for results
  std::vector<PlannedResult> results;     // one per node asked for
  std::vector<std::int64_t> donors;       // per output: the leaf whose memory it may be written to, or -1
  std::size_t arena_bytes = 0;
  PlanStats stats;
  std::vector<std::string> passes;     // what each pass did, for explain()
  std::unique_ptr<PlanReplay> replay;  // null: the steps run one by one
  std::string describe() const;
  std::vector<std::string> step_descriptions;  // for explain(); filled only when asked for
};

struct PlanOptions {
  bool fuse = true;
  bool eliminate_common = true;
  bool multiply_by_reciprocals = false;  // changes results in the last place
  bool describe_steps = false;
  bool replay = true;
  // What a backend looks at when it makes a step ready.
  bool matrix_cores = true, vendor_blas = true, vendor_dnn = true, tuning = false;
};

// Options that follow from the process's Config.
PlanOptions plan_options();

// A leaf that nobody needs after the run, and the result (of LinearGraph::outputs) that takes its place.
struct Replacement {
  const Node* leaf;
  std::size_t result;
};

std::shared_ptr<const Plan> build_plan(const LinearGraph& graph, Backend& backend, const PlanOptions& options,
                                       const std::vector<Replacement>& replacements = {});

// What a run needs besides the plan.
struct PlanBindings {
  std::vector<void*> leaves;    // first element of each of Plan::leaves
  std::vector<Number> numbers;  // as Plan::numbers
  // Memory that results may be written to, as Plan::donors proposes; may be empty, entries may be null.
  std::vector<std::shared_ptr<Buffer>> donated = {};
};

// Runs the steps; returns the buffers of the results, one per Plan::output_bytes.
std::vector<std::shared_ptr<Buffer>> run_plan(const Plan& plan, Backend& backend,
                                              const PlanBindings& bindings);

}  // namespace hearth
