// A GPU that is not there. It takes any plan, computes nothing, and writes down the kernels that a real one
// of its architecture would compile and launch.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "gpu/device.h"

namespace hearth::gpu {

struct NotedKernel {
  KernelSource source;
  std::string name;      // of the function in the source
  unsigned threads = 0;  // per block, the most it was launched with; 0: it was not launched
  unsigned shared = 0;   // bytes that a launch asked for besides what the kernel declares, the most
};

// Memory is addresses that nobody may use, 256-byte aligned; what is copied from it reads as zeros.
class AbsentDevice final : public GpuDevice {
 public:
  // "gfx1100" for a rocm device, "sm_90" for cuda. Nothing of the vendor's needs to be installed.
  AbsentDevice(const std::string& architecture, Device device);
  DeviceInfo info() const override;
  std::vector<NotedKernel> kernels() const;  // in the order of first use

 private:
  Function load(const KernelSource& source, const std::string& name) override;
  std::deque<NotedKernel> kernels_;  // handles point to them
};

}  // namespace hearth::gpu
