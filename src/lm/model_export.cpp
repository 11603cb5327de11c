// Trained models as files, and in the engine.
#include "lm/model_export.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "io/tokenizer/json_writer.h"
#include "io/tokenizer/pipeline.h"
#include "io/tokenizer/readers.h"
#include "llm/folder_config.h"
#include "llm/model.h"
#include "lm/corpus.h"

namespace hearth::lm {
namespace {

nlohmann::json config_json(const models::LlamaOptions& o, TokenId end) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", o.vocabulary},
          {"hidden_size", o.width},
          {"intermediate_size", o.feed_forward},
          {"num_hidden_layers", o.layers},
          {"num_attention_heads", o.heads},
          {"num_key_value_heads", o.groups},
          {"head_dim", o.width / o.heads},
          {"max_position_embeddings", o.context},
          {"rms_norm_eps", o.norm_epsilon},
          {"rope_theta", o.rope_base},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", true},
          {"bos_token_id", end},
          {"eos_token_id", end},
          {"torch_dtype", "float32"}};
}

}  // namespace

TrainedTokenizer read_tokenizer(const std::string& json, const std::string& source) {
  tokenizer::Definition definition = tokenizer::read_tokenizer_json(json, source);
  for (std::size_t id = 0; id < definition.tokens.size(); ++id)
    if (definition.tokens[id].text == end_of_text)
      definition.special.bos = definition.special.eos = static_cast<TokenId>(id);
  if (!definition.special.eos)
    throw ValueError(fmt::format("[tokenizer] '{}' has no token {}", source, end_of_text));
  std::string config = tokenizer::to_tokenizer_config(definition, 0);
  return {json, std::move(config),
          Tokenizer(std::make_shared<const tokenizer::Pipeline>(std::move(definition)))};
}

void export_folder(const models::Llama& model, const TrainedTokenizer& tokenizer,
                   const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const TokenId end = tokenizer.tokenizer.special().eos.value();
  auto tokenizer_config = nlohmann::json::parse(tokenizer.config);
  tokenizer_config["model_max_length"] = model.options().context;
  const nlohmann::json generation{{"bos_token_id", end}, {"eos_token_id", end}, {"do_sample", true}};
  save_safetensors(folder / "model.safetensors", model.state_dict(), {{"format", "pt"}});
  write_atomically(folder / "config.json", config_json(model.options(), end).dump(2) + "\n");
  write_atomically(folder / "generation_config.json", generation.dump(2) + "\n");
  write_atomically(folder / "tokenizer.json", tokenizer.json);
  write_atomically(folder / "tokenizer_config.json", tokenizer_config.dump(2) + "\n");
}

llm::Model engine_model(const models::Llama& model, const TrainedTokenizer& tokenizer,
                        const llm::LoadOptions& options) {
  llm::ModelFile file;
  file.path = "(the model in training)";
  const auto json = config_json(model.options(), tokenizer.tokenizer.special().eos.value());
  file.config = llm::read_folder_config(json, llm::folder_architecture(json, file.path), file.path);
  const auto find = [state = model.state_dict()](const std::string& gguf) {
    for (const std::string& name : llm::folder_names(gguf))
      if (const auto found = state.find(name); found != state.end()) return found->second;
    return Tensor();
  };
  file.contains = [find](const std::string& name) { return find(name).defined(); };
  file.tensor = [find](const std::string& name) { return find(name).detach().to(Device{}).eval(); };
  file.tokenizer = [tokenizer] { return std::optional(tokenizer.tokenizer); };
  return llm::make_model(file, options);
}

}  // namespace hearth::lm
