// Piece by piece: while the device copies one, the host fills or empties the next.
#include "gpu/staged_copy.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/thread_pool.h"
#include "gpu/event.h"
#include "gpu/pinned_pool.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// Calls use(offset, size) for each piece.
template <class Use>
void in_pieces(std::size_t bytes, const Use& use) {
  for (std::size_t offset = 0; offset < bytes; offset += PinnedPool::largest)
    use(offset, std::min(PinnedPool::largest, bytes - offset));
}

// A copy engine is faster than one thread. Little, such as the scores of a token, is copied sooner than
// another thread wakes up.
void copy_by_threads(std::byte* target, const std::byte* source, std::size_t bytes) {
  constexpr std::size_t little = 1 << 20;
  constexpr std::int64_t grain = 256 << 10;
  if (bytes <= little) {
    std::memcpy(target, source, bytes);
    return;
  }
  parallel_for(static_cast<std::int64_t>(bytes), grain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  });
}

// One that is dropped needs no care: its memory is kept for uploads only, and they follow each other.
class CopyStreamUpload final : public Upload {
 public:
  CopyStreamUpload(GpuDevice& device, const void* host, std::size_t bytes)
      : device_(device), copied_(device) {
    MemoryPool::Mark last_use;
    memory_ = device.pool().allocate_marked(
        bytes, [&device] { return mark_of_use(device); }, last_use);
    if (last_use) std::static_pointer_cast<Event>(last_use)->hold(device.copy_stream());
    copy_to_device(device, memory_->data, host, bytes, device.copy_stream());
    copied_.record(device.copy_stream());
  }
  bool done() const override { return copied_.reached(); }
  std::shared_ptr<Buffer> finish() override {
    copied_.hold(device_.stream());
    return std::move(memory_);
  }

 private:
  // Where the device's stream is when the memory is given back: what is copied into it next comes after that.
  static MemoryPool::Mark mark_of_use(GpuDevice& device) {
    try {
      auto event = std::make_shared<Event>(device);
      event->record(device.stream());
      return event;
    } catch (const Error&) {
    }
    try {
      device.poll([&] { return device.driver().call.stream_query(device.stream()); });
    } catch (const Error&) {  // the device has failed: there is no next
    }
    return nullptr;
  }

  GpuDevice& device_;
  Event copied_;
  std::shared_ptr<Buffer> memory_;
};

// Its source is not given back before the copy is done.
class CopyStreamDownload final : public Download {
 public:
  CopyStreamDownload(GpuDevice& device, void* host, std::shared_ptr<Buffer> source, std::size_t offset,
                     std::size_t bytes)
      : device_(device), source_(std::move(source)), computed_(device), copied_(device) {
    computed_.record(device.stream());
    computed_.hold(device.copy_stream());
    device.check(
        device.driver().call.copy_to_host(host, static_cast<const std::byte*>(source_->data) + offset, bytes,
                                          device.copy_stream()),
        "copying to the host");
    copied_.record(device.copy_stream());
  }
  ~CopyStreamDownload() override {
    try {
      copied_.wait();
    } catch (const Error&) {  // the device has failed: nobody copies any more
    }
  }
  void wait() override {
    copied_.wait();
    device_.free_destroyed_graphs();  // who only downloads waits for nothing else
    device_.tell_fault();
  }

 private:
  GpuDevice& device_;
  std::shared_ptr<Buffer> source_;
  Event computed_, copied_;
};

}  // namespace

void copy_to_device(GpuDevice& device, void* target, const void* host, std::size_t bytes,
                    StreamHandle stream) {
  in_pieces(bytes, [&](std::size_t offset, std::size_t size) {
    const PinnedPool::Block block = device.pinned().take(size);
    copy_by_threads(block.data(), static_cast<const std::byte*>(host) + offset, size);
    device.use();
    device.check(device.driver().call.copy_to_device(static_cast<std::byte*>(target) + offset, block.data(),
                                                     size, stream),
                 "copying to the device");
    block.used_in(stream);
  });
}

void copy_to_host(GpuDevice& device, void* host, const void* source, std::size_t bytes) {
  struct Piece {
    PinnedPool::Block block;
    std::size_t offset, size;
  };
  std::deque<Piece> under_way;
  const auto empty_oldest = [&] {
    const Piece& piece = under_way.front();
    piece.block.wait();
    copy_by_threads(static_cast<std::byte*>(host) + piece.offset, piece.block.data(), piece.size);
    under_way.pop_front();
  };
  // A thread that waits for pinned memory must not have any, or two could wait for each other.
  const auto take = [&](std::size_t size) {
    constexpr std::size_t most = 4;  // pieces under way
    for (;;) {
      if (under_way.size() < most)
        if (PinnedPool::Block block = device.pinned().try_take(size)) return block;
      if (under_way.empty()) return device.pinned().take(size);
      empty_oldest();
    }
  };
  in_pieces(bytes, [&](std::size_t offset, std::size_t size) {
    Piece piece{take(size), offset, size};
    device.use();
    device.check(
        device.driver().call.copy_to_host(piece.block.data(), static_cast<const std::byte*>(source) + offset,
                                          size, device.stream()),
        "copying to the host");
    piece.block.used_in(device.stream());
    under_way.push_back(std::move(piece));
  });
  while (!under_way.empty()) empty_oldest();
}

std::unique_ptr<Download> start_download(GpuDevice& device, void* host, std::shared_ptr<Buffer> source,
                                         std::size_t offset, std::size_t bytes) {
  return std::make_unique<CopyStreamDownload>(device, host, std::move(source), offset, bytes);
}

std::unique_ptr<Upload> start_upload(GpuDevice& device, const void* host, std::size_t bytes) {
  return std::make_unique<CopyStreamUpload>(device, host, bytes);
}

}  // namespace hearth::gpu
