// Setting a GPU up, loading and launching kernels.
#include "gpu/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/system_memory.h"
#include "base/whole_bytes.h"
#include "gpu/backends.h"
#include "gpu/host_memory.h"
#include "gpu/in_flight.h"
#include "gpu/launch_recorder.h"
#include "gpu/pinned_pool.h"
#include "graph/op.h"
#include "hearth/config.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

class DriverMemory final : public MemorySource {
 public:
  DriverMemory(const Driver& driver, int ordinal)
      : driver_(driver),
        ordinal_(ordinal),
        integrated_(driver.attribute(Attribute::integrated, ordinal) != 0) {
    driver.check(driver.call.device_total_memory(&total_, ordinal), "asking for the memory");
  }
  void* allocate(std::size_t bytes) override {
    driver_.check(driver_.call.use_device(ordinal_), "choosing the device");
    void* memory = nullptr;
    const int code = driver_.call.allocate(&memory, bytes);
    if (code == driver_.codes.out_of_memory) return nullptr;
    driver_.check(code, "allocating memory");
    return memory;
  }
  void release(void* memory) override {
    if (driver_.call.use_device(ordinal_) != 0) return;  // the device is gone, and its memory with it
    driver_.call.release(memory);                        // waits for the work that uses it
  }
  std::size_t total_memory() const override { return total_; }
  bool has(std::size_t bytes) const override { return !integrated_ || system_has(bytes); }
  bool of_host() const override { return integrated_; }

 private:
  const Driver& driver_;
  int ordinal_;
  bool integrated_;
  std::size_t total_ = 0;
};

DeviceFacts ask(const Driver& driver, int ordinal) {
  driver.check(driver.call.use_device(ordinal), "choosing the device");
  DeviceFacts facts;
  std::array<char, 256> text{};
  driver.check(driver.call.device_name(text.data(), static_cast<int>(text.size()), ordinal),
               "asking for the name");
  facts.name = text.data();
  driver.check(driver.call.device_architecture(text.data(), static_cast<int>(text.size()), ordinal),
               "asking for the architecture");
  facts.architecture = text.data();
  driver.check(driver.call.device_total_memory(&facts.total_memory, ordinal), "asking for the memory");
  facts.wave_size = driver.attribute(Attribute::wave_size, ordinal);
  facts.compute_units = driver.attribute(Attribute::compute_units, ordinal);
  facts.shared_bytes = static_cast<std::size_t>(driver.attribute(Attribute::shared_per_block, ordinal));
  return facts;
}

// Whether every kernel of a text waits for the one before it.
bool all_wait(std::string_view text) {
  const auto count = [&](std::string_view word) {
    std::size_t times = 0;
    for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) ++times;
    return times;
  };
  const std::size_t kernels = count("KERNEL");
  return kernels > 0 && count("after_previous();") == kernels;
}

}  // namespace

GpuDevice::GpuDevice(const Driver& driver, int ordinal, Device device, DeviceFacts facts,
                     std::unique_ptr<MemorySource> memory)
    : driver_(driver),
      ordinal_(ordinal),
      device_(device),
      facts_(std::move(facts)),
      target_(target_of(facts_.architecture)),
      pool_(std::make_unique<MemoryPool>(std::move(memory), device)),
      pinned_(std::make_unique<PinnedPool>(*this)),
      host_memory_(std::make_unique<HostMemory>(*this)) {
  target_.wave_size = facts_.wave_size;
  plain_target_ = target_;
  plain_target_.matrix = MatrixUnit::none;
  constexpr unsigned non_blocking = 1;
  for (StreamHandle* stream : {&stream_, &copy_stream_, &capture_stream_})
    driver.check(driver.call.stream_create(stream, non_blocking), "creating a stream");
  in_flight_ = std::make_unique<InFlight>(*this, stream_);
  void* fault = nullptr;
  driver.check(driver.call.allocate_host(&fault, sizeof *fault_, 0), "allocating memory of the host");
  fault_ = static_cast<std::uint64_t*>(fault);
  *fault_ = 0;
  configure(config());
}

