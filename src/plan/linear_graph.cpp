// Topological order and structural hash of a graph, without recursion.
#include "plan/linear_graph.h"

namespace hearth {
namespace {

void hash_node(Hasher& hasher, const Node& node, Op op, std::span<const std::uint32_t> inputs) {
  hasher.add((static_cast<std::uint64_t>(op) << 32) | (static_cast<std::uint64_t>(node.dtype) << 24) |
             (static_cast<std::uint64_t>(node.shape.size()) << 16) | inputs.size());
  for (auto size : node.shape) hasher.add(size);
  if (op == Op::value) {
    for (auto stride : node.storage.strides) hasher.add(stride);
    return;
  }
  for (auto input : inputs) hasher.add(input);
  if (node.attributes) hash_attributes(hasher, *node.attributes);
}

}  // namespace

LinearGraph linearize(std::span<Node* const> outputs) {
  static std::uint64_t epoch = 0;  // guarded by graph_mutex
  const std::uint64_t entered = ++epoch;
  const std::uint64_t done = ++epoch;

  LinearGraph graph;
  graph.input_begin.push_back(0);
  Hasher hasher;
  SmallVector<Node*, 16> stack;

  const auto append = [&](Node* node, Op op) {
    node->mark = done;
    node->index = static_cast<std::uint32_t>(graph.nodes.size());
    graph.nodes.push_back(node);
    graph.ops.push_back(op);
    if (op != Op::value)
      for (const auto& input : node->inputs) graph.inputs.push_back(input->index);
    graph.input_begin.push_back(static_cast<std::uint32_t>(graph.inputs.size()));
    hash_node(hasher, *node, op, graph.inputs_of(node->index));
  };

  for (Node* output : outputs) {
    stack.push_back(output);
    while (!stack.empty()) {
      Node* node = stack.back();
      if (node->mark == done) {
        stack.pop_back();
      } else if (node->op == Op::constant) {  // a number, on whatever device its memory may be
        stack.pop_back();
        append(node, Op::constant);
      } else if (node->evaluated.load(std::memory_order_relaxed) || node->op == Op::value) {
        stack.pop_back();
        append(node, Op::value);
      } else if (node->mark == entered || node->inputs.empty()) {
        stack.pop_back();
        append(node, node->op);
      } else {
        node->mark = entered;
        for (std::size_t i = node->inputs.size(); i-- > 0;)
          if (node->inputs[i]->mark != done) stack.push_back(node->inputs[i].get());
      }
    }
    graph.outputs.push_back(output->index);
    hasher.add(output->index);
  }
  graph.structure = hasher.finish();
  return graph;
}

std::mutex& graph_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace hearth
