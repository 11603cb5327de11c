// Kernels from workloads, and code from kernels.
#include "cli/kernel_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "gpu/backends.h"
#include "hearth/error.h"

namespace hearth::cli {
namespace {

// Makes a device the default one for as long as the object lives.
class DefaultDevice {
 public:
  explicit DefaultDevice(Device device) : before_(default_device()) { set_default_device(device); }
  ~DefaultDevice() { set_default_device(before_); }
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  Device before_;
};

// Device numbers from the far end: no machine has as many GPUs.
gpu::AbsentDevice& add_device(const std::string& architecture, Device& device) {
  static int next = 255;
  device = {gpu::target_of(architecture).amd ? DeviceKind::rocm : DeviceKind::cuda,
            static_cast<std::uint8_t>(next--)};
  auto absent = std::make_unique<gpu::AbsentDevice>(architecture, device);
  gpu::AbsentDevice& reference = *absent;
  add_backend(device, gpu::make_backend(std::move(absent)));
  return reference;
}

// The kernels of one text: compiled together.
using Group = std::vector<BuiltKernel*>;

void fill_in(const std::vector<char>& code, Group& group) {
  const gpu::CodeObject object = gpu::read_code_object(code);
  const auto instructions = count_instructions(code);
  for (BuiltKernel* built : group) {
    const gpu::NotedKernel& kernel = built->needed.kernel;
    const auto resources = std::find_if(object.kernels.begin(), object.kernels.end(),
                                        [&](const auto& found) { return found.name == kernel.name; });
    if (resources == object.kernels.end()) throw CompileError("the code has no kernel " + kernel.name);
    built->resources = *resources;
    built->resources.shared_bytes += kernel.shared;
    constexpr int usual_threads = 256;
    built->occupancy = gpu::occupancy(built->needed.target, built->resources,
                                      kernel.threads > 0 ? static_cast<int>(kernel.threads) : usual_threads);
    if (const auto counted = instructions.find(kernel.name); counted != instructions.end())
      built->instructions = counted->second;
  }
}

void build(Group& group) {
  const NeededKernel& first = group.front()->needed;
  const gpu::Target& target = first.target;
  try {
    const gpu::Driver& driver = target.amd ? gpu::hip_driver() : gpu::cuda_driver();
    fill_in(gpu::compile(driver, target.architecture, target.wave_size, first.kernel.source), group);
  } catch (const Error& error) {
    for (BuiltKernel* built : group) built->problem = error.what();
  }
}

std::vector<Group> by_text(std::vector<BuiltKernel>& kernels) {
  std::map<std::string, Group> groups;
  for (BuiltKernel& built : kernels) {
    const gpu::KernelSource& source = built.needed.kernel.source;
    groups[fmt::format("{}\n{}\n{}", built.needed.target.architecture, fmt::join(source.options, "\n"),
                       source.text)]
        .push_back(&built);
  }
  std::vector<Group> list;
  for (auto& [text, group] : groups) list.push_back(std::move(group));
  return list;
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* other) { return name == other; });
}

}  // namespace

void require_architecture(const std::string& architecture) {
  const gpu::Target target = gpu::target_of(architecture);
  const gpu::Driver& driver = target.amd ? gpu::hip_driver() : gpu::cuda_driver();
  try {
    gpu::compile_uncached(driver, architecture, target.wave_size,
                          {"nothing", "#include \"gpu.h\"\nKERNEL void nothing() {}\n", {}});
  } catch (const CompileError& error) {
    const std::string& log = error.log();
    throw ValueError(fmt::format("nothing can be compiled for {}: {}", architecture,
                                 log.empty() ? error.what() : log.substr(0, log.find('\n'))));
  }
}

std::vector<NeededKernel> find_kernels(const std::string& architecture,
                                       const std::vector<Workload>& workloads) {
  Device device;
  const gpu::AbsentDevice& absent = add_device(architecture, device);
  const DefaultDevice on(device);
  std::vector<NeededKernel> needed;
  for (const Workload& workload : workloads) {
    workload.run();
    const auto kernels = absent.kernels();
    for (std::size_t i = needed.size(); i < kernels.size(); ++i)
      needed.push_back({absent.target(), workload.name, {}, {}});
  }
  // At the end, because later workloads launch kernels that an earlier one needed.
  const auto kernels = absent.kernels();
  std::map<std::string, std::set<std::string>> functions;  // by name of the text
  for (const auto& kernel : kernels) functions[kernel.source.name].insert(kernel.name);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::string& text = kernels[i].source.name;
    needed[i].kernel = kernels[i];
    needed[i].label = functions[text].size() > 1 ? fmt::format("{}: {}", text, kernels[i].name) : text;
  }
  return needed;
}

std::vector<BuiltKernel> build_kernels(const std::vector<NeededKernel>& kernels, int jobs,
                                       const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<BuiltKernel> built;
  for (const NeededKernel& kernel : kernels) built.push_back({kernel, {}, {}, {}, {}});
  std::vector<Group> groups = by_text(built);
  std::atomic<std::size_t> next = 0;
  std::size_t done = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < groups.size();) {
      build(groups[i]);
      const std::lock_guard lock(mutex);
      progress(++done, groups.size());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return built;
}

bool reads_packets(const NeededKernel& kernel) { return kernel.kernel.source.packet_bytes >= 16; }

bool uses_matrix_unit(const NeededKernel& kernel) {
  if (kernel.target.matrix == gpu::MatrixUnit::none) return false;
  // Other functions of the same texts prepare operands or combine results.
  if (!is_one_of(kernel.kernel.name, {"matmul", "convolution", "attention_kernel", "multiply_blocks"}))
    return false;
  const std::string& text = kernel.kernel.source.text;
  return text.find("MmaTile<") != std::string::npos || text.find("MmaEngine<") != std::string::npos;
}

std::string fault_of(const BuiltKernel& built) {
  if (!built.problem.empty()) return built.problem;
  const int spills = built.resources.vector_spills.value_or(0);
  if (spills > 0) return fmt::format("{} vector registers are spilled", spills);
  if (built.resources.scratch_bytes > 0)
    return fmt::format("{} bytes of memory per lane for local variables", built.resources.scratch_bytes);
  constexpr std::uint32_t most_shared_amd = 64 << 10;
  if (built.needed.target.amd && built.resources.shared_bytes > most_shared_amd)
    return fmt::format("{} bytes of LDS are more than a block can have", built.resources.shared_bytes);
  if (!built.instructions) return "";
  if (reads_packets(built.needed) && built.instructions->wide_loads == 0) return "it has no load of 16 bytes";
  if (uses_matrix_unit(built.needed) && built.instructions->matrix == 0)
    return "it has no instruction of the matrix unit";
  return "";
}

}  // namespace hearth::cli
