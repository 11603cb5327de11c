// hipGraph*: building graphs by hand, instantiating, launching and changing them.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "hip/graph.h"
#include "hip/memory.h"
#include "hip/module.h"
#include "hip/stream_table.h"

namespace hipemu::hip {
namespace {

// An instantiated graph: a copy that the program can only change node by node. A launch keeps the copy that
// it began with; a change makes a new one.
struct Executable {
  std::shared_ptr<const Graph> graph;
  unsigned long long flags = 0;
};

HandleTable<hipGraphExec_t, Executable>& executable_table() {
  static auto& table = *new HandleTable<hipGraphExec_t, Executable>;
  return table;
}

std::shared_ptr<Graph> find_graph(hipGraph_t handle) {
  return require(graph_table().find(handle), hipErrorInvalidValue);
}
std::shared_ptr<GraphNode> find_node(hipGraphNode_t handle) {
  auto node = require(node_table().find(handle), hipErrorInvalidValue);
  require(node->graph, hipErrorInvalidValue);
  return node;
}
std::shared_ptr<Executable> find_executable(hipGraphExec_t handle) {
  return require(executable_table().find(handle), hipErrorInvalidValue);
}

template <class Kind>
Kind& work_of(GraphNode& node) {
  auto* work = std::get_if<Kind>(&node.work);
  require(work, hipErrorInvalidValue);
  return *work;
}

std::vector<GraphNode*> find_dependencies(const Graph& graph, const hipGraphNode_t* nodes, size_t count) {
  require(nodes || count == 0, hipErrorInvalidValue);
  std::vector<GraphNode*> result;
  for (size_t i = 0; i < count; ++i) {
    auto node = find_node(nodes[i]);
    require(node->graph == &graph, hipErrorInvalidValue);
    require(std::ranges::find(result, node.get()) == result.end(), hipErrorInvalidValue);
    result.push_back(node.get());
  }
  return result;
}

hipError_t add_node(hipGraphNode_t* result, hipGraph_t handle, const hipGraphNode_t* dependencies,
                    size_t count, const auto& make_work) {
  return api([&] {
    require(result, hipErrorInvalidValue);
    *result = nullptr;
    const std::lock_guard lock(graph_mutex());
    auto graph = find_graph(handle);
    auto after = find_dependencies(*graph, dependencies, count);
    *result = graph->add(make_work(*graph), after)->handle;
  });
}

// Changes a node of an instantiated graph, named by the node it was made from. Launches that are queued keep
// the graph as it was.
void change_node(hipGraphExec_t handle, hipGraphNode_t node, const auto& change) {
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

KernelWork kernel_work(const hipKernelNodeParams* parameters) {
  require(parameters && parameters->func, hipErrorInvalidValue);
  Device& device = current_device();
  auto function = registered_function(parameters->func, device);
  if (!function) function = function_table().find(static_cast<hipFunction_t>(parameters->func));
  require(function, hipErrorInvalidDeviceFunction);
  return make_launch(*function, device,
                     {parameters->gridDim, parameters->blockDim, parameters->sharedMemBytes, false},
                     parameters->kernelParams, parameters->extra, parameters->func);
}

void checked(CopyWork& work) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  check_box(work.to, work.width, work.height, work.depth);
  check_box(work.from, work.width, work.height, work.depth);
}

CopyWork checked_linear_copy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  require(to && from && bytes > 0, hipErrorInvalidValue);
  CopyWork work = linear_copy(to, from, bytes, kind);
  checked(work);
  return work;
}

CopyWork checked_box_copy(const hipMemcpy3DParms* parameters) {
  CopyWork work = box_copy(parameters);
  checked(work);
  return work;
}

CopyWork checked_symbol_copy(const void* symbol, const void* other, size_t bytes, size_t offset,
                             hipMemcpyKind kind, bool to_symbol) {
  CopyWork work = symbol_copy(symbol, const_cast<void*>(other), bytes, offset, kind, to_symbol);
  checked(work);
  return work;
}

// ROCm 7 changed the order of hipMemsetParams and kept the names of the functions. Where it has the size of
// an element, 1, 2 or 4, the old order has the upper half of the height, 0. What the program passed last
// decides how it is answered.
std::atomic<bool> new_memset_order{false};

hipMemsetParams read_memset_parameters(const void* given) {
  uint32_t element_size = 0;
  std::memcpy(&element_size,
              static_cast<const std::byte*>(given) + offsetof(hipMemsetParamsR0700, elementSize), 4);
  if (element_size == 0) {
    new_memset_order.store(false);
    return *static_cast<const hipMemsetParams*>(given);
  }
  new_memset_order.store(true);
  const auto& p = *static_cast<const hipMemsetParamsR0700*>(given);
  return {p.dst, p.elementSize, p.height, p.pitch, p.value, p.width};
}

void write_memset_parameters(void* to, const FillWork& work) {
  if (new_memset_order.load())
    *static_cast<hipMemsetParamsR0700*>(to) = {work.to.base,      work.to.pitch, work.value,
                                               work.element_size, work.width,    work.height};
  else
    *static_cast<hipMemsetParams*>(to) = {work.to.base,  work.element_size, work.height,
                                          work.to.pitch, work.value,        work.width};
}

FillWork fill_work(const void* given) {
  require(given, hipErrorInvalidValue);
  const hipMemsetParams p = read_memset_parameters(given);
  require(p.dst && p.width > 0 && p.width <= SIZE_MAX / 4, hipErrorInvalidValue);
  require(p.elementSize == 1 || p.elementSize == 2 || p.elementSize == 4, hipErrorInvalidValue);
  FillWork work;
  work.to = {static_cast<std::byte*>(p.dst), p.pitch, 0, false};
  work.element_size = p.elementSize;
  work.value = p.value;
  work.width = p.width;
  work.height = std::max<size_t>(p.height, 1);
  require(work.height == 1 || p.pitch >= p.width * p.elementSize, hipErrorInvalidValue);
  check_box(work.to, work.width * work.element_size, work.height, 1);
  require(work.to.tracked, hipErrorInvalidValue);
  return work;
}

HostWork host_work(const hipHostNodeParams* parameters) {
  require(parameters && parameters->fn, hipErrorInvalidValue);
  return {parameters->fn, parameters->userData};
}

std::shared_ptr<Event> find_event(hipEvent_t event) {
  return require(event_table().find(event), hipErrorInvalidValue);
}

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

bool reaches(const GraphNode* from, const GraphNode* to) {
  if (from == to) return true;
  return std::ranges::any_of(from->dependencies, [&](const GraphNode* next) { return reaches(next, to); });
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;
using hipemu::MemoryKind;

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

HIP_API hipError_t hipGraphAddEmptyNode(hipGraphNode_t* node, hipGraph_t graph,
                                        const hipGraphNode_t* dependencies, size_t count) {
  return add_node(node, graph, dependencies, count, [&](Graph&) -> Work { return EmptyWork{}; });
}

HIP_API hipError_t hipGraphAddKernelNode(hipGraphNode_t* node, hipGraph_t graph,
                                         const hipGraphNode_t* dependencies, size_t count,
                                         const hipKernelNodeParams* parameters) {
  return add_node(node, graph, dependencies, count, [&](Graph&) -> Work { return kernel_work(parameters); });
}
HIP_API hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams* parameters) {
  return api([&] {
    require(parameters, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    auto& work = work_of<KernelWork>(*find_node(node));
    auto& launch = work.launch;
    work.parameters.clear();
    for (const auto& argument : launch.kernel->arguments)
      if (!argument.hidden()) work.parameters.push_back(launch.arguments.data() + argument.offset);
    *parameters = {};
    parameters->func = work.function;
    parameters->gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
    parameters->blockDim = {launch.block[0], launch.block[1], launch.block[2]};
    parameters->sharedMemBytes = launch.dynamic_lds;
    parameters->kernelParams = work.parameters.data();
  });
}
HIP_API hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* parameters) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    KernelWork next = kernel_work(parameters);
    work_of<KernelWork>(*find_node(node)) = std::move(next);
  });
}
HIP_API hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                   const hipKernelNodeParams* parameters) {
  return api([&] {
    KernelWork next = kernel_work(parameters);
    update_executable<KernelWork>(executable, node, [&](KernelWork& work) { work = std::move(next); });
  });
}

