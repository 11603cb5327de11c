// Reading /sys, /proc, /dev and /etc.
#include "gpu/system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace hearth::gpu {
namespace {

using Path = std::filesystem::path;

int open_and_close(const Path& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return errno;
  close(descriptor);
  return 0;
}

// The contents without the last line break; empty when it cannot be read.
std::string text_of(const Path& path) {
  std::ifstream file(path);
  std::ostringstream contents;
  if (file) contents << file.rdbuf();
  std::string text = contents.str();
  text.erase(text.find_last_not_of("\n ") + 1);
  return text;
}

// A number, decimal or 0x...; 0 when there is none.
std::uint64_t number_of(const Path& path) { return std::strtoull(text_of(path).c_str(), nullptr, 0); }

bool is_there(const Path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::vector<Path> entries(const Path& folder) {
  std::vector<Path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// Lines of a name, spaces or a colon, and a number.
std::map<std::string, std::uint64_t> numbers_by_name(const std::string& text) {
  std::map<std::string, std::uint64_t> numbers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto end = line.find_first_of(": \t");
    const auto digits = line.find_first_of("0123456789", end);
    if (digits == std::string::npos) continue;
    std::uint64_t value = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), value);
    numbers[line.substr(0, end)] = value;
  }
  return numbers;
}

std::string user_name(const SystemSource& source) {
  if (!source.user.empty()) return source.user;
  const passwd* entry = getpwuid(geteuid());
  return entry != nullptr ? entry->pw_name : "";
}

// Fills in the group's name and whether the user is a member: lines are name:password:id:member,member.
void look_up_group(const Path& group_file, unsigned id, const std::string& user, DeviceFile& file) {
  file.group = std::to_string(id);
  std::istringstream lines(text_of(group_file));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name, password, number, members;
    std::getline(fields, name, ':');
    std::getline(fields, password, ':');
    std::getline(fields, number, ':');
    std::getline(fields, members);
    if (number != std::to_string(id)) continue;
    file.group = name;
    file.user_in_group = ("," + members + ",").find("," + user + ",") != std::string::npos;
  }
}

DeviceFile read_device(const SystemSource& source, const std::string& path, const std::string& user) {
  const Path full = source.root / Path(path).relative_path();
  DeviceFile file{.path = path};
  file.error = source.open_device ? source.open_device(full) : open_and_close(full);
  struct stat status {};
  if (stat(full.c_str(), &status) == 0) look_up_group(source.root / "etc/group", status.st_gid, user, file);
  return file;
}

std::string container_of(const Path& root) {
  if (is_there(root / ".dockerenv")) return "Docker";
  if (is_there(root / "run/.containerenv")) return "Podman";
  const std::string cgroup = text_of(root / "proc/1/cgroup");
  if (cgroup.find("docker") != std::string::npos) return "Docker";
  for (const char* sign : {"kubepods", "lxc", "containerd", "libpod"})
    if (cgroup.find(sign) != std::string::npos) return "a container";
  return is_there(root / "run/systemd/container") ? "a container" : "";
}

std::string linked_name(const Path& link) {
  std::error_code error;
  const Path target = std::filesystem::read_symlink(link, error);
  return error ? "" : target.filename().string();
}

std::vector<PciGpu> pci_gpus(const Path& root) {
  std::vector<PciGpu> gpus;
  for (const Path& device : entries(root / "sys/bus/pci/devices")) {
    const auto vendor = number_of(device / "vendor");
    const auto device_class = number_of(device / "class") >> 8;
    const bool display = (device_class >> 8) == 0x03, accelerator = device_class == 0x1200;
    constexpr std::uint64_t amd = 0x1002, nvidia = 0x10de;
    if ((vendor != amd && vendor != nvidia) || !(display || accelerator)) continue;
    PciGpu gpu{.address = device.filename().string(), .amd = vendor == amd};
    gpu.driver = linked_name(device / "driver");
    gpu.iommu = text_of(device / "iommu_group/type");
    gpu.vram_total = number_of(device / "mem_info_vram_total");
    gpu.vram_used = number_of(device / "mem_info_vram_used");
    gpu.gtt_total = number_of(device / "mem_info_gtt_total");
    gpu.gtt_used = number_of(device / "mem_info_gtt_used");
    gpu.visible_vram = number_of(device / "mem_info_vis_vram_total");
    gpu.mes_firmware = text_of(device / "fw_version/mes_fw_version");
    if (number_of(device / "fw_version/mes_fw_version") == 0) gpu.mes_firmware.clear();
    gpus.push_back(gpu);
  }
  return gpus;
}

