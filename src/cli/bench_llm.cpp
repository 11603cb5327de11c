// `hearth bench llm`: how fast a language model runs, and what limits it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/say.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/language_model.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "cli/timing.h"
#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/profile.h"
#include "hearth/progress.h"
#include "hearth/random.h"
#include "llm/model.h"
#include "llm/random_model.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

struct BenchOptions {
  ModelOptions model;
  std::string shape, type = "q4_0";
  std::vector<std::int64_t> lengths = {128, 512};
  bool lengths_given = false;
  std::int64_t tokens = 32;
  double temperature = 0;
  int repeats = 3;
  std::string profile;
  bool json = false;
};

// At one length of the sequences; medians.
struct Row {
  std::int64_t length;
  double prompt_seconds;   // to take in a whole prompt
  double token_seconds;    // of a step, by the tokens it gives: one for each sequence
  double bytes_per_token;  // that have to be read for a step, likewise
};

// Bytes per second of memory at best, by operations on more than caches hold: those that a sum reads, or on a
// GPU those that a copy reads and writes, if these are more.
struct Bandwidth {
  std::string_view by, does;
  double bytes_per_second;
};
Bandwidth measure_bandwidth(Device device, int repeats) {
  const DeviceScope here(device);
  const Tensor numbers = rand({std::int64_t{1} << 26}).eval();
  const auto seconds = [&](const auto& operation, int count) {
    synchronize(device);
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) operation().eval();
    synchronize(device);
    return seconds_since(start) / count;
  };
  const auto least_seconds = [&](const auto& operation) {
    seconds(operation, 1);  // compiles and warms up
    double least = seconds(operation, 1);
    constexpr double short_time = 0.01;  // several at a time then, so that nobody waits for the host
    const int count = least < short_time ? 8 : 1;
    for (int i = 0; i < repeats; ++i) least = std::min(least, seconds(operation, count));
    return least;
  };
  const auto bytes = static_cast<double>(numbers.nbytes());
  const Bandwidth read{"sum", "reads", bytes / least_seconds([&] { return sum(numbers); })};
  if (device.kind == DeviceKind::cpu) return read;
  const Bandwidth copied{"copy", "moves", 2 * bytes / least_seconds([&] { return copy(numbers); })};
  return copied.bytes_per_second > read.bytes_per_second ? copied : read;
}

double bytes_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(storage_bytes(tensor.dtype(), tensor.numel())) : 0;
}

// All weights, but of an embedding that is not also the output only a row, and of experts those that are
// used, at most.
double weight_bytes_per_step(const llm::Model& model, std::int64_t sequences) {
  const llm::Weights& weights = model.state()->weights;
  const llm::ModelConfig& c = model.config();
  double bytes = static_cast<double>(model.weight_bytes());
  if (weights.output.weight.variable() != weights.embedding.variable()) bytes -= bytes_of(weights.embedding);
  if (c.experts == 0) return bytes;
  const double unused = 1 - static_cast<double>(std::min(c.experts_used * sequences, c.experts)) /
                                static_cast<double>(c.experts);
  for (const llm::LayerWeights& layer : weights.layers)
    for (const Tensor* experts :
         {&layer.experts.gate, &layer.experts.up, &layer.experts.gate_up, &layer.experts.down})
      bytes -= unused * bytes_of(*experts);
  return bytes;
}

// Where the time of `run` goes. Its kernels are started and timed one by one, which takes longer than the
// replay of the whole that is measured.
template <typename Run>
void profile(std::string_view what, const Run& run) {
  const Config before = hearth::config();
  Config profiled = before;
  profiled.enable_profiling = true;
  set_config(profiled);
  clear_profile();
  run();
  set_config(before);
  say("\n{}:\n{}", what, profile_table());
}

// How tokens are chosen that follow each other: it is part of generating.
class Chooser {
 public:
  Chooser(std::size_t sequences, double temperature)
      : samplers_(temperature > 0 ? sequences : 0, llm::Sampler({.temperature = temperature, .seed = 1})) {
    for (llm::Sampler& sampler : samplers_) pointers_.push_back(&sampler);
  }
  std::vector<std::optional<TokenId>> step(std::span<llm::Session* const> sessions,
                                           std::span<const std::vector<TokenId>> tokens, bool goes_on) {
    if (samplers_.empty()) return llm::Session::feed_for_best(sessions, tokens, goes_on);
    const std::vector<const llm::Sampler*> known(pointers_.begin(), pointers_.end());
    return llm::choose_together(pointers_, llm::Session::feed_together(sessions, tokens, known, goes_on));
  }

