// The checks, in the order in which a GPU comes to work: hardware, kernel driver, permissions, libraries.
#include "gpu/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "gpu/backends.h"
#include "gpu/driver/library.h"
#include "gpu/vendor/installation.h"
#include "gpu/vendor/vendor_library.h"

namespace hearth::gpu {
namespace {

constexpr const char* docker_options =
    "docker run --device=/dev/kfd --device=/dev/dri --group-add video --group-add render ...";

std::string gibibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

class Examination {
 public:
  explicit Examination(const Circumstances& circumstances)
      : all_(circumstances), system_(circumstances.system) {
    for (const DeviceInfo& gpu : all_.gpus)
      (gpu.device.kind == DeviceKind::rocm ? amd_ : nvidia_).push_back(&gpu);
    for (const PciGpu& gpu : system_.gpus) (gpu.amd ? amd_on_bus_ : nvidia_on_bus_).push_back(&gpu);
  }

  std::vector<Finding> run() {
    presence();
    variables();
    if (!amd_.empty() || !amd_on_bus_.empty() || !system_.topology.empty() || system_.has_kfd) {
      amd_kernel_driver();
      kfd_file();
      render_files();
      topology();
      hip_library();
      hip_compiler();
      comgr();
      tensile();
      if (all_.hip->usable()) optional_library("MIOpen", all_.miopen);
      memory();
      firmware();
      iommu();
    } else {
      add("AMD", Verdict::not_applicable, "no AMD GPU on this machine; " + all_.hip->unavailable);
      failed_opens(*all_.hip, Verdict::not_applicable);
    }
    if (!nvidia_.empty() || !nvidia_on_bus_.empty()) {
      nvidia_kernel_driver();
      cuda_library();
      cuda_compiler();
      if (all_.cuda->usable()) optional_library("cuDNN", all_.cudnn);
    } else {
      add("NVIDIA", Verdict::not_applicable, "no NVIDIA GPU on this machine; " + all_.cuda->unavailable);
      failed_opens(*all_.cuda, Verdict::not_applicable);
    }
    return std::move(findings_);
  }

 private:
  void add(std::string subject, Verdict verdict, std::string found, std::string fix = {}) {
    findings_.push_back({std::move(subject), verdict, std::move(found), std::move(fix)});
  }

  void presence() {
    if (all_.gpus.empty() && system_.gpus.empty() && system_.topology.empty()) {
      add("GPUs", Verdict::warning, "no GPU was found; Hearth computes on the CPU",
          system_.container.empty() ? ""
                                    : "this is " + system_.container + ": start it with the GPU, e.g. " +
                                          docker_options + ", or --gpus all for NVIDIA");
      return;
    }
    std::vector<std::string> names;
    for (const DeviceInfo& gpu : all_.gpus)
      names.push_back(fmt::format("{} {} ({})", to_string(gpu.device), gpu.name, gpu.architecture));
    if (all_.gpus.empty())
      add("GPUs", Verdict::problem,
          fmt::format("{} on this machine, none of which a driver's library lists",
                      std::max(system_.gpus.size(), system_.topology.size())),
          "see the problems below");
    else
      add("GPUs", Verdict::ok, fmt::format("{}", fmt::join(names, ", ")));
  }

  void variables() {
    for (const VariableNote& note : explain_variables(all_.variable))
      add(note.name, note.harmful ? Verdict::warning : Verdict::ok,
          fmt::format("is {}: {}", note.value, note.meaning), note.harmful ? "unset " + note.name : "");
  }

  // True where HIP lists devices that the kernel knows nothing of: an emulator, or a system of another kind.
  bool hip_without_kernel_driver() const {
    return !amd_.empty() && amd_on_bus_.empty() && !system_.amdgpu_loaded && !system_.has_kfd;
  }

  void amd_kernel_driver() {
    if (system_.amdgpu_loaded)
      add("amdgpu", Verdict::ok, "the kernel driver is loaded");
    else if (hip_without_kernel_driver())
      add("amdgpu", Verdict::not_applicable, "not loaded, but HIP lists its devices without it");
    else
      add("amdgpu", Verdict::problem, "the kernel driver is not loaded",
          "sudo modprobe amdgpu; if that fails: sudo dmesg | grep amdgpu");
  }

