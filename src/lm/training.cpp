// A run, from the texts to the exported model.
#include "lm/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "hearth/device.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/optim.h"
#include "hearth/random.h"
#include "io/parse_json.h"
#include "io/tokenizer/bpe_training.h"
#include "io/tokenizer/json_writer.h"
#include "llm/gguf_export.h"
#include "lm/model_export.h"
#include "lm/token_cache.h"
#include "lm/token_windows.h"
#include "lm/training_log.h"

namespace hearth::lm {
namespace {

void check_options(const TrainingOptions& o) {
  const auto require = [](bool condition, const char* option, double value) {
    if (!condition) throw ValueError(fmt::format("[train lm] {} = {} is out of range", option, value));
  };
  if (o.folder.empty()) throw ValueError("[train lm] no folder for the run");
  require(o.tokens > 0, "tokens", static_cast<double>(o.tokens));
  require(o.batch > 0, "batch", static_cast<double>(o.batch));
  require(o.accumulate > 0, "accumulate", static_cast<double>(o.accumulate));
  require(o.model.context > 0, "context", static_cast<double>(o.model.context));
  // Within what 64 bits count; more than there is text in the world.
  constexpr double most_tokens = 1e18;
  const double of_a_step =
      static_cast<double>(o.batch) * static_cast<double>(o.accumulate) * static_cast<double>(o.model.context);
  require(static_cast<double>(o.tokens) <= most_tokens, "tokens", static_cast<double>(o.tokens));
  require(of_a_step <= most_tokens, "batch * accumulate * context", of_a_step);
  require(o.warmup >= 0 && o.warmup < 1, "warmup", o.warmup);
  require(o.evaluations > 0, "evaluations", static_cast<double>(o.evaluations));
  require(o.minutes >= 0, "minutes", o.minutes);
  require(o.sample_tokens >= 0, "sample_tokens", static_cast<double>(o.sample_tokens));
  // What the model and the optimiser would find out when the texts are tokens.
  require(o.learning_rate > 0 && std::isfinite(o.learning_rate), "learning_rate", o.learning_rate);
  require(o.weight_decay >= 0 && std::isfinite(o.weight_decay), "weight_decay", o.weight_decay);
  require(o.beta2 >= 0 && o.beta2 < 1, "beta2", o.beta2);
  require(o.clip_norm >= 0, "clip_norm", o.clip_norm);
  models::check(o.model);
}

// ---- texts to tokens

// Done in other threads, shown in this one at most ten times a second.
class SharedProgress {
 public:
  SharedProgress(ProgressBar& bar, const char* label) : bar_(bar) { bar_.begin(label, 100); }
  void update(double share) {
    const std::lock_guard lock(mutex_);
    bar_.update(static_cast<std::int64_t>(share * 100), {});
  }

 private:
  std::mutex mutex_;
  ProgressBar& bar_;
};

std::string train_tokenizer(const Corpus& corpus, std::size_t vocabulary, ProgressBar& bar) {
  tokenizer::PieceCounts counts;
  SharedProgress progress(bar, "counting words");
  std::atomic<std::size_t> done = 0;
  const auto total = static_cast<double>(corpus.training_bytes());
  for (const auto& source : corpus.sources()) {
    counts.add(source.training,
               [&](std::size_t bytes) { progress.update(static_cast<double>(done += bytes) / total); });
  }
  return tokenizer::to_tokenizer_json(tokenizer::train_bpe(counts, {.vocabulary = vocabulary}));
}

// The texts of a run as tokens. What the folder has of them is used again if it is of the same texts.
class TextPreparation {
 public:
  // Reads or trains the tokenizer, and writes nothing. `begun`: the folder has a run, which keeps its own.
  TextPreparation(const TrainingOptions& o, bool begun, ProgressBar& bar) : options_(o), bar_(bar) {
    for (const TextSource& source : o.sources) MappedFile{source.path};  // throws before work is done
    if (!o.tokenizer.empty()) {
      use(read_text_file(o.tokenizer), o.tokenizer);
    } else if (std::filesystem::exists(tokenizer_path())) {
      use(read_text_file(tokenizer_path()), tokenizer_path());
      const bool fits = tokens_ && tokenizer_->tokenizer.size() == o.model.vocabulary;
      if (!begun && !fits) tokenizer_.reset();
    }
    if (tokenizer_) return;
    use(train_tokenizer(texts(), static_cast<std::size_t>(o.model.vocabulary), bar_), tokenizer_path());
    bar_.clear();
  }

