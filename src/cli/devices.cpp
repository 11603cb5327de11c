// `hearth devices`: what Hearth can compute on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "hearth/device.h"

namespace hearth::cli {
namespace {

std::string gibibytes(std::size_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1024.0 * 1024 * 1024));
}

int print_devices(bool json) {
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Device device : devices()) {
      const DeviceInfo info = device_info(device);
      list.push_back({{"device", to_string(device)},
                      {"name", info.name},
                      {"architecture", info.architecture},
                      {"compute_units", info.compute_units},
                      {"total_memory", info.total_memory},
                      {"free_memory", info.free_memory},
                      {"default", device == default_device()}});
    }
    fmt::print("{}\n", list.dump(2));
    return success;
  }
  std::vector<std::array<std::string, 6>> rows{{"device", "name", "architecture", "units", "memory", "free"}};
  for (const Device device : devices()) {
    const DeviceInfo info = device_info(device);
    rows.push_back({to_string(device) + (device == default_device() ? " *" : ""), info.name,
                    info.architecture, std::to_string(info.compute_units), gibibytes(info.total_memory),
                    gibibytes(info.free_memory)});
  }
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
    fmt::print("{}\n", line);
  }
  fmt::print("* used where no device is given\n");
  return success;
}

}  // namespace

void add_devices(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("devices", "List the devices Hearth can compute on");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print a JSON array; memory is in bytes");
  command->callback([json, &action] { action = [json] { return print_devices(*json); }; });
}

}  // namespace hearth::cli
