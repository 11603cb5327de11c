// The weights of a decoder, as the architectures share them. What an architecture does not have is undefined.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "hearth/llm.h"
#include "hearth/tensor.h"

namespace hearth::llm {

struct Projection {
  Tensor weight, bias;
};

struct LayerWeights {
  Tensor attention_norm, feed_forward_norm;
  Projection q, k, v, qkv, out;  // q, k, v or qkv
  Tensor q_norm, k_norm;
  Projection gate, up, gate_up, down;  // gate, up or gate_up
};

struct Weights {
  Tensor embedding;
  std::vector<LayerWeights> layers;
  Tensor norm;
  Projection output;
};

// A model file, opened: its configuration, and its tensors under the names that GGUF gives them.
struct ModelFile {
  ModelConfig config;
  std::function<bool(const std::string&)> contains;
  std::function<Tensor(const std::string&)> tensor;  // in host memory
  std::function<Tokenizer()> tokenizer;
  std::string chat_template;  // empty: none
  std::filesystem::path path;
};

// By what is there: a GGUF file or a folder of Hugging Face.
ModelFile open_model(const std::filesystem::path& path);
ModelFile open_gguf_model(const std::filesystem::path& path);
ModelFile open_folder_model(const std::filesystem::path& path);

// Throws Error naming the architecture and those that are known.
void check_architecture(const std::string& name, const std::filesystem::path& path);

// All weights on a device, with the shapes that the configuration demands. Throws FormatError for one that is
// missing or of another shape.
Weights load_weights(const ModelFile& file, Device device, const std::function<void(double)>& progress);

}  // namespace hearth::llm
