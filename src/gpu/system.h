// What the operating system says of the GPUs, without any vendor's library: device files, sysfs, boot
// options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace hearth::gpu {

// Where it is read from. Tests give a tree of files and outcomes of their own.
struct SystemSource {
  std::filesystem::path root = "/";
  // Opens a device file for reading and writing and closes it; 0 or errno.
  std::function<int(const std::filesystem::path&)> open_device;
  std::string user;  // name of the user; empty: that of this process
};

// /dev/kfd, /dev/dri/renderD128, ...
struct DeviceFile {
  std::string path = "";
  int error = 0;               // errno of opening it; 0: it opens
  std::string group = "";      // name of the group it belongs to; "109" where the group has no name
  bool user_in_group = false;  // by /etc/group; a session begun before the change does not know it
};

// A GPU on the PCI bus.
struct PciGpu {
  std::string address = "";  // "0000:03:00.0"
  bool amd = false;          // otherwise NVIDIA
  std::string driver = "";   // kernel driver that holds it; empty: none
  std::string iommu = "";    // "identity", "DMA", "DMA-FQ"; empty: no IOMMU is used
  // Of amdgpu, in bytes; 0: not told.
  std::uint64_t vram_total = 0, vram_used = 0, gtt_total = 0, gtt_used = 0, visible_vram = 0;
  std::string mes_firmware = "";  // version as the driver writes it; empty: the chip has none
};

// A GPU in the topology of KFD, the kernel's compute driver for AMD.
struct KfdGpu {
  int node = 0;
  std::string architecture = "";  // from gfx_target_version
  std::string address = "";
};

struct System {
  bool amdgpu_loaded = false, nvidia_loaded = false;
  std::string container;  // "Docker", "Podman", "a container"; empty: none
  std::string boot_options;
  std::uint64_t memory_total = 0, memory_available = 0;  // bytes
  std::uint64_t ttm_pages_limit = 0;  // pages of 4 KiB that GPUs may take of it; 0: not told
  bool has_kfd = false;
  DeviceFile kfd;
  std::vector<DeviceFile> render;
  std::vector<PciGpu> gpus;
  std::vector<KfdGpu> topology;
  std::vector<std::string> unreadable_nodes;  // of the topology
  std::string user;

  const PciGpu* at(const std::string& address) const;
};

System read_system(const SystemSource& source = {});

// "gfx1100" of 110000, "gfx90a" of 90010.
std::string architecture_of_kfd(int gfx_target_version);
// The chips that share the memory of the CPU.
bool is_integrated_amd(const std::string& architecture);

// A variable that changes what the drivers show.
struct VariableNote {
  std::string name, value, meaning;
  bool harmful = false;
};
using Variable = std::function<std::string(const char*)>;
std::string process_variable(const char* name);  // of this process; empty when not set
std::vector<VariableNote> explain_variables(const Variable& variable);

}  // namespace hearth::gpu
