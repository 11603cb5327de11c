// One GPU: its facts, its stream, its memory, and the kernels loaded on it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/memory_pool.h"
#include "gpu/compiler.h"
#include "gpu/driver/driver.h"
#include "hearth/device.h"

namespace hearth::gpu {

// A kernel on a device.
struct Function {
  FunctionHandle handle = nullptr;
  int most_threads = 1024;  // per block, as its registers allow
};

// Collects pointers to the arguments of a launch; values must live until launch() returns.
class Arguments {
 public:
  template <class T>
  void add(const T& value) {
    pointers_.push_back(const_cast<void*>(static_cast<const void*>(&value)));
  }
  void** data() { return pointers_.data(); }

 private:
  std::vector<void*> pointers_;
};

// Safe from any thread. Lives as long as the process.
class GpuDevice {
 public:
  GpuDevice(const Driver& driver, int ordinal, Device device);

  const Driver& driver() const { return driver_; }
  const std::string& architecture() const { return architecture_; }
  const std::string& name() const { return name_; }
  int wave_size() const { return wave_size_; }
  int compute_units() const { return compute_units_; }
  std::size_t shared_bytes() const { return shared_bytes_; }
  std::size_t total_memory() const { return total_memory_; }
  std::size_t free_memory() const;
  MemoryPool& pool() { return *pool_; }
  StreamHandle stream() const { return stream_; }

  // Makes it the current device of the calling thread; every call of the driver needs that.
  void use() const { driver_.check(driver_.call.use_device(ordinal_), "choosing the device"); }
  void synchronize() const;

  // The function `name` of `source`, compiled and loaded on first use.
  Function function(const KernelSource& source, const std::string& name);
  void launch(const Function& function, unsigned blocks, unsigned threads, unsigned shared,
              Arguments& arguments) const;
  // Blocks that fill the device with a loop over the rest, for `items` of work in blocks of `per_block`.
  unsigned grid_for(std::uint64_t items, unsigned per_block) const;

 private:
  const Driver& driver_;
  int ordinal_;
  Device device_;
  std::string name_, architecture_;
  int wave_size_ = 32, compute_units_ = 1;
  std::size_t shared_bytes_ = 0, total_memory_ = 0;
  StreamHandle stream_ = nullptr;
  std::unique_ptr<MemoryPool> pool_;
  std::mutex mutex_;
  std::unordered_map<std::string, Function> functions_;  // by source text and name
};

}  // namespace hearth::gpu
