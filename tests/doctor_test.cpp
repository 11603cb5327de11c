// What `hearth doctor` says of machines that are only files: no GPU is needed.
#include "gpu/doctor.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "gpu/backends.h"
#include "gpu/trial.h"
#include "temporary_folder.h"

namespace hearth::gpu {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

// A machine with one RX 7900 XTX on which everything is right; tests break it.
class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    put("sys/module/amdgpu/version", "6.10");
    put("proc/meminfo", "MemTotal:       65000000 kB\nMemFree: 1 kB\nMemAvailable:   50000000 kB\n");
    put("proc/cmdline", "quiet splash\n");
    put("dev/kfd", "");
    put("dev/dri/renderD128", "");
    put("dev/dri/card0", "");
    put("etc/group", "root:x:0:\nvideo:x:44:\nrender:x:" + std::to_string(getgid()) + ":somebody\n");
    put("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\nsimd_count 0\n");
    add_gpu(1, "0000:03:00.0", 110000, 24 * gib, 24 * gib);
    hip.kind = DeviceKind::rocm;
    hip.name = "HIP";
    hip.library = (root / "opt/rocm/lib/libamdhip64.so.6").string();
    hip.compiler_library = (root / "opt/rocm/lib/libhiprtc.so.6").string();
    hip.version = 60'443'000;
    hip.call.compiler_version = [](int* major, int* minor) {
      *major = 6, *minor = 4;
      return 0;
    };
    cuda.kind = DeviceKind::cuda;
    cuda.name = "CUDA";
    cuda.unavailable = "no libcuda was found";
    cuda.attempts = {{"libcuda.so.1", "libcuda.so.1: cannot open shared object file"}};
    gpus = {rocm(0, "gfx1100", "0000:03:00.0")};
  }

  void put(const std::string& name, const std::string& contents) {
    std::filesystem::create_directories((root / name).parent_path());
    root.put(name, contents);
  }

  void add_gpu(int node, const std::string& address, int version, std::uint64_t vram, std::uint64_t visible) {
    const std::string device = "sys/bus/pci/devices/" + address + "/";
    put(device + "vendor", "0x1002\n");
    put(device + "class", "0x030000\n");
    put(device + "iommu_group/type", "identity\n");
    put(device + "mem_info_vram_total", std::to_string(vram));
    put(device + "mem_info_vram_used", std::to_string(gib));
    put(device + "mem_info_gtt_total", std::to_string(15 * gib));
    put(device + "mem_info_gtt_used", "0");
    put(device + "mem_info_vis_vram_total", std::to_string(visible));
    put(device + "fw_version/mes_fw_version", "0x00000074\n");
    const int bus = std::stoi(address.substr(5, 2), nullptr, 16);
    put("sys/class/kfd/kfd/topology/nodes/" + std::to_string(node) + "/properties",
        "cpu_cores_count 0\nsimd_count 192\ngfx_target_version " + std::to_string(version) +
            "\nlocation_id " + std::to_string(bus << 8) + "\ndomain 0\ndrm_render_minor 128\n");
  }

  static DeviceInfo rocm(int index, const char* architecture, const char* address, bool integrated = false) {
    return {.device = {DeviceKind::rocm, static_cast<std::uint8_t>(index)},
            .name = "A Radeon",
            .architecture = architecture,
            .integrated = integrated,
            .pci_address = address};
  }

  void remove(const char* name) { std::filesystem::remove_all(root / name); }

  std::vector<Finding> examined() {
    Circumstances machine;
    machine.system = read_system({root.path(),
                                  [this](const std::filesystem::path& path) {
                                    const auto error = errors.find(path.filename().string());
                                    return error == errors.end() ? 0 : error->second;
                                  },
                                  "ada"});
    machine.hip = &hip;
    machine.cuda = &cuda;
    machine.gpus = gpus;
    machine.miopen = miopen;
    machine.variable = [this](const char* name) {
      const auto value = variables.find(name);
      return value == variables.end() ? std::string() : value->second;
    };
    return examine(machine);
  }

  // The finding of a subject; the worst one where there are several.
  Finding about(const std::string& subject) {
    Finding worst{"", Verdict::not_applicable, "nothing was said of " + subject};
    const auto badness = [](Verdict verdict) { return (static_cast<int>(verdict) + 1) % 4; };
    for (const Finding& finding : examined())
      if (finding.subject == subject &&
          (worst.subject.empty() || badness(finding.verdict) > badness(worst.verdict)))
        worst = finding;
    return worst;
  }
  void expect(const std::string& subject, Verdict verdict, const std::string& found,
              const std::string& fix = {}) {
    const Finding finding = about(subject);
    EXPECT_EQ(name_of(finding.verdict), name_of(verdict)) << subject << ": " << finding.found;
    EXPECT_NE(finding.found.find(found), std::string::npos) << finding.found;
    EXPECT_NE(finding.fix.find(fix), std::string::npos) << finding.fix;
  }

  test::TemporaryFolder root;
  std::map<std::string, int> errors;
  std::map<std::string, std::string> variables;
  Driver hip, cuda;
  OptionalLibrary miopen;
  std::vector<DeviceInfo> gpus;
};

