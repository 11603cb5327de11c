// hipemu chips: the chips that can be emulated.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "isa/chip.h"
#include "tool/chip_names.h"
#include "tool/commands.h"

namespace hipemu::tool {
namespace {

std::string matrix_unit(const Chip& chip) { return chip.has_mfma ? "MFMA" : chip.has_wmma ? "WMMA" : "none"; }

void print_table() {
  fmt::print("{:<9} {:<24} {:>4} {:>5} {:>5} {:>6} {:>6} {:>8}  {}\n", "chip", "as in", "wave", "units",
             "SIMDs", "VGPRs", "LDS", "memory", "matrices");
  for (const Chip& chip : chips())
    fmt::print("{:<9} {:<24} {:>4} {:>5} {:>5} {:>6} {:>5}K {:>4} GiB  {}\n", chip.processor,
               chip.marketing_name, chip.wave_size, chip.compute_units, chip.simds_per_unit,
               chip.vector_registers, chip.lds_per_unit / 1024, chip.memory_bytes >> 30, matrix_unit(chip));
  fmt::print("\nPer unit (compute unit, or WGP on RDNA): SIMDs and LDS. Per SIMD: VGPRs of a lane.\n");
}

void print_json() {
  nlohmann::json list = nlohmann::json::array();
  for (const Chip& chip : chips())
    list.push_back({{"processor", chip.processor},
                    {"target", chip.target},
                    {"name", chip.marketing_name},
                    {"wave_size", chip.wave_size},
                    {"units", chip.compute_units},
                    {"simds_per_unit", chip.simds_per_unit},
                    {"waves_per_simd", chip.waves_per_simd},
                    {"vgprs", chip.vector_registers},
                    {"lds_per_block", chip.lds_per_block},
                    {"lds_per_unit", chip.lds_per_unit},
                    {"memory_bytes", chip.memory_bytes},
                    {"matrix_unit", matrix_unit(chip)}});
  fmt::print("{}\n", list.dump(2));
}

}  // namespace

std::string known_chips() {
  std::string names;
  for (const Chip& chip : chips()) {
    names += names.empty() ? "" : ", ";
    names += chip.processor;
  }
  return names;
}

void check_chips(const std::string& list) {
  std::size_t start = 0;
  while (start <= list.size()) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    const std::string entry = list.substr(start, end - start), name = entry.substr(0, entry.find('='));
    if (!find_chip(name))
      throw ToolError(fmt::format("unknown chip \"{}\"; known are {}", name, known_chips()));
    start = end + 1;
  }
}

void add_chips_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("chips", "Lists the chips that can be emulated");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "as JSON");
  command->callback([json, &invocation] {
    *json ? print_json() : print_table();
    invocation.exit_code = 0;
  });
}

}  // namespace hipemu::tool
