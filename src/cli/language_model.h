// What the commands that run language models share: their options, and loading with progress.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "hearth/llm.h"

namespace hearth::cli {

struct LanguageModelOptions {
  std::string model, device, cache = "f16";
  int threads = 0;
  bool quiet = false;
  llm::LoadOptions load;
  llm::GenerateOptions generate;
};

void add_language_model_options(CLI::App& command, LanguageModelOptions& options);
// Says on standard error what was loaded, unless `options` are quiet.
llm::Model load_model(const LanguageModelOptions& options);
// "prompt 12 tokens, 340.1/s; generated 80, 25.3/s; end"
std::string speed_text(const llm::GenerateResult& result);

}  // namespace hearth::cli
