// Finding out which kernels the workloads need on a chip, and compiling them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/kernel_instructions.h"
#include "cli/kernel_workloads.h"
#include "gpu/absent_device.h"
#include "gpu/code_object.h"
#include "gpu/occupancy.h"

namespace hearth::cli {

// A kernel that a workload launches on a chip.
struct NeededKernel {
  gpu::Target target;
  std::string workload;  // the first that needs it
  gpu::NotedKernel kernel;
  std::string
      label;  // the name of its text, with that of the function where there are several: "rope: rotate"
};

// One kernel on one architecture: its figures, or why there are none.
struct BuiltKernel {
  NeededKernel needed;
  gpu::KernelResources resources;  // with the shared memory that launches ask for
  gpu::Occupancy occupancy;
  std::optional<Instructions> instructions;  // none: not checked
  std::string problem;                       // empty: it was compiled
};

// Throws ValueError where the compiler for it does not know this architecture.
void require_architecture(const std::string& architecture);

// Runs the workloads on a GPU of this architecture that is not there. Throws what a workload throws.
// The default device changes meanwhile: one thread at a time.
std::vector<NeededKernel> find_kernels(const std::string& architecture,
                                       const std::vector<Workload>& workloads);

// Compiles them through the kernel cache on `jobs` threads. `progress` is called with the number of texts
// that are done and of all, by one thread at a time.
std::vector<BuiltKernel> build_kernels(const std::vector<NeededKernel>& kernels, int jobs,
                                       const std::function<void(std::size_t, std::size_t)>& progress);

// Variants that are written to read 16 bytes at a time, and to use the matrix unit.
bool reads_packets(const NeededKernel& kernel);
bool uses_matrix_unit(const NeededKernel& kernel);

// What is wrong with a kernel: it was not compiled, has local variables in memory, needs more LDS than a
// block can have, or lacks the loads or the matrix instructions it is written for. Empty: nothing.
std::string fault_of(const BuiltKernel& built);

}  // namespace hearth::cli
