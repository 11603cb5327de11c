// config.json of a Hugging Face folder, and what is beside it.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "llm/architectures.h"

namespace hearth::llm {

// By model_type. Throws FormatError naming it, and those that are known.
const Architecture& folder_architecture(const nlohmann::json& json, const std::filesystem::path& path);

// Throws FormatError naming the member that is missing or not understood.
ModelConfig read_folder_config(const nlohmann::json& json, const Architecture& architecture,
                               const std::filesystem::path& path);

// All names that the tensor with a name of GGUF may have: "blk.3.attn_q.weight" is
// "model.layers.3.self_attn.q_proj.weight". Those of experts have "{}" for their number.
std::vector<std::string> folder_names(const std::string& gguf);

// Whether there is a file that Tokenizer::from_folder() reads.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace hearth::llm
