// hipGraph*: instantiating graphs, launching and updating what became of them.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "hip/graph_handles.h"
#include "hip/stream_table.h"

namespace hipemu::hip {
namespace {

std::shared_ptr<Executable> instantiate(const Graph& graph, unsigned long long flags) {
  execution_order(graph);  // throws for a cycle
  auto executable = std::make_shared<Executable>();
  executable->graph = clone_graph(graph);
  executable->flags = flags;
  return executable;
}

// Event nodes act on the launch as a whole: an event that the graph waits for is waited for before it begins,
// and one that it records is done when the graph is (its time is that of the node).
void collect_events(const Graph& graph, std::vector<std::shared_ptr<Event>>& waits,
                    std::vector<std::shared_ptr<Event>>& records) {
  for (const auto& node : graph.nodes) {
    if (!node->enabled) continue;
    if (const auto* wait = std::get_if<EventWaitWork>(&node->work)) waits.push_back(wait->event);
    if (const auto* record = std::get_if<EventRecordWork>(&node->work)) records.push_back(record->event);
    if (const auto* child = std::get_if<ChildGraphWork>(&node->work))
      collect_events(*child->graph, waits, records);
  }
}

void launch_graph(const Executable& executable, Stream& stream) {
  std::shared_ptr<const Graph> graph;
  {
    const std::lock_guard lock(graph_mutex());
    graph = executable.graph;
  }
  if (is_capturing(stream)) {
    const std::lock_guard lock(graph_mutex());
    submit(stream, ChildGraphWork{clone_graph(*graph)});
    return;
  }
  check_sticky(stream.device);
  std::vector<std::shared_ptr<Event>> waits, records;
  collect_events(*graph, waits, records);
  std::vector<Ticket> after;
  for (const auto& event : waits)
    if (const auto record = event->last_record()) after.push_back(record->ticket);
  // The thread that executes the graph looks for the records of its events: they are in place before it can.
  std::ranges::sort(records);
  records.erase(std::unique(records.begin(), records.end()), records.end());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& event : records) locks.emplace_back(event->mutex);
  Device& device = stream.device;
  const Ticket ticket = stream.enqueue([&device, graph] { perform_graph(device, *graph); }, std::move(after));
  for (const auto& event : records) {
    event->record = std::make_shared<Event::Record>();
    event->record->ticket = ticket;
  }
}

hipGraphExecUpdateResult compare(const Graph& old_graph, const Graph& new_graph, hipGraphNode_t* differs) {
  if (old_graph.nodes.size() != new_graph.nodes.size()) return hipGraphExecUpdateErrorTopologyChanged;
  std::unordered_map<const GraphNode*, size_t> old_index, new_index;
  for (size_t i = 0; i < old_graph.nodes.size(); ++i) {
    old_index[old_graph.nodes[i].get()] = i;
    new_index[new_graph.nodes[i].get()] = i;
  }
  for (size_t i = 0; i < old_graph.nodes.size(); ++i) {
    const GraphNode &before = *old_graph.nodes[i], &after = *new_graph.nodes[i];
    *differs = after.handle;
    if (before.work.index() != after.work.index()) return hipGraphExecUpdateErrorNodeTypeChanged;
    std::vector<size_t> old_edges, new_edges;
    for (const GraphNode* node : before.dependencies) old_edges.push_back(old_index.at(node));
    for (const GraphNode* node : after.dependencies) new_edges.push_back(new_index.at(node));
    std::ranges::sort(old_edges);
    std::ranges::sort(new_edges);
    if (old_edges != new_edges) return hipGraphExecUpdateErrorTopologyChanged;
  }
  *differs = nullptr;
  return hipGraphExecUpdateSuccess;
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* executable, hipGraph_t graph,
                                                unsigned long long flags) {
  return api([&] {
    require(executable && flags <= 15, hipErrorInvalidValue);
    *executable = nullptr;
    const std::lock_guard lock(graph_mutex());
    *executable = executable_table().insert(instantiate(*find_graph(graph), flags));
  });
}
HIP_API hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t graph,
                                       hipGraphNode_t* error_node, char* log, size_t log_size) {
  if (error_node) *error_node = nullptr;
  if (log && log_size > 0) log[0] = 0;
  return hipGraphInstantiateWithFlags(executable, graph, 0);
}
HIP_API hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* executable, hipGraph_t graph,
                                                 hipGraphInstantiateParams* parameters) {
  if (!parameters) return keep_error(hipErrorInvalidValue);
  parameters->errNode_out = nullptr;
  const hipError_t error = hipGraphInstantiateWithFlags(executable, graph, parameters->flags);
  parameters->result_out = error == hipSuccess ? 0 : 1;
  return error;
}
HIP_API hipError_t hipGraphExecGetFlags(hipGraphExec_t executable, unsigned long long* flags) {
  return api([&] {
    require(flags, hipErrorInvalidValue);
    *flags = find_executable(executable)->flags;
  });
}

HIP_API hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  return api([&] { require(executable_table().remove(executable), hipErrorInvalidValue); });
}

HIP_API hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) {
  return api([&] {
    auto found = find_executable(executable);
    launch_graph(*found, *resolve_stream(stream));
  });
}
HIP_API hipError_t hipGraphLaunch_spt(hipGraphExec_t executable, hipStream_t stream) {
  return hipGraphLaunch(executable, per_thread(stream));
}
HIP_API hipError_t hipGraphUpload(hipGraphExec_t executable, hipStream_t stream) {
  return api([&] {
    find_executable(executable);
    resolve_stream(stream);
  });
}

HIP_API hipError_t hipGraphExecUpdate(hipGraphExec_t executable, hipGraph_t graph, hipGraphNode_t* error_node,
                                      hipGraphExecUpdateResult* result) {
  return api([&] {
    require(error_node && result, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    auto found = find_executable(executable);
    auto changed = find_graph(graph);
    *result = compare(*found->graph, *changed, error_node);
    require(*result == hipGraphExecUpdateSuccess, hipErrorGraphExecUpdateFailure);
    // Nodes correspond by position; the executable is known by the nodes of both graphs from now on.
    auto next = clone_graph(*changed);
    for (const auto& [original, twin] : found->graph->clone_of)
      for (size_t i = 0; i < found->graph->nodes.size(); ++i)
        if (found->graph->nodes[i].get() == twin) next->clone_of[original] = next->nodes[i].get();
    found->graph = std::move(next);
  });
}

HIP_API hipError_t hipGraphNodeSetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned enabled) {
  return api([&] {
    change_node(executable, node, [&](GraphNode& twin) {
      require(twin.work.index() <= 2,
              hipErrorInvalidValue);  // kernels, copies and memsets can be switched off
      twin.enabled = enabled != 0;
    });
  });
}
HIP_API hipError_t hipGraphNodeGetEnabled(hipGraphExec_t executable, hipGraphNode_t node, unsigned* enabled) {
  return api([&] {
    require(enabled, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    auto found = find_executable(executable);
    const auto twin = found->graph->clone_of.find(node);
    require(twin != found->graph->clone_of.end(), hipErrorInvalidValue);
    *enabled = twin->second->enabled;
  });
}

HIP_API hipError_t hipDeviceGraphMemTrim(int device) {
  return api([&] { device_at(device); });
}