 private:
  std::vector<llm::Sampler> samplers_;  // none where the best token is taken
  std::vector<llm::Sampler*> pointers_;
};

// Nothing where it was interrupted.
std::optional<Row> measure(const llm::Model& model, std::int64_t length, const BenchOptions& options,
                           const train::InterruptGuard& interrupt) {
  const auto vocabulary = static_cast<TokenId>(model.config().vocabulary);
  std::vector<TokenId> prompt;
  for (std::int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>(i * 7919 % vocabulary));
  const std::int64_t sequences = options.model.load.sequences;
  const auto count = static_cast<double>(sequences);
  std::vector<llm::Session> sessions;
  for (std::int64_t i = 0; i < sequences; ++i) sessions.emplace_back(model);
  std::vector<llm::Session*> all;
  for (llm::Session& session : sessions) all.push_back(&session);
  std::vector<double> prompt_seconds, token_seconds;
  // Before it counts: plans are made and kernels compiled, and a GPU's replays are compared with their steps,
  // twice for prompts.
  const int before = model.device().kind == DeviceKind::cpu ? 1 : 3;
  for (int repeat = -before; repeat < options.repeats; ++repeat) {
    for (llm::Session& session : sessions) session.truncate(0);
    auto start = Clock::now();
    for (llm::Session& session : sessions) {
      session.feed(prompt);
      if (interrupt.requested()) return std::nullopt;
    }
    const double first = seconds_since(start) / count;
    start = Clock::now();
    Chooser chooser(all.size(), options.temperature);
    std::vector<std::vector<TokenId>> next(all.size(), {prompt[0]});
    for (std::int64_t i = 0; i < options.tokens; ++i) {
      const auto chosen = chooser.step(all, next, i + 1 < options.tokens);
      for (std::size_t k = 0; k < next.size(); ++k) next[k] = {chosen[k].value_or(prompt[0])};
      if (interrupt.requested()) return std::nullopt;
    }
    if (repeat < 0) continue;
    prompt_seconds.push_back(first);
    token_seconds.push_back(seconds_since(start) / static_cast<double>(options.tokens) / count);
  }
  if (!options.profile.empty()) {
    sessions[0].truncate(0);
    profile(fmt::format("a prompt of {}", length), [&] { sessions[0].feed(prompt); });
    for (llm::Session& session : sessions) session.truncate(length);
    profile("a step of generation",
            [&] { llm::Session::feed_together(all, std::vector<std::vector<TokenId>>(all.size(), {0})); });
  }
  // Of the cache, pages that are not full are not read.
  const double cached_token =
      static_cast<double>(model.cache_bytes()) / static_cast<double>(model.state()->cache.keys[0].size(0));
  return Row{length, median(prompt_seconds), median(token_seconds),
             weight_bytes_per_step(model, sequences) / count +
                 cached_token * (static_cast<double>(length) + static_cast<double>(options.tokens) / 2)};
}

llm::Model make_model(const BenchOptions& options, std::int64_t context) {
  ModelOptions model = options.model;
  if (model.load.context == 0) model.load.context = context;
  if (options.shape.empty()) return load_model(model);
  const llm::KnownShape& shape = llm::find_known_shape(options.shape);
  llm::ModelConfig config = shape.config;
  config.name = fmt::format("{} with random weights", shape.name);
  const DType type = dtype_from_name(options.type);
  return llm::make_random_model(config, {.type = type, .tied = shape.tied}, load_options(model));
}

void print_json(const llm::Model& model, const std::vector<Row>& rows, const Bandwidth& bandwidth) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    const double reached = row.bytes_per_token / row.token_seconds;
    list.push_back({{"length", row.length},
                    {"prompt_tokens_per_second", static_cast<double>(row.length) / row.prompt_seconds},
                    {"tokens_per_second", 1 / row.token_seconds},
                    {"bytes_per_token", row.bytes_per_token},
                    {"bytes_per_second", reached},
                    {"part_of_bandwidth", reached / bandwidth.bytes_per_second}});
  }
  const nlohmann::json json{{"model", model.config().name},
                            {"device", to_string(model.device())},
                            {"parameters", model.parameters()},
                            {"weight_bytes", model.weight_bytes()},
                            {"cache_bytes", model.cache_bytes()},
                            {"peak_bytes", memory_stats(model.device()).peak},
                            {"bandwidth", bandwidth.bytes_per_second},
                            {"bandwidth_by", bandwidth.by},
                            {"sequences", model.state()->most_sequences},
                            {"rows", list}};
  fmt::print("{}\n", json_text(json));
}

