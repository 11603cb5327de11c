// Setting a GPU up, loading and launching kernels.
#include "gpu/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "gpu/launch_recorder.h"
#include "graph/op.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

class DriverMemory final : public MemorySource {
 public:
  DriverMemory(const Driver& driver, int ordinal, std::size_t total)
      : driver_(driver), ordinal_(ordinal), total_(total) {}
  void* allocate(std::size_t bytes) override {
    driver_.check(driver_.call.use_device(ordinal_), "choosing the device");
    void* memory = nullptr;
    const int code = driver_.call.allocate(&memory, bytes);
    if (code == driver_.codes.out_of_memory) return nullptr;
    driver_.check(code, "allocating memory");
    return memory;
  }
  void release(void* memory) override {
    driver_.call.use_device(ordinal_);
    driver_.call.release(memory);  // waits for the work that uses it
  }
  std::size_t total_memory() const override { return total_; }

 private:
  const Driver& driver_;
  int ordinal_;
  std::size_t total_;
};

}  // namespace

GpuDevice::GpuDevice(const Driver& driver, int ordinal, Device device)
    : driver_(driver), ordinal_(ordinal), device_(device) {
  use();
  std::array<char, 256> text{};
  driver.check(driver.call.device_name(text.data(), static_cast<int>(text.size()), ordinal),
               "asking for the name");
  name_ = text.data();
  driver.check(driver.call.device_architecture(text.data(), static_cast<int>(text.size()), ordinal),
               "asking for the architecture");
  architecture_ = text.data();
  target_ = target_of(architecture_);
  driver.check(driver.call.device_total_memory(&total_memory_, ordinal), "asking for the memory");
  wave_size_ = driver.attribute(Attribute::wave_size, ordinal);
  target_.wave_size = wave_size_;
  compute_units_ = driver.attribute(Attribute::compute_units, ordinal);
  shared_bytes_ = static_cast<std::size_t>(driver.attribute(Attribute::shared_per_block, ordinal));
  constexpr unsigned non_blocking = 1;
  driver.check(driver.call.stream_create(&stream_, non_blocking), "creating a stream");
  void* fault = nullptr;
  driver.check(driver.call.allocate_host(&fault, sizeof *fault_, 0), "allocating memory of the host");
  fault_ = static_cast<std::uint64_t*>(fault);
  *fault_ = 0;
  pool_ =
      std::make_unique<MemoryPool>(std::make_unique<DriverMemory>(driver, ordinal, total_memory_), device);
}

std::size_t GpuDevice::free_memory() const {
  use();
  std::size_t free = 0, total = 0;
  driver_.check(driver_.call.memory_info(&free, &total), "asking for free memory");
  return std::min(free, total);
}

void GpuDevice::use() const {
  if (failed_.load(std::memory_order_relaxed)) throw DeviceError(failure());
  driver_.check(driver_.call.use_device(ordinal_), "choosing the device");
}

// Polls: a device that was lost answers a question, but not always a wait.
void GpuDevice::wait() const {
  const auto begin = std::chrono::steady_clock::now();
  constexpr auto spinning = std::chrono::microseconds(200), most = std::chrono::microseconds(500);
  for (auto pause = std::chrono::microseconds(10);;) {
    const int code = driver_.call.stream_query(stream_);
    if (code == 0) return;
    if (code != driver_.codes.not_ready) fail(code);
    if (std::chrono::steady_clock::now() - begin < spinning) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, most);
    }
  }
}

void GpuDevice::fail(int code) const {
  const char* text = nullptr;
  driver_.call.error_text(code, &text);
  {
    const std::lock_guard lock(failure_mutex_);
    failure_ = fmt::format("[{}] a kernel failed: {} (code {}); {} cannot be used by this process any more",
                           driver_.name, text != nullptr ? text : "unknown error", code, to_string(device_));
  }
  failed_.store(true, std::memory_order_relaxed);
  throw DeviceError(failure());
}

std::string GpuDevice::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void GpuDevice::synchronize() const {
  use();
  wait();
  const std::uint64_t fault = std::atomic_ref(*fault_).exchange(0);
  if (fault == 0) return;
  throw IndexError(fmt::format("[{}] index {} is out of range",
                               op_name(static_cast<Op>((fault & 0xffff) - 1)),
                               static_cast<std::int64_t>(fault) >> 16));
}

Function GpuDevice::function(const KernelSource& source, const std::string& name) {
  std::string key = name;
  key += '\n';
  for (const std::string& option : source.options) key += option + '\n';
  key += source.text;
  const std::lock_guard lock(mutex_);
  if (const auto found = functions_.find(key); found != functions_.end()) return found->second;
  const std::vector<char> code = compile(driver_, architecture_, wave_size_, source);
  use();
  ModuleHandle module = nullptr;
  driver_.check(driver_.call.module_load(&module, code.data()), "loading a kernel");
  Function function;
  driver_.check(driver_.call.module_function(&function.handle, module, name.c_str()), "finding a kernel");
  int most = 0;
  if (driver_.call.function_attribute(&most, static_cast<int>(FunctionAttribute::threads_per_block),
                                      function.handle) == 0 &&
      most > 0)
    function.most_threads = most;
  functions_.emplace(std::move(key), function);
  return function;
}

void GpuDevice::launch(const Function& function, const LaunchShape& shape, Arguments& arguments) const {
  if (LaunchRecorder* recorder = LaunchRecorder::current()) return recorder->add(function, shape, arguments);
  use();
  driver_.check(
      driver_.call.launch(function.handle, shape.x, shape.y, shape.z, shape.threads, shape.threads_y,
                          shape.threads_z, shape.shared, stream_, arguments.data(), nullptr),
      "launching a kernel");
}

unsigned GpuDevice::grid_for(std::uint64_t items, unsigned per_block) const {
  const std::uint64_t needed = (items + per_block - 1) / per_block;
  const std::uint64_t resident = static_cast<std::uint64_t>(compute_units_) * 16;
  return static_cast<unsigned>(std::max<std::uint64_t>(1, std::min(needed, resident)));
}

}  // namespace hearth::gpu
