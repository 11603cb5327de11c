// Training on digits, as `hearth demo` and `hearth train mnist` do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "hearth/data.h"
#include "hearth/train.h"

namespace hearth::cli {

struct DigitData {
  data::DatasetPtr train, test;  // images u8 (1, 28, 28), labels i64
  std::string description;
  bool real = false;  // MNIST; else made on the spot
};

// The folder of MNIST: `given`, or shared/data/mnist beside the present folder or beside the source tree that
// this program was built in. Throws FileError when `given` has no MNIST in it.
std::optional<std::filesystem::path> find_mnist(const std::filesystem::path& given);

struct DigitTraining {
  std::int64_t epochs = 3;
  std::int64_t batch_size = 128;
  double learning_rate = 4e-3;  // the peak of a one-cycle schedule
  std::uint64_t seed = 0;
  int workers = 1;
  train::Precision precision = train::Precision::f32;
  bool compile = true;
  std::filesystem::path checkpoints;  // empty: none
  bool resume = false;
  bool quiet = false;  // no progress
};

struct DigitOutcome {
  train::Result result;
  train::Evaluation test;
  std::int64_t parameters = 0;
  double images_per_second = 0;  // while training, evaluation and start included
};

// Trains models::MnistCnn and evaluates it on the test images.
DigitOutcome train_digits(const DigitData& data, const DigitTraining& options);

}  // namespace hearth::cli