  const TrainedTokenizer& tokenizer() const { return *tokenizer_; }
  const std::string& fingerprint() const { return fingerprint_; }

  // Makes the tokens that are not there yet, and writes what is new to the folder.
  const CorpusTokens& finish() {
    std::filesystem::create_directories(options_.folder);
    if (!std::filesystem::exists(tokenizer_path()) || read_text_file(tokenizer_path()) != tokenizer_->json)
      write_atomically(tokenizer_path(), tokenizer_->json);
    if (!tokens_) {
      SharedProgress progress(bar_, "tokenising");
      tokens_ = tokenise(texts(), tokenizer_->tokenizer, [&](double share) { progress.update(share); });
      save_tokens(tokens_path(), *tokens_, fingerprint_);
      bar_.clear();
    }
    for (const auto& source : tokens_->sources)
      bar_.line(fmt::format("{}: {} tokens to train on, {} held out", source.name,
                            format_count(static_cast<double>(source.training.numel())),
                            format_count(static_cast<double>(source.validation.numel()))));
    corpus_.reset();
    return *tokens_;
  }

 private:
  std::filesystem::path tokenizer_path() const { return options_.folder / "tokenizer.json"; }
  std::filesystem::path tokens_path() const { return options_.folder / "tokens.safetensors"; }

  void use(const std::string& json, const std::filesystem::path& source) {
    tokenizer_ = read_tokenizer(json, source.string());
    fingerprint_ = corpus_fingerprint(options_.sources, json, options_.held_out);
    tokens_ = load_tokens(tokens_path(), options_.sources, fingerprint_);
  }

  const Corpus& texts() {
    if (!corpus_) corpus_.emplace(options_.sources, options_.held_out);
    return *corpus_;
  }