HIP_API hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, int attribute, const void* value) {
  return api([&] {
    require(value && (attribute == 1 || attribute == 2 || attribute == 8), hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    auto& work = work_of<KernelWork>(*find_node(node));
    if (attribute == 2) work.launch.cooperative = *static_cast<const int*>(value) != 0;
  });
}
HIP_API hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, int attribute, void* value) {
  return api([&] {
    require(value && attribute == 2, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    *static_cast<int*>(value) = work_of<KernelWork>(*find_node(node)).launch.cooperative;
  });
}

HIP_API hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* node, hipGraph_t graph,
                                         const hipGraphNode_t* dependencies, size_t count,
                                         const hipMemcpy3DParms* parameters) {
  return add_node(node, graph, dependencies, count,
                  [&](Graph&) -> Work { return checked_box_copy(parameters); });
}
HIP_API hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms* parameters) {
  return api([&] {
    require(parameters, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    const auto& work = work_of<CopyWork>(*find_node(node));
    *parameters = {};
    const auto pitched = [&](const Box& box) {
      return hipPitchedPtr{box.base, box.pitch, work.width, box.pitch ? box.slice / box.pitch : work.height};
    };
    parameters->srcPtr = pitched(work.from);
    parameters->dstPtr = pitched(work.to);
    parameters->extent = {work.width, work.height, work.depth};
    parameters->kind = work.kind;
  });
}
HIP_API hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms* parameters) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    CopyWork next = checked_box_copy(parameters);
    work_of<CopyWork>(*find_node(node)) = std::move(next);
  });
}
HIP_API hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                   hipMemcpy3DParms* parameters) {
  return api([&] {
    CopyWork next = checked_box_copy(parameters);
    update_executable<CopyWork>(executable, node, [&](CopyWork& work) { work = std::move(next); });
  });
}

