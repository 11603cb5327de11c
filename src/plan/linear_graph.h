// A graph of nodes as flat arrays, with its structural hash.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "base/hash.h"
#include "graph/node.h"
#include "hearth/small_vector.h"

namespace hearth {

struct LinearGraph {
  // Small graphs are evaluated often: they need no memory of their own.
  SmallVector<Node*, 16> nodes;  // inputs come before their users
  SmallVector<std::uint32_t, 17>
      input_begin;  // inputs of node i: inputs[input_begin[i] .. input_begin[i + 1])
  SmallVector<std::uint32_t, 32> inputs;
  SmallVector<std::uint32_t, 4> outputs;  // the nodes asked for
  Hash128 structure;                      // of everything but the numbers and the leaves' data

  std::span<const std::uint32_t> inputs_of(std::uint32_t node) const {
    return {inputs.data() + input_begin[node], inputs.data() + input_begin[node + 1]};
  }
  bool is_leaf(std::uint32_t node) const { return op_kind(ops[node]) == OpKind::leaf; }
  SmallVector<Op, 16> ops;  // Op::value for evaluated nodes
};

// Nodes below `outputs` that have no value yet, and the leaves they rest on. The caller holds graph_mutex().
LinearGraph linearize(std::span<Node* const> outputs);

// Guards the evaluator's marks in nodes and the writing of their values.
std::mutex& graph_mutex();

}  // namespace hearth
