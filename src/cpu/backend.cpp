// The CPU backend.
#include "device/backend.h"

#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>
#include <chrono>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/config_listeners.h"
#include "base/system_memory.h"
#include "base/thread_pool.h"
#include "cpu/isa.h"
#include "cpu/kernels.h"
#include "cpu/repack.h"
#include "device/memory_pool.h"
#include "hearth/error.h"

namespace hearth::cpu {
namespace {

std::size_t physical_memory() {
  std::size_t total =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  std::ifstream limit("/sys/fs/cgroup/memory.max");  // a container may have less
  std::size_t bytes = 0;
  if (limit >> bytes && bytes > 0) total = std::min(total, bytes);
  return total;
}

// The system's memory, in huge pages where blocks are large.
class HostMemory final : public MemorySource {
 public:
  void* allocate(std::size_t size) override {
    constexpr std::size_t alignment = 64, huge_page = 2 << 20;
    void* data = nullptr;
    const bool large = size >= 2 * huge_page;
    if (posix_memalign(&data, large ? huge_page : alignment, size) != 0) return nullptr;
    if (large) madvise(data, size, MADV_HUGEPAGE);
    return data;
  }
  void release(void* memory) override { std::free(memory); }
  std::size_t total_memory() const override { return total_; }
  bool has(std::size_t bytes) const override { return system_has(bytes); }

 private:
  std::size_t total_ = physical_memory();
};

MemoryPool& pool() {
  // Never destroyed: buffers may outlive every other static object.
  static MemoryPool* instance = new MemoryPool(std::make_unique<HostMemory>(), Device{});
  return *instance;
}

void apply(const Config& config) {
  pool().configure(config);
  static int threads = 0;
  if (config.threads != threads) set_thread_count(threads = config.threads);
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string implementer, part;  // what Arm systems have in place of a name
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
  }
  if (part.empty()) return "CPU";
  static const std::map<std::string, std::string> known = {{"0xd0c", "Neoverse-N1"}, {"0xd40", "Neoverse-V1"},
                                                           {"0xd49", "Neoverse-N2"}, {"0xd4f", "Neoverse-V2"},
                                                           {"0xd08", "Cortex-A72"},  {"0xd0b", "Cortex-A76"}};
  const auto name = known.find(part);
  if (implementer == "0x41" && name != known.end()) return "Arm " + name->second;
  return fmt::format("CPU (implementer {}, part {})", implementer, part);
}

// Work is done when it is given.
class Moment final : public WorkMark {
 public:
  bool reached() const override { return true; }
  void wait() const override {}
  double seconds_since(const WorkMark& earlier) const override {
    return std::chrono::duration<double>(time_ - static_cast<const Moment&>(earlier).time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class CpuBackend final : public Backend {
 public:
  CpuBackend() { on_config_change(apply); }

  DeviceInfo info() const override {
    return {.device = {},
            .name = processor_name(),
            .architecture = isa_name(),
            .compute_units = thread_count(),
            .total_memory = pool().total_memory(),
            .free_memory = system_memory().available};
  }
  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryPurpose purpose) override {
    return pool().allocate(bytes, purpose);
  }
  void copy_to_host(void* host, const Buffer& source, std::size_t offset, std::size_t bytes) override {
    if (bytes) std::memcpy(host, static_cast<const char*>(source.data) + offset, bytes);
  }
  void copy_from_host(Buffer& target, std::size_t offset, const void* host, std::size_t bytes) override {
    if (bytes) std::memcpy(static_cast<char*>(target.data) + offset, host, bytes);
  }
  DType repacked_format(DType format) const override { return cpu::repacked_format(format); }
  void repack(DType format, const void* host, std::int64_t rows, Buffer& target, std::size_t offset,
              std::int64_t first_row, std::int64_t all_rows, std::int64_t depth) override {
    cpu::repack(format, host, rows, static_cast<char*>(target.data) + offset, first_row, all_rows, depth);
  }
  bool host_accessible() const override { return true; }

  std::unique_ptr<Kernel> prepare(const Step& step) override {
    switch (op_kind(step.op)) {
      case OpKind::reduce:
        return make_reduction(step);
      case OpKind::scan:
        return make_scan(step);
      case OpKind::movement:
        if (is_quantised(step.outputs[0].dtype)) return make_quantised(step);
        return step.op == Op::copy ? make_elementwise(step) : make_movement(step);
      case OpKind::indexing:
        return make_indexing(step);
      case OpKind::contraction:
        return step.op == Op::matmul ? make_matmul(step) : make_convolution(step);
      case OpKind::pooling:
        return make_pooling(step);
      case OpKind::normalisation:
        return make_normalisation(step);
      case OpKind::composite:
        if (step.op == Op::cached_attention) return make_cached_attention(step);
        throw KernelError(fmt::format("[{}] is made of plain operations on the CPU", op_name(step.op)));
      case OpKind::quantised:
        return step.op == Op::expert_matmul ? make_expert_matmul(step) : make_quantised(step);
      case OpKind::random:
        return make_random(step);
      default:
        throw KernelError(fmt::format("[{}] is not a step", op_name(step.op)));
    }
  }
  bool fuses_epilogue(Op op, DType result, Op) const override {
    return op == Op::matmul && result == DType::f32;
  }

  std::shared_ptr<const LoadedKernel> load_kernel(const std::string&, const std::string& name,
                                                  const std::vector<std::string>&) override {
    throw DeviceError(fmt::format("[compile_kernel] {} needs a GPU, the device is cpu", name));
  }
  void synchronize() override {}
  std::unique_ptr<const WorkMark> mark() override { return std::make_unique<Moment>(); }
  MemoryStats memory_stats() const override { return pool().stats(); }
  void reset_peak_memory() override { pool().reset_peak(); }
  void warm_up(std::size_t bytes) override {
    if (bytes == 0) return;
    const std::span<std::byte> memory = pool().reserve(bytes);
    std::memset(memory.data(), 0, memory.size());  // now, not at first use, the system finds pages for it
  }
  void empty_cache() override { pool().empty_cache(); }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace hearth::cpu