TEST_F(Doctor, AHealthyMachineHasNoProblem) {
  for (const Finding& finding : examined()) {
    EXPECT_NE(finding.verdict, Verdict::problem) << finding.subject << ": " << finding.found;
    EXPECT_NE(finding.verdict, Verdict::warning) << finding.subject << ": " << finding.found;
  }
  EXPECT_TRUE(healthy(examined()));
  expect("GPUs", Verdict::ok, "rocm:0 A Radeon (gfx1100)");
  expect("KFD topology", Verdict::ok, "gfx1100 at 0000:03:00.0 is rocm:0");
  expect("memory of 0000:03:00.0", Verdict::ok, "VRAM 24.0 GiB (1.0 GiB used), GTT 15.0 GiB");
  expect("MES firmware", Verdict::ok, "0x00000074");
  expect("libamdhip64", Verdict::ok, "version 6.4.43000");
  expect("hiprtc", Verdict::ok, "version 6.4");
  expect("NVIDIA", Verdict::not_applicable, "no libcuda");
}

TEST_F(Doctor, NoPermissionNamesTheGroup) {
  errors["kfd"] = EACCES;
  errors["renderD128"] = EACCES;
  hip.unavailable = "hipInit failed: no device (100)";
  gpus.clear();
  expect("/dev/kfd", Verdict::problem, "belongs to the group render", "sudo usermod -aG render ada");
  expect("/dev/dri/renderD128", Verdict::problem, "Permission denied", "sudo usermod -aG render ada");
  expect("GPUs", Verdict::problem, "1 on this machine");
  expect("libamdhip64", Verdict::problem, "hipInit failed");
  EXPECT_FALSE(healthy(examined()));
}

TEST_F(Doctor, AMemberOfTheGroupMustLogInAgain) {
  errors["kfd"] = EACCES;
  put("etc/group", "render:x:" + std::to_string(getgid()) + ":eve,ada\n");
  expect("/dev/kfd", Verdict::problem, "after this session began", "log out and in again");
}

TEST_F(Doctor, AGroupWithoutAName) {
  errors["kfd"] = EACCES;
  put("etc/group", "nobody:x:65534:\n");
  expect("/dev/kfd", Verdict::problem, "has no name here", "groupadd -g " + std::to_string(getgid()));
}

TEST_F(Doctor, NoDriver) {
  remove("sys/module/amdgpu");
  remove("dev/kfd");
  remove("dev/dri");
  remove("sys/class/kfd");
  gpus.clear();
  expect("amdgpu", Verdict::problem, "not loaded", "sudo modprobe amdgpu");
  expect("/dev/kfd", Verdict::problem, "not there", "sudo modprobe amdgpu");
}

TEST_F(Doctor, ADriverWithoutCompute) {
  remove("dev/kfd");
  expect("/dev/kfd", Verdict::problem, "built without compute", "CONFIG_HSA_AMD");
}

TEST_F(Doctor, AContainerWithoutDevices) {
  put(".dockerenv", "");
  remove("dev/kfd");
  remove("dev/dri");
  gpus.clear();
  expect("/dev/kfd", Verdict::problem, "Docker was started without it", "--device=/dev/kfd");
  expect("/dev/dri/renderD*", Verdict::problem, "none", "--device=/dev/dri");
}

TEST_F(Doctor, AContainerWithoutTheGroup) {
  put("run/.containerenv", "");
  errors["kfd"] = EACCES;
  expect("/dev/kfd", Verdict::problem, "in Podman", "--group-add render");
  errors["kfd"] = EPERM;
  expect("/dev/kfd", Verdict::problem, "Operation not permitted", "--device=/dev/kfd");
}

