// Training of a language model, from text files to a model that the engine runs.
//
// A run lives in one folder: tokenizer.json and tokens.safetensors (what the texts became), run.json (what
// was asked for), checkpoints/, log.csv, curve.svg, samples.txt, and at the end model/ and model.gguf. The
// same texts, options and machine give the same model; a run that was stopped or killed and is resumed gives
// it, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hearth/models.h"
#include "hearth/progress.h"
#include "hearth/train.h"
#include "lm/corpus.h"

namespace hearth::lm {

struct TrainingOptions {
  std::vector<TextSource> sources;
  std::filesystem::path folder;
  std::filesystem::path tokenizer;  // a tokenizer.json; empty: one is trained
  double held_out = 0.01;           // of each source
  models::LlamaOptions model{.vocabulary = 8192,
                             .context = 512,
                             .layers = 8,
                             .width = 512,
                             .heads = 8,
                             .groups = 4,
                             .feed_forward = 1536};
  std::int64_t tokens = 100'000'000;  // to train on, in all; rounded up to whole steps
  std::int64_t batch = 32;            // sequences whose gradients are computed at once
  std::int64_t accumulate = 1;        // batches of a step
  double learning_rate = 1e-3;        // after warm-up; a cosine takes it down to a tenth
  double warmup = 0.02;               // share of the steps
  double weight_decay = 0.1;          // of matrices
  double beta2 = 0.95;
  double clip_norm = 1.0;
  std::uint64_t seed = 0;
  std::optional<train::Precision> precision{};           // default: bf16 on a GPU, f32 on a CPU
  std::int64_t evaluations = 20;                         // over the run; each with a checkpoint and a sample
  std::int64_t read_loss_steps = 10;                     // see TrainerConfig
  double minutes = 0;                                    // stop after so much training; 0: no limit
  std::vector<std::string> prompts{"Once upon a time"};  // what samples begin with
  std::int64_t sample_tokens = 80;
  bool resume = false;
  bool prepare_only = false;  // make tokenizer and tokens, train nothing
  ProgressOptions progress{};
};

struct TrainingResult {
  train::Result run;
  std::int64_t steps_planned = 0, tokens_per_step = 0, parameters = 0;
  double tokens_per_second = 0;  // while training, from the second reading of losses on; 0: too short to tell
  double tflops = 0;             // of training_flops()
  std::optional<double> matmul_tflops;  // what this GPU reaches with large products in the same precision
  // Of the exported weights, which are those with the lowest validation loss; by source, if there are
  // several.
  std::optional<double> validation_loss;
  std::vector<std::pair<std::string, double>> source_losses;
  std::int64_t exported_step = 0;
  std::filesystem::path model, gguf;  // empty when interrupted
};

// Throws FileError; ValueError for options or texts that do not fit together, and when a run to be resumed
// was another; train::NonFiniteLoss.
TrainingResult train_language_model(const TrainingOptions& options);

}  // namespace hearth::lm
