// What the subcommands of `hearth hrm` share.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands.h"
#include "cli/device_options.h"
#include "hearth/hrm.h"

namespace hearth::cli {

// What `hearth hrm solve` and `eval` use where no other is named: the model that ships, here or beside the
// program.
std::string default_sudoku_model();

// A known configuration, changed where asked for.
struct ModelChoice {
  std::string name = "sudoku";
  std::string precision{};
  std::int64_t features = 0, unit_features = 0, layers = 0, h_cycles = 0, l_cycles = 0;
};
void add_model_choice(CLI::App& command, ModelChoice& choice);
hrm::HrmConfig config_of(const ModelChoice& choice);

void add_hrm_train(CLI::App& hrm, Action& action);
void add_hrm_eval(CLI::App& hrm, Action& action);
void add_hrm_solve(CLI::App& hrm, Action& action);
void add_hrm_generate(CLI::App& hrm, Action& action);
void add_hrm_import(CLI::App& hrm, Action& action);
void add_hrm_bench(CLI::App& hrm, Action& action);

}  // namespace hearth::cli
