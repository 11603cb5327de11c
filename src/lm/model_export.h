// A trained model for others to run: as a folder of Hugging Face's kind, and in Hearth's own engine.
#pragma once

#include <filesystem>
#include <string>

#include "hearth/llm.h"
#include "hearth/models.h"
#include "hearth/tokenizer.h"

namespace hearth::lm {

// A tokenizer with the text of its tokenizer.json. Texts begin and end with its end-of-text token.
struct TrainedTokenizer {
  std::string json, config;  // tokenizer.json, tokenizer_config.json
  Tokenizer tokenizer;
};
// Throws FormatError; ValueError if it has no <|endoftext|>.
TrainedTokenizer read_tokenizer(const std::string& json, const std::string& source);

// config.json, generation_config.json, model.safetensors (f32), and those of the tokenizer. transformers and
// llm::Model::load() read it; llm::export_gguf() makes a GGUF file of it. Each file is put in place in one
// step.
void export_folder(const models::Llama& model, const TrainedTokenizer& tokenizer,
                   const std::filesystem::path& folder);

// The model as it is now, in the engine that runs it: to sample from while it is trained.
llm::Model engine_model(const models::Llama& model, const TrainedTokenizer& tokenizer,
                        const llm::LoadOptions& options);

}  // namespace hearth::lm
