// Streams: a queue and a thread each, so that work runs while the program goes on, and a synchronisation that
// the program forgot shows.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hip/runtime.h"

namespace hipemu::hip {

class Stream;
struct CaptureSession;
struct GraphNode;

// A place in the order of a stream: done when the command with this number is.
struct Ticket {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;

  bool done() const;
  // Returns when it is done, or when the process begins to exit.
  void wait() const;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Kind : uint8_t { null, blocking, non_blocking };

  Stream(Device& device, Kind kind, unsigned flags, int priority);

  // Puts a command at the end, after `after` and after what the rules of the null stream ask for: the null
  // stream waits for all blocking streams of its device, and they wait for it.
  Ticket enqueue(std::function<void()> command, std::vector<Ticket> after = {});
  Ticket tail();  // of all that was enqueued so far
  bool idle();
  // Waits for all that was enqueued so far.
  void synchronize() { tail().wait(); }
  // No more work will come; the thread ends once the queue is empty.
  void close();
  // The process exits: drops what has not begun.
  void stop();

  Device& device;
  const Kind kind;
  const unsigned flags;
  const int priority;
  hipStream_t handle = nullptr;

  // Stream capture; guarded by capture_mutex().
  std::shared_ptr<CaptureSession> capture;
  std::vector<std::shared_ptr<GraphNode>> capture_tail;

 private:
  friend struct Ticket;
  struct Command {
    uint64_t number;
    std::function<void()> run;
    std::vector<Ticket> after;
  };

  Ticket push(std::function<void()> command, std::vector<Ticket> after);
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Command> queue_;
  uint64_t enqueued_ = 0;
  uint64_t completed_ = 0;
  std::thread thread_;  // made with the first command; none again once it has ended
  bool closing_ = false;
  bool stopped_ = false;
};

// What a hipStream_t argument means: 0 and 1 are the null stream of the current device, 2 that of the thread.
// Throws hipErrorContextIsDestroyed for a handle that is none.
std::shared_ptr<Stream> resolve_stream(hipStream_t handle);
std::shared_ptr<Stream> null_stream(Device& device);
std::shared_ptr<Stream> thread_stream();  // the per-thread default stream of the current device
// Waits for everything on the device, and reports its sticky error.
void synchronize_device(Device& device);
// Waits for the stream and reports its device's sticky error.
void synchronize_stream(Stream& stream);
void stop_all_streams();
// Threads of streams that have come to their end are waited for: by whoever starts the next one, and at exit.
void join_ended_threads();

// 0 becomes the per-thread default stream: the *_spt entry points.
inline hipStream_t per_thread(hipStream_t stream) { return stream ? stream : HIPEMU_STREAM_PER_THREAD; }

}  // namespace hipemu::hip
