// Models written as files: what is converted or quantised loads again and means the same. Perplexity and
// importance, which say how much was lost, against what they are by definition.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "hearth/quantise.h"
#include "io/tokenizer/gguf_writer.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/readers.h"
#include "llm/gguf_export.h"
#include "llm/importance.h"
#include "llm/perplexity.h"
#include "llm/random_model.h"
#include "llm/type_mix.h"
#include "llm/weights.h"
#include "temporary_folder.h"
#include "tokenizer_libraries.h"

namespace hearth::llm {
namespace {

using test::expect_error;
using test::TemporaryFolder;

const std::filesystem::path shared = HEARTH_SHARED_DIR;
const std::filesystem::path stories = shared / "models" / "tinystories-656K";
const LoadOptions exact{.device = Device{}, .cache_dtype = DType::f32};

std::string story_text(std::size_t begin, std::size_t size) {
  return read_text_file(shared / "data" / "text" / "tinystories_smallgpt.txt").substr(begin, size);
}

// Ids of a vocabulary that are no tokens may have no score.
double largest_difference(const std::vector<std::vector<float>>& a,
                          const std::vector<std::vector<float>>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < a[i].size(); ++k)
      if (a[i][k] != -INFINITY && b[i][k] != -INFINITY)
        worst = std::max(worst, std::abs(double(a[i][k]) - b[i][k]));
  return worst;
}

void expect_same_model(const std::filesystem::path& a, const std::filesystem::path& b, double tolerance) {
  SCOPED_TRACE(a.string() + " and " + b.string());
  const Model first = Model::load(a, exact), second = Model::load(b, exact);
  EXPECT_EQ(first.parameters(), second.parameters());
  const ModelConfig &c = first.config(), &d = second.config();
  EXPECT_EQ(std::tuple(c.vocabulary, c.context, c.layers, c.width, c.heads, c.groups, c.head_size,
                       c.feed_forward, c.windows, static_cast<float>(c.norm_epsilon), c.rope.base),
            std::tuple(d.vocabulary, d.context, d.layers, d.width, d.heads, d.groups, d.head_size,
                       d.feed_forward, d.windows, static_cast<float>(d.norm_epsilon), d.rope.base));
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 60; ++i) tokens.push_back(i * 37 % 500 + 3);
  EXPECT_LE(largest_difference(Session(first).feed_all(tokens), Session(second).feed_all(tokens)), tolerance);
}

class ModelFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(stories)) GTEST_SKIP() << stories << " is not there";
  }
};

double perplexity_of(const std::filesystem::path& path, const std::string& text) {
  const Model model = Model::load(path, exact);
  return measure_perplexity(model, model.tokenizer().encode(text), {.window = 256}).value();
}

// How much more surprised one model is by a text than another, per token, and the standard error of that:
// both see the same windows, so that what is hard about the text cancels out.
struct Comparison {
  double mean, error;
};

std::vector<double> surprises_of(const std::filesystem::path& path, const std::string& text) {
  const Model model = Model::load(path, exact);
  std::vector<double> windows;
  double before = 0;
  measure_perplexity(model, model.tokenizer().encode(text), {.window = 256},
                     [&](const Perplexity& sofar, std::int64_t) {
                       const double sum = sofar.mean * static_cast<double>(sofar.tokens);
                       windows.push_back(sum - before);
                       before = sum;
                       return true;
                     });
  return windows;
}

Comparison compare(const std::vector<double>& a, const std::vector<double>& b, double tokens) {
  const auto count = static_cast<double>(a.size());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] - b[i];
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(a[i] - b[i] - sum / count, 2);
  return {sum / tokens, std::sqrt(squares / (count - 1) * count) / tokens};
}

// ---- conversion

TEST_F(ModelFiles, AFolderBecomesAFileThatMeansTheSame) {
  const TemporaryFolder folder;
  for (const char* kind : {"f32", "bf16"}) {
    const auto file = folder / (std::string(kind) + ".gguf");
    const ExportResult result = export_gguf(stories / kind, file);
    EXPECT_EQ(result.bytes_before, kind == std::string("f32") ? result.bytes_after : 1312000) << kind;
    expect_same_model(stories / kind, file, 1e-4);
    const GgufFile written(file);
    EXPECT_EQ(written.type_name("blk.1.attn_q.weight"), kind == std::string("f32") ? "F32" : "BF16");
    EXPECT_EQ(written.type_name("blk.1.attn_norm.weight"), "F32");
    EXPECT_FALSE(written.contains("output.weight"));  // it is the embedding
    const Tokenizer before = Tokenizer::load(stories / kind), after = Tokenizer::load(file);
    const std::string text = story_text(0, 60000) + " caf\u00e9 \U0001F600\n\n  two  spaces\t\xff.";
    EXPECT_EQ(after.encode(text), before.encode(text));
    EXPECT_EQ(after.decode(after.encode(text)), before.decode(before.encode(text)));
    EXPECT_EQ(after.special().bos, before.special().bos);
    EXPECT_EQ(after.special().eos, before.special().eos);
    EXPECT_TRUE(after.ends_generation(2) && after.is_special(0) && after.adds_bos() && !after.adds_eos());
  }
  // A file of a file is the same file.
  export_gguf(folder / "f32.gguf", folder / "again.gguf");
  EXPECT_EQ(read_text_file(folder / "f32.gguf"), read_text_file(folder / "again.gguf"));
}