GpuDevice::GpuDevice(const Driver& driver, int ordinal, Device device)
    : GpuDevice(driver, ordinal, device, ask(driver, ordinal),
                std::make_unique<DriverMemory>(driver, ordinal)) {}

GpuDevice::~GpuDevice() {
  if (try_use()) driver_.call.release_host(fault_);
}

void GpuDevice::configure(const Config& config) {
  pool_->configure(config);
  pinned_->set_limit(whole_bytes(config.pinned_pool_size_mb * (1 << 20)));
  in_flight_->set_limit(whole_bytes(config.max_in_flight_gb * (1 << 30)));
  timeout_ = config.device_timeout_s;
}

DeviceInfo GpuDevice::info() const {
  DeviceInfo info = describe(device_);
  use();
  std::size_t free = 0, total = 0;
  check(driver_.call.memory_info(&free, &total), "asking for free memory");
  info.free_memory = std::min(free, total);
  return info;
}

const Target& GpuDevice::target() const { return config().enable_matrix_cores ? target_ : plain_target_; }

void GpuDevice::use() const {
  if (failed()) throw DeviceError(failure());
  check(driver_.call.use_device(ordinal_), "choosing the device");
}

bool GpuDevice::try_use() const { return !failed() && driver_.call.use_device(ordinal_) == 0; }

void GpuDevice::check(int code, const char* what) const {
  if (code == 0) return;
  // Some errors are of the call, others mean the end of the device; the numbers do not tell which.
  const int state = driver_.call.stream_query(stream_);
  if (state != 0 && state != driver_.codes.not_ready) fail(state, what);
  driver_.check(code, what);
}

void GpuDevice::allow_shared(const Function& function, unsigned bytes) const {
  if (target().amd) return;  // HIP gives any launch what the chip has
  use();
  check(driver_.call.allow_shared(function.handle, static_cast<int>(bytes)), "asking for shared memory");
}

bool GpuDevice::answer(int code) const {
  if (code != 0 && code != driver_.codes.not_ready) fail(code, "a kernel or a copy");
  return code == 0;
}

void GpuDevice::poll(const std::function<int()>& question) const {
  const auto begin = std::chrono::steady_clock::now();
  // A token is over in a few milliseconds, and its successor waits for us: waking up from sleep would cost up
  // to a tenth of it. Longer work loses at most a fiftieth of the wait to sleep.
  using namespace std::chrono_literals;
  constexpr std::chrono::duration<double> spinning = 20ms, longest = 500us;
  while (!answer(question())) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (failed()) throw DeviceError(failure());  // another thread's wait has ended
    if (waited < spinning) {
      std::this_thread::yield();
    } else if (waited.count() > timeout_.load(std::memory_order_relaxed)) {
      fail(fmt::format("[{}] the work has not ended within {:.4g} s (device_timeout_s)", driver_.name,
                       waited.count()));
    } else {
      std::this_thread::sleep_for(std::min(waited / 50, longest));
    }
  }
}

void GpuDevice::fail(int code, const char* what) const {
  const char* text = nullptr;
  driver_.call.error_text(code, &text);
  fail(fmt::format("[{}] {} failed: {} (code {})", driver_.name, what,
                   text != nullptr ? text : "unknown error", code));
}

void GpuDevice::fail(const std::string& reason) const {
  {
    const std::lock_guard lock(failure_mutex_);
    failure_ = fmt::format("{}; {} cannot be used by this process any more", reason, to_string(device_));
  }
  failed_.store(true, std::memory_order_relaxed);
  throw DeviceError(failure());
}

std::string GpuDevice::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void GpuDevice::wait() const {
  use();
  const std::uint64_t position = in_flight_->position();
  poll([this] { return driver_.call.stream_query(stream_); });
  in_flight_->finished(position);
  // Some ROCm free such graphs only in a wait of their own, which has nothing to wait for by now.
  if (graphs_destroyed_.exchange(false)) check(driver_.call.stream_synchronize(stream_), "waiting");
}

