// The buffers a thread keeps for scratch memory.
#include "cpu/scratch.h"

#include <algorithm>
#include <new>
#include <vector>

namespace hearth::cpu {
namespace {

constexpr std::align_val_t alignment{64};
constexpr std::int64_t kept_most = 16 << 20;  // floats; a larger buffer goes back to the system at once

struct Buffer {
  float* data;
  std::int64_t capacity;
};

struct KeptBuffers {
  std::vector<Buffer> buffers;
  ~KeptBuffers() {
    for (const Buffer& buffer : buffers) ::operator delete(buffer.data, alignment);
  }
};

thread_local KeptBuffers kept;

}  // namespace

Scratch::Scratch(std::int64_t count) : data_(nullptr), capacity_(std::max<std::int64_t>(count, 1)) {
  // The smallest that fits, so that a small request does not take the large buffer a later one needs.
  auto& buffers = kept.buffers;
  auto best = buffers.end();
  for (auto it = buffers.begin(); it != buffers.end(); ++it)
    if (it->capacity >= capacity_ && (best == buffers.end() || it->capacity < best->capacity)) best = it;
  if (best != buffers.end()) {
    data_ = best->data;
    capacity_ = best->capacity;
    buffers.erase(best);
    return;
  }
  // None fits: the new buffer replaces the largest one kept.
  if (!buffers.empty()) {
    const auto largest =
        std::max_element(buffers.begin(), buffers.end(),
                         [](const Buffer& a, const Buffer& b) { return a.capacity < b.capacity; });
    ::operator delete(largest->data, alignment);
    buffers.erase(largest);
  }
  data_ = static_cast<float*>(::operator new(static_cast<std::size_t>(capacity_) * sizeof(float), alignment));
}

Scratch::~Scratch() {
  constexpr std::size_t most_buffers = 8;
  if (capacity_ <= kept_most && kept.buffers.size() < most_buffers) {
    kept.buffers.reserve(most_buffers);
    kept.buffers.push_back({data_, capacity_});
  } else {
    ::operator delete(data_, alignment);
  }
}

}  // namespace hearth::cpu
