// One GPU: its facts, its stream, its memory, and the kernels loaded on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
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

// What is to be known of a GPU before it can be used.
struct DeviceFacts {
  std::string name, architecture;
  int wave_size = 32, compute_units = 1;
  std::size_t shared_bytes = 0, total_memory = 0;
};

// A kernel on a device.
struct Function {
  FunctionHandle handle = nullptr;
  int most_threads = 1024;    // per block, as its registers allow
  bool starts_early = false;  // waits itself for the kernel before it (after_previous() in kernels/gpu.h)
};

// The arguments of a launch, by address: values must live until launch() returns.
class Arguments {
 public:
  template <class T>
  void add(const T&&) = delete;  // it would be gone by then
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
  // Blocks that any launch may have: HIP counts threads in 32 bits. Kernels with more to do go around.
  static constexpr std::uint64_t most_blocks = 1u << 20;

  unsigned x = 1, y = 1, z = 1;  // blocks
  unsigned threads = 256;        // per block
  unsigned shared = 0;           // bytes of shared memory besides what the kernel declares
  unsigned threads_y = 1, threads_z = 1;
  bool spreads = false;  // a block for each compute unit: started early, they might share some
  bool operator==(const LaunchShape&) const = default;
};

// Work that a library puts on a stream: anything but a kernel of ours.
using ForeignWork = std::function<void(StreamHandle)>;

class GpuDevice;
class InFlight;
class HostMemory;
class PinnedPool;

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
  virtual ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const Driver& driver() const { return driver_; }
  const std::string& architecture() const { return facts_.architecture; }
  const Target& target() const;  // without a matrix unit where Config::enable_matrix_cores is off
  const std::string& name() const { return facts_.name; }
  int wave_size() const { return facts_.wave_size; }
  int compute_units() const { return facts_.compute_units; }
  std::size_t total_memory() const { return facts_.total_memory; }
  virtual DeviceInfo info() const;
  MemoryPool& pool() { return *pool_; }
  const MemoryPool& pool() const { return *pool_; }
  PinnedPool& pinned() { return *pinned_; }
  HostMemory& host_memory() { return *host_memory_; }
  InFlight& in_flight() { return *in_flight_; }  // of stream()
  StreamHandle stream() const { return stream_; }
  StreamHandle copy_stream() const { return copy_stream_; }  // for copies beside the work of stream()
  void configure(const Config& config);

  // Makes it the current device of the calling thread; every call of the driver needs that.
  // Throws DeviceError once a kernel has failed: what the device holds since then means nothing.
  void use() const;
  // Waits for all work of stream(). Throws IndexError if a kernel met an index out of range since the last
  // time.
  void synchronize() const;
  // The same, but such an index is left for synchronize() to tell.
  void wait() const;
  // Throws that IndexError, without waiting.
  void tell_fault() const;
  // Throws for a code of the driver's that is not 0. A device that does not answer any more has failed.
  void check(int code, const char* what) const;
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  bool try_use() const;  // use() for destructors: false where it would throw
  // Asks until the answer is yes. A device that was lost answers a question, but not always a wait; one that
  // says "not yet" for longer than Config::device_timeout_s has failed.
  void poll(const std::function<int()>& question) const;
  bool answer(int code) const;  // to a question: yes, not yet; the device has failed where it is neither
  // Memory of the host for kernels that meet such an index: kernels/indexing.h says what they store.
  std::uint64_t* fault() const { return fault_; }

  // Numbers that are zero whenever a kernel begins: blocks count in them how many have arrived
  // (last_to_arrive() in kernels/gpu.h). At most `count`; kernels of stream() share them.
  std::uint32_t* arrivals(std::size_t count);

  // The function `name` of `source`, compiled and loaded on first use.
  Function function(const KernelSource& source, const std::string& name);
  // Before launches that ask for so many bytes of shared memory, which may be more than any launch may.
  void allow_shared(const Function& function, unsigned bytes) const;
  void launch(const Function& function, const LaunchShape& shape, Arguments& arguments) const;
  template <class... Values>
  void launch(const Function& function, const LaunchShape& shape, const Values&... values) const {
    Arguments arguments;
    (arguments.add(values), ...);
    launch(function, shape, arguments);
  }
  // Calls `work` with the device's stream. Where launches are being recorded, it is kept and called later,
  // and `pointers` is what tells two runs apart: work on the same pointers counts as the same.
  void foreign(std::span<const void* const> pointers, ForeignWork work) const;
  // What `work` does, as a graph that the caller destroys. Nothing is done yet.
  GraphHandle capture(const ForeignWork& work) const;
  void destroy_graph(GraphExecHandle executable) const;            // which may still run
  void free_destroyed_graphs() const;                              // by a wait(), where that is needed
  StreamHandle capture_stream() const { return capture_stream_; }  // that on which it is captured
  // Blocks that fill the device with a loop over the rest, for `items` of work in blocks of `per_block`.
  unsigned grid_for(std::uint64_t items, unsigned per_block) const;

 protected:
  // Does not ask the driver what the device is.
  GpuDevice(const Driver& driver, int ordinal, Device device, DeviceFacts facts,
            std::unique_ptr<MemorySource> memory);
  const DeviceFacts& facts() const { return facts_; }
  Device device() const { return device_; }

 private:
  virtual Function load(const KernelSource& source, const std::string& name);  // one at a time
  [[noreturn]] void fail(int code, const char* what) const;
  [[noreturn]] void fail(const std::string& reason) const;
  std::string failure() const;

  const Driver& driver_;
  int ordinal_;
  Device device_;
  DeviceFacts facts_;
  Target target_, plain_target_;  // the latter without a matrix unit
  StreamHandle stream_ = nullptr, copy_stream_ = nullptr, capture_stream_ = nullptr;
  mutable std::mutex capture_mutex_;
  std::uint64_t* fault_ = nullptr;
  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<PinnedPool> pinned_;
  std::unique_ptr<HostMemory> host_memory_;
  std::unique_ptr<InFlight> in_flight_;
  std::atomic<double> timeout_ = 0;  // of a wait, in seconds
  mutable std::atomic<bool> failed_ = false;
  mutable std::atomic<bool> graphs_destroyed_ = false;  // by HIP, since the last wait()
  mutable std::mutex failure_mutex_;
  mutable std::string failure_;
  std::mutex mutex_;
  std::unordered_map<std::string, Function> functions_;  // by source text and name
  std::shared_ptr<Buffer> arrivals_;
};

template <class MakeSource>
const Function& LazyFunction::get(GpuDevice& device, const MakeSource& make_source, const char* name) const {
  std::call_once(once_, [&] { function_ = device.function(make_source(), name); });
  return function_;
}

}  // namespace hearth::gpu