void GpuDevice::destroy_graph(GraphExecHandle executable) const {
  driver_.call.graph_exec_destroy(executable);
  if (driver_.kind == DeviceKind::rocm) graphs_destroyed_ = true;
}

void GpuDevice::free_destroyed_graphs() const {
  if (graphs_destroyed_) wait();
}

void GpuDevice::synchronize() const {
  wait();
  tell_fault();
}

void GpuDevice::tell_fault() const {
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
  const Function function = load(source, name);
  functions_.emplace(std::move(key), function);
  return function;
}

Function GpuDevice::load(const KernelSource& source, const std::string& name) {
  const std::vector<char> code = compile(driver_, architecture(), wave_size(), source);
  use();
  ModuleHandle module = nullptr;
  int result = driver_.call.module_load(&module, code.data());
  if (result == driver_.codes.out_of_memory) {  // blocks kept for later may be what is missing
    pool_->empty_cache();
    result = driver_.call.module_load(&module, code.data());
  }
  check(result, "loading a kernel");
  Function function;
  function.starts_early = target().early_start && all_wait(source.text);
  check(driver_.call.module_function(&function.handle, module, name.c_str()), "finding a kernel");
  int most = 0;
  if (driver_.call.function_attribute(&most, static_cast<int>(FunctionAttribute::threads_per_block),
                                      function.handle) == 0 &&
      most > 0)
    function.most_threads = most;
  return function;
}

void GpuDevice::launch(const Function& function, const LaunchShape& shape, Arguments& arguments) const {
  if (LaunchRecorder* recorder = LaunchRecorder::current()) return recorder->add(function, shape, arguments);
  use();
  check(driver_.call.launch(function.handle, shape.x, shape.y, shape.z, shape.threads, shape.threads_y,
                            shape.threads_z, shape.shared, stream_, arguments.data(), nullptr),
        "launching a kernel");
}

void GpuDevice::foreign(std::span<const void* const> pointers, ForeignWork work) const {
  if (LaunchRecorder* recorder = LaunchRecorder::current())
    return recorder->add_foreign(pointers, std::move(work));
  use();
  work(stream_);
}

GraphHandle GpuDevice::capture(const ForeignWork& work) const {
  const std::lock_guard lock(capture_mutex_);
  use();
  // Nobody else uses this stream, so that libraries may do what capturing forbids in the other modes, such as
  // loading a kernel.
  constexpr int relaxed = 2;
  check(driver_.call.capture_begin(capture_stream_, relaxed), "beginning to capture");
  GraphHandle graph = nullptr;
  try {
    work(capture_stream_);
  } catch (...) {
    driver_.call.capture_end(capture_stream_, &graph);
    if (graph != nullptr) driver_.call.graph_destroy(graph);
    throw;
  }
  check(driver_.call.capture_end(capture_stream_, &graph), "capturing");
  return graph;
}

std::uint32_t* GpuDevice::arrivals(std::size_t count) {
  constexpr std::size_t most = 1 << 14;
  if (count > most)
    throw KernelError(fmt::format("{} blocks cannot count each other; at most {}", count, most));
  const std::lock_guard lock(mutex_);
  if (!arrivals_) {
    auto numbers = pool_->allocate(most * sizeof(std::uint32_t));
    use();
    check(driver_.call.fill_bytes(numbers->data, 0, most * sizeof(std::uint32_t), stream_), "filling memory");
    arrivals_ = std::move(numbers);
  }
  return static_cast<std::uint32_t*>(arrivals_->data);
}

unsigned GpuDevice::grid_for(std::uint64_t items, unsigned per_block) const {
  const std::uint64_t needed = (items + per_block - 1) / per_block;
  const std::uint64_t resident = static_cast<std::uint64_t>(compute_units()) * 16;
  return static_cast<unsigned>(std::max<std::uint64_t>(1, std::min(needed, resident)));
}

}  // namespace hearth::gpu
