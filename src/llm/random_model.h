// Models of a given shape with random weights, to measure speed without a file.
#pragma once

#include "hearth/llm.h"

namespace hearth::llm {

struct RandomModelOptions {
  DType type = DType::q4_0;  // of the matrices: floating, or a block format that fits
  bool tied = false;         // the embedding is the output
};

// Its tokenizer is missing; its scores mean nothing. A matrix repeats some random numbers, so that it takes
// no time to make.
Model make_random_model(const ModelConfig& config, const RandomModelOptions& random,
                        const LoadOptions& options = {});

// The shapes of well-known models.
struct KnownShape {
  std::string name;
  ModelConfig config;
  bool tied;
};
const std::vector<KnownShape>& known_shapes();
// Throws ValueError with the names that there are.
const KnownShape& find_known_shape(std::string_view name);

}  // namespace hearth::llm
