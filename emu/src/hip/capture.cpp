// Stream capture: work that is handed to a stream becomes nodes of a graph. Another stream joins the capture
// by waiting for an event that was recorded in it, and must be joined back the same way before the end.
#include <algorithm>
#include <atomic>
#include <set>

#include "hip/graph.h"
#include "hip/stream_table.h"

namespace hipemu::hip {

std::recursive_mutex& capture_mutex() {
  static auto& mutex = *new std::recursive_mutex;
  return mutex;
}

namespace {

// All that are in progress; guarded by capture_mutex(). The count is read without it: most programs capture
// nothing.
std::vector<std::shared_ptr<CaptureSession>>& sessions() {
  static auto& list = *new std::vector<std::shared_ptr<CaptureSession>>;
  return list;
}
std::atomic<int> session_count{0};

thread_local hipStreamCaptureMode thread_mode = hipStreamCaptureModeGlobal;

std::vector<GraphNode*> raw(const std::vector<std::shared_ptr<GraphNode>>& nodes) {
  std::vector<GraphNode*> result;
  for (const auto& node : nodes) result.push_back(node.get());
  return result;
}

void leave(CaptureSession& session) {
  for (const auto& weak : session.streams)
    if (const auto stream = weak.lock()) {
      stream->capture.reset();
      stream->capture_tail.clear();
    }
  std::erase_if(sessions(), [&](const auto& each) { return each.get() == &session; });
  session_count.store(static_cast<int>(sessions().size()));
}

}  // namespace

bool is_capturing(const Stream& stream) {
  if (session_count.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(capture_mutex());
  if (!stream.capture) {
    // The legacy stream waits for blocking streams, and those cannot be waited for while they are captured.
    if (stream.kind == Stream::Kind::null)
      for (const auto& session : sessions())
        for (const auto& weak : session->streams) {
          const auto other = weak.lock();
          if (!other || other->kind != Stream::Kind::blocking || &other->device != &stream.device) continue;
          session->invalid = true;
          throw Failure(hipErrorStreamCaptureImplicit);
        }
    return false;
  }
  require(!stream.capture->invalid, hipErrorStreamCaptureInvalidated);
  return true;
}

void abandon_capture(Stream& stream) {
  const std::lock_guard lock(capture_mutex());
  const auto session = std::move(stream.capture);
  stream.capture.reset();
  stream.capture_tail.clear();
  if (!session) return;
  session->invalid = true;
  if (session->origin == &stream) leave(*session);
}

void refuse_while_capturing(Stream& stream) {
  const std::lock_guard lock(capture_mutex());
  if (!is_capturing(stream)) return;
  stream.capture->invalid = true;
  throw Failure(hipErrorStreamCaptureUnsupported);
}

void refuse_unsafe_call() {
  if (session_count.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(capture_mutex());
  if (thread_mode == hipStreamCaptureModeRelaxed) return;
  for (const auto& session : sessions()) {
    const bool mine = session->thread == std::this_thread::get_id();
    const bool minds = session->mode == hipStreamCaptureModeGlobal
                           ? mine || thread_mode == hipStreamCaptureModeGlobal
                           : session->mode == hipStreamCaptureModeThreadLocal && mine;
    if (!minds) continue;
    session->invalid = true;
    throw Failure(hipErrorStreamCaptureUnsupported);
  }
}

void capture(Stream& stream, Work work) {
  const std::lock_guard lock(capture_mutex());
  const std::lock_guard graph_lock(graph_mutex());
  Graph& graph = *stream.capture->graph;
  if (auto* free = std::get_if<FreeWork>(&work))
    for (const auto& node : graph.nodes)
      if (const auto* made = std::get_if<AllocateWork>(&node->work))
        free->of_graph = free->of_graph || made->memory.get() == free->pointer;
  auto node = graph.add(std::move(work), raw(stream.capture_tail));
  stream.capture_tail = {std::move(node)};
}

void capture_event_record(Stream& stream, Event& event) {
  const std::lock_guard lock(capture_mutex());
  event.capture = stream.capture;
  event.captured = stream.capture_tail;
}

bool capture_event_wait(Stream& stream, Event& event) {
  if (session_count.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(capture_mutex());
  if (!event.capture || std::ranges::find(sessions(), event.capture) == sessions().end()) return false;
  require(!event.capture->invalid, hipErrorStreamCaptureInvalidated);
  if (stream.kind == Stream::Kind::null) {
    event.capture->invalid = true;
    throw Failure(hipErrorStreamCaptureImplicit);
  }
  if (!stream.capture) {
    stream.capture = event.capture;
    stream.capture_tail.clear();
    event.capture->streams.push_back(stream.weak_from_this());
  }
  if (stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    throw Failure(hipErrorStreamCaptureMerge);
  }
  for (const auto& node : event.captured)
    if (std::ranges::find(stream.capture_tail, node) == stream.capture_tail.end())
      stream.capture_tail.push_back(node);
  return true;
}

namespace {

void begin(hipStream_t handle, hipStreamCaptureMode mode, std::shared_ptr<Graph> graph,
           std::vector<std::shared_ptr<GraphNode>> dependencies) {
  require(mode >= hipStreamCaptureModeGlobal && mode <= hipStreamCaptureModeRelaxed, hipErrorInvalidValue);
  require(handle && handle != HIPEMU_STREAM_LEGACY, hipErrorStreamCaptureUnsupported);
  auto stream = resolve_stream(handle);
  const std::lock_guard lock(capture_mutex());
  require(!stream->capture, hipErrorIllegalState);
  static uint64_t last_id = 0;
  auto session = std::make_shared<CaptureSession>();
  session->id = ++last_id;
  session->graph = graph ? std::move(graph) : std::make_shared<Graph>();
  session->mode = mode;
  session->thread = std::this_thread::get_id();
  session->origin = stream.get();
  session->streams.push_back(stream);
  stream->capture = session;
  stream->capture_tail = std::move(dependencies);
  sessions().push_back(std::move(session));
  session_count.store(static_cast<int>(sessions().size()));
}

// Work that no other work waits for must be at the end of the origin: all that was forked off has come back.
bool all_joined(const CaptureSession& session) {
  std::set<const GraphNode*> reached;
  std::vector<const GraphNode*> pending;
  for (const auto& node : session.origin->capture_tail) pending.push_back(node.get());
  while (!pending.empty()) {
    const GraphNode* node = pending.back();
    pending.pop_back();
    if (!reached.insert(node).second) continue;
    for (const GraphNode* dependency : node->dependencies) pending.push_back(dependency);
  }
  for (const auto& weak : session.streams) {
    const auto stream = weak.lock();
    if (!stream || stream.get() == session.origin) continue;
    for (const auto& node : stream->capture_tail)
      if (!reached.contains(node.get())) return false;
  }
  return true;
}

void end(hipStream_t handle, hipGraph_t* result) {
  require(result, hipErrorInvalidValue);
  *result = nullptr;
  require(handle && handle != HIPEMU_STREAM_LEGACY, hipErrorIllegalState);
  auto stream = resolve_stream(handle);
  const std::lock_guard lock(capture_mutex());
  const auto session = require(stream->capture, hipErrorIllegalState);
  require(session->origin == stream.get(), hipErrorStreamCaptureUnmatched);
  require(session->mode == hipStreamCaptureModeRelaxed || session->thread == std::this_thread::get_id(),
          hipErrorStreamCaptureWrongThread);
  const bool invalid = session->invalid;
  const bool joined = all_joined(*session);
  leave(*session);
  require(!invalid, hipErrorStreamCaptureInvalidated);
  require(joined, hipErrorStreamCaptureUnjoined);
  if (!session->graph->handle) session->graph->handle = graph_table().insert(session->graph);
  *result = session->graph->handle;
}

void info(hipStream_t handle, hipStreamCaptureStatus* status, unsigned long long* id, hipGraph_t* graph,
          const hipGraphNode_t** dependencies, size_t* count) {
  require(status, hipErrorInvalidValue);
  *status = hipStreamCaptureStatusNone;
  auto stream = resolve_stream(handle);
  const std::lock_guard lock(capture_mutex());
  if (!stream->capture) return;
  CaptureSession& session = *stream->capture;
  *status = session.invalid ? hipStreamCaptureStatusInvalidated : hipStreamCaptureStatusActive;
  if (session.invalid) return;
  if (id) *id = session.id;
  if (graph) {
    if (!session.graph->handle) session.graph->handle = graph_table().insert(session.graph);
    *graph = session.graph->handle;
  }
  // Valid until the thread's next call, as HIP says.
  thread_local std::vector<hipGraphNode_t> handles;
  handles.clear();
  for (const auto& node : stream->capture_tail) handles.push_back(node->handle);
  if (dependencies) *dependencies = handles.data();
  if (count) *count = handles.size();
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return api([&] { begin(stream, mode, nullptr, {}); });
}
HIP_API hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode) {
  return hipStreamBeginCapture(per_thread(stream), mode);
}

HIP_API hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph,
                                                const hipGraphNode_t* nodes, const void* edge_data,
                                                size_t count, hipStreamCaptureMode mode) {
  return api([&] {
    require(!edge_data, hipErrorNotSupported);
    require((nodes != nullptr) == (count > 0), hipErrorInvalidValue);
    auto target = require(graph_table().find(graph), hipErrorInvalidValue);
    std::vector<std::shared_ptr<GraphNode>> dependencies;
    for (size_t i = 0; i < count; ++i) {
      auto node = require(node_table().find(nodes[i]), hipErrorInvalidValue);
      require(node->graph == target.get(), hipErrorInvalidValue);
      dependencies.push_back(std::move(node));
    }
    begin(stream, mode, std::move(target), std::move(dependencies));
  });
}

HIP_API hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  return api([&] { end(stream, graph); });
}
HIP_API hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t* graph) {
  return hipStreamEndCapture(per_thread(stream), graph);
}

HIP_API hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return api([&] { info(stream, status, nullptr, nullptr, nullptr, nullptr); });
}
HIP_API hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus* status) {
  return hipStreamIsCapturing(per_thread(stream), status);
}