  void openable(const DeviceFile& file) {
    if (file.error == 0) return add(file.path, Verdict::ok, "opens for reading and writing");
    const std::string reason = fmt::format("cannot be opened: {}", std::strerror(file.error));
    if (!system_.container.empty() && file.error != EACCES)
      return add(file.path, Verdict::problem, reason + ", in " + system_.container, docker_options);
    if (file.error != EACCES && file.error != EPERM)
      return add(file.path, Verdict::problem, reason, "sudo dmesg | grep -E 'amdgpu|kfd'");
    const std::string found = fmt::format("{}; it belongs to the group {}", reason, file.group);
    const bool named = file.group.find_first_not_of("0123456789") != std::string::npos;
    const std::string user = system_.user.empty() ? "$USER" : system_.user;
    if (!system_.container.empty())
      add(file.path, Verdict::problem, found + ", in " + system_.container,
          fmt::format("docker run --group-add {} ...", file.group));
    else if (file.user_in_group)
      add(file.path, Verdict::problem,
          fmt::format("{}, to which {} was added after this session began", found, user),
          "log out and in again, or: newgrp " + file.group);
    else if (named)
      add(file.path, Verdict::problem, found,
          fmt::format("sudo usermod -aG {} {}, then log out and in again", file.group, user));
    else
      add(file.path, Verdict::problem, found + ", which has no name here",
          fmt::format("sudo groupadd -g {} render && sudo usermod -aG render {}, then log out and in again",
                      file.group, user));
  }

  void kfd_file() {
    if (system_.has_kfd) return openable(system_.kfd);
    if (hip_without_kernel_driver())
      add("/dev/kfd", Verdict::not_applicable, "not there, but HIP lists its devices without it");
    else if (!system_.container.empty())
      add("/dev/kfd", Verdict::problem, "not there: " + system_.container + " was started without it",
          docker_options);
    else
      add("/dev/kfd", Verdict::problem,
          system_.amdgpu_loaded ? "not there: amdgpu was built without compute, or does not know the GPU"
                                : "not there: amdgpu makes it",
          system_.amdgpu_loaded
              ? "install a kernel with CONFIG_HSA_AMD, or amdgpu-dkms; sudo dmesg | grep kfd"
              : "sudo modprobe amdgpu");
  }

  void render_files() {
    for (const DeviceFile& file : system_.render) openable(file);
    if (!system_.render.empty()) return;
    if (hip_without_kernel_driver())
      add("/dev/dri/renderD*", Verdict::not_applicable, "none, but HIP lists its devices without them");
    else
      add("/dev/dri/renderD*", Verdict::problem, "there is none",
          system_.container.empty() ? "sudo modprobe amdgpu" : docker_options);
  }

  void topology() {
    const std::string override = all_.variable("HSA_OVERRIDE_GFX_VERSION");
    if (system_.topology.empty()) {
      if (!system_.unreadable_nodes.empty() && !system_.container.empty())
        add("KFD topology", Verdict::problem, "GPUs are listed, but this container may not use them",
            docker_options);
      else if (hip_without_kernel_driver())
        add("KFD topology", Verdict::not_applicable, "none");
      else
        add("KFD topology", Verdict::problem, "the kernel lists no GPU for computing",
            "sudo dmesg | grep -E 'amdgpu|kfd'");
      return;
    }
    for (const KfdGpu& node : system_.topology) {
      const std::string what = fmt::format("{} at {}", node.architecture, node.address);
      const auto seen = std::find_if(amd_.begin(), amd_.end(),
                                     [&](const DeviceInfo* gpu) { return gpu->pci_address == node.address; });
      if (seen == amd_.end()) {
        const bool hidden = !all_.variable("HIP_VISIBLE_DEVICES").empty() ||
                            !all_.variable("ROCR_VISIBLE_DEVICES").empty() ||
                            !all_.variable("CUDA_VISIBLE_DEVICES").empty();
        add("KFD topology", amd_.empty() && !hidden ? Verdict::problem : Verdict::warning,
            what + " is there for the kernel, but HIP does not list it",
            hidden ? "unset the *_VISIBLE_DEVICES variables above"
                   : "look at the device files and libraries here");
      } else if ((*seen)->architecture != node.architecture) {
        add("KFD topology", Verdict::warning,
            fmt::format("{} is {} for HIP{}", what, (*seen)->architecture,
                        override.empty() ? "" : ", because of HSA_OVERRIDE_GFX_VERSION=" + override),
            override.empty() ? "install a ROCm that knows " + node.architecture
                             : "unset HSA_OVERRIDE_GFX_VERSION");
      } else {
        add("KFD topology", Verdict::ok, fmt::format("{} is {}", what, to_string((*seen)->device)));
      }
    }
  }

