// `hearth hrm import`.
#include <fmt/format.h>

#include <memory>

#include "cli/checks.h"
#include "cli/hrm.h"
#include "cli/output_file.h"
#include "hearth/hrm_data.h"

namespace hearth::cli {

void add_hrm_import(CLI::App& hrm_command, Action& action) {
  struct Options {
    std::string checkpoint, output;
    bool force = false;
    hrm::ImportOptions import;
  };
  CLI::App* command =
      hrm_command.add_subcommand("import", "Convert a checkpoint of the reference implementation");
  const auto options = std::make_shared<Options>();
  command->add_option("checkpoint", options->checkpoint, "File written by its training script")
      ->required()
      ->type_name("FILE");
  command->add_option("output", options->output, "Model file to write")
      ->check(must_not_be_empty())
      ->required()
      ->type_name("FILE");
  command->add_flag("-f,--force", options->force, "Replace the file if it is there");
  const auto number = [&](const char* name, std::int64_t& value, const char* what) {
    command->add_option(name, value, what)->check(CLI::Range(1, 1 << 20).description(""))->type_name("N");
  };
  number("--length", options->import.length, "Tokens of a sequence (default: by the vocabulary)");
  number("--heads", options->import.heads, "Attention heads (default: of 64 features)");
  number("--h-cycles", options->import.h_cycles, "Cycles of a segment (default 2)");
  number("--l-cycles", options->import.l_cycles, "Updates of the fast state in a cycle (default 2)");
  command->callback([options, &action] {
    action = [options] {
      check_output(options->output, options->force);
      const auto model = hrm::import_checkpoint(options->checkpoint, options->import);
      hrm::save_model(options->output, *model, DType::f32);
      fmt::print("{} parameters, sequences of {} tokens of {} kinds: {}\n", model->parameter_count(),
                 model->config().length, model->config().vocabulary, options->output);
      return success;
    };
  });
}

}  // namespace hearth::cli