// A folder with random weights, biases and fused projections as the architecture has them.
void write_folder(const TemporaryFolder& folder, const std::string& architecture) {
  std::filesystem::copy_file(stories / "f32" / "tokenizer_config.json", folder / "tokenizer_config.json");
  auto tokenizer = nlohmann::json::parse(read_text_file(stories / "f32" / "tokenizer.json"));
  for (auto& token : tokenizer["added_tokens"]) token["rstrip"] = architecture == "phi3" && token["id"] != 0;
  folder.put("tokenizer.json", tokenizer.dump());
  nlohmann::json config{{"model_type", architecture}, {"num_hidden_layers", 2},         {"hidden_size", 32},
                        {"num_attention_heads", 4},   {"num_key_value_heads", 2},       {"head_dim", 16},
                        {"intermediate_size", 96},    {"max_position_embeddings", 128}, {"vocab_size", 2050},
                        {"rms_norm_eps", 1e-5},       {"rope_theta", 50000.0}};
  folder.put("config.json", config.dump());
  manual_seed(11);
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return (randn({rows, columns}) * 0.3).eval();
  };
  TensorMap tensors{{"model.embed_tokens.weight", matrix(2050, 32)},
                    {"model.norm.weight", rand({32}).eval()},
                    {"lm_head.weight", matrix(2050, 32)}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    tensors[layer + "input_layernorm.weight"] = rand({32}).eval();
    tensors[layer + "post_attention_layernorm.weight"] = rand({32}).eval();
    tensors[layer + "self_attn.o_proj.weight"] = matrix(32, 64);
    tensors[layer + "self_attn.rotary_emb.inv_freq"] = rand({8}).eval();
    tensors[layer + "mlp.down_proj.weight"] = matrix(32, 96);
    if (architecture == "phi3") {
      tensors[layer + "self_attn.qkv_proj.weight"] = matrix(128, 32);
      tensors[layer + "mlp.gate_up_proj.weight"] = matrix(192, 32);
      continue;
    }
    for (const auto& [name, rows] : {std::pair{"q", 64}, std::pair{"k", 32}, std::pair{"v", 32}}) {
      tensors[layer + "self_attn." + name + "_proj.weight"] = matrix(rows, 32);
      if (architecture == "qwen2" || architecture == "llama")
        tensors[layer + "self_attn." + name + "_proj.bias"] = randn({rows}).eval();
    }
    if (architecture == "qwen3")
      for (const char* name : {"q", "k"})
        tensors[layer + "self_attn." + name + "_norm.weight"] = rand({16}).eval();
    for (const char* name : {"gate", "up"}) tensors[layer + "mlp." + name + "_proj.weight"] = matrix(96, 32);
  }
  save_safetensors(folder / "model.safetensors", tensors);
}

TEST_F(ModelFiles, EveryArchitectureIsConverted) {
  for (const char* architecture : {"llama", "mistral", "qwen2", "qwen3", "phi3"}) {
    const TemporaryFolder folder;
    write_folder(folder, architecture);
    export_gguf(folder.path(), folder / "model.gguf");
    expect_same_model(folder.path(), folder / "model.gguf", 1e-4);
    const GgufFile file(folder / "model.gguf");
    const auto texts = file.require<std::vector<std::string>>("tokenizer.ggml.tokens");
    EXPECT_EQ(texts.at(2049), "[PAD2049]");
    EXPECT_EQ(texts.size(), 2050u);
  }
}

TEST_F(ModelFiles, WhatGgufHasNoNameForIsNamedAndWhatIsMissing) {
  const TemporaryFolder folder;
  write_folder(folder, "llama");
  TensorMap tensors = load_safetensors(folder / "model.safetensors");
  tensors["model.layers.0.mystery.weight"] = ones({2, 2}).eval();
  save_safetensors(folder / "model.safetensors", tensors);
  expect_error<FormatError>([&] { export_gguf(folder.path(), folder / "out.gguf"); },
                            {"tensor model.layers.0.mystery.weight has no name in GGUF"});
  tensors.erase("model.layers.0.mystery.weight");
  tensors.erase("model.layers.1.self_attn.o_proj.weight");
  save_safetensors(folder / "model.safetensors", tensors);
  expect_error<FormatError>([&] { export_gguf(folder.path(), folder / "out.gguf"); },
                            {"there is no tensor blk.1.attn_output.weight"});
  EXPECT_FALSE(std::filesystem::exists(folder / "out.gguf"));
  expect_error<FileError>([&] { export_gguf(folder / "nothing", folder / "out.gguf"); }, {"nothing"});
  expect_error<FileError>([&] { export_gguf(stories / "f32", folder / "no" / "out.gguf"); }, {"out.gguf"});
}

TEST_F(ModelFiles, ShapesAreThoseOfTheConfiguration) {
  for (const auto& [name, shape] : {std::pair<std::string, Shape>{"self_attn.q_proj.weight", {2, 32}},
                                    std::pair<std::string, Shape>{"self_attn.k_proj.bias", {8}},
                                    std::pair<std::string, Shape>{"mlp.down_proj.weight", {32, 64}}}) {
    const TemporaryFolder folder;
    write_folder(folder, "llama");
    TensorMap tensors = load_safetensors(folder / "model.safetensors");
    tensors["model.layers.1." + name] = ones(shape).eval();
    save_safetensors(folder / "model.safetensors", tensors);
    expect_error<FormatError>([&] { export_gguf(folder.path(), folder / "out.gguf"); },
                              {"tensor blk.1.", to_string(shape), "the configuration says"});
  }
}

// What a model is not made of is quantised all the same.
TEST_F(ModelFiles, FilesWithoutAnEmbeddingAreQuantised) {
  const TemporaryFolder folder;
  const std::vector<float> values(64, 1.0f);
  GgufWriter writer(folder / "part.gguf", {{"general.architecture", std::string("llama")}},
                    {{"blk.0.attn_q.weight", DType::f32, {2, 32}}});
  writer.write(std::as_bytes(std::span(values)));
  writer.commit();
  export_gguf(folder / "part.gguf", folder / "out.gguf", {.type = "q8_0"});
  EXPECT_EQ(GgufFile(folder / "out.gguf").type_name("blk.0.attn_q.weight"), "Q8_0");
}