  // What was there and did not open; what was not there only where nothing was.
  void failed_opens(const Driver& driver, Verdict verdict) {
    for (const OpenAttempt& attempt : driver.attempts)
      if (!attempt.problem.empty() && (driver.library.empty() || attempt.name.find('/') != std::string::npos))
        add(driver.name + " library", verdict, fmt::format("did not open: {}", attempt.problem));
  }

  void hip_library() {
    failed_opens(*all_.hip, Verdict::warning);
    if (all_.hip->library.empty())
      add("libamdhip64", Verdict::problem, all_.hip->unavailable,
          "install ROCm's HIP runtime (sudo apt install libamdhip64-5, rocm-hip-runtime, or pip install "
          "'rocm[libraries]'), or set ROCM_PATH");
    else if (!all_.hip->usable())
      add("libamdhip64", Verdict::problem, fmt::format("{}: {}", all_.hip->library, all_.hip->unavailable),
          "see the device files above");
    else
      add("libamdhip64", Verdict::ok,
          fmt::format("{}, version {}", all_.hip->library, all_.hip->version_text()));
  }

  void hip_compiler() {
    if (all_.hip->library.empty()) return;
    if (all_.hip->compiler_library.empty())
      add("hiprtc", Verdict::problem, "there is none beside " + all_.hip->library,
          "install the libhiprtc of the same ROCm (package hiprtc, hip-runtime-amd or libamdhip64)");
    else
      add("hiprtc", Verdict::ok,
          fmt::format("{}, version {}", all_.hip->compiler_library, all_.hip->compiler_version_text()));
  }

  void comgr() {
    if (all_.hip->library.empty()) return;
    const auto folder = [](const std::string& file) {
      std::error_code error;
      return std::filesystem::weakly_canonical(std::filesystem::path(file).parent_path(), error);
    };
    if (all_.comgr.empty())
      add("comgr", Verdict::not_applicable, "not loaded yet, or this hiprtc does without");
    else if (folder(all_.comgr) != folder(all_.hip->library))
      add("comgr", Verdict::warning,
          fmt::format("{} is of another installation than {}", all_.comgr, all_.hip->library),
          "set ROCM_PATH and LD_LIBRARY_PATH to one installation");
    else
      add("comgr", Verdict::ok, all_.comgr);
  }

  // rocBLAS aborts the process on a chip that it has no library for.
  void tensile() {
    if (all_.hip->library.empty()) return;
    const auto folder = rocblas_kernels(std::filesystem::path(all_.hip->library).parent_path());
    std::error_code error;
    if (std::filesystem::directory_iterator(folder, error) == std::filesystem::directory_iterator())
      return add("rocBLAS", Verdict::not_applicable, "not installed; Hearth does not need it");
    for (const DeviceInfo* gpu : amd_) {
      if (has_kernels_for(folder, gpu->architecture))
        add("rocBLAS", Verdict::ok,
            fmt::format("has kernels for {} ({})", to_string(gpu->device), gpu->architecture));
      else
        add("rocBLAS", Verdict::warning,
            fmt::format("has no kernels for {} ({}): programs that use it abort there; Hearth's own are used",
                        to_string(gpu->device), gpu->architecture));
    }
  }

  void optional_library(const std::string& name, const OptionalLibrary& library) {
    for (const OpenAttempt& attempt : library.attempts)
      if (!attempt.problem.empty() && attempt.name.find('/') != std::string::npos)
        add(name, Verdict::warning, fmt::format("{}: {}; it is not used", attempt.name, attempt.problem));
    if (!library.version.empty())
      add(name, Verdict::ok,
          fmt::format("{}, {}: convolves where `hearth tune` has measured it to be faster", library.version,
                      library.attempts.back().name));
    else if (library.attempts.empty() || library.attempts.back().name.find('/') == std::string::npos)
      add(name, Verdict::not_applicable, "not installed; Hearth does not need it");
  }

