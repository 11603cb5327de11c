// Devices: where tensors live and work runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

enum class DeviceKind : std::uint8_t { cpu, rocm, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::uint8_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

// "cpu", "rocm:0", ...
std::string to_string(Device device);

// The device of a name:
//   "cpu", "rocm", "rocm:1", "cuda:0"  by kind and number, the first of its kind without a number
//   "gpu"                              the first GPU; an integrated one only if there is no other
//   "auto"                             the first GPU that is not integrated, or else the CPU
//   "0000:03:00.0", "03:00.0"          the GPU at a PCI address, however GPUs are numbered
//   "gfx1100", "sm_90"                 the first GPU of an architecture
// Throws ValueError for a malformed name, DeviceUnavailable for a device that is not there; both list the
// devices that are.
Device device_from_name(std::string_view name);

// The device on which factories make tensors. Process-wide.
Device default_device();
void set_default_device(Device device);
// While one lives, default_device() of this thread is `device`.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  std::optional<Device> before_;
};

struct DeviceInfo {
  Device device = {};
  std::string name = "";          // as people know it
  std::string architecture = "";  // "gfx1100", "sm_90", the instruction set of a CPU
  int compute_units = 0;          // cores of a CPU
  std::size_t total_memory = 0;
  std::size_t free_memory = 0;

  // Of GPUs only.
  int wave_size = 0;                  // lanes that run together
  std::string matrix_unit = "";       // "WMMA", "MFMA", "mma", "wgmma"; empty: none
  std::string float8 = "";            // 8-bit floats that it multiplies, "OCP" or "FNUZ"; empty: none
  bool int8_dot = false;              // multiplies bytes four at a time
  bool integrated = false;            // shares the memory of the CPU
  std::string pci_address = "";       // "0000:03:00.0"
  std::string driver = "";            // name and version: "HIP 7.0.51831"
  std::string library = "";           // the file that was opened as driver
  std::string compiler = "";          // name and version of the compiler of kernels; empty: none was found
  std::string compiler_library = "";  // its file
};
std::vector<Device> devices();
// Opens the device. Throws DeviceUnavailable.
DeviceInfo device_info(Device device);

// Waits for all work on the device; throws what failed there.
void synchronize(Device device = default_device());

// ---- memory

// What memory of a device is for.
enum class MemoryPurpose : std::uint8_t {
  loaded,   // values copied from the host: weights, batches
  results,  // values that were computed
  arenas,   // intermediate values and scratch memory of plans while they run
  tuning,   // trials of kernels
};
constexpr std::size_t memory_purposes = 4;
std::string to_string(MemoryPurpose purpose);  // "loaded", ...

// All sizes in bytes.
struct MemoryStats {
  struct Use {
    std::size_t allocated = 0, peak = 0;
  };

  std::size_t allocated = 0;  // in use by tensors and plans
  std::size_t reserved = 0;   // held, what is kept for later use included
  std::size_t peak = 0;       // largest `allocated` since the last reset
  std::size_t requested = 0;  // of `allocated`, what was asked for; the rest is rounding
  std::size_t limit = 0;      // most that may be reserved
  std::uint64_t allocations = 0;
  std::uint64_t cache_hits = 0;  // allocations that did not have to ask the system
  std::size_t largest_kept = 0;  // largest block that can be had without asking the system
  std::array<Use, memory_purposes> by_purpose{};
  const Use& of(MemoryPurpose purpose) const { return by_purpose[static_cast<std::size_t>(purpose)]; }
  // Share of the kept memory that one allocation cannot get, because it is in pieces: 0 to 1.
  double fragmentation() const {
    return reserved == allocated
               ? 0
               : 1 - static_cast<double>(largest_kept) / static_cast<double>(reserved - allocated);
  }

  // Of GPUs only. Pinned memory is memory of the host that copies to and from the device go through.
  std::size_t pinned_allocated = 0;  // by copies that are under way
  std::size_t pinned_reserved = 0;
  std::uint64_t pinned_allocations = 0, pinned_hits = 0;
  // Memory that work works on which the device has been given and is not known to have finished.
  std::size_t in_flight = 0;
  std::size_t in_flight_peak = 0;     // since the last reset
  std::uint64_t in_flight_waits = 0;  // times the host waited because there was too much of it
};
MemoryStats memory_stats(Device device = default_device());
// For people: "1.50 GiB in use (loaded 1.00 GiB, results 0.50 GiB), ...".
std::string to_string(const MemoryStats& stats);
void reset_peak_memory(Device device = default_device());
// Returns cached and reserved memory to the system.
void empty_cache(Device device = default_device());
// Does what the first use of a device would do: opens it, and on a GPU loads the compiler and launches a
// kernel. Then gets `bytes` of memory, from which later allocations are served without asking the system.
// Throws OutOfMemory.
void warm_up(Device device = default_device(), std::size_t bytes = 0);

}  // namespace hearth