// For other programs: with other tensors, or integers in those of the usual names.
TEST_F(ModelFiles, FoldersThatAreQuantisedOtherwiseAreRefused) {
  const TemporaryFolder folder;
  write_folder(folder, "llama");
  auto config = nlohmann::json::parse(read_text_file(folder / "config.json"));
  const auto with = [&](const nlohmann::json& quantised) {
    config["quantization_config"] = quantised;
    folder.put("config.json", config.dump());
  };
  with({{"quant_method", "gptq"}, {"bits", 4}});
  expect_error<FormatError>([&] { open_model(folder.path()); }, {"config.json", "gptq", "GGUF"});
  with({{"load_in_8bit", true}});
  expect_error<FormatError>([&] { open_model(folder.path()); }, {"config.json", "quantised"});
  with(nullptr);
  EXPECT_NO_THROW(open_model(folder.path()));
}

TEST_F(ModelFiles, WeightsOfPyTorchAreNamed) {
  const TemporaryFolder folder;
  write_folder(folder, "llama");
  std::filesystem::rename(folder / "model.safetensors", folder / "elsewhere");
  expect_error<FileError>([&] { open_model(folder.path()); }, {"model.safetensors"});
  folder.put("pytorch_model.bin", "PK");
  expect_error<FormatError>([&] { open_model(folder.path()); }, {"pytorch_model.bin", "safetensors"});
}

// As deep as takes the whole stack when it is copied.
TEST_F(ModelFiles, NestingWithoutEndIsRefused) {
  const TemporaryFolder folder;
  write_folder(folder, "llama");
  folder.put("config.json",
             R"({"model_type": "llama", "x": )" + std::string(200000, '[') + std::string(200000, ']') + "}");
  expect_error<FormatError>([&] { open_model(folder.path()); }, {"config.json", "nested too deep"});
}

TEST_F(ModelFiles, ChatTemplatesAreKept) {
  const TemporaryFolder folder;
  write_folder(folder, "qwen2");
  auto config = nlohmann::json::parse(read_text_file(folder / "tokenizer_config.json"));
  const auto written = [&] {
    export_gguf(folder.path(), folder / "model.gguf");
    return GgufFile(folder / "model.gguf").get<std::string>("tokenizer.chat_template");
  };
  EXPECT_EQ(written(), std::nullopt);
  config["chat_template"] = "{{ one }}";
  folder.put("tokenizer_config.json", config.dump());
  EXPECT_EQ(written(), "{{ one }}");
  config["chat_template"] = {{{"name", "tool_use"}, {"template", "two"}},
                             {{"name", "default"}, {"template", "three"}}};
  folder.put("tokenizer_config.json", config.dump());
  EXPECT_EQ(written(), "three");
  config["chat_template"] = {{{"name", 1}, {"template", "two"}}};
  folder.put("tokenizer_config.json", config.dump());
  expect_error<FormatError>(written, {"tokenizer_config.json", "chat_template must be"});
  folder.put("chat_template.jinja", "four");
  EXPECT_EQ(written(), "four");
}

TEST_F(ModelFiles, RealVocabulariesSurviveGguf) {
  SKIP_WITHOUT_TOKENIZERS();
  const auto tokenizers = shared / "tokenizers";
  struct Case {
    const char* name;
    std::function<tokenizer::Definition()> read;
  };
  const auto json = [&](const char* name) {
    const auto path = tokenizers / name / "tokenizer.json";
    return tokenizer::read_tokenizer_json(read_text_file(path), path.string());
  };
  const Case cases[] = {{"gpt-2", [&] { return json("gpt-2"); }},
                        {"phi-3", [&] { return json("phi-3-mini"); }},
                        {"qwen2.5", [&] { return tokenizer::read_folder(tokenizers / "qwen2.5"); }},
                        {"mistral", [&] {
                           const auto path = tokenizers / "mistral" / "tokenizer.model.v1";
                           return tokenizer::read_sentencepiece(read_text_file(path), path.string());
                         }}};
  const TemporaryFolder folder;
  folder.put("text",
             story_text(0, 20000) + read_text_file(tokenizers / "vectors" / "ggml-vocab-gpt-2.gguf.inp"));
  const std::string text = read_text_file(folder / "text");
  for (const auto& [name, read] : cases) {
    SCOPED_TRACE(name);
    const tokenizer::Definition definition = read();
    const std::string architecture = name == std::string("phi-3") ? "phi3" : "llama";
    tokenizer::GgufTokenizer written =
        tokenizer::to_gguf(definition, definition.tokens.size() + 5, architecture);
    EXPECT_TRUE(written.lost.empty());
    GgufMetadata& metadata = written.metadata;
    metadata["general.architecture"] = architecture;
    GgufWriter(folder / "vocabulary.gguf", metadata, {}).commit();
    const auto path = tokenizers / (name == std::string("gpt-2")   ? "gpt-2"
                                    : name == std::string("phi-3") ? "phi-3-mini"
                                                                   : name);
    const Tokenizer before = name == std::string("mistral")   ? Tokenizer::load(path / "tokenizer.model.v1")
                             : name == std::string("qwen2.5") ? Tokenizer::from_folder(path)
                                                              : Tokenizer::load(path / "tokenizer.json");
    const Tokenizer after = Tokenizer::load(folder / "vocabulary.gguf");
    EXPECT_EQ(after.encode(text, {.add_special = false}), before.encode(text, {.add_special = false}));
    EXPECT_EQ(after.adds_bos(), before.adds_bos());
  }
  const auto path = tokenizers / "tiktoken" / "cl100k_base.tiktoken";
  const auto ranks =
      tokenizer::read_ranks(read_text_file(path), *tokenizer::known_ranks("cl100k_base"), path.string());
  expect_error<FormatError>([&] { tokenizer::to_gguf(ranks, ranks.tokens.size(), "llama"); },
                            {"only byte-level and SentencePiece's BPE can be written"});
}

