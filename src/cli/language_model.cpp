// Options of language models, and loading one.
#include "cli/language_model.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/file.h"
#include "base/say.h"
#include "cli/checks.h"
#include "cli/table.h"
#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/progress.h"
#include "llm/memory_plan.h"
#include "llm/weights.h"

namespace hearth::cli {
namespace {

double speed(std::int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

// "15043=-2.5"
std::pair<TokenId, double> bias_of(const std::string& text) {
  const auto equals = text.find('=');
  TokenId token = 0;
  double bias = 0;
  const bool fine = equals != std::string::npos && CLI::detail::lexical_cast(text.substr(0, equals), token) &&
                    CLI::detail::lexical_cast(text.substr(equals + 1), bias) && token >= 0 &&
                    !std::isnan(bias);
  if (!fine) throw CLI::ValidationError("--logit-bias", fmt::format("'{}' is not ID=NUMBER", text));
  return {token, bias};
}

// Where not all layers fit a GPU, and nobody has said how many should be there, as many as fit are.
void check_memory(const ModelOptions& options, llm::LoadOptions& load) {
  const llm::MemoryPlan plan = llm::plan_memory(options.model, load);
  if (load.context > plan.context)
    say("hearth: warning: --ctx {} is more than the model has; its context is {}\n", load.context,
        plan.context);
  const std::string times = load.sequences > 1 ? fmt::format("{} x ", load.sequences) : "";
  const std::string taken =
      fmt::format("{}: {} of weights, {} for {}{} tokens of context; {} can be had on {}", options.model,
                  size_text(plan.weights), size_text(plan.cache), times, plan.context,
                  size_text(plan.available), to_string(load.device));
  if (plan.fits()) {
    if (!options.quiet) say("{}\n", taken);
    return;
  }
  const std::string help =
      plan.advice.empty() ? "a smaller model is needed" : "it would fit with " + plan.advice;
  if (load.device.kind != DeviceKind::cpu && load.gpu_layers < 0 && plan.fitting_layers > 0) {
    load.gpu_layers = plan.fitting_layers;
    say("{}: {} of its {} layers fit; the others run on the CPU, which takes longer{}\n", taken,
        plan.fitting_layers, plan.layers, plan.advice.empty() ? "" : "; all would fit with " + plan.advice);
    return;
  }
  const std::string text =
      fmt::format("{}: {} are missing; {}", taken, size_text(plan.needed() - plan.available), help);
  const bool can_try =
      load.device.kind == DeviceKind::cpu && options.memory_gb == 0 && plan.cache < plan.available;
  if (!can_try) throw Error(text);
  say("hearth: warning: {}; without, it will be slow\n", text);
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  add_device_options(command, options.device);
  command.add_option("--memory", options.memory_gb, "GB of the device's memory to use at most")
      ->check(must_be_positive());
  command
      .add_option(
          "--gpu-layers", options.load.gpu_layers,
          "How many of the last layers are on the GPU, where the CPU is to run the others (default: all, "
          "or as many as fit)")
      ->check(must_be_positive());
  command
      .add_option("--ctx", options.load.context, "Tokens of context (default: as the model, at most 4096)")
      ->check(must_be_positive());
  command.add_option("--cache-type,--cache", options.cache, "Type of keys and values: f16, bf16, f32, q8_0")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}))
      ->capture_default_str();
  command.add_flag_callback(
      "--no-repack", [&options] { options.load.repack = false; },
      "On a CPU, use weights where the file is mapped instead of copying them into an order that is faster");
}

void add_language_model_options(CLI::App& command, LanguageModelOptions& options) {
  command.add_option("model", options.model, "A GGUF file, or a folder with config.json and safetensors")
      ->required();
  add_model_options(command, options);
  command.add_option("-n,--tokens", options.generate.most_tokens, "Tokens to generate at most; -1: no limit")
      ->check(must_be_from(-1))
      ->capture_default_str();
  llm::SamplingOptions& sampling = options.generate.sampling;
  command.add_option("--temp,--temperature", sampling.temperature, "Temperature; 0: always the best token")
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "Only the best K tokens; 0: all")->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "Only the best tokens whose probabilities add up to P")
      ->capture_default_str();
  command
      .add_option("--min-p", sampling.min_p,
                  "Only tokens with at least this part of the best one's probability")
      ->capture_default_str();
  command
      .add_option("--typical-p", sampling.typical_p, "Only tokens about as surprising as expected; 1: off")
      ->capture_default_str();
  command
      .add_option("--repeat-penalty", sampling.repetition_penalty,
                  "Makes tokens less likely that came lately; 1: off")
      ->capture_default_str();
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "The same, for each time they came");
  command.add_option("--presence-penalty", sampling.presence_penalty, "The same, once");
  command
      .add_option("--penalty-window", sampling.penalty_window, "How many of the last tokens count for these")
      ->capture_default_str();
  command
      .add_option(
          "--mirostat", sampling.mirostat,
          "1 or 2, in place of --top-k, --top-p, --min-p and --typical-p: keep the surprise at a target")
      ->check(CLI::Range(0, 2));
  command.add_option("--mirostat-target", sampling.mirostat_target, "That surprise, in bits")
      ->capture_default_str();
  command.add_option("--mirostat-rate", sampling.mirostat_rate, "How fast mirostat adapts")
      ->capture_default_str();
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& items) {
            for (const std::string& item : items) sampling.bias.insert(bias_of(item));
          },
          "ID=NUMBER, added to the score of a token (-inf: never); may be given several times")
      ->allow_extra_args(false)
      ->take_all();
  command.add_option("--seed", sampling.seed, "Of the random numbers; 0: a new one each time")
      ->check(must_be_a_seed())
      ->capture_default_str();
  command.add_option("--stop", options.generate.stop, "Stop before this text; may be given several times")
      ->allow_extra_args(false)  // else "[a, b]" would be a list
      ->take_all();
  auto* grammar =
      command.add_option("--grammar", options.grammar, "A file with a grammar (GBNF) for the text")
          ->check(must_not_be_empty());
  command
      .add_option("--json-schema", options.json_schema,
                  "The text is JSON that is valid by this schema, a file or JSON itself; '{}': any JSON")
      ->check(must_not_be_empty())
      ->excludes(grammar);
  command
      .add_option(
          "--keep", options.generate.keep,
          "When the context is full, keep this many tokens of the beginning, drop half of the others, and "
          "go on")
      ->check(must_not_be_negative());
  command.add_option("--draft", options.draft, "A faster model with the same tokens, which guesses ahead")
      ->check(must_not_be_empty());
  command
      .add_option("--lookup", options.generate.lookup,
                  "Guess what followed when the last N tokens came before; 0: off")
      ->check(CLI::Range(0, 1000));
  command.add_option("--draft-tokens", options.generate.most_drafted, "Tokens that are guessed at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_flag("-q,--quiet", options.quiet, "Only the text");
}

