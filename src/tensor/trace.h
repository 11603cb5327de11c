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
  Device device;  // on which the plan will run

  // Variables whose value from before the trace was read, by the node they named then.
  struct Captured {
    std::shared_ptr<detail::Variable> variable;
    NodeRef node;
  };
  std::unordered_map<const Node*, Captured> captured;

  // Variables that were assigned, with what they named before.
  struct Assigned {
    std::shared_ptr<detail::Variable> variable;
    NodeRef before;
  };
  std::vector<Assigned> assigned;

  // Gradients that were looked at or changed, with what they were before.
  struct Touched {
    std::shared_ptr<GradientSlot> slot;
    Tensor before;
    bool read;  // it mattered what there was before
  };
  std::vector<Touched> gradients;

  struct Draw {
    NodeRef node;
    std::weak_ptr<Generator::Stream> stream;
    Generator::State before;
    std::uint64_t count;
  };
  std::vector<Draw> draws;

  void saw(const std::shared_ptr<detail::Variable>& variable);
  // Both to be called before the change.
  void will_assign(const std::shared_ptr<detail::Variable>& variable);
  void will_touch(const std::shared_ptr<GradientSlot>& slot, bool read);
};

// The trace of this thread; null outside compile().
Trace*& current_trace();

}  // namespace hearth