TEST_F(ModelFiles, WhatGgufCannotSayOfATokenizerIsTold) {
  const auto path = stories / "f32" / "tokenizer.json";
  auto original = nlohmann::json::parse(read_text_file(path));
  original["post_processor"] = nullptr;  // for which it has no words at all
  const auto lost = [&](const nlohmann::json& json) {
    const auto definition = tokenizer::read_tokenizer_json(json.dump(), "tokenizer.json");
    return tokenizer::to_gguf(definition, definition.tokens.size(), "llama").lost;
  };
  EXPECT_TRUE(lost(original).empty());
  for (const char* scheme : {"first", "always"}) {
    auto json = original;
    json["normalizer"] = nullptr;
    json["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", false}};
    EXPECT_EQ(lost(json), std::vector<std::string>{"that not every part of a text gets a space before it"});
  }
  for (const char* attribute : {"lstrip", "rstrip", "single_word"}) {
    auto json = original;
    json["added_tokens"][1][attribute] = true;
    EXPECT_EQ(lost(json),
              std::vector<std::string>{"what token \"<|start_story|>\" does with the text beside it"});
  }
}

// GPT-OSS's tokenizer takes pieces that are tokens as they are, which no name in GGUF says of its patterns.
TEST_F(ModelFiles, PiecesThatAreTokensAreMergedAllTheSame) {
  auto json = nlohmann::json::parse(read_text_file(shared / "tokenizers" / "gpt-2" / "tokenizer.json"));
  const TemporaryFolder folder;
  const auto written = [&] {
    return tokenizer::to_gguf(tokenizer::read_tokenizer_json(json.dump(), "tokenizer.json"), 50257,
                              "gpt-oss");
  };
  const auto plain = written();
  json["model"]["ignore_merges"] = true;
  EXPECT_TRUE(written().metadata == plain.metadata);
  EXPECT_TRUE(written().lost.empty());
  // " the", which many longer ones are made of
  auto& merges = json["model"]["merges"];
  const auto the = std::find(merges.begin(), merges.end(), "\u0120t he");
  ASSERT_NE(the, merges.end());
  merges.erase(the);
  ASSERT_EQ(written().lost.size(), 1u);
  EXPECT_TRUE(written().lost[0].ends_with("tokens stay whole which no merges make")) << written().lost[0];
}

// Phi-4's steps: matches stay and what is between them goes, which is nothing.
TEST_F(ModelFiles, MatchesAloneAreAllThereIs) {
  auto json = nlohmann::json::parse(read_text_file(shared / "tokenizers" / "gpt-2" / "tokenizer.json"));
  const auto written = [&](const std::string& pattern, const char* behaviour, bool invert) {
    const nlohmann::json split{
        {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behaviour}, {"invert", invert}},
        bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
    return tokenizer::to_gguf(tokenizer::read_tokenizer_json(json.dump(), "tokenizer.json"), 50257, "phi3");
  };
  for (const std::string& pattern : {tokenizer::cl100k_pattern(), tokenizer::o200k_pattern()})
    EXPECT_TRUE(written(pattern, "Removed", true).metadata == written(pattern, "Isolated", false).metadata);
  for (const auto& [behaviour, invert] : {std::pair{"Removed", false}, std::pair{"MergedWithNext", true}})
    expect_error<FormatError>([&, &behaviour = behaviour,
                               &invert = invert] { written(tokenizer::cl100k_pattern(), behaviour, invert); },
                              {"its pre-tokeniser cannot be written"});
  expect_error<FormatError>([&] { written("[a-z]+", "Removed", true); },
                            {"its pre-tokeniser cannot be written"});
}

// Gemma's steps: spaces become marks, and then text is cut at spaces, of which none are left.
TEST_F(ModelFiles, CutsAtSpacesThatAreMarksAreNone) {
  auto json = nlohmann::json::parse(read_text_file(stories / "f32" / "tokenizer.json"));
  const nlohmann::json space{{"String", " "}}, mark{{"String", "\u2581"}};
  json["post_processor"] = nullptr;
  json["normalizer"] = {{"type", "Replace"}, {"pattern", space}, {"content", "\u2581"}};
  json["decoder"] = {{"type", "Replace"}, {"pattern", mark}, {"content", " "}};
  const TemporaryFolder folder;
  const Tokenizer plain = Tokenizer::load(folder.put("plain.json", json.dump()));
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", space}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  const Tokenizer cut = Tokenizer::load(folder.put("cut.json", json.dump()));
  tokenizer::GgufTokenizer written =
      tokenizer::to_gguf(tokenizer::read_tokenizer_json(json.dump(), "cut.json"), 2048, "gemma3");
  EXPECT_TRUE(written.lost.empty());
  written.metadata["general.architecture"] = std::string("gemma3");
  GgufWriter(folder / "vocabulary.gguf", written.metadata, {}).commit();
  const Tokenizer after = Tokenizer::load(folder / "vocabulary.gguf");
  const std::string text = "  two  spaces " + story_text(0, 20000);
  EXPECT_EQ(cut.encode(text), plain.encode(text));
  EXPECT_EQ(after.encode(text), plain.encode(text));
  EXPECT_EQ(after.decode(after.encode(text), {.skip_special = true}), text);
  // Where there are spaces, they count.
  json["normalizer"] = nullptr;
  expect_error<FormatError>(
      [&] { tokenizer::to_gguf(tokenizer::read_tokenizer_json(json.dump(), "cut.json"), 2048, "gemma3"); },
      {"what it does with a text cannot be written"});
}

