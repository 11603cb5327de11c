// Graphs of work: nodes, edges, copies, execution.
#include "hip/graph.h"

#include <algorithm>

namespace hipemu::hip {

std::recursive_mutex& graph_mutex() {
  static auto& mutex = *new std::recursive_mutex;
  return mutex;
}

HandleTable<hipGraph_t, Graph>& graph_table() {
  static auto& table = *new HandleTable<hipGraph_t, Graph>;
  return table;
}

HandleTable<hipGraphNode_t, GraphNode>& node_table() {
  static auto& table = *new HandleTable<hipGraphNode_t, GraphNode>;
  return table;
}

Graph::~Graph() {
  for (const auto& node : nodes) {
    node->graph = nullptr;
    if (node->handle) node_table().remove(node->handle);
  }
}

std::shared_ptr<GraphNode> Graph::add(Work work, const std::vector<GraphNode*>& dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->work = std::move(work);
  node->graph = this;
  node->dependencies = dependencies;
  node->handle = node_table().insert(node);
  nodes.push_back(node);
  return node;
}

std::shared_ptr<Graph> clone_graph(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  std::unordered_map<const GraphNode*, GraphNode*> made;
  for (const auto& node : graph.nodes) {
    Work work = node->work;
    if (auto* child = std::get_if<ChildGraphWork>(&work)) child->graph = clone_graph(*child->graph);
    if (auto* kernel = std::get_if<KernelWork>(&work))
      kernel->parameters.clear();  // they point into the original
    const auto twin = copy->add(std::move(work), {});
    twin->enabled = node->enabled;
    made[node.get()] = twin.get();
    copy->clone_of[node->handle] = twin.get();
  }
  for (const auto& node : graph.nodes)
    for (const GraphNode* dependency : node->dependencies)
      made[node.get()]->dependencies.push_back(made.at(dependency));
  return copy;
}

std::vector<GraphNode*> execution_order(const Graph& graph) {
  std::unordered_map<const GraphNode*, size_t> waits_for;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> followers;
  std::vector<GraphNode*> ready;
  for (const auto& node : graph.nodes) {
    waits_for[node.get()] = node->dependencies.size();
    for (const GraphNode* dependency : node->dependencies) followers[dependency].push_back(node.get());
    if (node->dependencies.empty()) ready.push_back(node.get());
  }
  std::vector<GraphNode*> order;
  while (!ready.empty()) {
    GraphNode* node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (GraphNode* follower : followers[node])
      if (--waits_for[follower] == 0) ready.push_back(follower);
  }
  require(order.size() == graph.nodes.size(), hipErrorInvalidValue);
  return order;
}

void perform_graph(Device& device, const Graph& graph) {
  for (const GraphNode* node : execution_order(graph))
    if (node->enabled) perform(device, node->work);
}

}  // namespace hipemu::hip
