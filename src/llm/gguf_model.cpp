// A model in a GGUF file.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/gguf.h"
#include "llm/architectures.h"
#include "llm/weights.h"

namespace hearth::llm {

ModelFile open_gguf_model(const std::filesystem::path& path) {
  const GgufFile file(path);
  ModelFile model;
  model.path = path;
  ModelConfig& c = model.config;
  c.architecture = file.require<std::string>("general.architecture");
  check_architecture(c.architecture, path);
  c.name = file.get<std::string>("general.name").value_or(path.stem().string());
  const auto key = [&](const char* name) { return c.architecture + "." + name; };
  const auto whole = [&](const char* name) { return file.require<std::int64_t>(key(name)); };
  c.layers = whole("block_count");
  c.width = whole("embedding_length");
  c.heads = whole("attention.head_count");
  c.groups = file.get<std::int64_t>(key("attention.head_count_kv")).value_or(c.heads);
  c.feed_forward = whole("feed_forward_length");
  c.context = whole("context_length");
  if (c.heads <= 0 || c.groups <= 0 || c.heads % c.groups != 0)
    throw FormatError(
        fmt::format("{}: {} heads do not share {} keys and values", path.string(), c.heads, c.groups));
  c.head_size = file.get<std::int64_t>(key("attention.key_length")).value_or(c.width / c.heads);
  if (file.get<std::int64_t>(key("attention.value_length")).value_or(c.head_size) != c.head_size)
    throw FormatError(fmt::format("{}: keys and values differ in size", path.string()));
  c.norm_epsilon = file.get<double>(key("attention.layer_norm_rms_epsilon")).value_or(1e-5);
  c.rope_base = file.get<double>(key("rope.freq_base")).value_or(10000);
  c.rope_interleaved = find_architecture(c.architecture, true)->gguf_interleaves;
  c.window = file.get<std::int64_t>(key("attention.sliding_window")).value_or(0);
  if (file.get<std::int64_t>(key("rope.dimension_count")).value_or(c.head_size) != c.head_size)
    throw FormatError(fmt::format("{}: rope on part of a head is not supported", path.string()));
  if (const auto scaling = file.get<std::string>(key("rope.scaling.type"));
      (scaling && *scaling != "none") || file.contains("rope_freqs.weight"))
    throw FormatError(fmt::format("{}: scaled rope is not supported yet", path.string()));
  if (!file.contains("token_embd.weight"))
    throw FormatError(fmt::format("{}: there is no tensor token_embd.weight: a vocabulary without a model?",
                                  path.string()));
  c.vocabulary = file.shape("token_embd.weight")[0];
  model.chat_template = file.get<std::string>("tokenizer.chat_template").value_or("");
  model.contains = [file](const std::string& name) { return file.contains(name); };
  model.tensor = [file](const std::string& name) { return file.tensor(name); };
  model.tokenizer = [file] { return Tokenizer::from_gguf(file); };
  return model;
}

}  // namespace hearth::llm
