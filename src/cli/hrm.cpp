// `hearth hrm`: reasoning models.
#include "cli/hrm.h"

#include <filesystem>

#include "hearth/config.h"
#include "hearth/device.h"
#include "hearth/error.h"

namespace hearth::cli {

std::string default_sudoku_model() {
  const std::filesystem::path here = "models/sudoku.safetensors";
  std::error_code error;
  if (std::filesystem::exists(here, error)) return here.string();
  // Built from the sources, the program is in build/bin.
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = program.parent_path().parent_path().parent_path() / here;
  return !error && std::filesystem::exists(beside, error) ? beside.string() : here.string();
}

void add_model_choice(CLI::App& command, ModelChoice& choice) {
  command
      .add_option("--model", choice.name,
                  "sudoku (small, made for it), trm, or reference (HRM with 27 M parameters)")
      ->check(CLI::IsMember({"sudoku", "trm", "reference"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  const auto number = [&](const char* name, std::int64_t& value, const char* what) {
    command.add_option(name, value, what)->check(CLI::Range(1, 1 << 20).description(""))->type_name("N");
  };
  number("--features", choice.features, "Size of the states (default: the model's)");
  number("--unit-features", choice.unit_features, "Features exchanged per row, column and box (sudoku)");
  number("--layers", choice.layers, "Layers of each module");
  number("--h-cycles", choice.h_cycles, "Cycles of a segment");
  number("--l-cycles", choice.l_cycles, "Updates of the fast state in a cycle");
  command.add_option("--precision", choice.precision, "Type of activations: bf16 or f32")
      ->check(CLI::IsMember({"bf16", "f32"}).description(""))
      ->type_name("TYPE");
}

hrm::HrmConfig config_of(const ModelChoice& choice) {
  hrm::HrmConfig config = hrm::config_from_name(choice.name);
  if (choice.features > 0) config.features = choice.features;
  if (choice.unit_features > 0) config.unit_features = choice.unit_features;
  if (choice.layers > 0) config.h_layers = config.l_layers = choice.layers;
  if (choice.h_cycles > 0) config.h_cycles = choice.h_cycles;
  if (choice.l_cycles > 0) config.l_cycles = choice.l_cycles;
  if (!choice.precision.empty()) config.precision = choice.precision == "f32" ? DType::f32 : DType::bf16;
  check(config);
  return config;
}

void add_hrm(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("hrm", "Reasoning models: train them, solve Sudoku with them");
  command->require_subcommand(1);
  add_hrm_solve(*command, action);
  add_hrm_train(*command, action);
  add_hrm_eval(*command, action);
  add_hrm_generate(*command, action);
  add_hrm_import(*command, action);
  add_hrm_bench(*command, action);
}

}  // namespace hearth::cli
