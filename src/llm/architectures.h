// The architectures that the decoder knows, under the names of both kinds of files.
#pragma once

#include <span>
#include <string_view>

namespace hearth::llm {

struct Architecture {
  std::string_view gguf;          // general.architecture
  std::string_view folder;        // model_type in config.json
  bool gguf_interleaves = false;  // GGUF files of it have q and k rows in the order of interleaved pairs
};

std::span<const Architecture> architectures();
const Architecture* find_architecture(std::string_view name, bool in_gguf);

}  // namespace hearth::llm
