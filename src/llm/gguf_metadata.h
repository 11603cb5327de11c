// What a GGUF file says about a model: the reverse of what gguf_model.cpp reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hearth/gguf.h"
#include "llm/architectures.h"

namespace hearth::llm {

struct GgufDescription {
  GgufMetadata metadata;
  // Tensors that belong to the configuration: by what the frequencies of each pair are divided.
  std::map<std::string, std::vector<float>> factors;
};

// Of a model of a folder. Throws FormatError for what GGUF has no words for.
GgufDescription describe_for_gguf(const ModelConfig& config, const Architecture& architecture,
                                  const std::filesystem::path& path);

}  // namespace hearth::llm
