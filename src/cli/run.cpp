// `hearth run`: text from a language model.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/say.h"
#include "cli/commands.h"
#include "cli/language_model.h"
#include "cli/table.h"
#include "hearth/error.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

struct RunOptions : LanguageModelOptions {
  std::string prompt;
  bool json = false, special = false, has_prompt = false;
};

std::string prompt_of(const RunOptions& options) {
  if (options.has_prompt && options.prompt != "-") return options.prompt;
  if (!options.has_prompt && isatty(STDIN_FILENO)) return {};
  std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  if (text.ends_with('\n')) text.pop_back();  // the end of the line that it is, not of what is said
  return text;
}

// The prompt as tokens; a model that expects it gets its first token, so that an empty prompt is one too.
std::vector<TokenId> tokens_of(const llm::Model& model, const std::string& prompt, bool special) {
  std::vector<TokenId> tokens =
      model.tokenizer().encode(prompt, {.add_special = true, .parse_special = special});
  if (tokens.empty() && model.tokenizer().special().bos) tokens.push_back(*model.tokenizer().special().bos);
  if (tokens.empty()) throw ValueError("the prompt is empty, and this model has no token to begin with");
  return tokens;
}

nlohmann::json to_json(const llm::TokenLogProbability& token, const Tokenizer& tokenizer) {
  return {{"id", token.token},
          {"text", std::string(tokenizer.bytes(token.token))},
          {"log_probability", token.log_probability}};
}

nlohmann::json to_json(const llm::GenerateResult& result, const llm::Model& model) {
  nlohmann::json json{{"text", result.text},
                      {"tokens", result.tokens},
                      {"finish_reason", to_string(result.reason)},
                      {"prompt_tokens", result.prompt_tokens},
                      {"drafted_tokens", result.drafted_tokens},
                      {"accepted_tokens", result.accepted_tokens},
                      {"shifts", result.shifts},
                      {"prompt_seconds", result.prompt_seconds},
                      {"generate_seconds", result.generate_seconds},
                      {"device", to_string(model.device())}};
  for (const llm::LogProbabilities& token : result.log_probabilities) {
    nlohmann::json entry = to_json(token.chosen, model.tokenizer());
    entry["best"] = nlohmann::json::array();
    for (const auto& other : token.best) entry["best"].push_back(to_json(other, model.tokenizer()));
    json["log_probabilities"].push_back(entry);
  }
  return json;
}

int run(const RunOptions& options) {
  const std::string prompt = prompt_of(options);
  llm::GenerateOptions generate = generate_options(options);
  const llm::Model model = load_model(options);
  load_draft(options, generate);
  const std::vector<TokenId> tokens = tokens_of(model, prompt, options.special);
  if (static_cast<std::int64_t>(tokens.size()) > model.context())
    throw ValueError(
        fmt::format("the prompt has {} tokens, the context {}{}", tokens.size(), model.context(),
                    model.context() < model.config().context
                        ? fmt::format("; a larger one is asked for with --ctx (the model allows {})",
                                      model.config().context)
                        : ", which is all that the model allows"));

  const train::InterruptGuard interrupt(true, "");
  const auto show = [&](std::string_view text) {
    if (options.json) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  // The prompt is shown when it has been read: before, progress may be there.
  PromptProgress reading(options.quiet, interrupt);
  generate.reading = [&](std::int64_t read, std::int64_t all) { return reading.goes_on(read, all); };
  bool begun = false;
  const auto begin = [&] {
    if (std::exchange(begun, true)) return;
    reading.done();
    show(prompt);
  };
  llm::Session session(model);
  const auto generated = [&] {
    try {
      return session.generate(tokens, generate, [&](const llm::Generated& next) {
        begin();
        show(next.text);
        return !interrupt.requested();
      });
    } catch (...) {
      if (begun) show("\n");  // behind the prompt
      throw;
    }
  };
  const llm::GenerateResult result = generated();
  reading.done();
  if (begun || !interrupt.requested()) {
    begin();
    show("\n");
  }
  if (options.json) fmt::print("{}\n", json_text(to_json(result, model)));
  if (!options.quiet) say("{}\n", speed_text(result));
  return interrupt.requested() ? interrupted : success;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  options->generate.most_tokens = 256;
  auto* command = app.add_subcommand("run", "Generate text with a language model");
  add_language_model_options(*command, *options);
  auto* prompt =
      command->add_option("prompt", options->prompt,
                          "The text to go on from (behind '--' if it begins with '-'); '-', or none where "
                          "standard input is no terminal: what is read there");
  command->add_flag("--ignore-eos", options->generate.ignore_end, "Go on where the model would end");
  command->add_flag("--special", options->special,
                    "Special tokens written in the prompt become those tokens");
  auto* json = command->add_flag("--json", options->json, "Print the result as JSON");
  command
      ->add_option("--logprobs", options->generate.best_log_probabilities,
                   "Log-probabilities of each token and of the N most likely ones, with --json")
      ->check(CLI::Range(0, 1000))
      ->needs(json);
  command->allow_extras();  // more words of the prompt
  command->callback([options, prompt, command, &action] {
    options->has_prompt = prompt->count() > 0;
    bool words_only = false;
    for (const std::string& word : command->remaining()) {
      if (word == "--" && !std::exchange(words_only, true)) continue;
      if (!words_only && word.starts_with('-')) throw CLI::ExtrasError(std::vector<std::string>{word});
      options->prompt += ' ' + word;
    }
    action = [options] { return run(*options); };
  });
}

}  // namespace hearth::cli