void print_table(const llm::Model& model, const std::vector<Row>& rows, const Bandwidth& bandwidth) {
  fmt::print("{}: {:.3g} M parameters, {} of weights, {} of keys and values, on {}\n", model.config().name,
             static_cast<double>(model.parameters()) * 1e-6, size_text(model.weight_bytes()),
             size_text(model.cache_bytes()), to_string(model.device()));
  fmt::print("memory at most {}; a {} of numbers {} {:.1f} GB/s\n\n",
             size_text(memory_stats(model.device()).peak), bandwidth.by, bandwidth.does,
             bandwidth.bytes_per_second * 1e-9);
  Table table{{"length", "prompt tokens/s", "tokens/s", "read per token", "GB/s", "of bandwidth"}};
  for (const Row& row : rows) {
    const double reached = row.bytes_per_token / row.token_seconds;
    table.push_back({std::to_string(row.length),
                     fmt::format("{:.1f}", static_cast<double>(row.length) / row.prompt_seconds),
                     fmt::format("{:.2f}", 1 / row.token_seconds),
                     size_text(static_cast<std::size_t>(row.bytes_per_token)),
                     fmt::format("{:.2f}", reached * 1e-9),
                     fmt::format("{:.0f} %", 100 * reached / bandwidth.bytes_per_second)});
  }
  fmt::print("{}", plain(table));
}

int bench(BenchOptions options) {
  if (options.model.model.empty() == options.shape.empty())
    throw ValueError("either a model or --shape is needed");
  if (!options.profile.empty()) check_writable(options.profile);
  std::vector<std::int64_t>& lengths = options.lengths;
  const auto longest = [&] { return *std::max_element(lengths.begin(), lengths.end()); };
  const llm::Model model = make_model(options, longest() + options.tokens);
  if (!options.lengths_given) {  // those that fit
    for (std::int64_t& length : lengths)
      length = std::clamp<std::int64_t>(model.context() - options.tokens, 1, length);
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
  if (longest() + options.tokens > model.context())
    throw ValueError(fmt::format("{} tokens after {} do not fit a context of {}; shorter: --lengths",
                                 options.tokens, longest(), model.context()));
  const train::InterruptGuard interrupt(true, "\nstopping; once more to stop at once\n");
  ProgressBar bar;
  bar.begin("measuring", static_cast<std::int64_t>(options.lengths.size()) + 1);
  const Bandwidth bandwidth = measure_bandwidth(model.device(), options.repeats);
  reset_peak_memory(model.device());
  std::vector<Row> rows;
  for (const std::int64_t length : options.lengths) {
    bar.update(static_cast<std::int64_t>(rows.size()) + 1, {});
    const auto row = measure(model, length, options, interrupt);
    if (!row) break;
    rows.push_back(*row);
  }
  bar.clear();
  if (interrupt.requested()) return interrupted;
  (options.json ? print_json : print_table)(model, rows, bandwidth);
  if (!options.profile.empty()) write_profile_trace(options.profile);  // of the last length
  return success;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto options = std::make_shared<BenchOptions>();
  auto* group = app.add_subcommand("bench", "Measure speed");
  group->require_subcommand(1);
  auto* command = group->add_subcommand("llm", "Speed of a language model, and the bandwidth it reaches");
  auto* model = command->add_option("model", options->model.model,
                                    "A GGUF file, or a folder with config.json and safetensors");
  std::string shapes;
  for (const auto& shape : llm::known_shapes()) shapes += (shapes.empty() ? "" : ", ") + shape.name;
  auto* shape =
      command->add_option("--shape", options->shape,
                          fmt::format("Instead of a model, random weights in the shape of one: {}", shapes));
  shape->excludes(model);
  command->add_option("--type", options->type, "Type of random weights: q4_0, q4_k, q8_0, f16, ...")
      ->needs(shape)
      ->capture_default_str();
  add_model_options(*command, options->model);
  auto* lengths = command->add_option("--lengths", options->lengths, "Lengths of the prompts");
  lengths->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  command->add_option("-n,--tokens", options->tokens, "Tokens to generate after each")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option("--temperature", options->temperature,
                   "Of sampling, with the defaults of `hearth run`; 0: the best token, always")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command
      ->add_option("--sequences", options->model.load.sequences,
                   "Sequences that grow at once, a token of each in a step; tokens/s are those of all")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 12))
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Times; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--profile", options->profile,
                   "Show where the time of a prompt and of a step goes, and write the last step to a file "
                   "for chrome://tracing")
      ->check(must_not_be_empty())
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the figures as JSON");
  command->callback([options, lengths, &action] {
    options->lengths_given = lengths->count() > 0;
    action = [options] { return bench(*options); };
  });
}

}  // namespace hearth::cli
