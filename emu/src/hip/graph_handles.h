// Handles of graphs, nodes and instantiated graphs as hipGraph* take them, and changes of the last.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <variant>

#include "hip/graph.h"

namespace hipemu::hip {

// An instantiated graph: a copy that the program can only change node by node. A launch keeps the copy that
// it began with; a change makes a new one.
struct Executable {
  std::shared_ptr<const Graph> graph;
  unsigned long long flags = 0;
};

inline HandleTable<hipGraphExec_t, Executable>& executable_table() {
  static auto& table = *new HandleTable<hipGraphExec_t, Executable>;
  return table;
}

inline std::shared_ptr<Graph> find_graph(hipGraph_t handle) {
  return require(graph_table().find(handle), hipErrorInvalidValue);
}
inline std::shared_ptr<GraphNode> find_node(hipGraphNode_t handle) {
  auto node = require(node_table().find(handle), hipErrorInvalidValue);
  require(node->graph, hipErrorInvalidValue);
  return node;
}
inline std::shared_ptr<Executable> find_executable(hipGraphExec_t handle) {
  return require(executable_table().find(handle), hipErrorInvalidValue);
}

template <class Kind>
Kind& work_of(GraphNode& node) {
  auto* work = std::get_if<Kind>(&node.work);
  require(work, hipErrorInvalidValue);
  return *work;
}

// Changes a node of an instantiated graph, named by the node it was made from. Launches that are queued keep
// the graph as it was.
inline void change_node(hipGraphExec_t handle, hipGraphNode_t node, const auto& change) {
  const std::lock_guard lock(graph_mutex());
  auto executable = find_executable(handle);
  require(executable->graph->clone_of.contains(node), hipErrorInvalidValue);
  auto next = clone_graph(*executable->graph);
  // The clone of a clone: found through the node in between, then named by the original again.
  std::unordered_map<hipGraphNode_t, GraphNode*> of_original;
  for (const auto& [original, twin] : executable->graph->clone_of)
    of_original[original] = next->clone_of.at(twin->handle);
  next->clone_of = std::move(of_original);
  change(*next->clone_of.at(node));
  executable->graph = std::move(next);
}

template <class Kind>
void update_executable(hipGraphExec_t handle, hipGraphNode_t node, const auto& change) {
  change_node(handle, node, [&](GraphNode& twin) { change(work_of<Kind>(twin)); });
}

}  // namespace hipemu::hip
