// The subcommands of `hearth`. Each adds itself to the command line; what it runs returns the exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hearth::cli {

// Exit statuses. Errors go to standard error as "hearth: error: ...".
inline constexpr int success = 0;
inline constexpr int failure = 1;
inline constexpr int usage_error = 2;
inline constexpr int interrupted = 130;  // as shells report SIGINT

// What the chosen subcommand does; set while the command line is parsed.
using Action = std::function<int()>;

void add_demo(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_quantize(CLI::App& app, Action& action);
void add_imatrix(CLI::App& app, Action& action);
void add_perplexity(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_hrm(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_kernels(CLI::App& app, Action& action);

}  // namespace hearth::cli
