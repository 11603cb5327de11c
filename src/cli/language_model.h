// What the commands that run language models share: their options, and loading with progress.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "cli/device_options.h"
#include "hearth/llm.h"
#include "hearth/progress.h"
#include "train/interrupt.h"

namespace hearth::cli {

struct ModelOptions {
  std::string model, cache = "f16";
  DeviceOptions device;
  double memory_gb = 0;
  bool quiet = false;
  llm::LoadOptions load;
};
struct LanguageModelOptions : ModelOptions {
  llm::GenerateOptions generate;
  std::string grammar, json_schema, draft;  // a file; a file or JSON; a model
};

// How a model is loaded: --device, --threads, --ctx, --cache-type, --memory.
void add_model_options(CLI::App& command, ModelOptions& options);
// Also which one, and how text is made with it.
void add_language_model_options(CLI::App& command, LanguageModelOptions& options);
// What the options say; sets the device and the number of threads.
llm::LoadOptions load_options(const ModelOptions& options);
// Says on standard error what it will take, and what was loaded, unless `options` are quiet. Throws Error
// where it will not fit, with what would help. A CPU can try without room for the weights, which stay in
// their file: it is warned, unless there is a limit to keep to.
llm::Model load_model(const ModelOptions& options);
// How text is made, with the grammar that the options name, which is read before a model is loaded.
llm::GenerateOptions generate_options(const LanguageModelOptions& options);
// Loads the draft model, if there is one.
void load_draft(const LanguageModelOptions& options, llm::GenerateOptions& generate);
// "prompt 12 tokens, 340.1/s; generated 80, 25.3/s; end"
std::string speed_text(const llm::GenerateResult& result);

// While a long prompt is read: shows how far it is, from two seconds on, and whether it is to go on.
class PromptProgress {
 public:
  PromptProgress(bool quiet, const train::InterruptGuard& interrupt) : quiet_(quiet), interrupt_(interrupt) {}
  bool goes_on(std::int64_t read, std::int64_t all);
  void done() { bar_.clear(); }

 private:
  bool quiet_, shown_ = false;
  const train::InterruptGuard& interrupt_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  ProgressBar bar_;
};

}  // namespace hearth::cli