llm::LoadOptions load_options(const ModelOptions& options) {
  apply(options.device);
  if (options.memory_gb > 0) {
    Config changed = config();
    changed.max_memory_gb = options.memory_gb * 1e9 / (1 << 30);  // as sizes are printed
    set_config(changed);
  }
  llm::LoadOptions load = options.load;
  load.device = default_device();
  load.cache_dtype = dtype_from_name(options.cache);
  return load;
}

llm::Model load_model(const ModelOptions& options) {
  llm::LoadOptions load = load_options(options);
  check_memory(options, load);
  ProgressBar bar;
  bar.begin("loading", 1000);
  load.progress = [&](double part) { bar.update(static_cast<std::int64_t>(part * 1000), {}); };
  const llm::Model model = llm::Model::load(options.model, load);
  bar.clear();
  if (!options.quiet)
    say("{}: {}, {:.3g} M parameters, on {}{}\n", model.config().name, model.config().architecture,
        static_cast<double>(model.parameters()) * 1e-6, to_string(model.device()),
        model.device_layers() == model.config().layers
            ? ""
            : fmt::format(" ({} of {} layers) and the CPU", model.device_layers(), model.config().layers));
  return model;
}

llm::GenerateOptions generate_options(const LanguageModelOptions& options) {
  llm::GenerateOptions generate = options.generate;
  static_cast<void>(llm::Sampler(generate.sampling));  // says what is out of range, before a model is loaded
  if (!options.draft.empty()) llm::check_weights(llm::open_model(options.draft));
  const auto of_file = [](const std::string& path, const auto& read) {
    try {
      return read(read_text_file(path));
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}: {}", path, error.what()));
    }
  };
  if (!options.grammar.empty()) generate.grammar = of_file(options.grammar, &llm::Grammar::parse);
  if (!options.json_schema.empty()) {
    const std::string& schema = options.json_schema;
    const auto first = schema.find_first_not_of(" \t\r\n");
    const bool is_text =
        (first != std::string::npos && schema[first] == '{') || schema == "true" || schema == "false";
    generate.grammar = is_text ? llm::Grammar::from_json_schema(options.json_schema)
                               : of_file(options.json_schema, &llm::Grammar::from_json_schema);
  }
  return generate;
}

void load_draft(const LanguageModelOptions& options, llm::GenerateOptions& generate) {
  if (options.draft.empty()) return;
  ModelOptions draft = options;
  draft.model = options.draft;
  generate.draft = load_model(draft);
}

bool PromptProgress::goes_on(std::int64_t read, std::int64_t all) {
  constexpr std::chrono::seconds patience(2);
  if (!quiet_ && std::chrono::steady_clock::now() - since_ >= patience) {
    if (!std::exchange(shown_, true)) bar_.begin("reading the prompt", all, read);
    bar_.update(read, {});
  }
  return !interrupt_.requested();
}

std::string speed_text(const llm::GenerateResult& result) {
  std::string text = fmt::format(
      "prompt {} tokens, {:.1f}/s; generated {}, {:.1f}/s; {}", result.prompt_tokens,
      speed(result.prompt_tokens - result.reused_tokens, result.prompt_seconds), result.tokens.size(),
      speed(static_cast<std::int64_t>(result.tokens.size()), result.generate_seconds),
      to_string(result.reason));
  if (result.drafted_tokens > 0)
    text += fmt::format("; {} of {} guesses right", result.accepted_tokens, result.drafted_tokens);
  if (result.shifts > 0) text += fmt::format("; context shifted {} times", result.shifts);
  return text;
}

}  // namespace hearth::cli