// Gemma's runs of spaces have one score: their merges are in the order of lengths, not one token after the
// other.
TEST_F(ModelFiles, MergesOfRunsMayBeMixed) {
  auto json = nlohmann::json::parse(read_text_file(stories / "f32" / "tokenizer.json"));
  json["post_processor"] = nullptr;
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const auto run = [](std::size_t length) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += "\u2581";
    return text;
  };
  constexpr std::size_t longest = 5;
  auto &vocabulary = json["model"]["vocab"], &merges = json["model"]["merges"];
  for (std::size_t length = 2; length <= longest; ++length) {
    const auto id = vocabulary.size();
    vocabulary[run(length)] = id;
    json["added_tokens"].push_back(
        {{"id", id}, {"content", run(length)}, {"special", false}, {"normalized", false}});
  }
  for (std::size_t left = longest - 1; left > 0; --left)
    for (std::size_t right = longest - left; right > 0; --right)
      merges.push_back(nlohmann::json::array({run(left), run(right)}));
  const TemporaryFolder folder;
  const auto written = [&] {
    const auto definition = tokenizer::read_tokenizer_json(json.dump(), "tokenizer.json");
    return tokenizer::to_gguf(definition, definition.tokens.size(), "gemma3").metadata;
  };
  GgufMetadata metadata = written();
  metadata["general.architecture"] = std::string("gemma3");
  GgufWriter(folder / "vocabulary.gguf", metadata, {}).commit();
  const Tokenizer before = Tokenizer::load(folder.put("tokenizer.json", json.dump())),
                  after = Tokenizer::load(folder / "vocabulary.gguf");
  for (std::size_t spaces = 0; spaces < 4 * longest; ++spaces) {
    const std::string text = "a" + std::string(spaces, ' ') + "cat" + std::string(spaces, ' ');
    EXPECT_EQ(after.encode(text), before.encode(text)) << spaces;
  }
  EXPECT_EQ(before.encode("     ").size(), 1u);
  // Of other tokens an order that no scores have would change what texts become.
  for (auto& token : json["added_tokens"]) token["special"] = true;
  expect_error<FormatError>(written, {"an order of merges that no scores have"});
}

// Gemma 3 has a token for images behind its vocabulary, also where the model has no part for them.
TEST_F(ModelFiles, AddedTokensThatTheModelDoesNotHaveAreLeftOut) {
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(stories / "f32" / name, folder / name);
  const auto original = nlohmann::json::parse(read_text_file(stories / "f32" / "tokenizer.json"));
  auto json = original;
  json["added_tokens"].push_back({{"id", 2048}, {"content", "<image>"}, {"special", true}});
  folder.put("tokenizer.json", json.dump());
  folder.put("tokenizer_config.json", R"({"bos_token": "<|start_story|>", "eos_token": "<|end_story|>",
    "pad_token": "<image>"})");
  const Tokenizer expected = Tokenizer::load(stories / "f32");
  const std::string text = "a cat <image> and a dog";
  const EncodeOptions parse{.add_special = true, .parse_special = true};
  export_gguf(folder.path(), folder / "model.gguf");
  for (const auto& path : {folder.path(), folder / "model.gguf"}) {
    SCOPED_TRACE(path.string());
    const Model model = Model::load(path, exact);
    EXPECT_EQ(model.tokenizer().size(), 2048);
    EXPECT_EQ(model.tokenizer().encode(text, parse), expected.encode(text, parse));
    EXPECT_EQ(model.tokenizer().special().eos, expected.special().eos);
    EXPECT_EQ(model.tokenizer().special().padding, std::nullopt);
  }
  // What texts are made of, or begin with, is not left out.
  const auto refused = [&] {
    folder.put("tokenizer.json", json.dump());
    expect_error<FormatError>([&] { Model::load(folder.path(), exact); },
                              {"the tokenizer has 2049 tokens, the model 2048"});
  };
  json["post_processor"]["special_tokens"]["<|start_story|>"]["ids"] = {2048};
  refused();
  json = original;
  json["model"]["vocab"]["<image>"] = 2048;
  refused();
}

// ---- quantisation

TEST(TypeMixes, GiveTheCostlyPartsMore) {
  const Shape matrix{512, 512}, vector{512}, thin{512, 96}, odd{512, 100};
  const TypeMix& mix = find_type_mix("q4_k_m");
  const auto type = [&](const char* name, const Shape& shape, bool tied = false) {
    return wanted_type(mix, {name, shape, 32, tied});
  };
  EXPECT_EQ(type("blk.10.attn_q.weight", matrix), DType::q4_k);
  EXPECT_EQ(type("blk.0.attn_v.weight", matrix), DType::q6_k);
  EXPECT_EQ(type("blk.31.ffn_down.weight", matrix), DType::q6_k);
  EXPECT_EQ(type("blk.4.ffn_down.weight", matrix), DType::q4_k);
  EXPECT_EQ(type("blk.6.ffn_down.weight", matrix), DType::q6_k);
  for (const auto& [name, costly] : {std::pair("blk.23.ffn_down.weight", true),
                                     {"blk.22.ffn_down.weight", false},
                                     {"blk.24.ffn_down.weight", true}})  // of 28: from 24.5 on, rounded down
    EXPECT_EQ(wanted_type(mix, {name, matrix, 28, false}), costly ? DType::q6_k : DType::q4_k) << name;
  EXPECT_EQ(type("output.weight", matrix), DType::q6_k);
  EXPECT_EQ(type("token_embd.weight", matrix), DType::q4_k);
  EXPECT_EQ(type("token_embd.weight", matrix, true), DType::q6_k);
  EXPECT_EQ(type("blk.0.attn_norm.weight", vector), DType::f32);
  EXPECT_EQ(type("blk.0.attn_q.bias", vector), DType::f32);
  EXPECT_EQ(type("blk.0.ffn_gate_inp.weight", matrix), DType::f32);
  EXPECT_EQ(fitting_type(DType::q4_k, 512), DType::q4_k);
  EXPECT_EQ(fitting_type(DType::q4_k, 96), DType::q5_0);
  EXPECT_EQ(fitting_type(DType::q6_k, 96), DType::q8_0);
  EXPECT_EQ(fitting_type(DType::iq4_xs, 96), DType::iq4_nl);
  EXPECT_EQ(fitting_type(DType::q4_0, 100), DType::f16);
  EXPECT_EQ(fitting_type(DType::f16, 100), DType::f16);
  expect_error<ValueError>([] { find_type_mix("q9"); }, {"there is no type q9; there are f32", "q4_k_m"});
}

