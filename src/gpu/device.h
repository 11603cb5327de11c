// One GPU: its facts, its stream, its memory, and the kernels loaded on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/memory_pool.h"
#include "gpu/compiler.h"
#include "gpu/driver/driver.h"
#include "gpu/target.h"
#include "hearth/device.h"
#include "hearth/small_vector.h"

namespace hearth::gpu {

// A kernel on a device.
struct Function {
  FunctionHandle handle = nullptr;
  int most_threads = 1024;  // per block, as its registers allow
};

// The arguments of a launch, by address: values must live until launch() returns.
class Arguments {
 public:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    pointers_.push_back(const_cast<void*>(static_cast<const void*>(&value)));
    sizes_.push_back(sizeof(T));
  }
  void add(const void* value, std::size_t bytes) {
    pointers_.push_back(const_cast<void*>(value));
    sizes_.push_back(static_cast<std::uint32_t>(bytes));
  }
  void** data() { return pointers_.data(); }
  std::size_t count() const { return pointers_.size(); }
  std::size_t size(std::size_t index) const { return sizes_[index]; }

 private:
  SmallVector<void*, 24> pointers_;
  SmallVector<std::uint32_t, 24> sizes_;
};

struct LaunchShape {
  unsigned x = 1, y = 1, z = 1;  // blocks
  unsigned threads = 256;        // per block
  unsigned shared = 0;           // bytes of shared memory besides what the kernel declares
  unsigned threads_y = 1, threads_z = 1;
  bool operator==(const LaunchShape&) const = default;
};

class GpuDevice;

// A function that is compiled when it is first needed: which of several variants a step runs may follow from
// the alignment of its arguments. Safe from any thread.
class LazyFunction {
 public:
  template <class MakeSource>
  const Function& get(GpuDevice& device, const MakeSource& make_source, const char* name) const;

 private:
  mutable std::once_flag once_;
  mutable Function function_;
};

// Safe from any thread. Lives as long as the process.
class GpuDevice {
 public:
  GpuDevice(const Driver& driver, int ordinal, Device device);

  const Driver& driver() const { return driver_; }
  const std::string& architecture() const { return architecture_; }
  const Target& target() const { return target_; }
  const std::string& name() const { return name_; }
  int wave_size() const { return wave_size_; }
  int compute_units() const { return compute_units_; }
  std::size_t shared_bytes() const { return shared_bytes_; }
  std::size_t total_memory() const { return total_memory_; }
  std::size_t free_memory() const;
  MemoryPool& pool() { return *pool_; }
  StreamHandle stream() const { return stream_; }

  // Makes it the current device of the calling thread; every call of the driver needs that.
  // Throws DeviceError once a kernel has failed: what the device holds since then means nothing.
  void use() const;
  // Waits for all work. Throws IndexError if a kernel met an index out of range since the last time.
  void synchronize() const;
  // Memory of the host for kernels that meet such an index: kernels/indexing.h says what they store.
  std::uint64_t* fault() const { return fault_; }

  // The function `name` of `source`, compiled and loaded on first use.
  Function function(const KernelSource& source, const std::string& name);
  void launch(const Function& function, const LaunchShape& shape, Arguments& arguments) const;
  template <class... Values>
  void launch(const Function& function, const LaunchShape& shape, const Values&... values) const {
    Arguments arguments;
    (arguments.add(values), ...);
    launch(function, shape, arguments);
  }
  // Blocks that fill the device with a loop over the rest, for `items` of work in blocks of `per_block`.
  unsigned grid_for(std::uint64_t items, unsigned per_block) const;

 private:
  void wait() const;
  [[noreturn]] void fail(int code) const;
  std::string failure() const;

  const Driver& driver_;
  int ordinal_;
  Device device_;
  std::string name_, architecture_;
  Target target_;
  int wave_size_ = 32, compute_units_ = 1;
  std::size_t shared_bytes_ = 0, total_memory_ = 0;
  StreamHandle stream_ = nullptr;
  std::uint64_t* fault_ = nullptr;
  std::unique_ptr<MemoryPool> pool_;
  mutable std::atomic<bool> failed_ = false;
  mutable std::mutex failure_mutex_;
  mutable std::string failure_;
  std::mutex mutex_;
  std::unordered_map<std::string, Function> functions_;  // by source text and name
};

template <class MakeSource>
const Function& LazyFunction::get(GpuDevice& device, const MakeSource& make_source, const char* name) const {
  std::call_once(once_, [&] { function_ = device.function(make_source(), name); });
  return function_;
}

}  // namespace hearth::gpu
