// `hearth perplexity` and `hearth imatrix`: what a text shows about a model.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/language_model.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "hearth/error.h"
#include "hearth/progress.h"
#include "llm/importance.h"
#include "llm/perplexity.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

struct TextOptions {
  ModelOptions model;
  std::string text, output;
  std::int64_t most_tokens = 0;
  bool json = false, force = false;
  llm::PerplexityOptions perplexity;
};

// Read before the model is loaded.
std::string text_of(const TextOptions& options) {
  std::string text = read_text_file(options.text);
  if (text.empty()) throw ValueError(fmt::format("{}: the file is empty", options.text));
  return text;
}

std::vector<TokenId> tokens_of(const llm::Model& model, const std::string& text, const TextOptions& options) {
  auto tokens = model.tokenizer().encode(text);
  if (options.most_tokens > 0 && tokens.size() > static_cast<std::size_t>(options.most_tokens))
    tokens.resize(static_cast<std::size_t>(options.most_tokens));
  if (tokens.size() < 2) throw ValueError(fmt::format("{}: fewer than two tokens", options.text));
  return tokens;
}

void add_common(CLI::App& command, TextOptions& options) {
  command
      .add_option("model", options.model.model, "A GGUF file, or a folder with config.json and safetensors")
      ->required();
  command.add_option("text", options.text, "A file of text")->required();
  add_model_options(command, options.model);
  command.add_option("-n,--tokens", options.most_tokens, "Only the first tokens of the text")
      ->check(must_be_positive());
  command
      .add_option("--window", options.perplexity.window,
                  "Tokens that the model sees at once, at most its context")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 30))
      ->capture_default_str();
}

int perplexity(const TextOptions& options) {
  const std::string text = text_of(options);
  const llm::Model model = load_model(options.model);
  const auto tokens = tokens_of(model, text, options);
  const auto start = std::chrono::steady_clock::now();
  const train::InterruptGuard interrupt(true, "\nstopping; once more to stop at once\n");
  ProgressBar bar;
  bar.begin("perplexity", static_cast<std::int64_t>(tokens.size()));
  const llm::Perplexity result =
      llm::measure_perplexity(model, tokens, options.perplexity, [&](const auto& sofar, std::int64_t seen) {
        bar.update(seen, {{"so far", fmt::format("{:.3f}", sofar.value())}});
        return !interrupt.requested();
      });
  bar.clear();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double speed = static_cast<double>(result.tokens) / seconds.count();
  if (options.json) {
    const nlohmann::json json{{"perplexity", result.value()},      {"mean", result.mean},
                              {"standard_error", result.error},    {"tokens", result.tokens},
                              {"windows", result.windows},         {"tokens_per_second", speed},
                              {"complete", !interrupt.requested()}};
    fmt::print("{}\n", json_text(json));
  } else {
    fmt::print("perplexity {:.4f} +- {:.4f} ({} tokens in {} windows, {:.0f}/s){}\n", result.value(),
               result.value() * result.error, result.tokens, result.windows, speed,
               interrupt.requested() ? ", interrupted before the end" : "");
  }
  return interrupt.requested() ? interrupted : success;
}

int measure_importance(const TextOptions& options) {
  check_output(options.output, options.force);
  const std::string text = text_of(options);
  const llm::Model model = load_model(options.model);
  const auto tokens = tokens_of(model, text, options);
  const train::InterruptGuard interrupt(true, "\nstopping; once more to stop at once\n");
  ProgressBar bar;
  bar.begin("measuring", static_cast<std::int64_t>(tokens.size()));
  llm::Importance importance =
      llm::measure_importance(model, tokens, options.perplexity.window, [&](std::int64_t done) {
        bar.update(done, {});
        return !interrupt.requested();
      });
  bar.clear();
  if (interrupt.requested()) return interrupted;
  importance.texts = {std::filesystem::path(options.text).filename().string()};
  llm::save_importance(options.output, importance);
  fmt::print("{}: {} weights, measured with {} tokens\n", options.output, importance.weights.size(),
             tokens.size());
  return success;
}

}  // namespace

void add_perplexity(CLI::App& app, Action& action) {
  auto options = std::make_shared<TextOptions>();
  auto* command = app.add_subcommand("perplexity", "Measure how well a model foresees a text");
  add_common(*command, *options);
  command
      ->add_option("--stride", options->perplexity.stride,
                   "Tokens by which the window moves on, and that are scored (default: half a window)")
      ->check(must_be_positive());
  command->add_flag("--json", options->json, "Print the figures as JSON");
  command->callback([options, &action] { action = [options] { return perplexity(*options); }; });
}

void add_imatrix(CLI::App& app, Action& action) {
  auto options = std::make_shared<TextOptions>();
  auto* command =
      app.add_subcommand("imatrix", "Measure how much the columns of weights matter, for 'hearth quantize'");
  add_common(*command, *options);
  command->add_option("-o,--output", options->output, "The file to write")
      ->check(must_not_be_empty())
      ->required();
  command->add_flag("-f,--force", options->force, "Replace the file if it is there already");
  command->callback([options, &action] { action = [options] { return measure_importance(*options); }; });
}

}  // namespace hearth::cli
