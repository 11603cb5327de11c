// `hearth run`: text from a language model.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/llm.h"
#include "hearth/progress.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

struct RunOptions {
  std::string model, prompt, device, cache = "f16";
  int threads = 0;
  bool json = false, quiet = false, special = false, has_prompt = false;
  llm::LoadOptions load;
  llm::GenerateOptions generate;
};

std::string size_text(std::size_t bytes) {
  const double amount = static_cast<double>(bytes);
  return amount < 1e6   ? fmt::format("{:.0f} kB", amount * 1e-3)
         : amount < 1e9 ? fmt::format("{:.1f} MB", amount * 1e-6)
                        : fmt::format("{:.2f} GB", amount * 1e-9);
}

std::string prompt_of(const RunOptions& options) {
  if (options.has_prompt) return options.prompt;
  if (isatty(STDIN_FILENO)) return {};
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// The prompt as tokens; a model that expects it gets its first token, so that an empty prompt is one too.
std::vector<TokenId> tokens_of(const llm::Model& model, const std::string& prompt, bool special) {
  std::vector<TokenId> tokens =
      model.tokenizer().encode(prompt, {.add_special = true, .parse_special = special});
  if (tokens.empty() && model.tokenizer().special().bos) tokens.push_back(*model.tokenizer().special().bos);
  if (tokens.empty()) throw ValueError("the prompt is empty, and this model has no token to begin with");
  return tokens;
}

double speed(std::int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

int run(const RunOptions& given) {
  RunOptions options = given;
  if (options.threads > 0) {
    Config changed = config();
    changed.threads = options.threads;
    set_config(changed);
  }
  if (!options.device.empty()) options.load.device = device_from_name(options.device);
  options.load.cache_dtype = dtype_from_name(options.cache);
  const std::string prompt = prompt_of(options);

  ProgressBar bar;
  bar.begin("loading", 1000);
  options.load.progress = [&](double part) { bar.update(static_cast<std::int64_t>(part * 1000), {}); };
  const llm::Model model = llm::Model::load(options.model, options.load);
  bar.clear();
  if (!options.quiet && !options.json)
    fmt::print(stderr, "{}: {}, {:.3g} M parameters, {} of weights, {} for {} tokens of context, on {}\n",
               model.config().name, model.config().architecture,
               static_cast<double>(model.parameters()) * 1e-6, size_text(model.weight_bytes()),
               size_text(model.cache_bytes()), model.context(), to_string(model.device()));
  const std::vector<TokenId> tokens = tokens_of(model, prompt, options.special);
  if (static_cast<std::int64_t>(tokens.size()) > model.context())
    throw ValueError(
        fmt::format("the prompt has {} tokens, the context {}; a larger one is asked for with --ctx "
                    "(the model allows {})",
                    tokens.size(), model.context(), model.config().context));

  const train::InterruptGuard interrupt(true);
  const bool streams = !options.json;
  if (streams) {
    fmt::print("{}", prompt);
    std::fflush(stdout);
  }
  llm::Session session(model);
  const llm::GenerateResult result =
      session.generate(tokens, options.generate, [&](TokenId, std::string_view text) {
        if (streams) {
          std::fwrite(text.data(), 1, text.size(), stdout);
          std::fflush(stdout);
        }
        return !interrupt.requested();
      });
  const double prompt_speed = speed(result.prompt_tokens, result.prompt_seconds),
               generate_speed =
                   speed(static_cast<std::int64_t>(result.tokens.size()), result.generate_seconds);
  if (options.json) {
    const nlohmann::json json{{"text", result.text},
                              {"tokens", result.tokens},
                              {"finish_reason", to_string(result.reason)},
                              {"prompt_tokens", result.prompt_tokens},
                              {"prompt_tokens_per_second", prompt_speed},
                              {"generated_tokens_per_second", generate_speed},
                              {"device", to_string(model.device())}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("\n");
    if (!options.quiet)
      fmt::print(stderr, "prompt {} tokens, {:.1f}/s; generated {}, {:.1f}/s; {}\n", result.prompt_tokens,
                 prompt_speed, result.tokens.size(), generate_speed, to_string(result.reason));
  }
  return interrupt.requested() ? interrupted : success;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  options->generate.most_tokens = 256;
  auto* command = app.add_subcommand("run", "Generate text with a language model");
  command->add_option("model", options->model, "A GGUF file, or a folder with config.json and safetensors")
      ->required();
  auto* prompt =
      command->add_option("prompt", options->prompt, "The text to go on from; without it, standard input");
  command->add_option("--device", options->device,
                      "cpu, rocm, cuda:0, gpu, ... (default: the best there is)");
  command->add_option("--threads", options->threads, "Threads on the CPU (default: one per core)")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--ctx", options->load.context, "Tokens of context (default: as the model, at most 4096)")
      ->check(CLI::PositiveNumber);
  command->add_option("--cache", options->cache, "Type of keys and values: f16, bf16, f32")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}))
      ->capture_default_str();
  command
      ->add_option("-n,--tokens", options->generate.most_tokens, "Tokens to generate at most; -1: no limit")
      ->capture_default_str();
  llm::SamplingOptions& sampling = options->generate.sampling;
  command->add_option("--temp", sampling.temperature, "Temperature; 0: always the best token")
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "Only the best K tokens; 0: all")->capture_default_str();
  command->add_option("--top-p", sampling.top_p, "Only the best tokens whose probabilities add up to P")
      ->capture_default_str();
  command
      ->add_option("--min-p", sampling.min_p,
                   "Only tokens with at least this part of the best one's probability")
      ->capture_default_str();
  command
      ->add_option("--typical-p", sampling.typical_p, "Only tokens about as surprising as expected; 1: off")
      ->capture_default_str();
  command
      ->add_option("--repeat-penalty", sampling.repetition_penalty,
                   "Makes tokens less likely that came lately; 1: off")
      ->capture_default_str();
  command->add_option("--frequency-penalty", sampling.frequency_penalty, "The same, for each time they came");
  command->add_option("--presence-penalty", sampling.presence_penalty, "The same, once");
  command->add_option("--seed", sampling.seed, "Of the random numbers; 0: a new one each time")
      ->capture_default_str();
  command->add_option("--stop", options->generate.stop, "Stop before this text; may be given several times");
  command->add_flag("--ignore-eos", options->generate.ignore_end, "Go on where the model would end");
  command->add_flag("--special", options->special,
                    "Special tokens written in the prompt become those tokens");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("-q,--quiet", options->quiet, "Only the text");
  command->callback([options, prompt, &action] {
    options->has_prompt = prompt->count() > 0;
    action = [options] { return run(*options); };
  });
}

}  // namespace hearth::cli
