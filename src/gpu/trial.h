// Trying a GPU out: does it compile, launch, copy, and reach its neighbours? Uses the driver alone, none of
// Hearth's kernels or pools, so that a failure is the machine's.
#pragma once

#include <string>
#include <vector>

#include "hearth/device.h"

namespace hearth::gpu {

struct Trial {
  std::string problem = "";  // the first thing that failed; empty: everything worked
  double compile_ms = 0;     // of a small kernel, not from the cache
  // Bytes per second; 0: not measured.
  double to_device = 0, to_host = 0, on_device = 0;
};
// Never throws for what the device does.
Trial try_device(Device device);

struct PeerTrial {
  Device from, to;
  bool direct = false;  // the driver says that one can reach the other's memory
  std::string problem;  // a copy failed or arrived wrong; empty: right
};
// Copies a pattern between every two devices of a kind.
std::vector<PeerTrial> try_peers(DeviceKind kind);

}  // namespace hearth::gpu
