// The architectures that the decoder knows, under the names of both kinds of files.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "hearth/llm.h"

namespace hearth::llm {

struct Architecture {
  std::string_view gguf;          // general.architecture
  std::string_view folder;        // model_type in config.json
  bool gguf_interleaves = false;  // GGUF files of it have q and k rows in the order of interleaved pairs
  bool query_key_norms = false;
  bool gemma = false;
  bool gpt_oss = false;
  bool granite = false;
  bool olmo2 = false;
  // Which layers have the window: of every `window_period`, all but the last; 0: all. What files without a
  // word about it mean.
  std::int64_t window_period = 0;
  std::int64_t folder_window = 0;   // of config.json without a word about it, as transformers has it
  std::int64_t no_rope_period = 0;  // the last layer of every so many has no rope; 0: all have it
};

enum class FileKind { gguf, folder };

// Throws FormatError naming the architecture and those that are known in such files.
const Architecture& find_architecture(std::string_view name, FileKind kind,
                                      const std::filesystem::path& path);

// What both kinds of files leave to the architecture.
void apply_architecture(const Architecture& architecture, ModelConfig& config);

// Of each layer, where `period` layers are all but one with the window.
std::vector<std::int64_t> periodic_windows(std::int64_t layers, std::int64_t window, std::int64_t period);

// Throw FormatError for what cannot be: sizes alone, which everything else is read with, and the rest.
void check_sizes(const ModelConfig& config, const std::filesystem::path& path);
void check_config(const ModelConfig& config, const std::filesystem::path& path);

}  // namespace hearth::llm
