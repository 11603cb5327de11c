// hipemu: looks into AMD GPU programs and runs them without a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "tool/commands.h"

int main(int argument_count, char** arguments) {
  CLI::App app("Runs HIP programs on an emulated AMD GPU, and looks into their kernels.", "hipemu");
  app.set_version_flag("--version", "hipemu " HIPEMU_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  hipemu run ./vector_add                       as on a Radeon RX 7900 XTX\n"
      "  hipemu run --chip gfx942 --check on -- ./gemm 1024\n"
      "  hipemu stats --json -o stats.json -- ./gemm   what each kernel executed\n"
      "  hipemu kernels ./gemm                         registers, LDS and occupancy\n"
      "\n"
      "Exit codes: that of the program that was run; 125 when hipemu itself failed, 126 when the program\n"
      "cannot be executed, 127 when it is not found.");
  hipemu::tool::Invocation invocation;
  hipemu::tool::add_run_command(app, invocation);
  hipemu::tool::add_trace_command(app, invocation);
  hipemu::tool::add_stats_command(app, invocation);
  hipemu::tool::add_kernels_command(app, invocation);
  hipemu::tool::add_chips_command(app, invocation);
  // What follows "--" is not for the option parser, which would sort it among our own options.
  char** const end = arguments + argument_count;
  char** const separator = std::find(arguments, end, std::string_view("--"));
  if (separator != end) invocation.after_separator.emplace(separator + 1, end);
  try {
    app.parse(int(separator - arguments), arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 125;  // --help and --version end here too, with 0
  } catch (const std::exception& error) {
    fmt::print(stderr, "hipemu: {}\n", error.what());
    return 125;
  }
  return invocation.exit_code;
}
