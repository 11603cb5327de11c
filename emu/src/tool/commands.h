// The subcommands of `hipemu`, one source file each.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace hipemu::tool {

struct Invocation {
  int exit_code = 0;
  std::optional<std::vector<std::string>> after_separator;  // the words behind "--", when there is one
};

// Each adds its subcommand to the application. When it is called it does its work and stores the exit code,
// or throws: ToolError for what the user can put right.
void add_run_command(CLI::App& app, Invocation& invocation);
void add_trace_command(CLI::App& app, Invocation& invocation);
void add_stats_command(CLI::App& app, Invocation& invocation);
void add_kernels_command(CLI::App& app, Invocation& invocation);
void add_chips_command(CLI::App& app, Invocation& invocation);

struct ToolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace hipemu::tool
