// `hearth train lm`: a language model from text files.
#include "cli/train_lm.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/say.h"
#include "cli/checks.h"
#include "cli/device_options.h"
#include "cli/ending.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "hearth/config.h"
#include "hearth/device.h"
#include "hearth/profile.h"
#include "io/tokenizer/bpe_training.h"
#include "io/tokenizer/json_writer.h"
#include "lm/training.h"

namespace hearth::cli {
namespace {

struct LanguageModelTraining {
  std::vector<std::string> data;
  DeviceOptions device;
  std::string folder, tokenizer, precision, profile;
  bool json = false, quiet = false, tune = false;
  lm::TrainingOptions training;
};

std::vector<lm::TextSource> sources_of(const std::vector<std::string>& data) {
  std::vector<lm::TextSource> sources;
  for (const std::string& text : data) sources.push_back(lm::parse_text_source(text));
  return sources;
}

nlohmann::json to_json(const lm::TrainingResult& result) {
  nlohmann::json json{{"ending", name_of(result.run.ending)},
                      {"steps", result.run.steps},
                      {"steps_planned", result.steps_planned},
                      {"tokens_per_step", result.tokens_per_step},
                      {"resumed_from_step", result.run.resumed_from},
                      {"parameters", result.parameters},
                      {"seconds", result.run.seconds},
                      {"exported_step", result.exported_step},
                      {"model", result.model.string()},
                      {"gguf", result.gguf.string()}};
  if (result.tokens_per_second > 0) {
    json["tokens_per_second"] = result.tokens_per_second;
    json["tflops"] = result.tflops;
  }
  if (result.matmul_tflops) json["matmul_tflops"] = *result.matmul_tflops;
  if (result.validation_loss) json["validation_loss"] = *result.validation_loss;
  for (const auto& [name, loss] : result.source_losses) json["source_losses"][name] = loss;
  return json;
}

void print(const lm::TrainingResult& result) {
  fmt::print("{} after {} of {} steps, {:.1f} s", name_of(result.run.ending), result.run.steps,
             result.steps_planned, result.run.seconds);
  if (result.tokens_per_second > 0) fmt::print(", {:.0f} tokens/s", result.tokens_per_second);
  if (result.matmul_tflops && result.tokens_per_second > 0)
    fmt::print(", {:.0f} TFLOP/s ({:.0f} % of the {:.0f} of large products)", result.tflops,
               100 * result.tflops / *result.matmul_tflops, *result.matmul_tflops);
  fmt::print("\n");
  if (result.validation_loss)
    fmt::print("validation loss {:.4f}, of step {}\n", *result.validation_loss, result.exported_step);
  for (const auto& [name, loss] : result.source_losses) fmt::print("  {}: {:.4f}\n", name, loss);
  fmt::print("written: {} and {}\n", result.model.string(), result.gguf.string());
}

int run(const LanguageModelTraining& options) {
  apply(options.device);
  Config configuration = config();
  if (!options.profile.empty()) check_writable(options.profile);
  const RunFolder folder(options.folder);
  configuration.enable_tuning |= options.tune;
  configuration.enable_profiling = !options.profile.empty();
  set_config(configuration);
  lm::TrainingOptions training = options.training;
  training.sources = sources_of(options.data);
  training.folder = options.folder;
  training.tokenizer = options.tokenizer;
  training.progress.enabled = !options.quiet;
  const std::map<std::string, train::Precision> precisions{
      {"f32", train::Precision::f32}, {"bf16", train::Precision::bf16}, {"f16", train::Precision::f16}};
  if (!options.precision.empty()) training.precision = precisions.at(options.precision);
  const lm::TrainingResult result = lm::train_language_model(training);
  if (!options.profile.empty()) {
    say("{}", profile_table());
    write_profile_trace(options.profile);
  }
  if (training.prepare_only) {
    if (options.json)
      fmt::print("{}\n", json_text({{"folder", options.folder},
                                    {"steps_planned", result.steps_planned},
                                    {"tokens_per_step", result.tokens_per_step}}));
    else
      fmt::print("prepared in {}: {} steps of {} tokens\n", options.folder, result.steps_planned,
                 result.tokens_per_step);
    return success;
  }
  if (options.json) fmt::print("{}\n", json_text(to_json(result)));
  if (result.run.ending == train::Ending::interrupted) {
    say("interrupted at step {}; go on with --resume and the same options\n", result.run.steps);
    return interrupted;
  }
  if (!options.json) print(result);
  return success;
}

struct TokenizerTraining {
  std::vector<std::string> data;
  std::string output;
  std::size_t vocabulary = 8192;
  int threads = 0;
  bool force = false;
};

int run_tokenizer(const TokenizerTraining& options) {
  apply({"cpu", options.threads});
  check_output(options.output, options.force);
  const lm::Corpus corpus(sources_of(options.data), 0);
  tokenizer::PieceCounts counts;
  for (const auto& source : corpus.sources()) counts.add(source.training);
  const auto definition = tokenizer::train_bpe(counts, {.vocabulary = options.vocabulary});
  write_atomically(options.output, tokenizer::to_tokenizer_json(definition));
  fmt::print("{} tokens learnt from {} bytes, {} different words\n", definition.tokens.size(),
             corpus.training_bytes(), counts.counts().size());
  return success;
}

CLI::Option* positive(CLI::Option* option) {
  return option->check(must_be_positive())->capture_default_str();
}

void add_data(CLI::App& command, std::vector<std::string>& data) {
  command
      .add_option("--data", data,
                  "Text files (UTF-8; .gz and .xz too), documents separated by <|endoftext|>; FILE:3 is read "
                  "three times as often as its size would have it")
      ->check(must_not_be_empty())
      ->type_name("FILE")
      ->required();
}

void add_sizes(CLI::App& command, models::LlamaOptions& model) {
  positive(command.add_option("--vocabulary", model.vocabulary, "Tokens of the tokenizer to be trained"))
      ->type_name("N");
  positive(command.add_option("--context", model.context, "Tokens of a sequence"))->type_name("N");
  positive(command.add_option("--layers", model.layers, "Layers"))->type_name("N");
  positive(command.add_option("--width", model.width, "Features of a token"))->type_name("N");
  positive(command.add_option("--heads", model.heads, "Heads of attention"))->type_name("N");
  positive(command.add_option("--groups", model.groups, "Groups of heads that share keys and values"))
      ->type_name("N");
  positive(command.add_option("--feed-forward", model.feed_forward, "Features of the feed-forward"))
      ->type_name("N");
  command.add_option("--dropout", model.dropout, "Share of what layers add that is left out in training")
      ->check(CLI::Range(0.0, 0.9).description(""))
      ->type_name("SHARE")
      ->capture_default_str();
}

void add_course(CLI::App& command, lm::TrainingOptions& training) {
  positive(command.add_option("--tokens", training.tokens, "Tokens to train on, in all: 100M, 2G"))
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, std::int64_t>{
                                            {"k", 1'000}, {"m", 1'000'000}, {"g", 1'000'000'000}})
                      .description(""))
      ->type_name("N");
  positive(command.add_option("--batch", training.batch, "Sequences at once"))->type_name("N");
  positive(command.add_option("--accumulate", training.accumulate, "Batches whose gradients make one step"))
      ->type_name("N");
  positive(command.add_option("--lr", training.learning_rate,
                              "Highest learning rate; a cosine takes it down to a tenth"))
      ->type_name("RATE");
  command.add_option("--warmup", training.warmup, "Share of the steps in which the learning rate grows")
      ->type_name("SHARE")
      ->capture_default_str();
  command.add_option("--weight-decay", training.weight_decay, "Weight decay of matrices")
      ->type_name("RATE")
      ->capture_default_str();
  command.add_option("--beta2", training.beta2, "AdamW's second decay")
      ->type_name("B")
      ->capture_default_str();
  command.add_option("--clip", training.clip_norm, "Limit of the norm of the gradients; 0: none")
      ->type_name("NORM")
      ->capture_default_str();
  command.add_option("--held-out", training.held_out, "Share of each text to evaluate with")
      ->type_name("SHARE")
      ->capture_default_str();
  command.add_option("--seed", training.seed, "Seed of initial weights, order and dropout")
      ->check(must_be_a_seed())
      ->type_name("N")
      ->capture_default_str();
  positive(command.add_option("--evaluations", training.evaluations,
                              "Times to evaluate, save and sample in the course of the run"))
      ->type_name("N");
  command
      .add_option("--minutes", training.minutes,
                  "Stop after so many minutes of training, evaluate and export; 0: when all steps are done")
      ->check(must_not_be_negative())
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--prompt", training.prompts, "What samples begin with; may be given several times")
      ->type_name("TEXT");
  command.add_option("--sample-tokens", training.sample_tokens, "Length of samples; 0: none")
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace

void add_train_lm(CLI::App& train, Action& action) {
  CLI::App* command = train.add_subcommand("lm", "Train a language model on text files");
  const auto options = std::make_shared<LanguageModelTraining>();
  add_data(*command, options->data);
  command->add_option("-o,--output", options->folder, "Folder of the run")
      ->check(must_not_be_empty())
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "A tokenizer.json with <|endoftext|>; without it, one is trained on the text")
      ->check(must_not_be_empty())
      ->type_name("FILE");
  add_sizes(*command, options->training.model);
  add_course(*command, options->training);
  command
      ->add_option("--precision", options->precision,
                   "Type of the matrix work: f32, bf16, f16 (default: bf16 on a GPU, f32 on a CPU)")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}).description(""))
      ->type_name("TYPE");
  add_device_options(*command, options->device);
  command->add_flag("--tune", options->tune,
                    "On a GPU, measure the ways to compute each product and keep the fastest (hearth tune)");
  command
      ->add_option("--profile", options->profile,
                   "Show where the time goes, and write it to a file for chrome://tracing")
      ->check(must_not_be_empty())
      ->type_name("FILE");
  command->add_flag("--resume", options->training.resume, "Go on from the newest checkpoint of the folder");
  command->add_flag("--prepare", options->training.prepare_only,
                    "Train the tokenizer and make the tokens, and stop there");
  command->add_flag("-q,--quiet", options->quiet, "Show no progress");
  command->add_flag("--json", options->json, "Print the result as JSON on standard output");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

void add_train_tokenizer(CLI::App& train, Action& action) {
  CLI::App* command = train.add_subcommand("tokenizer", "Train a tokenizer (byte-level BPE) on text files");
  const auto options = std::make_shared<TokenizerTraining>();
  add_data(*command, options->data);
  command->add_option("-o,--output", options->output, "The tokenizer.json to write")
      ->check(must_not_be_empty())
      ->type_name("FILE")
      ->required();
  positive(command->add_option("--vocabulary", options->vocabulary, "Tokens"))->type_name("N");
  command->add_option("--threads", options->threads, "CPU threads (default: one per core)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command->add_flag("-f,--force", options->force, "Replace the file if it is there");
  command->callback([options, &action] { action = [options] { return run_tokenizer(*options); }; });
}

}  // namespace hearth::cli