  const TrainingOptions& options_;
  ProgressBar& bar_;
  std::optional<Corpus> corpus_;
  std::optional<TrainedTokenizer> tokenizer_;
  std::optional<CorpusTokens> tokens_;
  std::string fingerprint_;
};

// ---- what was asked for

nlohmann::json run_json(const TrainingOptions& o, const models::LlamaOptions& model,
                        const std::string& fingerprint, train::Precision precision) {
  std::vector<double> weights;
  for (const auto& source : o.sources) weights.push_back(source.weight);
  return {{"texts", fingerprint},
          {"weights", weights},
          {"vocabulary", model.vocabulary},
          {"context", model.context},
          {"layers", model.layers},
          {"width", model.width},
          {"heads", model.heads},
          {"groups", model.groups},
          {"feed_forward", model.feed_forward},
          {"rope_base", model.rope_base},
          {"dropout", model.dropout},
          {"tokens", o.tokens},
          {"batch", o.batch},
          {"accumulate", o.accumulate},
          {"learning_rate", o.learning_rate},
          {"warmup", o.warmup},
          {"weight_decay", o.weight_decay},
          {"beta2", o.beta2},
          {"clip_norm", o.clip_norm},
          {"seed", o.seed},
          {"evaluations", o.evaluations},
          {"precision", precision == train::Precision::f32    ? "f32"
                        : precision == train::Precision::bf16 ? "bf16"
                                                              : "f16"}};
}

// A run is resumed with what it was begun with.
void check_same_run(const nlohmann::json& asked, const std::filesystem::path& path) {
  const auto before = io::parse_json(read_text_file(path), path.string());
  if (!before.is_object()) throw FormatError(fmt::format("{}: not a JSON object", path.string()));
  std::string differences;
  for (const auto& [name, value] : asked.items())
    if (!before.contains(name) || before[name] != value)
      differences += fmt::format("{}{} was {}, is {}", differences.empty() ? "" : "; ", name,
                                 before.contains(name) ? before[name].dump() : "absent", value.dump());
  if (!differences.empty())
    throw ValueError(
        fmt::format("[train lm] {}: the run to be resumed was another: {}", path.string(), differences));
}

// ---- the parts of a run

train::Precision precision_of(const TrainingOptions& o) {
  if (o.precision) return *o.precision;
  return default_device().kind == DeviceKind::cpu ? train::Precision::f32 : train::Precision::bf16;
}

// Vectors (norms) are not decayed.
std::shared_ptr<optim::AdamW> make_optimizer(const models::Llama& model, const TrainingOptions& o) {
  std::vector<Tensor> matrices, vectors;
  for (const Tensor& parameter : model.parameters())
    (parameter.ndim() >= 2 ? matrices : vectors).push_back(parameter);
  optim::AdamWOptions decayed{
      .learning_rate = o.learning_rate, .beta2 = o.beta2, .weight_decay = o.weight_decay};
  optim::AdamWOptions plain = decayed;
  plain.weight_decay = 0;
  return std::make_shared<optim::AdamW>(
      std::vector<optim::ParameterGroup<optim::AdamWOptions>>{{matrices, decayed}, {vectors, plain}});
}

// Seconds of one product of two matrices of this size, of `rounds` one after the other.
double product_seconds(std::int64_t size, DType dtype, int rounds) {
  // Not random, for the run's own random numbers must not depend on this; not constant, which takes less
  // power.
  const Tensor a = sin(arange(0, size * size, 1, DType::f32)).reshape({size, size}).to(dtype).eval();
  const auto timed = [&](int count) {
    synchronize(default_device());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) matmul(a, a).eval();
    synchronize(default_device());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
  };
  timed(1);  // compiles
  return timed(rounds);
}

// Large products on a GPU, in TFLOP/s: what training could reach at most. Nothing where they would take long,
// as on an emulated one.
std::optional<double> measure_products(train::Precision precision) {
  if (default_device().kind == DeviceKind::cpu || precision == train::Precision::f32) return std::nullopt;
  constexpr double long_time = 0.1;
  constexpr std::int64_t small = 128, large = 8192;
  const DType dtype = precision == train::Precision::bf16 ? DType::bf16 : DType::f16;
  const NoGrad no_grad;
  for (std::int64_t size = small; size < large; size *= 4)
    if (product_seconds(size, dtype, 2) > long_time) return std::nullopt;
  return 2.0 * large * large * large / product_seconds(large, dtype, 20) * 1e-12;
}

std::string sample_text(const models::Llama& model, const TrainedTokenizer& tokenizer,
                        const TrainingOptions& o) {
  if (o.prompts.empty() || o.sample_tokens == 0) return {};
  const DeviceScope host{Device{}};
  const NoGrad no_grad;
  const llm::Model engine = engine_model(model, tokenizer, {.device = Device{}});
  std::string text;
  for (const std::string& prompt : o.prompts) {
    llm::Session session(engine);
    const auto result = session.generate(tokenizer.tokenizer.encode(prompt),
                                         {.most_tokens = o.sample_tokens, .sampling = {.seed = o.seed + 1}});
    text += fmt::format("{}> {}{}", text.empty() ? "" : "\n", prompt, result.text);
  }
  return text;
}

// In steps; where losses are read anyway, if there is more than one of those between evaluations.
std::int64_t evaluation_interval(const TrainingOptions& o, std::int64_t steps) {
  const std::int64_t interval = std::max<std::int64_t>(1, (steps + o.evaluations - 1) / o.evaluations);
  if (interval <= o.read_loss_steps) return interval;
  return (interval + o.read_loss_steps - 1) / o.read_loss_steps * o.read_loss_steps;
}

// Batches of `batch`, or of all where there are fewer. Null if nothing is held out.
std::unique_ptr<data::DataLoader> validation_loader(const data::DatasetPtr& windows, std::int64_t batch) {
  if (!windows) return nullptr;
  return std::make_unique<data::DataLoader>(
      windows,
      data::DataLoaderOptions{
          .batch_size = std::min(batch, windows->size()), .drop_last = true, .device = default_device()});
}

using SourceLoaders = std::vector<std::pair<std::string, std::unique_ptr<data::DataLoader>>>;

}  // namespace