  void memory() {
    for (const PciGpu* gpu : amd_on_bus_) {
      if (gpu->vram_total == 0) continue;
      const std::string subject = "memory of " + gpu->address;
      const std::string figures =
          fmt::format("VRAM {} ({} used), GTT {} ({} used), visible to the CPU {}",
                      gibibytes(gpu->vram_total), gibibytes(gpu->vram_used), gibibytes(gpu->gtt_total),
                      gibibytes(gpu->gtt_used), gibibytes(gpu->visible_vram));
      if (is_integrated(gpu->address))
        integrated_memory(subject, figures, *gpu);
      else if (gpu->visible_vram != 0 && gpu->visible_vram < gpu->vram_total)
        add(subject, Verdict::warning, figures + ": large copies go through a small window",
            "switch on \"Above 4G decoding\" and \"Resizable BAR\" in the firmware setup");
      else
        add(subject, Verdict::ok, figures);
    }
  }

  bool is_integrated(const std::string& address) const {
    const auto at = [&](const auto& device) { return device.address == address; };
    const auto node = std::find_if(system_.topology.begin(), system_.topology.end(), at);
    if (node != system_.topology.end() && is_integrated_amd(node->architecture)) return true;
    return std::any_of(amd_.begin(), amd_.end(),
                       [&](const DeviceInfo* gpu) { return gpu->pci_address == address && gpu->integrated; });
  }

  // An integrated GPU may use most of the machine's memory, but not by default: a quarter of it, at most
  // 8 GiB, is left to the system.
  void integrated_memory(const std::string& subject, const std::string& figures, const PciGpu& gpu) {
    const std::uint64_t left = std::min<std::uint64_t>(system_.memory_total / 4, std::uint64_t{8} << 30);
    const std::uint64_t possible = system_.memory_total - left;
    const std::uint64_t limit = system_.ttm_pages_limit * 4096;
    const std::string all = fmt::format("{}; the machine has {}, of which GPUs may take {}", figures,
                                        gibibytes(system_.memory_total),
                                        limit != 0 ? gibibytes(limit) : "what the driver's default is");
    const std::uint64_t usable = std::max(gpu.vram_total, gpu.gtt_total);
    if (system_.memory_total == 0 || usable >= possible / 10 * 9) return add(subject, Verdict::ok, all);
    add(subject, Verdict::warning, all,
        fmt::format(
            "for {}: echo 'options ttm pages_limit={}' | sudo tee /etc/modprobe.d/ttm.conf, then sudo "
            "update-initramfs -u and reboot (or ttm.pages_limit={} on the kernel's command line)",
            gibibytes(possible), possible / 4096, possible / 4096));
  }

  void firmware() {
    for (const PciGpu* gpu : amd_on_bus_)
      if (gpu->mes_firmware.empty())
        add("MES firmware", Verdict::not_applicable, gpu->address + " has none, or does not tell");
      else
        add("MES firmware", Verdict::ok, fmt::format("{} has version {}", gpu->address, gpu->mes_firmware));
  }

  void iommu() {
    if (amd_on_bus_.empty()) return;
    const bool translated = std::any_of(amd_on_bus_.begin(), amd_on_bus_.end(),
                                        [](const PciGpu* gpu) { return gpu->iommu.starts_with("DMA"); });
    if (!translated)
      add("IOMMU", Verdict::ok, "not in the way of the GPUs");
    else if (amd_on_bus_.size() == 1)
      add("IOMMU", Verdict::ok, "translates the GPU's accesses; iommu=pt would matter with a second GPU");
    else
      add("IOMMU", Verdict::warning,
          "translates the GPUs' accesses: copies between them may hang or be wrong",
          "add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub), then sudo "
          "update-grub and reboot");
  }

  void nvidia_kernel_driver() {
    if (system_.nvidia_loaded)
      add("nvidia", Verdict::ok, "the kernel driver is loaded");
    else if (!nvidia_.empty())
      add("nvidia", Verdict::not_applicable, "not loaded, but CUDA lists its devices without it");
    else
      add("nvidia", Verdict::problem, "the kernel driver is not loaded",
          "install the NVIDIA driver, then sudo modprobe nvidia");
  }

