// Graphs of work, and the capture of streams into them.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "hip/handle_table.h"
#include "hip/work.h"

namespace hipemu::hip {

struct GraphNode {
  hipGraphNode_t handle = nullptr;
  Work work;
  Graph* graph = nullptr;  // that holds it; null once removed
  std::vector<GraphNode*> dependencies;
  bool enabled = true;
};

struct Graph {
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  std::shared_ptr<GraphNode> add(Work work, const std::vector<GraphNode*>& dependencies);

  hipGraph_t handle = nullptr;
  std::vector<std::shared_ptr<GraphNode>> nodes;  // in the order they were added
  // For a clone: from the nodes of the original.
  std::unordered_map<hipGraphNode_t, GraphNode*> clone_of;
};

// The graphs of the process are guarded by one lock: they are built by few threads and launched from copies.
std::recursive_mutex& graph_mutex();

HandleTable<hipGraph_t, Graph>& graph_table();
HandleTable<hipGraphNode_t, GraphNode>& node_table();

// A graph with the same nodes and edges. Child graphs are cloned too.
std::shared_ptr<Graph> clone_graph(const Graph& graph);
// Nodes in an order that respects the edges; among those that could be next, the one added last comes first,
// so that an edge that is missing shows. Throws hipErrorInvalidValue for a cycle.
std::vector<GraphNode*> execution_order(const Graph& graph);
// Performs all nodes, on this thread.
void perform_graph(Device& device, const Graph& graph);

// A capture in progress: between hipStreamBeginCapture and hipStreamEndCapture.
struct CaptureSession {
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  bool invalid = false;
  std::vector<std::weak_ptr<Stream>> streams;  // that have joined
};

// Guards CaptureSessions and the capture members of streams and events.
std::recursive_mutex& capture_mutex();
// True when the stream is being captured; throws hipErrorStreamCaptureInvalidated when that was spoilt.
bool is_capturing(const Stream& stream);
// The stream is gone: a capture that began on it has failed and is over, one that it had joined has failed.
void abandon_capture(Stream& stream);
// A call that cannot be captured was made: a stream that is being captured becomes invalid.
void refuse_while_capturing(Stream& stream);
// The same for calls that name no stream, like hipMalloc or hipDeviceSynchronize: not while a capture that
// minds is in progress.
void refuse_unsafe_call();
void capture(Stream& stream, Work work);
void capture_event_record(Stream& stream, Event& event);
// Makes the stream wait for an event that was recorded in a capture: the stream joins it. False when the
// event was not.
bool capture_event_wait(Stream& stream, Event& event);

}  // namespace hipemu::hip