TEST_F(ModelFiles, QuantisedModelsLoseLittle) {
  const TemporaryFolder folder;
  const std::string text = story_text(100000, 6000);
  const double original = perplexity_of(stories / "f32", text);
  EXPECT_GT(original, 1.5);
  EXPECT_LT(original, 60);
  struct Case {
    const char *type, *stored;
    double most;  // times the original
  };
  for (const auto& [type, stored, most] :
       {Case{"f16", "F16", 1.0005}, Case{"bf16", "BF16", 1.002}, Case{"q8_0", "Q8_0", 1.003},
        Case{"q5_1", "Q5_1", 1.02}, Case{"q4_0", "Q4_0", 1.2}, Case{"q4_k", "Q5_0", 1.03},
        Case{"q4_k_m", "Q5_0", 1.03}}) {
    SCOPED_TRACE(type);
    const auto file = folder / (std::string(type) + ".gguf");
    const ExportResult result = export_gguf(stories / "f32", file, {.type = type});
    EXPECT_LE(perplexity_of(file, text), most * original);
    const GgufFile written(file);
    EXPECT_EQ(written.type_name("blk.0.attn_q.weight"), stored);
    EXPECT_EQ(written.type_name("blk.0.ffn_norm.weight"), "F32");
    EXPECT_EQ(written.require<std::int64_t>("general.file_type"), find_type_mix(type).file_type);
    for (const auto& tensor : result.tensors)
      EXPECT_EQ(tensor.to == tensor.wanted,
                !is_quantised(tensor.wanted) || block_elements(tensor.wanted) == 32);
  }
  EXPECT_LT(std::filesystem::file_size(folder / "q4_0.gguf"),
            std::filesystem::file_size(folder / "f16.gguf") / 2);

  // A GGUF file is quantised as its folder is.
  export_gguf(stories / "f32", folder / "f32.gguf");
  export_gguf(folder / "f32.gguf", folder / "again.gguf", {.type = "q8_0"});
  EXPECT_EQ(read_text_file(folder / "again.gguf"), read_text_file(folder / "q8_0.gguf"));
  expect_error<ValueError>([&] { export_gguf(folder / "q8_0.gguf", folder / "x.gguf", {.type = "q4_0"}); },
                           {"is quantised already, as q8_0"});
  EXPECT_FALSE(std::filesystem::exists(folder / "x.gguf"));
  export_gguf(folder / "q8_0.gguf", folder / "x.gguf", {.type = "q4_0", .requantise = true});
  EXPECT_LE(perplexity_of(folder / "x.gguf", text), 1.25 * original);
}

TEST_F(ModelFiles, AnEndBeforeTheEndLeavesNoFile) {
  const TemporaryFolder folder;
  int calls = 0;
  const ExportResult result = export_gguf(stories / "f32", folder / "out.gguf",
                                          {.type = "q8_0", .progress = [&](auto...) { return ++calls < 3; }});
  EXPECT_FALSE(result.finished);
  EXPECT_TRUE(folder.files().empty());
}

// Matrices as rows of 256, so that all formats fit, through blocks of each: the changes are no larger than
// those by the reference's rounding, and the model foresees a text as well (make_quantised_perplexity.py).
// What is left is chance: rounding q6_k costs 0.4 % of the perplexity, and a little more or less with an
// error that is smaller.
TEST_F(ModelFiles, RoundingIsNoWorseThanTheReference) {
  const auto golden = nlohmann::json::parse(read_text_file(HEARTH_GOLDEN_DIR "/quantised_perplexity.json"));
  const std::size_t begin = golden["characters"][0], end = golden["characters"][1], window = golden["window"],
                    count = golden["tokens"];
  const std::string text = story_text(begin, end - begin);
  const auto perplexity_of_folder = [&](const std::filesystem::path& path) {
    const Model model = Model::load(path, exact);
    const auto tokens = model.tokenizer().encode(text, {.add_special = false});
    double sum = 0;
    for (std::size_t first = 0; first < count; first += window) {
      std::vector<TokenId> begun{model.tokenizer().special().bos.value()};
      begun.insert(begun.end(), tokens.begin() + static_cast<std::ptrdiff_t>(first),
                   tokens.begin() + static_cast<std::ptrdiff_t>(first + window));
      sum += measure_perplexity(model, begun, {.window = static_cast<std::int64_t>(window) + 1}).mean;
    }
    return std::exp(sum * static_cast<double>(window) / static_cast<double>(count));
  };
  EXPECT_NEAR(perplexity_of_folder(stories / "f32") / golden["perplexity"].get<double>(), 1, 1e-5);

  const TensorMap originals = load_safetensors(stories / "f32" / "model.safetensors");
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(stories / "f32" / name, folder / name);
  for (const auto& [format, reference] : golden["formats"].items()) {
    TensorMap tensors = originals;
    double squares = 0, numbers = 0;
    for (auto& [name, tensor] : tensors) {
      if (tensor.ndim() != 2) continue;
      const Tensor rows = tensor.reshape({-1, 256});
      const Tensor rounded = dequantise(quantise(rows, dtype_from_name(format))).eval();
      squares += sum(square((rounded - rows).to(DType::f64))).item();
      numbers += static_cast<double>(element_count(rows.shape()));
      tensor = rounded.reshape(tensor.shape());
    }
    save_safetensors(folder / "model.safetensors", tensors);
    const double error = std::sqrt(squares / numbers) / reference["error"].get<double>(),
                 perplexity = perplexity_of_folder(folder.path()) / reference["perplexity"].get<double>();
    std::cout << format << ": error " << error << ", perplexity " << perplexity << " times the reference's\n";
    EXPECT_LE(error, 1.002) << format;
    EXPECT_LE(perplexity, 1.003) << format;
  }
}