HIP_API hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* node, hipGraph_t graph,
                                           const hipGraphNode_t* dependencies, size_t count, void* to,
                                           const void* from, size_t bytes, hipMemcpyKind kind) {
  return add_node(node, graph, dependencies, count,
                  [&](Graph&) -> Work { return checked_linear_copy(to, from, bytes, kind); });
}
HIP_API hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* to, const void* from,
                                                 size_t bytes, hipMemcpyKind kind) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    CopyWork next = checked_linear_copy(to, from, bytes, kind);
    work_of<CopyWork>(*find_node(node)) = std::move(next);
  });
}
HIP_API hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t executable, hipGraphNode_t node, void* to,
                                                     const void* from, size_t bytes, hipMemcpyKind kind) {
  return api([&] {
    CopyWork next = checked_linear_copy(to, from, bytes, kind);
    update_executable<CopyWork>(executable, node, [&](CopyWork& work) { work = std::move(next); });
  });
}

HIP_API hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t* node, hipGraph_t graph,
                                                 const hipGraphNode_t* dependencies, size_t count,
                                                 const void* symbol, const void* from, size_t bytes,
                                                 size_t offset, hipMemcpyKind kind) {
  return add_node(node, graph, dependencies, count, [&](Graph&) -> Work {
    return checked_symbol_copy(symbol, from, bytes, offset, kind, true);
  });
}
HIP_API hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t* node, hipGraph_t graph,
                                                   const hipGraphNode_t* dependencies, size_t count, void* to,
                                                   const void* symbol, size_t bytes, size_t offset,
                                                   hipMemcpyKind kind) {
  return add_node(node, graph, dependencies, count, [&](Graph&) -> Work {
    return checked_symbol_copy(symbol, to, bytes, offset, kind, false);
  });
}

HIP_API hipError_t hipGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph,
                                         const hipGraphNode_t* dependencies, size_t count,
                                         const void* parameters) {
  return add_node(node, graph, dependencies, count, [&](Graph&) -> Work { return fill_work(parameters); });
}
HIP_API hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, void* parameters) {
  return api([&] {
    require(parameters, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    write_memset_parameters(parameters, work_of<FillWork>(*find_node(node)));
  });
}
HIP_API hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const void* parameters) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    work_of<FillWork>(*find_node(node)) = fill_work(parameters);
  });
}
HIP_API hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                   const void* parameters) {
  return api([&] {
    const FillWork next = fill_work(parameters);
    update_executable<FillWork>(executable, node, [&](FillWork& work) { work = next; });
  });
}

HIP_API hipError_t hipGraphAddHostNode(hipGraphNode_t* node, hipGraph_t graph,
                                       const hipGraphNode_t* dependencies, size_t count,
                                       const hipHostNodeParams* parameters) {
  return add_node(node, graph, dependencies, count, [&](Graph&) -> Work { return host_work(parameters); });
}
HIP_API hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams* parameters) {
  return api([&] {
    require(parameters, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    const auto& work = work_of<HostWork>(*find_node(node));
    *parameters = {work.function, work.data};
  });
}
HIP_API hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* parameters) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    work_of<HostWork>(*find_node(node)) = host_work(parameters);
  });
}
HIP_API hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                 const hipHostNodeParams* parameters) {
  return api([&] {
    const HostWork next = host_work(parameters);
    update_executable<HostWork>(executable, node, [&](HostWork& work) { work = next; });
  });
}