HIP_API hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status,
                                           unsigned long long* id) {
  return api([&] { info(stream, status, id, nullptr, nullptr, nullptr); });
}
HIP_API hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus* status,
                                               unsigned long long* id) {
  return hipStreamGetCaptureInfo(per_thread(stream), status, id);
}

HIP_API hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                              unsigned long long* id, hipGraph_t* graph,
                                              const hipGraphNode_t** dependencies, size_t* count) {
  return api([&] { info(stream, status, id, graph, dependencies, count); });
}
HIP_API hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t stream, hipStreamCaptureStatus* status,
                                                  unsigned long long* id, hipGraph_t* graph,
                                                  const hipGraphNode_t** dependencies, size_t* count) {
  return hipStreamGetCaptureInfo_v2(per_thread(stream), status, id, graph, dependencies, count);
}

HIP_API hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t* nodes, size_t count,
                                                      unsigned flags) {
  return api([&] {
    require(flags <= 1 && (nodes || count == 0), hipErrorInvalidValue);
    auto on = resolve_stream(stream);
    const std::lock_guard lock(capture_mutex());
    require(on->capture != nullptr, hipErrorIllegalState);
    std::vector<std::shared_ptr<GraphNode>> tail;
    if (flags == 0) tail = on->capture_tail;
    for (size_t i = 0; i < count; ++i) {
      auto node = require(node_table().find(nodes[i]), hipErrorInvalidValue);
      require(node->graph == on->capture->graph.get(), hipErrorInvalidValue);
      if (std::ranges::find(tail, node) == tail.end()) tail.push_back(std::move(node));
    }
    on->capture_tail = std::move(tail);
  });
}

HIP_API hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return api([&] {
    require(mode && *mode >= hipStreamCaptureModeGlobal && *mode <= hipStreamCaptureModeRelaxed,
            hipErrorInvalidValue);
    std::swap(*mode, thread_mode);
  });
}