// ---- perplexity

TEST_F(ModelFiles, PerplexityIsWhatItIsByDefinition) {
  const Model model = Model::load(stories / "f32", exact);
  auto tokens = model.tokenizer().encode(story_text(0, 2000));
  tokens.resize(150);
  const auto surprise = [&](const std::vector<float>& scores, TokenId token) {
    double sum = 0;
    for (const float score : scores) sum += std::exp(double(score));
    return std::log(sum) - scores[static_cast<std::size_t>(token)];
  };
  const auto rows = Session(model).feed_all(tokens);
  double whole = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) whole += surprise(rows[i], tokens[i + 1]);
  const Perplexity one = measure_perplexity(model, tokens, {.window = 400});
  EXPECT_EQ(one.tokens, 149);
  EXPECT_EQ(one.windows, 1);
  EXPECT_NEAR(one.mean, whole / 149, 1e-4);

  // Each token from the 39 before it, or fewer, in windows of 40 that begin with the first token.
  double sliding = 0;
  for (std::size_t end = 1; end < tokens.size();) {
    const std::size_t scored = end == 1 ? 39 : 10, next = std::min(tokens.size(), end + scored);
    std::vector<TokenId> seen(tokens.begin() + std::max<std::ptrdiff_t>(0, std::ptrdiff_t(next) - 40),
                              tokens.begin() + std::ptrdiff_t(next));
    seen[0] = 1;
    const auto scores = Session(model).feed_all(seen);
    for (std::size_t i = seen.size() - (next - end); i < seen.size(); ++i)
      sliding += surprise(scores[i - 1], seen[i]);
    end = next;
  }
  const Perplexity many = measure_perplexity(model, tokens, {.window = 40, .stride = 10});
  EXPECT_EQ(many.tokens, 149);
  EXPECT_NEAR(many.mean, sliding / 149, 1e-4);
  EXPECT_GT(many.mean, one.mean);  // less to go by
  EXPECT_GT(many.error, 0);

  const std::vector<TokenId> short_text{1};
  expect_error<ValueError>([&] { measure_perplexity(model, short_text); }, {"less than two tokens"});
  expect_error<ValueError>([&] { measure_perplexity(model, tokens, {.window = 40, .stride = 40}); },
                           {"a stride of 40 in windows of 40"});
}

// ---- importance

TEST_F(ModelFiles, ImportanceIsTheSquaresOfWhatIsMultiplied) {
  const Model model = Model::load(stories / "f32", exact);
  auto tokens = model.tokenizer().encode(story_text(500, 2000));
  tokens.resize(300);
  const auto before = Session(model).feed_all(std::span(tokens).first(20));
  const Importance importance = measure_importance(model, tokens, 128);
  EXPECT_EQ(largest_difference(Session(model).feed_all(std::span(tokens).first(20)), before), 0);
  EXPECT_EQ(importance.chunks, 3);
  EXPECT_EQ(importance.weights.size(), 2u * 7 + 1);
  // What the first layer's projections get: the norm of the embedding.
  const ModelFile file = open_model(stories / "f32");
  const Tensor x = take(file.tensor("token_embd.weight"),
                        tensor(std::vector<std::int64_t>(tokens.begin(), tokens.end())), 0);
  const auto expected =
      sum(square(rms_norm(x, file.tensor("blk.0.attn_norm.weight"), 1e-6)), {0}).to_vector<float>();
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"}) {
    const Importance::Sums& sums = importance.weights.at(name);
    EXPECT_EQ(sums.count, 300);
    ASSERT_EQ(sums.squares.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(sums.squares[i], expected[i], 1e-3 * expected[i]);
  }
  EXPECT_EQ(importance.weights.at("token_embd.weight").count, 300);
  EXPECT_EQ(importance.of("blk.0.ffn_down.weight", 384).size(), 384u);
  EXPECT_TRUE(importance.of("blk.9.ffn_down.weight", 384).empty());
  expect_error<FormatError>([&] { importance.of("blk.0.ffn_down.weight", 4); },
                            {"the importance of blk.0.ffn_down.weight has 384 columns, the weight 4"});

  const TemporaryFolder folder;
  save_importance(folder / "importance.gguf", importance);
  const Importance read = load_importance(folder / "importance.gguf");
  EXPECT_EQ(read.weights.size(), importance.weights.size());
  EXPECT_EQ(read.weights.at("blk.1.ffn_up.weight").squares,
            importance.weights.at("blk.1.ffn_up.weight").squares);
  EXPECT_EQ(read.weights.at("blk.1.ffn_up.weight").count, 300);
  EXPECT_EQ(read.chunks, 3);
}

// Over several steps, each of which reads what those before it left in the cache.
TEST(ImportanceFiles, AreNearlyTheSameWithAnyCache) {
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 256; ++i) tokens.push_back(i * i % 509);
  const auto measured = [&](DType cache) {
    manual_seed(3);
    const Model model = make_random_model(find_known_shape("tiny").config, {.type = DType::f32},
                                          {.device = Device{}, .context = 256, .cache_dtype = cache});
    return measure_importance(model, tokens, 256);
  };
  const Importance expected = measured(DType::f16), got = measured(DType::q8_0);
  for (const auto& [name, sums] : expected.weights) {
    double all = 0, difference = 0;
    for (std::size_t i = 0; i < sums.squares.size(); ++i) {
      all += sums.squares[i];
      difference += std::abs(double(sums.squares[i]) - got.weights.at(name).squares[i]);
    }
    EXPECT_LT(difference, 0.01 * all) << name;
  }
}

