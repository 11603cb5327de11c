// hipGraph*: graphs as such, their edges and what there is to be asked.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "hip/graph_handles.h"

namespace hipemu::hip {
namespace {

int node_type_number(const Work& work) {
  constexpr hipGraphNodeType types[] = {
      hipGraphNodeTypeKernel,      hipGraphNodeTypeMemcpy,    hipGraphNodeTypeMemset, hipGraphNodeTypeHost,
      hipGraphNodeTypeEventRecord, hipGraphNodeTypeWaitEvent, hipGraphNodeTypeEmpty,  hipGraphNodeTypeGraph,
      hipGraphNodeTypeMemAlloc,    hipGraphNodeTypeMemFree};
  static_assert(std::size(types) == std::variant_size_v<Work>);
  // ROCm 5.2 counts from one.
  return types[work.index()] + (old_abi() ? 1 : 0);
}

void list(const std::vector<hipGraphNode_t>& all, hipGraphNode_t* nodes, size_t* count) {
  require(count, hipErrorInvalidValue);
  if (!nodes) {
    *count = all.size();
    return;
  }
  const size_t room = *count;
  for (size_t i = 0; i < room; ++i) nodes[i] = i < all.size() ? all[i] : nullptr;
  *count = std::min(room, all.size());
}

std::vector<hipGraphNode_t> handles(const std::vector<GraphNode*>& nodes) {
  std::vector<hipGraphNode_t> result;
  for (const GraphNode* node : nodes) result.push_back(node->handle);
  return result;
}

// Each node is looked at once: there may be more paths than one could follow.
bool reaches(const GraphNode* from, const GraphNode* to) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> pending{from};
  while (!pending.empty()) {
    const GraphNode* node = pending.back();
    pending.pop_back();
    if (node == to) return true;
    if (!seen.insert(node).second) continue;
    pending.insert(pending.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return false;
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipGraphCreate(hipGraph_t* graph, unsigned flags) {
  return api([&] {
    require(graph && flags == 0, hipErrorInvalidValue);
    auto made = std::make_shared<Graph>();
    made->handle = graph_table().insert(made);
    *graph = made->handle;
  });
}

HIP_API hipError_t hipGraphDestroy(hipGraph_t graph) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    require(graph_table().remove(graph), hipErrorInvalidValue);
  });
}

HIP_API hipError_t hipGraphClone(hipGraph_t* clone, hipGraph_t original) {
  return api([&] {
    require(clone, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    auto made = clone_graph(*find_graph(original));
    made->handle = graph_table().insert(made);
    *clone = made->handle;
  });
}

HIP_API hipError_t hipGraphNodeFindInClone(hipGraphNode_t* node, hipGraphNode_t original, hipGraph_t clone) {
  return api([&] {
    require(node, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    auto graph = find_graph(clone);
    const auto found = graph->clone_of.find(original);
    require(found != graph->clone_of.end(), hipErrorInvalidValue);
    *node = found->second->handle;
  });
}

HIP_API hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                           const hipGraphNode_t* to, size_t count) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    auto owner = find_graph(graph);
    require((from && to) || count == 0, hipErrorInvalidValue);
    for (size_t i = 0; i < count; ++i) {
      auto first = find_node(from[i]);
      auto second = find_node(to[i]);
      require(first != second && first->graph == owner.get() && second->graph == owner.get(),
              hipErrorInvalidValue);
      require(std::ranges::find(second->dependencies, first.get()) == second->dependencies.end(),
              hipErrorInvalidValue);
      require(!reaches(first.get(), second.get()), hipErrorInvalidValue);
      second->dependencies.push_back(first.get());
    }
  });
}

HIP_API hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                              const hipGraphNode_t* to, size_t count) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    auto owner = find_graph(graph);
    require((from && to) || count == 0, hipErrorInvalidValue);
    for (size_t i = 0; i < count; ++i) {
      auto first = find_node(from[i]);
      auto second = find_node(to[i]);
      require(second->graph == owner.get(), hipErrorInvalidValue);
      require(std::erase(second->dependencies, first.get()) == 1, hipErrorInvalidValue);
    }
  });
}

HIP_API hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    std::vector<hipGraphNode_t> all;
    for (const auto& node : find_graph(graph)->nodes) all.push_back(node->handle);
    list(all, nodes, count);
  });
}

HIP_API hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    std::vector<hipGraphNode_t> all;
    for (const auto& node : find_graph(graph)->nodes)
      if (node->dependencies.empty()) all.push_back(node->handle);
    list(all, nodes, count);
  });
}

HIP_API hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t* from, hipGraphNode_t* to,
                                    size_t* count) {
  return api([&] {
    require(count && (from == nullptr) == (to == nullptr), hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    std::vector<hipGraphNode_t> begins, ends;
    for (const auto& node : find_graph(graph)->nodes)
      for (const GraphNode* dependency : node->dependencies) {
        begins.push_back(dependency->handle);
        ends.push_back(node->handle);
      }
    size_t room = *count;
    list(begins, from, &room);
    list(ends, to, count);
  });
}

HIP_API hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t* nodes, size_t* count) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    list(handles(find_node(node)->dependencies), nodes, count);
  });
}

HIP_API hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t* nodes, size_t* count) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    auto found = find_node(node);
    std::vector<hipGraphNode_t> all;
    for (const auto& each : found->graph->nodes)
      if (std::ranges::find(each->dependencies, found.get()) != each->dependencies.end())
        all.push_back(each->handle);
    list(all, nodes, count);
  });
}

HIP_API hipError_t hipGraphNodeGetType(hipGraphNode_t node, int* type) {
  return api([&] {
    require(type, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    *type = node_type_number(find_node(node)->work);
  });
}

HIP_API hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    auto found = find_node(node);
    Graph& graph = *found->graph;
    for (const auto& each : graph.nodes) std::erase(each->dependencies, found.get());
    std::erase(graph.nodes, found);
    found->graph = nullptr;
    node_table().remove(node);
  });
}
