// What keeps a GPU from working, and what would help. What is examined is given, so that every case can be
// tested on a machine without a GPU.
#pragma once

#include <string>
#include <vector>

#include "gpu/driver/driver.h"
#include "gpu/system.h"
#include "gpu/trial.h"

namespace hearth::gpu {

enum class Verdict {
  ok,
  warning,         // works, but not as it could
  problem,         // keeps a GPU that is there, or the one asked for, from working
  not_applicable,  // nothing of the kind is on this machine
};
std::string_view name_of(Verdict verdict);

struct Finding {
  std::string subject;
  Verdict verdict = Verdict::ok;
  std::string found;
  std::string fix = "";  // a command or a step that would help; empty: nothing to do
};

// A library that Hearth may use and does not need.
struct OptionalLibrary {
  std::string version;                // "MIOpen 3.4.0"; empty: none that works
  std::vector<OpenAttempt> attempts;  // to open it
};

struct Circumstances {
  System system;
  const Driver* hip = nullptr;
  const Driver* cuda = nullptr;
  std::string comgr;  // AMD's code-object library, where it is loaded
  OptionalLibrary miopen, cudnn;
  std::vector<DeviceInfo> gpus;  // as the drivers list them
  Variable variable = process_variable;
};
// Those of this machine.
Circumstances circumstances();

// Everything that can be said without running anything on a GPU.
std::vector<Finding> examine(const Circumstances& circumstances);
// What a trial showed. A failure is a problem on the device that is `chosen`, a warning on others.
std::vector<Finding> examine(const DeviceInfo& gpu, const Trial& trial, bool chosen);
Finding examine(const PeerTrial& trial);

// For a machine whose chosen device works: what is wrong elsewhere is a warning.
void excuse_problems(std::vector<Finding>& findings);
bool healthy(const std::vector<Finding>& findings);  // no problem among them

}  // namespace hearth::gpu
