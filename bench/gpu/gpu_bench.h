// The frame of the GPU benchmarks: work is queued many times over and waited for once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../bench.h"
#include "hearth/hearth.h"

namespace hearth::bench {

struct GpuOptions {
  Device device;
  bool quick = false;    // shorter runs, small sizes: to see that it works
  bool profile = false;  // training: also print where the time goes
};

// Median seconds that the device needs for one call of `queue`, which returns before the work is done. The
// candidates take turns.
std::vector<double> device_medians(Device device, const std::vector<std::function<void()>>& candidates,
                                   bool quick);

void gpu_memory(Report& report, const GpuOptions& options);
void gpu_gemm(Report& report, const GpuOptions& options);
void gpu_vendor(Report& report, const GpuOptions& options);
void gpu_attention(Report& report, const GpuOptions& options);
void gpu_replay(Report& report, const GpuOptions& options);
void gpu_training(Report& report, const GpuOptions& options);
void gpu_quantised(Report& report, const GpuOptions& options);

}  // namespace hearth::bench
