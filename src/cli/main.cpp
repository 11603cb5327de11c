// The `hearth` command: parses the command line and runs one subcommand.
#include <fcntl.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "base/say.h"
#include "cli/commands.h"

namespace {

// A standard stream that is closed leaves its number to the next file that is opened, which would get what is
// written to the stream. To what stands in for it nothing can be written, either.
void keep_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDONLY);
}

// The status, if standard output took everything: into a file on a full disk, say, what was written counts,
// not what was tried.
int written(int status) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  hearth::say("hearth: error: not everything could be written to standard output\n");
  return hearth::cli::failure;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hearth;
  keep_standard_streams();
  CLI::App app("Hearth: a deep-learning runtime for the GPU you own.", "hearth");
  app.set_version_flag("--version", "hearth " HEARTH_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    std::string name = "hearth";
    while (!failed->get_subcommands().empty()) {
      failed = failed->get_subcommands().front();
      name += ' ' + failed->get_name();
    }
    return fmt::format("hearth: error: {}\nTry '{} --help'.\n", error.what(), name);
  });
  cli::Action action;
  cli::add_run(app, action);
  cli::add_chat(app, action);
  cli::add_serve(app, action);
  cli::add_inspect(app, action);
  cli::add_tokenize(app, action);
  cli::add_convert(app, action);
  cli::add_quantize(app, action);
  cli::add_imatrix(app, action);
  cli::add_perplexity(app, action);
  cli::add_bench(app, action);
  cli::add_demo(app, action);
  cli::add_train(app, action);
  cli::add_hrm(app, action);
  cli::add_devices(app, action);
  cli::add_doctor(app, action);
  cli::add_tune(app, action);
  cli::add_kernels(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
      hearth::say("hearth: error: there is no command '{}'\nTry 'hearth --help'.\n", argv[1]);
      return cli::usage_error;
    }
    // --help and --version come this way too, with status 0.
    return written(app.exit(error) == 0 ? cli::success : cli::usage_error);
  }
  try {
    return written(action());
  } catch (const std::bad_alloc&) {
    hearth::say("hearth: error: out of memory\n");
  } catch (const std::exception& error) {
    hearth::say("hearth: error: {}\n", error.what());
  }
  return cli::failure;
}
