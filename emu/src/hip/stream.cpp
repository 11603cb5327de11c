// The queues of streams and their threads.
#include "hip/stream.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "hip/graph.h"
#include "hip/handle_table.h"
#include "hip/stream_table.h"

namespace hipemu::hip {

HandleTable<hipStream_t, Stream>& stream_table() {
  static auto& table = *new HandleTable<hipStream_t, Stream>;
  return table;
}

namespace {

// Threads of streams that are gone. A thread cannot join itself: whoever starts the next one does it.
class EndedThreads {
 public:
  void add(std::thread thread) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::move(thread));
  }
  void join() {
    std::vector<std::thread> ended;
    {
      const std::lock_guard lock(mutex_);
      ended.swap(threads_);
    }
    for (std::thread& thread : ended) thread.join();
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};
EndedThreads& ended_threads() {
  static auto& threads = *new EndedThreads;
  return threads;
}

}  // namespace

bool Ticket::done() const {
  if (!stream) return true;
  const std::lock_guard lock(stream->mutex_);
  return stream->completed_ >= number;
}

void Ticket::wait() const {
  if (!stream) return;
  std::unique_lock lock(stream->mutex_);
  stream->changed_.wait(lock, [&] { return stream->completed_ >= number || stream->stopped_; });
}

Stream::Stream(Device& on, Kind which, unsigned with_flags, int with_priority)
    : device(on), kind(which), flags(with_flags), priority(with_priority) {}

Ticket Stream::push(std::function<void()> command, std::vector<Ticket> after) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++enqueued_;
  queue_.push_back({number, std::move(command), std::move(after)});
  if (!thread_.joinable() && !stopped_) {
    join_ended_threads();
    expect_worker();
    thread_ = std::thread([self = shared_from_this()] { self->work(); });
  }
  changed_.notify_all();
  return {shared_from_this(), number};
}

Ticket Stream::enqueue(std::function<void()> command, std::vector<Ticket> after) {
  const std::lock_guard order(device.mutex);
  const auto add = [&](Stream& other) {
    Ticket ticket = other.tail();
    if (!ticket.done()) after.push_back(std::move(ticket));
  };
  if (kind == Kind::null) {
    for (const auto& other : device.streams)
      if (other->kind == Kind::blocking) add(*other);
  } else if (kind == Kind::blocking && device.null_stream) {
    add(*device.null_stream);
  }
  // A destroyed stream stays in the list while it has work; one that has none any more leaves it here.
  std::erase_if(device.streams, [&](const std::shared_ptr<Stream>& each) {
    const std::lock_guard lock(each->mutex_);
    return each->closing_ && each->completed_ == each->enqueued_;
  });
  return push(std::move(command), std::move(after));
}

Ticket Stream::tail() {
  const std::lock_guard lock(mutex_);
  return {shared_from_this(), enqueued_};
}

bool Stream::idle() {
  const std::lock_guard lock(mutex_);
  return completed_ == enqueued_;
}

void Stream::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void Stream::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void join_ended_threads() { ended_threads().join(); }

void Stream::work() {
  const WorkerScope scope;
  for (;;) {
    Command command;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty() || closing_ || stopped_; });
      if (stopped_ || queue_.empty()) {
        ended_threads().add(std::move(thread_));
        return;
      }
      command = std::move(queue_.front());
      queue_.pop_front();
    }
    for (const Ticket& ticket : command.after) ticket.wait();
    if (shutting_down()) {
      const std::lock_guard lock(mutex_);
      ended_threads().add(std::move(thread_));
      return;
    }
    command.run();
    command.run = nullptr;  // frees what it holds before anyone is told that it is done
    const std::lock_guard lock(mutex_);
    completed_ = command.number;
    changed_.notify_all();
  }
}

std::shared_ptr<Stream> null_stream(Device& device) {
  const std::lock_guard lock(device.mutex);
  if (!device.null_stream) device.null_stream = std::make_shared<Stream>(device, Stream::Kind::null, 0, 0);
  return device.null_stream;
}

namespace {

// The default streams of one thread; they end with it, once their work is done.
struct ThreadStreams {
  std::map<int, std::shared_ptr<Stream>> of_device;
  ~ThreadStreams() {
    for (auto& [index, stream] : of_device) {
      abandon_capture(*stream);
      stream->close();
    }
  }
};

}  // namespace

std::shared_ptr<Stream> thread_stream() {
  thread_local ThreadStreams streams;
  Device& device = current_device();
  auto& stream = streams.of_device[device.index];
  if (!stream) {
    stream = std::make_shared<Stream>(device, Stream::Kind::blocking, 0, 0);
    const std::lock_guard lock(device.mutex);
    device.streams.push_back(stream);
  }
  return stream;
}

std::shared_ptr<Stream> resolve_stream(hipStream_t handle) {
  if (!handle || handle == HIPEMU_STREAM_LEGACY) return null_stream(current_device());
  if (handle == HIPEMU_STREAM_PER_THREAD) return thread_stream();
  return require(stream_table().find(handle), hipErrorContextIsDestroyed);
}

void synchronize_device(Device& device) {
  std::vector<Ticket> tickets;
  {
    const std::lock_guard lock(device.mutex);
    if (device.null_stream) tickets.push_back(device.null_stream->tail());
    for (const auto& stream : device.streams) tickets.push_back(stream->tail());
  }
  for (const Ticket& ticket : tickets) ticket.wait();
  check_sticky(device);
}

void synchronize_stream(Stream& stream) {
  if (stream.kind == Stream::Kind::null) {
    // The null stream is done when all that it would wait for is.
    std::vector<Ticket> tickets;
    {
      const std::lock_guard lock(stream.device.mutex);
      for (const auto& other : stream.device.streams)
        if (other->kind == Stream::Kind::blocking) tickets.push_back(other->tail());
    }
    for (const Ticket& ticket : tickets) ticket.wait();
  }
  stream.synchronize();
  check_sticky(stream.device);
}

void stop_all_streams() {
  try {
    for (const auto& device : devices()) {
      // Another thread may be in a call when main() returns. It has the lock for a moment, unless it waits
      // for this one: that cannot be helped.
      std::unique_lock lock(device->mutex, std::defer_lock);
      for (int attempt = 0; attempt < 100 && !lock.try_lock(); ++attempt)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!lock) continue;
      if (device->null_stream) device->null_stream->stop();
      for (const auto& stream : device->streams) stream->stop();
    }
  } catch (const Failure&) {
  }
}

}  // namespace hipemu::hip