TEST_F(Doctor, AnOverrideIsNamed) {
  variables["HSA_OVERRIDE_GFX_VERSION"] = "10.3.0";
  gpus = {rocm(0, "gfx1030", "0000:03:00.0")};
  expect("HSA_OVERRIDE_GFX_VERSION", Verdict::warning, "10.3.0", "unset HSA_OVERRIDE_GFX_VERSION");
  expect("KFD topology", Verdict::warning, "gfx1100 at 0000:03:00.0 is gfx1030 for HIP",
         "unset HSA_OVERRIDE");
}

TEST_F(Doctor, AGpuThatHipDoesNotList) {
  add_gpu(2, "0000:0d:00.0", 120001, 16 * gib, 16 * gib);
  expect("KFD topology", Verdict::warning, "gfx1201 at 0000:0d:00.0 is there for the kernel");
  variables["HIP_VISIBLE_DEVICES"] = "0";
  expect("KFD topology", Verdict::warning, "HIP does not list it", "unset the *_VISIBLE_DEVICES");
  expect("HIP_VISIBLE_DEVICES", Verdict::ok, "HIP shows only these");
  variables["ROCR_VISIBLE_DEVICES"] = "1";
  expect("HIP_VISIBLE_DEVICES", Verdict::warning, "may leave nothing", "unset HIP_VISIBLE_DEVICES");
}

TEST_F(Doctor, AnIntegratedGpuWithLittleMemory) {
  remove("sys/bus/pci/devices/0000:03:00.0");
  add_gpu(1, "0000:c5:00.0", 110501, gib / 2, gib / 2);
  put("sys/module/ttm/parameters/pages_limit", "4000000");
  gpus = {rocm(0, "gfx1151", "0000:c5:00.0", true)};
  // 65,000,000 KiB less 8 GiB, in pages of 4 KiB.
  expect("memory of 0000:c5:00.0", Verdict::warning, "GPUs may take 15.3 GiB",
         "options ttm pages_limit=" + std::to_string((65'000'000ull * 1024 - 8 * gib) / 4096));
  put("sys/bus/pci/devices/0000:c5:00.0/mem_info_gtt_total", std::to_string(54 * gib));
  expect("memory of 0000:c5:00.0", Verdict::ok, "GTT 54.0 GiB");
}

TEST_F(Doctor, ASmallWindow) {
  put("sys/bus/pci/devices/0000:03:00.0/mem_info_vis_vram_total", std::to_string(gib / 4));
  expect("memory of 0000:03:00.0", Verdict::warning, "visible to the CPU 0.2 GiB", "Resizable BAR");
}

TEST_F(Doctor, TheIommuMattersWithTwoGpus) {
  put("sys/bus/pci/devices/0000:03:00.0/iommu_group/type", "DMA-FQ\n");
  expect("IOMMU", Verdict::ok, "second GPU");
  add_gpu(2, "0000:0d:00.0", 120001, 16 * gib, 16 * gib);
  expect("IOMMU", Verdict::warning, "copies between them", "iommu=pt");
}

TEST_F(Doctor, RocBlasWithoutKernelsForTheChip) {
  put("opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1030.dat", "");
  expect("rocBLAS", Verdict::warning, "no kernels for rocm:0 (gfx1100)");
  put("opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat", "");
  expect("rocBLAS", Verdict::ok, "has kernels for rocm:0");
  gpus[0].architecture = "gfx110";  // part of another's name
  expect("rocBLAS", Verdict::warning, "no kernels");
}

TEST_F(Doctor, LibrariesThatAreNotNeeded) {
  expect("MIOpen", Verdict::not_applicable, "not installed");
  miopen.attempts = {{"/opt/rocm/lib/libMIOpen.so.1", ""}};
  miopen.version = "MIOpen 3.4.0";
  expect("MIOpen", Verdict::ok, "MIOpen 3.4.0, /opt/rocm/lib/libMIOpen.so.1");
  miopen.version = "";
  miopen.attempts.push_back({"/opt/rocm/lib/libMIOpen.so.1", "lacks miopenCreateWithStream"});
  expect("MIOpen", Verdict::warning, "lacks miopenCreateWithStream; it is not used");
}

