// A graph of nodes as flat arrays, with its structural hash.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/hash.h"
#include "graph/node.h"

namespace hearth {

struct LinearGraph {
  std::vector<Node*> nodes;                // inputs come before their users
  std::vector<std::uint32_t> input_begin;  // inputs of node i: inputs[input_begin[i] .. input_begin[i + 1])
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;  // the nodes asked for
  Hash128 structure;                   // of everything but the numbers and the leaves' data

  std::span<const std::uint32_t> inputs_of(std::uint32_t node) const {
    return {inputs.data() + input_begin[node], inputs.data() + input_begin[node + 1]};
  }
  bool is_leaf(std::uint32_t node) const { return op_kind(ops[node]) == OpKind::leaf; }
  std::vector<Op> ops;  // Op::value for evaluated nodes
};

// Nodes below `outputs` that have no value yet, and the leaves they rest on. The caller holds graph_mutex().
LinearGraph linearize(std::span<Node* const> outputs);

// Guards the evaluator's marks in nodes and the writing of their values.
std::mutex& graph_mutex();

}  // namespace hearth