TEST(ImportanceFiles, ThatAreSomethingElseAreRefused) {
  const TemporaryFolder folder;
  const auto write = [&](const GgufMetadata& metadata, const std::vector<GgufTensorSpec>& specs,
                         float value) {
    GgufWriter writer(folder / "file", metadata, specs);
    for (const auto& spec : specs)
      for (std::int64_t i = 0; i < element_count(spec.shape); ++i)
        writer.write(std::as_bytes(std::span(&value, 1)));
    writer.commit();
  };
  const auto read = [&] { load_importance(folder / "file"); };
  const GgufMetadata kind{{"general.type", std::string("imatrix")}};
  write({}, {}, 0);
  expect_error<FormatError>(read, {"not of importance"});
  write(kind, {{"w.in_sum2", DType::f32, {1, 4}}}, 1);
  expect_error<FormatError>(read, {"tensor w.counts is missing"});
  write(kind, {{"w.in_sum2", DType::f32, {1, 4}}, {"w.counts", DType::f32, {1, 1}}}, NAN);
  expect_error<FormatError>(read, {"no sum of squares"});
  write(kind, {{"w.in_sum2", DType::i32, {1, 4}}, {"w.counts", DType::f32, {1, 1}}}, 1);
  expect_error<FormatError>(read, {"tensor w.in_sum2 is not f32"});
  write(kind, {{"w.in_sum2", DType::f32, {2, 4}}, {"w.counts", DType::f32, {2, 1}}}, 1);
  expect_error<FormatError>(read, {"2 counts for w"});
}

// The differences are of the size of what some thousand tokens say about them: hence a long text, and errors.
TEST_F(ModelFiles, ImportanceMakesQuantisedModelsNoWorse) {
  const TemporaryFolder folder;
  const Model model = Model::load(stories / "f32", exact);
  const Importance importance =
      measure_importance(model, model.tokenizer().encode(story_text(0, 100000)), 256);
  const std::string text = story_text(200000, 100000);  // other stories
  const auto tokens = static_cast<double>(model.tokenizer().encode(text).size() - 1);
  for (const char* type : {"q4_0", "q4_1", "q5_0", "q5_1"}) {
    export_gguf(stories / "f32", folder / "nearest.gguf", {.type = type});
    const ExportResult result =
        export_gguf(stories / "f32", folder / "weighed.gguf", {.type = type, .importance = &importance});
    for (const auto& tensor : result.tensors)
      EXPECT_EQ(tensor.weighed, is_quantised(tensor.to)) << tensor.name;
    const Comparison more = compare(surprises_of(folder / "weighed.gguf", text),
                                    surprises_of(folder / "nearest.gguf", text), tokens);
    std::cout << type << ": weighed by importance, surprise changes by " << more.mean << " +- " << more.error
              << "\n";
    EXPECT_LE(more.mean, 2 * more.error) << type;
  }
}

// ---- random models

TEST(RandomModels, HaveTheShapeAskedFor) {
  const KnownShape& shape = find_known_shape("tiny");
  for (const DType type : {DType::q4_0, DType::q4_k, DType::f32}) {
    const Model model = make_random_model(shape.config, {.type = type}, {.device = Device{}, .context = 64});
    const std::int64_t layer = 256 * (256 + 128 + 128) + 256 * 256 + 3 * 256 * 768 + 2 * 256;
    EXPECT_EQ(model.parameters(), 2 * layer + 2 * 512 * 256 + 256);
    Session session(model);
    const std::vector<TokenId> tokens{1, 2, 3};
    for (const float score : session.feed(tokens)) ASSERT_TRUE(std::isfinite(score));
    expect_error<ValueError>([&] { (void)model.tokenizer(); }, {"came without a tokenizer"});
    expect_error<ValueError>([&] { session.generate(tokens); }, {"came without a tokenizer"});
  }
  EXPECT_EQ(find_known_shape("llama-3-8b").config.feed_forward, 14336);
  expect_error<ValueError>([] { find_known_shape("x"); }, {"no shape is called x; there are llama-3.2-1b"});
}

// What is repacked, and projections that have become one matrix by that, differ by the rounding of x.
TEST(RandomModels, RepackedWeightsAnswerAsTheOthers) {
  const KnownShape& shape = find_known_shape("tiny");
  for (const DType type : {DType::q4_0, DType::q8_0, DType::q4_k, DType::q6_k, DType::q5_k})
    for (const bool tied : {false, true}) {
      std::vector<float> scores[2];
      for (const bool repack : {false, true}) {
        manual_seed(11);
        const Model model = make_random_model(shape.config, {.type = type, .tied = tied},
                                              {.device = Device{}, .context = 64, .repack = repack});
        Session session(model);
        for (const std::vector<TokenId>& tokens :
             {std::vector<TokenId>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {10}, {11, 12, 13}}) {
          const auto some = session.feed(tokens);
          scores[repack].insert(scores[repack].end(), some.begin(), some.end());
        }
      }
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < scores[0].size(); ++i) {
        difference += std::pow(scores[1][i] - scores[0][i], 2);
        size += std::pow(scores[0][i], 2);
      }
      EXPECT_LT(difference, 1e-3 * size) << dtype_name(type) << tied;
      if (type == DType::q5_k) {
        EXPECT_EQ(scores[0], scores[1]);
      }
    }
}

}  // namespace
}  // namespace hearth::llm
