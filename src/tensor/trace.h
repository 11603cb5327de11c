// What compile() notes while its function runs.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hearth/random.h"
#include "tensor/variable.h"

namespace hearth {

struct Trace {
  std::uint32_t id = 0;
  // Variables whose value from before the trace was read, by the node they named then.
  std::unordered_map<const Node*, std::shared_ptr<detail::Variable>> captured;
  // Variables and gradients that were assigned.
  std::vector<std::shared_ptr<detail::Variable>> assigned;
  std::vector<std::shared_ptr<GradientSlot>> gradients;
  struct Draw {
    Generator* generator;
    Generator::State before;
    std::uint64_t count;
  };
  std::vector<Draw> draws;

  void saw(const std::shared_ptr<detail::Variable>& variable);
  void assigned_to(const std::shared_ptr<detail::Variable>& variable);
  void gradient_set(const std::shared_ptr<GradientSlot>& slot);
};

// The trace of this thread; null outside compile().
Trace*& current_trace();

}  // namespace hearth
