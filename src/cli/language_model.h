// What the commands that run language models share: their options, and loading with progress.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "cli/device_options.h"
#include "hearth/llm.h"

namespace hearth::cli {

struct ModelOptions {
  std::string model, cache = "f16";
  DeviceOptions device;
  bool quiet = false;
  llm::LoadOptions load;
};
struct LanguageModelOptions : ModelOptions {
  llm::GenerateOptions generate;
};

// How a model is loaded: --device, --threads, --ctx, --cache.
void add_model_options(CLI::App& command, ModelOptions& options);
// Also which one, and how text is made with it.
void add_language_model_options(CLI::App& command, LanguageModelOptions& options);
// What the options say; sets the device and the number of threads.
llm::LoadOptions load_options(const ModelOptions& options);
// Says on standard error what was loaded, unless `options` are quiet.
llm::Model load_model(const ModelOptions& options);
// Throws ValueError for a file that is there and may not be replaced, before work is done for nothing.
void check_output(const std::filesystem::path& path, bool force);
// "prompt 12 tokens, 340.1/s; generated 80, 25.3/s; end"
std::string speed_text(const llm::GenerateResult& result);

}  // namespace hearth::cli