HIP_API hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* node, hipGraph_t graph,
                                             const hipGraphNode_t* dependencies, size_t count,
                                             hipGraph_t child) {
  return add_node(node, graph, dependencies, count, [&](Graph& owner) -> Work {
    auto found = find_graph(child);
    require(found.get() != &owner, hipErrorInvalidValue);
    return ChildGraphWork{clone_graph(*found)};
  });
}
HIP_API hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* graph) {
  return api([&] {
    require(graph, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    auto& child = work_of<ChildGraphWork>(*find_node(node)).graph;
    if (!child->handle) child->handle = graph_table().insert(child);
    *graph = child->handle;
  });
}
HIP_API hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t executable, hipGraphNode_t node,
                                                       hipGraph_t child) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    auto next = clone_graph(*find_graph(child));
    update_executable<ChildGraphWork>(executable, node, [&](ChildGraphWork& work) { work.graph = next; });
  });
}

HIP_API hipError_t hipGraphAddEventRecordNode(hipGraphNode_t* node, hipGraph_t graph,
                                              const hipGraphNode_t* dependencies, size_t count,
                                              hipEvent_t event) {
  return add_node(node, graph, dependencies, count,
                  [&](Graph&) -> Work { return EventRecordWork{find_event(event)}; });
}
HIP_API hipError_t hipGraphAddEventWaitNode(hipGraphNode_t* node, hipGraph_t graph,
                                            const hipGraphNode_t* dependencies, size_t count,
                                            hipEvent_t event) {
  return add_node(node, graph, dependencies, count,
                  [&](Graph&) -> Work { return EventWaitWork{find_event(event)}; });
}
HIP_API hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  return api([&] {
    require(event, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    *event = work_of<EventRecordWork>(*find_node(node)).event->handle;
  });
}
HIP_API hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    work_of<EventRecordWork>(*find_node(node)).event = find_event(event);
  });
}
HIP_API hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t executable, hipGraphNode_t node,
                                                       hipEvent_t event) {
  return api([&] {
    auto next = find_event(event);
    update_executable<EventRecordWork>(executable, node, [&](EventRecordWork& work) { work.event = next; });
  });
}
HIP_API hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  return api([&] {
    require(event, hipErrorInvalidValue);
    const std::lock_guard lock(graph_mutex());
    *event = work_of<EventWaitWork>(*find_node(node)).event->handle;
  });
}
HIP_API hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return api([&] {
    const std::lock_guard lock(graph_mutex());
    work_of<EventWaitWork>(*find_node(node)).event = find_event(event);
  });
}
HIP_API hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t executable, hipGraphNode_t node,
                                                     hipEvent_t event) {
  return api([&] {
    auto next = find_event(event);
    update_executable<EventWaitWork>(executable, node, [&](EventWaitWork& work) { work.event = next; });
  });
}

HIP_API hipError_t hipGraphAddMemAllocNode(hipGraphNode_t* node, hipGraph_t graph,
                                           const hipGraphNode_t* dependencies, size_t count,
                                           hipMemAllocNodeParams* parameters) {
  return add_node(node, graph, dependencies, count, [&](Graph&) -> Work {
    require(parameters && parameters->bytesize > 0 && parameters->poolProps.location.type == 1,
            hipErrorInvalidValue);
    Device& device = device_at(parameters->poolProps.location.id);
    void* base =
        allocate_memory(parameters->bytesize, MemoryKind::device, device, "hipGraphAddMemAllocNode").base;
    parameters->dptr = base;
    AllocateWork work;
    work.size = parameters->bytesize;
    work.memory = std::shared_ptr<void>(base, [](void* memory) {
      if (!shutting_down()) release_memory(memory);
    });
    return work;
  });
}
HIP_API hipError_t hipGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph,
                                          const hipGraphNode_t* dependencies, size_t count, void* pointer) {
  return add_node(node, graph, dependencies, count, [&](Graph& owner) -> Work {
    require(hipemu::address_space().find(pointer), hipErrorInvalidValue);
    FreeWork work{pointer, false};
    for (const auto& each : owner.nodes)
      if (const auto* made = std::get_if<AllocateWork>(&each->work))
        work.of_graph = work.of_graph || made->memory.get() == pointer;
    return work;
  });
}

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