void read_topology(const Path& root, System& system) {
  for (const Path& node : entries(root / "sys/class/kfd/kfd/topology/nodes")) {
    const std::string text = text_of(node / "properties");
    if (text.empty()) {  // a container may see the folder of a GPU that it was not given
      system.unreadable_nodes.push_back(node.filename().string());
      continue;
    }
    auto properties = numbers_by_name(text);
    if (properties["simd_count"] == 0 || properties["gfx_target_version"] == 0) continue;  // a CPU
    const auto location = properties["location_id"];
    system.topology.push_back(
        {.node = std::atoi(node.filename().c_str()),
         .architecture = architecture_of_kfd(static_cast<int>(properties["gfx_target_version"])),
         .address = fmt::format("{:04x}:{:02x}:{:02x}.{}", properties["domain"], location >> 8 & 0xff,
                                location >> 3 & 0x1f, location & 7)});
  }
}

}  // namespace

const PciGpu* System::at(const std::string& address) const {
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const PciGpu& gpu) { return gpu.address == address; });
  return found == gpus.end() ? nullptr : &*found;
}

System read_system(const SystemSource& source) {
  const Path& root = source.root;
  System system;
  system.user = user_name(source);
  system.amdgpu_loaded = is_there(root / "sys/module/amdgpu");
  system.nvidia_loaded = is_there(root / "sys/module/nvidia");
  system.container = container_of(root);
  system.boot_options = text_of(root / "proc/cmdline");
  auto memory = numbers_by_name(text_of(root / "proc/meminfo"));
  system.memory_total = memory["MemTotal"] * 1024;
  system.memory_available = memory["MemAvailable"] * 1024;
  system.ttm_pages_limit = number_of(root / "sys/module/ttm/parameters/pages_limit");
  system.has_kfd = is_there(root / "dev/kfd");
  if (system.has_kfd) system.kfd = read_device(source, "/dev/kfd", system.user);
  for (const Path& file : entries(root / "dev/dri"))
    if (file.filename().string().starts_with("renderD"))
      system.render.push_back(read_device(source, "/dev/dri/" + file.filename().string(), system.user));
  system.gpus = pci_gpus(root);
  read_topology(root, system);
  return system;
}

std::string architecture_of_kfd(int gfx_target_version) {
  return fmt::format("gfx{}{:x}{:x}", gfx_target_version / 10'000, gfx_target_version / 100 % 100,
                     gfx_target_version % 100);
}

bool is_integrated_amd(const std::string& architecture) {
  static constexpr const char* chips[] = {"gfx902",  "gfx909",  "gfx90c",  "gfx1013", "gfx1033",
                                          "gfx1035", "gfx1036", "gfx1037", "gfx1103", "gfx1150",
                                          "gfx1151", "gfx1152", "gfx1153"};
  return std::find(std::begin(chips), std::end(chips), architecture) != std::end(chips);
}

std::string process_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<VariableNote> explain_variables(const Variable& variable) {
  static const VariableNote known[] = {
      {"ROCR_VISIBLE_DEVICES", "", "ROCm shows only these GPUs (numbers or UUIDs), numbered anew from 0"},
      {"HIP_VISIBLE_DEVICES", "", "HIP shows only these of the GPUs that ROCR_VISIBLE_DEVICES leaves"},
      {"CUDA_VISIBLE_DEVICES", "", "CUDA shows only these GPUs, numbered anew from 0; HIP heeds it too"},
      {"GPU_DEVICE_ORDINAL", "", "HIP shows only these GPUs"},
      {"HSA_OVERRIDE_GFX_VERSION", "",
       "ROCm takes every GPU for this chip; Hearth never needs it, and wrong values give crashes and hangs",
       true},
  };
  std::vector<VariableNote> notes;
  for (VariableNote note : known) {
    note.value = variable(note.name.c_str());
    if (!note.value.empty()) notes.push_back(note);
  }
  const bool both = !variable("ROCR_VISIBLE_DEVICES").empty() && !variable("HIP_VISIBLE_DEVICES").empty();
  for (VariableNote& note : notes)
    if (both && note.name == "HIP_VISIBLE_DEVICES") {
      note.meaning += ": numbers count what is left, and may leave nothing";
      note.harmful = true;
    }
  return notes;
}

}  // namespace hearth::gpu