TrainingResult train_language_model(const TrainingOptions& o) {
  check_options(o);
  TrainingResult result;
  ProgressBar bar(o.progress);
  const auto checkpoints = o.folder / "checkpoints";
  const bool begun = !train::list_checkpoints(checkpoints).empty();
  if (begun && !o.resume)
    throw ValueError(fmt::format("{}: has checkpoints of an earlier run; resume it, or choose another folder",
                                 o.folder.string()));
  TextPreparation text(o, begun, bar);
  models::LlamaOptions sizes = o.model;
  sizes.vocabulary = text.tokenizer().tokenizer.size();
  result.tokens_per_step = o.batch * o.accumulate * sizes.context;
  result.steps_planned = (o.tokens + result.tokens_per_step - 1) / result.tokens_per_step;
  const std::int64_t steps = result.steps_planned;
  const train::Precision precision = precision_of(o);
  const auto asked = run_json(o, sizes, text.fingerprint(), precision);
  if (begun) check_same_run(asked, o.folder / "run.json");  // before anything of that run is replaced
  const CorpusTokens& tokens = text.finish();
  if (o.prepare_only) return result;
  if (!begun) write_atomically(o.folder / "run.json", asked.dump(2) + "\n");

  manual_seed(o.seed);
  const auto model = std::make_shared<models::Llama>(sizes);
  const auto optimizer = make_optimizer(*model, o);
  result.parameters = model->parameter_count();
  result.matmul_tflops = measure_products(precision);
  bar.line(fmt::format("{} parameters, {} steps of {} tokens",
                       format_count(static_cast<double>(result.parameters)), steps, result.tokens_per_step));
  if (result.matmul_tflops)
    bar.line(fmt::format("products of 8192 x 8192 run at {:.0f} TFLOP/s here", *result.matmul_tflops));

  data::DataLoader training(
      random_windows(tokens, sizes.context, steps * o.batch * o.accumulate),
      {.batch_size = o.batch, .workers = 1, .seed = o.seed, .device = default_device()});
  const auto validation = validation_loader(validation_windows(tokens, sizes.context), o.batch);
  SourceLoaders of_sources;  // where there are several
  if (tokens.sources.size() > 1)
    for (const auto& source : tokens.sources)
      if (auto loader = validation_loader(validation_windows(source, sizes.context), o.batch))
        of_sources.emplace_back(source.name, std::move(loader));

  train::TrainerConfig config;
  config.steps = steps;
  config.accumulate = o.accumulate;
  config.clip_norm = o.clip_norm;
  config.precision = precision;
  const auto warm = static_cast<std::int64_t>(std::llround(o.warmup * static_cast<double>(steps)));
  const Schedule cosine = schedule::cosine(std::max<std::int64_t>(1, steps - warm), o.learning_rate / 10);
  config.schedule = warm > 0 ? schedule::warmup(warm, cosine) : cosine;
  config.evaluate_steps = evaluation_interval(o, steps);
  config.checkpoints = {.folder = checkpoints,
                        .resume = o.resume ? train::Resume::automatic : train::Resume::never};
  config.use_compile = true;
  config.read_loss_steps = o.read_loss_steps;
  config.progress.enabled = false;  // the log has its own
  train::Trainer trainer(
      model, optimizer,
      [&](const data::Batch& batch) {
        return train::Forward{model->loss(batch[0], batch[1]), {}, {}};
      },
      config);
  const auto source_losses = [&] {
    std::vector<double> losses;
    for (const auto& [name, loader] : of_sources) losses.push_back(trainer.evaluate(*loader).loss);
    return losses;
  };
  TrainingLogOptions logged{.folder = o.folder,
                            .progress = o.progress,
                            .steps = steps,
                            .tokens_per_step = result.tokens_per_step,
                            .flops_per_token = model->training_flops(sizes.context),
                            .matmul_tflops = result.matmul_tflops,
                            .line_steps = o.read_loss_steps,
                            .minutes = o.minutes,
                            .sources = {},
                            .source_losses = source_losses,
                            .sample = [&] { return sample_text(*model, text.tokenizer(), o); }};
  for (const auto& [name, loader] : of_sources) logged.sources.push_back(name);
  const auto log = std::make_shared<TrainingLog>(std::move(logged));
  trainer.add_callback(log);
  result.run = trainer.fit(training, validation.get());
  result.tokens_per_second = log->tokens_per_second();
  result.tflops = log->tflops();
  if (result.run.ending == train::Ending::interrupted) return result;

  // A run that was stopped may be better now than at its last evaluation.
  result.exported_step = result.run.steps;
  if (validation) {
    result.validation_loss = trainer.evaluate(*validation).loss;
    const auto best = train::best_checkpoint(checkpoints);
    if (best && result.run.best && *result.run.best < *result.validation_loss) {
      train::load_model(*model, *best);
      result.validation_loss = trainer.evaluate(*validation).loss;
      result.exported_step = result.run.best_step;
    }
    const auto losses = source_losses();
    for (std::size_t i = 0; i < losses.size(); ++i)
      result.source_losses.emplace_back(of_sources[i].first, losses[i]);
  }
  result.model = o.folder / "model";
  result.gguf = o.folder / "model.gguf";
  export_folder(*model, text.tokenizer(), result.model);
  llm::export_gguf(result.model, result.gguf, {.type = "f16"});
  return result;
}

}  // namespace hearth::lm
