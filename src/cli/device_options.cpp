// Which device a command uses: a GPU where there is one.
#include "cli/device_options.h"

#include "hearth/config.h"
#include "hearth/device.h"

namespace hearth::cli {

void add_device_options(CLI::App& command, DeviceOptions& options) {
  command
      .add_option("--device", options.device,
                  "cpu, rocm, rocm:1, cuda:0, gpu, gfx1100, ... (default: a GPU if there is one)")
      ->type_name("NAME");
  command.add_option("--threads", options.threads, "CPU threads (default: one per core)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
}

void apply(const DeviceOptions& options) {
  set_default_device(device_from_name(options.device));
  if (options.threads == 0) return;
  Config changed = config();
  changed.threads = options.threads;
  set_config(changed);
}

}  // namespace hearth::cli
