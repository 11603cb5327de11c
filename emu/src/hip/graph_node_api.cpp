// hipGraph*: nodes of all kinds, added by hand, read and changed, in graphs and in instantiated ones.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "hip/graph_handles.h"
#include "hip/memory.h"
#include "hip/module.h"
#include "hip/stream_table.h"

namespace hipemu::hip {
namespace {

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

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;
using hipemu::MemoryKind;

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
