// The table of architectures.
#include "llm/architectures.h"

#include <fmt/format.h>

#include "hearth/error.h"
#include "llm/weights.h"

namespace hearth::llm {

std::span<const Architecture> architectures() {
  // Mistral's and SmolLM's GGUF files call themselves llama.
  static constexpr Architecture table[] = {{"llama", "llama", true},
                                           {"llama", "mistral", true},
                                           {"qwen2", "qwen2"},
                                           {"qwen3", "qwen3"},
                                           {"phi3", "phi3"}};
  return table;
}

const Architecture* find_architecture(std::string_view name, bool in_gguf) {
  for (const Architecture& entry : architectures())
    if ((in_gguf ? entry.gguf : entry.folder) == name) return &entry;
  return nullptr;
}

void check_architecture(const std::string& name, const std::filesystem::path& path) {
  std::string known;
  for (const Architecture& entry : architectures())
    if (known.find(entry.folder) == std::string::npos)
      known += (known.empty() ? "" : ", ") + std::string(entry.folder);
  for (const bool in_gguf : {true, false})
    if (find_architecture(name, in_gguf)) return;
  throw FormatError(fmt::format("{}: unknown architecture \"{}\"; known are {}", path.string(), name, known));
}

}  // namespace hearth::llm
