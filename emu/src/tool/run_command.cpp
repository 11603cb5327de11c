// hipemu run, trace and stats: start a program with the emulated GPU, differing in what they record.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "exec/check/options.h"
#include "tool/chip_names.h"
#include "tool/commands.h"
#include "tool/start_program.h"

namespace hipemu::tool {
namespace {

struct RunOptions {
  ProgramStart start;
  std::string check;
  uint64_t seed = 0;
  std::string output;
  bool json = false;
};

// Adds what the three commands share. `prepare` completes the start before the program runs.
template <typename Prepare>
void add_program_command(CLI::App& app, Invocation& invocation, const char* name, const char* description,
                         std::shared_ptr<RunOptions> options, Prepare prepare) {
  CLI::App* command = app.get_subcommand(name);
  command->description(description);
  command->footer(fmt::format(
      "The program and its arguments follow: hipemu {} [options] [--] program [arguments...]", name));
  command->add_option(
      "--chip", options->start.chips,
      fmt::format("chips of the machine, one device each, separated by commas: {}. Without it the "
                  "variable HIPEMU decides",
                  known_chips()));
  CLI::Option* check = command->add_option("--check", options->check,
                                           "what to look for in kernels: on (as without it), off, or some of "
                                           "bounds,init,race,barrier,matrix,align");
  CLI::Option* seed =
      command->add_option("--seed", options->seed, "decides the order in which waves run, to look for races");
  command->prefix_command();  // what follows the program's name is the program's
  command->callback([command, check, seed, options, prepare, &invocation] {
    auto& words = options->start.command;
    words = command->remaining();
    if (const auto& rest = invocation.after_separator) {
      if (!words.empty()) words.push_back("--");  // behind the program's name it is one of its own words
      words.insert(words.end(), rest->begin(), rest->end());
    }
    if (check->count()) {
      parse_check_options(options->check);  // throws, naming what is allowed
      options->start.check = options->check;
    }
    if (seed->count()) options->start.seed = options->seed;
    prepare(*options);
    invocation.exit_code = start_program(options->start);
  });
}

// The program may change its directory before the file is opened.
std::string destination(const RunOptions& options) {
  return options.output.empty() ? "stderr" : std::filesystem::absolute(options.output).string();
}

}  // namespace

void add_run_command(CLI::App& app, Invocation& invocation) {
  app.add_subcommand("run");
  add_program_command(app, invocation, "run", "Runs a HIP program on the emulated GPU",
                      std::make_shared<RunOptions>(), [](RunOptions&) {});
}

void add_trace_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RunOptions>();
  app.add_subcommand("trace")->add_option("-o,--output", options->output,
                                          "file for the trace instead of stderr");
  add_program_command(
      app, invocation, "trace", "Runs a program and writes down every instruction of its kernels", options,
      [](RunOptions& given) { given.start.variables.emplace_back("HIPEMU_TRACE", destination(given)); });
}

void add_stats_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("stats");
  command->add_option("-o,--output", options->output, "file for the statistics instead of stderr");
  command->add_flag("--json", options->json, "as JSON");
  add_program_command(app, invocation, "stats", "Runs a program and counts what its kernels executed",
                      options, [](RunOptions& given) {
                        given.start.variables.emplace_back("HIPEMU_STATS", destination(given));
                        if (given.json) given.start.variables.emplace_back("HIPEMU_STATS_FORMAT", "json");
                      });
}

}  // namespace hipemu::tool
