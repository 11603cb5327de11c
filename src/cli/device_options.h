// --device and --threads.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::cli {

struct DeviceOptions {
  std::string device = "auto";
  int threads = 0;  // 0: one per core
};
void add_device_options(CLI::App& command, DeviceOptions& options);
// Makes them those of the program.
void apply(const DeviceOptions& options);

}  // namespace hearth::cli