TEST_F(Doctor, MissingLibraries) {
  hip.compiler_library.clear();
  expect("hiprtc", Verdict::problem, "none beside", "libhiprtc of the same ROCm");
  hip.library.clear();
  hip.unavailable = "no libamdhip64 was found";
  hip.attempts = {{"/opt/rocm/lib/libamdhip64.so.6", "libnuma.so.1: cannot open shared object file"}};
  gpus.clear();
  expect("libamdhip64", Verdict::problem, "no libamdhip64", "ROCM_PATH");
  expect("HIP library", Verdict::warning, "libnuma.so.1");
}

TEST_F(Doctor, AMachineWithoutGpusIsHealthy) {
  for (const char* name : {"sys", "dev"}) remove(name);
  hip.library.clear();
  hip.unavailable = "no libamdhip64 was found";
  hip.attempts = {{"libamdhip64.so.6", "libamdhip64.so.6: cannot open shared object file"}};
  gpus.clear();
  expect("GPUs", Verdict::warning, "no GPU was found");
  expect("AMD", Verdict::not_applicable, "no libamdhip64");
  expect("HIP library", Verdict::not_applicable, "cannot open shared object file");
  EXPECT_TRUE(healthy(examined()));
}

TEST_F(Doctor, NvidiaWithoutItsDriver) {
  put("sys/bus/pci/devices/0000:07:00.0/vendor", "0x10de\n");
  put("sys/bus/pci/devices/0000:07:00.0/class", "0x030200\n");
  expect("nvidia", Verdict::problem, "not loaded", "NVIDIA driver");
  expect("libcuda", Verdict::problem, "no libcuda");
  put("sys/module/nvidia/version", "570.1");
  cuda.library = "/usr/lib/libcuda.so.1";
  cuda.unavailable.clear();
  cuda.version = 12'080;
  expect("nvidia", Verdict::ok, "loaded");
  expect("libcuda", Verdict::ok, "CUDA 12.8");
  expect("NVRTC", Verdict::problem, "no libnvrtc", "CUDA_HOME");
}

TEST_F(Doctor, TrialsAndPeers) {
  const DeviceInfo gpu = rocm(0, "gfx1100", "0000:03:00.0");
  EXPECT_EQ(examine(gpu, Trial{.problem = "broken"}, true)[0].verdict, Verdict::problem);
  EXPECT_EQ(examine(gpu, Trial{.problem = "broken"}, false)[0].verdict, Verdict::warning);
  const auto fine = examine(gpu, Trial{.problem = "", .to_device = 25e9}, true);
  ASSERT_EQ(fine.size(), 2u);
  EXPECT_NE(fine[1].found.find("25.0 GB/s to the device"), std::string::npos);
  const Device a{DeviceKind::rocm, 0}, b{DeviceKind::rocm, 1};
  EXPECT_EQ(examine(PeerTrial{a, b, true, "differs"}).verdict, Verdict::warning);
  EXPECT_EQ(examine(PeerTrial{a, b, true, ""}).verdict, Verdict::ok);
  std::vector<Finding> findings = examine(gpu, Trial{.problem = "broken"}, true);
  excuse_problems(findings);
  EXPECT_TRUE(healthy(findings));
}

TEST(Kfd, NamesOfArchitectures) {
  EXPECT_EQ(architecture_of_kfd(110000), "gfx1100");
  EXPECT_EQ(architecture_of_kfd(90010), "gfx90a");
  EXPECT_EQ(architecture_of_kfd(90402), "gfx942");
  EXPECT_EQ(architecture_of_kfd(90012), "gfx90c");
  EXPECT_EQ(architecture_of_kfd(100306), "gfx1036");
  EXPECT_EQ(architecture_of_kfd(120001), "gfx1201");
}

// Every GPU that is there passes its trial: emulated chips in CI.
TEST(Trials, EveryGpuWorks) {
  bool any = false;
  for (const Device device : devices()) {
    if (device.kind == DeviceKind::cpu) continue;
    any = true;
    const Trial trial = try_device(device);
    EXPECT_EQ(trial.problem, "") << to_string(device);
    EXPECT_GT(trial.to_device, 0);
    EXPECT_GT(trial.on_device, 0);
  }
  for (const DeviceKind kind : {DeviceKind::rocm, DeviceKind::cuda})
    for (const PeerTrial& trial : try_peers(kind)) EXPECT_EQ(trial.problem, "");
  if (!any) GTEST_SKIP() << "no GPU";
}

}  // namespace
}  // namespace hearth::gpu
