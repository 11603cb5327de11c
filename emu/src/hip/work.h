// What a stream can be asked to do, as data: it is executed by the stream's thread, or becomes a node of a
// graph while the stream is captured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "exec/launch.h"
#include "hip/event.h"
#include "hip/stream.h"

namespace hipemu::hip {

struct Graph;

struct KernelWork {
  Launch launch;
  void* function = nullptr;       // as the program named it: a host function or a hipFunction_t
  std::vector<void*> parameters;  // into launch.arguments; made when someone asks
};

// A box of bytes: `depth` slices of `height` rows of `width` bytes.
struct Box {
  std::byte* base = nullptr;
  size_t pitch = 0;      // from row to row, bytes
  size_t slice = 0;      // from slice to slice, bytes
  bool tracked = false;  // lies in an allocation
};

struct CopyWork {
  Box to;
  Box from;
  size_t width = 0, height = 1, depth = 1;
  hipMemcpyKind kind = hipMemcpyDefault;
  std::shared_ptr<const std::vector<std::byte>> staged;  // `from`, copied when the call was made; else null
};

struct FillWork {
  Box to;
  unsigned element_size = 1;
  uint32_t value = 0;
  size_t width = 0, height = 1, depth = 1;  // width in elements
};

struct HostWork {
  hipHostFn_t function = nullptr;
  void* data = nullptr;
};

struct EventRecordWork {
  std::shared_ptr<Event> event;
};
struct EventWaitWork {
  std::shared_ptr<Event> event;
};
struct EmptyWork {};
struct ChildGraphWork {
  std::shared_ptr<Graph> graph;
};
// Memory of a graph: it has its address from the start, and comes and goes with the graph.
struct AllocateWork {
  std::shared_ptr<void> memory;
  size_t size = 0;
};
struct FreeWork {
  void* pointer = nullptr;
  bool of_graph = false;  // made by the same graph, which keeps it for the next launch
};

using Work = std::variant<KernelWork, CopyWork, FillWork, HostWork, EventRecordWork, EventWaitWork, EmptyWork,
                          ChildGraphWork, AllocateWork, FreeWork>;

// Hands work to the stream: into its queue, or into the graph that it is being captured to (the ticket is
// then empty).
Ticket submit(Stream& stream, Work work);

// Does it, now, on this thread. Nothing is done for a device that has failed.
void perform(Device& device, const Work& work);

}  // namespace hipemu::hip
