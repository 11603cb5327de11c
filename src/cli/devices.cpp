// `hearth devices`: what Hearth can compute on.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/commands.h"
#include "cli/table.h"
#include "gpu/system.h"
#include "gpu/vendor/vendor_library.h"
#include "hearth/device.h"

namespace hearth::cli {
namespace {

// With its version; empty where there is none that works.
std::string dnn_library(DeviceKind kind) {
  std::vector<gpu::OpenAttempt> attempts;
  return gpu::installed_dnn_library(kind == DeviceKind::cuda ? gpu::cuda_driver() : gpu::hip_driver(),
                                    attempts);
}

nlohmann::json to_json(const DeviceInfo& info) {
  nlohmann::json json{{"device", to_string(info.device)},
                      {"name", info.name},
                      {"architecture", info.architecture},
                      {"compute_units", info.compute_units},
                      {"total_memory", info.total_memory},
                      {"free_memory", info.free_memory},
                      {"default", info.device == device_from_name("auto")}};
  if (info.device.kind == DeviceKind::cpu) return json;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
  };
  json.update({{"wave_size", info.wave_size},
               {"matrix_unit", or_null(info.matrix_unit)},
               {"float8", or_null(info.float8)},
               {"int8_dot", info.int8_dot},
               {"integrated", info.integrated},
               {"pci_address", info.pci_address},
               {"driver", info.driver},
               {"library", info.library},
               {"compiler", or_null(info.compiler)},
               {"compiler_library", or_null(info.compiler_library)},
               {"dnn_library", or_null(dnn_library(info.device.kind))}});
  return json;
}

std::vector<std::string> row_of(const DeviceInfo& info) {
  std::vector<std::string> row{to_string(info.device) + (info.device == device_from_name("auto") ? " *" : ""),
                               info.name,
                               info.architecture,
                               std::to_string(info.compute_units),
                               gibibytes(info.total_memory),
                               gibibytes(info.free_memory)};
  if (info.device.kind == DeviceKind::cpu) {
    row.resize(row.size() + 5, "-");
    return row;
  }
  row.push_back(std::to_string(info.wave_size));
  row.push_back(info.matrix_unit.empty() ? "none" : info.matrix_unit);
  row.push_back(info.int8_dot ? "yes" : "no");
  row.push_back(info.float8.empty() ? "no" : info.float8);
  row.push_back(info.pci_address + (info.integrated ? " integrated" : ""));
  return row;
}

int print_devices(bool json) {
  std::vector<DeviceInfo> infos;
  for (const Device device : devices()) infos.push_back(device_info(device));
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const DeviceInfo& info : infos) list.push_back(to_json(info));
    fmt::print("{}\n", json_text(list));
    return success;
  }
  Table table{
      {"device", "name", "architecture", "units", "memory", "free", "wave", "matrix", "int8", "fp8", "PCI"}};
  for (const DeviceInfo& info : infos) table.push_back(row_of(info));
  fmt::print("{}* used by commands where no device is given\n", plain(table));
  std::set<std::string> libraries;  // one line per driver
  for (const DeviceInfo& info : infos)
    if (!info.driver.empty() && libraries.insert(info.driver).second)
      fmt::print("{}: {}; {}: {}\n", info.driver, info.library,
                 info.compiler.empty() ? "no compiler of kernels" : info.compiler,
                 info.compiler_library.empty() ? "run `hearth doctor`" : info.compiler_library);
  for (const gpu::VariableNote& note : gpu::explain_variables(gpu::process_variable))
    fmt::print("{}={}: {}\n", note.name, note.value, note.meaning);
  if (infos.size() == 1) fmt::print("No GPU was found; `hearth doctor` says why.\n");
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