  void cuda_library() {
    failed_opens(*all_.cuda, Verdict::warning);
    if (all_.cuda->library.empty())
      add("libcuda", Verdict::problem, all_.cuda->unavailable,
          system_.container.empty() ? "install the NVIDIA driver" : "docker run --gpus all ...");
    else if (!all_.cuda->usable())
      add("libcuda", Verdict::problem, fmt::format("{}: {}", all_.cuda->library, all_.cuda->unavailable),
          system_.container.empty() ? "nvidia-smi shows whether the driver works; after an update, reboot"
                                    : "docker run --gpus all ...");
    else
      add("libcuda", Verdict::ok, fmt::format("{}, CUDA {}", all_.cuda->library, all_.cuda->version_text()));
  }

  void cuda_compiler() {
    if (all_.cuda->compiler_library.empty())
      add("NVRTC", Verdict::problem, "no libnvrtc was found",
          "install it (package cuda-nvrtc, or pip install nvidia-cuda-nvrtc and add its lib folder to "
          "LD_LIBRARY_PATH), or set CUDA_HOME");
    else
      add("NVRTC", Verdict::ok,
          fmt::format("{}, version {}", all_.cuda->compiler_library, all_.cuda->compiler_version_text()));
  }

  const Circumstances& all_;
  const System& system_;
  std::vector<const DeviceInfo*> amd_, nvidia_;
  std::vector<const PciGpu*> amd_on_bus_, nvidia_on_bus_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warning:
      return "warning";
    case Verdict::problem:
      return "problem";
    case Verdict::not_applicable:
      return "not applicable";
  }
  return "";
}

Circumstances circumstances() {
  Circumstances found;
  found.system = read_system();
  found.hip = &hip_driver();
  found.cuda = &cuda_driver();
  for (const DeviceKind kind : {DeviceKind::rocm, DeviceKind::cuda})
    for (int i = 0; i < device_count(kind); ++i)
      found.gpus.push_back(describe({kind, static_cast<std::uint8_t>(i)}));
  found.comgr = loaded_library("libamd_comgr.so");
  const auto open = [](const Driver& driver, OptionalLibrary& library) {
    if (driver.usable()) library.version = installed_dnn_library(driver, library.attempts);
  };
  open(*found.hip, found.miopen);
  open(*found.cuda, found.cudnn);
  return found;
}

std::vector<Finding> examine(const Circumstances& circumstances) { return Examination(circumstances).run(); }

std::vector<Finding> examine(const DeviceInfo& gpu, const Trial& trial, bool chosen) {
  const std::string name = to_string(gpu.device);
  std::vector<Finding> findings;
  if (!trial.problem.empty()) {
    findings.push_back(
        {name + " works", chosen ? Verdict::problem : Verdict::warning, trial.problem,
         chosen ? "try another device with --device; sudo dmesg shows what the kernel says" : ""});
    return findings;
  }
  findings.push_back(
      {name + " works", Verdict::ok,
       fmt::format("a kernel compiled in {:.0f} ms, ran, and gave the right result", trial.compile_ms)});
  const auto gigabytes = [](double speed) { return speed / 1e9; };
  findings.push_back(
      {name + " copies", Verdict::ok,
       fmt::format("{:.1f} GB/s to the device, {:.1f} GB/s to the host, {:.0f} GB/s on the device",
                   gigabytes(trial.to_device), gigabytes(trial.to_host), gigabytes(trial.on_device))});
  return findings;
}

Finding examine(const PeerTrial& trial) {
  const std::string subject = fmt::format("{} to {}", to_string(trial.from), to_string(trial.to));
  if (!trial.problem.empty())
    return {subject, Verdict::warning, "a copy between the devices failed: " + trial.problem,
            "add iommu=pt to the kernel's command line; Hearth copies through the host"};
  if (!trial.direct) return {subject, Verdict::ok, "no direct access; copies go through the host"};
  return {subject, Verdict::ok, "a pattern copied directly arrived as it was sent"};
}

void excuse_problems(std::vector<Finding>& findings) {
  for (Finding& finding : findings)
    if (finding.verdict == Verdict::problem) finding.verdict = Verdict::warning;
}

bool healthy(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.verdict == Verdict::problem; });
}

}  // namespace hearth::gpu
