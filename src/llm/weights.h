// The weights of a decoder, as the architectures share them. What an architecture does not have is undefined.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/llm.h"
#include "hearth/tensor.h"

namespace hearth::llm {

struct Projection {
  Tensor weight, bias;
  std::vector<std::string> names = {};   // of its weights in the file, one below the other
  std::shared_ptr<Tensor> squares = {};  // where set: gets the sums of the squares of what it is applied to
};

struct FeedForward {
  Projection gate, up, gate_up, down;  // gate, up or gate_up
};

// The matrices of all experts, (experts, rows, columns), and what chooses among them.
struct Experts {
  Projection router;
  Tensor gate, up, gate_up, down;                      // gate, up or gate_up
  Tensor gate_bias, up_bias, gate_up_bias, down_bias;  // (experts, rows)
  FeedForward shared;                                  // for all tokens
  Projection shared_gate;
};

// Frequencies of the pairs, f64, and what turned features are multiplied with.
struct Rotation {
  Tensor frequencies;
  double scale = 1;
};

struct LayerWeights {
  Rotation rope;  // without frequencies: it does not see positions
  Tensor attention_norm, post_attention_norm, feed_forward_norm, post_feed_forward_norm;
  Projection q, k, v, qkv, out;  // q, k, v or qkv
  Tensor q_norm, k_norm;
  Tensor sinks;              // (heads)
  FeedForward feed_forward;  // or experts
  Experts experts;
};

struct Weights {
  Tensor embedding;
  std::vector<LayerWeights> layers;
  Tensor norm;
  Projection output;
};

// Layers [first, end) on a device.
struct Placement {
  Device device;
  std::int64_t first = 0, end = 0;
};
// Where the options have all layers, in their order. Throws ValueError where they have none on the device.
std::vector<Placement> placements_of(const ModelConfig& config, const LoadOptions& options);

// Of all tensors of a file.
struct FileSize {
  std::size_t bytes = 0;
  std::int64_t numbers = 0;
  std::size_t embedding = 0;             // bytes of that
  std::vector<std::size_t> layers = {};  // bytes of each

  explicit FileSize(const ModelConfig& config) : layers(static_cast<std::size_t>(config.layers)) {}
  // A tensor by its name in GGUF or in a folder of Hugging Face.
  void add(std::string_view name, std::size_t size, std::int64_t count);
};

// A model file, opened: its configuration, and its tensors under the names that GGUF gives them.
struct ModelFile {
  ModelConfig config;
  std::function<bool(const std::string&)> contains;
  std::function<Tensor(const std::string&)> tensor;  // in host memory
  std::function<void(const std::string&)> forget;    // what a tensor takes of that; may be empty
  std::function<std::optional<Tokenizer>()> tokenizer;
  std::string chat_template;  // empty: none
  std::function<FileSize()> size;
  std::function<std::vector<std::string>()> names;  // of all tensors; throws FormatError for one without
  std::filesystem::path path;
};

// By what is there: a GGUF file or a folder of Hugging Face.
ModelFile open_model(const std::filesystem::path& path);
ModelFile open_gguf_model(const std::filesystem::path& path);
ModelFile open_folder_model(const std::filesystem::path& path);

// All weights on their devices (the embedding with the first layer, the output with the last), with the
// shapes that the configuration demands, for sequences of up to `context` tokens; on a CPU repacked, where
// asked for and of use. Throws FormatError for one that is missing or of another shape.
Weights load_weights(const ModelFile& file, const std::vector<Placement>& placements, std::int64_t context,
                     bool repack, const std::function<void(double)>& progress);
// Throws FormatError as load_weights() does, and loads nothing.
void check_weights(const ModelFile& file);

}  // namespace hearth::llm
