// config.json of language models, for fuzzing.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fuzz/entry_points.h"
#include "hearth/error.h"
#include "llm/folder_config.h"

namespace hearth::fuzz {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

}  // namespace

void model_config(io::Bytes file) {
  const auto json = nlohmann::json::parse(io::as_text(file), nullptr, false);
  if (!json.is_object()) throw FormatError("[model] not a JSON object");
  const std::filesystem::path path = "file";
  const auto& architecture = llm::folder_architecture(json, path);
  const auto config = llm::read_folder_config(json, architecture, path);
  require(static_cast<std::int64_t>(config.windows.size()) == config.layers, "a window for each layer");
  for (const auto window : config.windows) require(window >= 0, "windows are sizes");
  for (const auto* rope : {&config.rope, &config.local_rope})
    require(2 * static_cast<std::int64_t>(rope->frequencies.size()) <= config.head_size, "pairs of a head");
  require(config.experts_used <= config.experts, "experts that are there");
}

}  // namespace hearth::fuzz
