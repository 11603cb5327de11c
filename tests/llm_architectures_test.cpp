// Every architecture against transformers: tiny models whose weights are a formula, in folders and in GGUF
// files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "hearth/gguf.h"
#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "llm/gguf_export.h"
#include "temporary_folder.h"
#include "test_devices.h"

namespace hearth::llm {
namespace {

// As make_llm_models.py has it.
Tensor formula(const std::string& name, const Shape& shape) {
  std::uint32_t seed = 2166136261u;
  for (const char byte : name) seed = (seed ^ static_cast<unsigned char>(byte)) * 16777619u;
  std::vector<float> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9E3779B1u + seed;
    for (const std::uint32_t multiplier : {0x85EBCA6Bu, 0xC2B2AE35u}) x = (x ^ x >> 16) * multiplier;
    x ^= x >> 16;
    const double unit = static_cast<double>(x >> 8) / 8388608 - 1;
    values.push_back(static_cast<float>(name.ends_with("norm.weight") ? 1 + 0.25 * unit
                                        : name.ends_with("bias")      ? 0.25 * unit
                                        : name.ends_with("experts.gate_up_proj")
                                            ? 2 * unit
                                            : unit * std::sqrt(3 / static_cast<double>(shape.back()))));
  }
  return tensor<float>(values).reshape(shape);
}

struct Golden {
  nlohmann::json json;
  std::string name;
  std::vector<TokenId> tokens;

  explicit Golden(nlohmann::json entry)
      : json(std::move(entry)),
        name(json["name"].get<std::string>()),
        tokens(json["tokens"].get<std::vector<TokenId>>()) {}

  TensorMap tensors() const {
    TensorMap map;
    for (const auto& entry : json["tensors"]) {
      const auto sizes = entry["shape"].get<std::vector<std::int64_t>>();
      const auto key = entry["name"].get<std::string>();
      map.emplace(key, formula(key, Shape(sizes.begin(), sizes.end())));
    }
    return map;
  }

  std::vector<std::vector<float>> scores() const {
    static const TensorMap all =
        load_safetensors(std::filesystem::path(HEARTH_GOLDEN_DIR) / "llm_models.safetensors");
    const std::vector<float> flat = all.at(name).to_vector<float>();
    std::vector<std::vector<float>> rows;
    const auto length = flat.size() / tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      rows.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i * length),
                        flat.begin() + static_cast<std::ptrdiff_t>((i + 1) * length));
    return rows;
  }
};

const std::vector<Golden>& golden_models() {
  static const std::vector<Golden> models = [] {
    std::ifstream file(std::filesystem::path(HEARTH_GOLDEN_DIR) / "llm_models.json");
    std::vector<Golden> list;
    for (const auto& entry : nlohmann::json::parse(file)) list.emplace_back(entry);
    return list;
  }();
  return models;
}

const Golden& golden(std::string_view name) {
  for (const Golden& model : golden_models())
    if (model.name == name) return model;
  throw std::logic_error("no golden model " + std::string(name));
}

void write_folder(const std::filesystem::path& folder, const nlohmann::json& config,
                  const TensorMap& tensors) {
  std::ofstream(folder / "config.json") << config;
  save_safetensors(folder / "model.safetensors", tensors);
}

// ---- the same model as GGUF has it

GgufValue gguf_value(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return GgufArray{value.get<std::vector<bool>>()};
  if (value.is_number_integer()) return value.get<std::uint32_t>();
  return value.get<float>();
}

// Rows of each head from (first halves, second halves) to pairs.
Tensor interleaved_rows(const Tensor& x, std::int64_t heads) {
  Shape split{heads, 2, x.size(0) / heads / 2};
  for (std::size_t i = 1; i < x.ndim(); ++i) split.push_back(x.shape()[i]);
  return x.reshape(split).transpose(1, 2).reshape(x.shape());
}

void write_gguf(const std::filesystem::path& path, const Golden& model) {
  GgufMetadata metadata;
  for (const auto& [key, value] : model.json["gguf"].items()) metadata.emplace(key, gguf_value(value));
  const auto architecture = model.json["gguf"]["general.architecture"].get<std::string>();
  const bool interleaves = architecture == "llama" || architecture == "granite" || architecture == "smollm3";
  const nlohmann::json& config = model.json["config"];
  std::map<std::string, std::vector<Tensor>> parts;  // more than one: experts
  TensorMap whole;                                   // of all experts at once
  for (const auto& entry : model.json["tensors"]) {
    const auto name = entry["name"].get<std::string>(), target = entry["gguf"].get<std::string>();
    const auto sizes = entry["shape"].get<std::vector<std::int64_t>>();
    Tensor x = formula(name, Shape(sizes.begin(), sizes.end()));
    if (interleaves && name.find("q_proj") != std::string::npos)
      x = interleaved_rows(x, config["num_attention_heads"].get<std::int64_t>());
    if (interleaves && name.find("k_proj") != std::string::npos)
      x = interleaved_rows(x, config["num_key_value_heads"].get<std::int64_t>());
    if (architecture.starts_with("gemma") && name.ends_with("norm.weight")) x = x + 1.0;
    if (name == "model.layers.0.mlp.shared_expert_gate.weight") x = x.reshape({-1});  // both occur
    const bool experts = name.find(".experts.") != std::string::npos && !entry.contains("expert");
    if (experts && x.ndim() == 3) x = x.transpose(1, 2);
    if (entry.contains("odd")) {  // rows in turns
      Shape pairs{x.size(0), x.size(1) / 2, 2};
      for (std::size_t i = 2; i < x.ndim(); ++i) pairs.push_back(x.shape()[i]);
      x = x.reshape(pairs);
      whole.emplace(entry["odd"].get<std::string>(), select(x, 2, 1));
      x = select(x, 2, 0);
    }
    if (experts) {
      whole.emplace(target, x);
      continue;
    }
    std::vector<Tensor>& place = parts[target];
    const std::size_t index = entry.contains("expert") ? entry["expert"].get<std::size_t>() : 0;
    if (place.size() <= index) place.resize(index + 1);
    place[index] = x;
  }
  TensorMap tensors = whole;
  for (const auto& [name, list] : parts)
    tensors.emplace(name, name.find("_exps") == std::string::npos ? list[0] : stack(list));
  for (const auto& [name, factors] : model.json["gguf_factors"].items())
    tensors.emplace(name, tensor<float>(factors.get<std::vector<float>>()));
  std::vector<GgufTensorSpec> specs;
  for (const auto& [name, x] : tensors) specs.push_back({name, DType::f32, x.shape()});
  GgufWriter writer(path, metadata, specs);
  for (const auto& [name, x] : tensors) writer.write(x);
  writer.commit();
}

// ---- comparing

constexpr double tolerance = 2e-4;  // scores are up to some 10

void expect_row(std::span<const float> got, const std::vector<float>& expected, std::size_t position) {
  ASSERT_EQ(got.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])));
  EXPECT_LE(worst, tolerance) << "after token " << position;
}

LoadOptions options_for(const Golden& model, Device device) {
  // Which factors LongRoPE takes is decided by the context.
  return {.device = device,
          .context = model.name.ends_with("_short") ? 32 : 0,
          .cache_dtype = DType::f32,
          .sequences = 3};
}

void expect_prefill(const Model& model, const Golden& expected) {
  Session session(model);
  const auto rows = session.feed_all(expected.tokens), scores = expected.scores();
  ASSERT_EQ(rows.size(), scores.size());
  for (std::size_t i = 0; i < rows.size(); ++i) expect_row(rows[i], scores[i], i);
}

void expect_step_by_step(const Model& model, const Golden& expected) {
  Session session(model);
  const auto scores = expected.scores();
  for (std::size_t i = 0; i < scores.size(); ++i)
    expect_row(session.feed({&expected.tokens[i], 1}), scores[i], i);
  // Back, and on in pieces.
  session.truncate(5);
  const std::span<const TokenId> all = expected.tokens;
  expect_row(session.feed(all.subspan(5, 8)), scores[12], 12);
  expect_row(session.feed(all.subspan(13)), scores.back(), scores.size() - 1);
}

// Three sequences of the same tokens, each at another place.
void expect_batched(const Model& model, const Golden& expected) {
  Session a(model), b(model), c(model);
  const auto scores = expected.scores();
  const std::span<const TokenId> all = expected.tokens;
  a.feed(all.first(11));
  b.feed(all.first(3));
  const auto take = [&](std::size_t first, std::size_t count) {
    const auto part = all.subspan(first, count);
    return std::vector<TokenId>(part.begin(), part.end());
  };
  // Steps of one token beside pieces of a prompt.
  const std::vector<Session*> sessions{&b, &c, &a};
  std::vector<std::vector<TokenId>> tokens{take(3, 1), take(0, 6), take(11, 2)};
  const auto check = [&] {
    const auto rows = Session::feed_together(sessions, tokens);
    ASSERT_EQ(rows.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t last = sessions[i]->tokens().size() - 1;
      expect_row(rows[i], scores[last], last);
    }
  };
  check();
  while (a.tokens().size() < all.size()) {
    for (std::size_t i = 0; i < 3; ++i) tokens[i] = take(sessions[i]->tokens().size(), 1);
    check();
  }
}

class Architectures : public testing::TestWithParam<Golden> {};

TEST_P(Architectures, FolderAgreesWithTransformers) {
  const test::TemporaryFolder folder;
  write_folder(folder.path(), GetParam().json["config"], GetParam().tensors());
  for (const Device device : tested_devices()) {
    SCOPED_TRACE(to_string(device));
    const Model model = Model::load(folder.path(), options_for(GetParam(), device));
    expect_prefill(model, GetParam());
    expect_step_by_step(model, GetParam());
    expect_batched(model, GetParam());
  }
}

TEST_P(Architectures, GgufAgreesWithTransformers) {
  if (!GetParam().json.contains("gguf")) GTEST_SKIP() << "GGUF has no such model";
  const test::TemporaryFolder folder;
  write_gguf(folder / "model.gguf", GetParam());
  for (const Device device : tested_devices()) {
    SCOPED_TRACE(to_string(device));
    expect_prefill(Model::load(folder / "model.gguf", options_for(GetParam(), device)), GetParam());
  }
}

void expect_same_value(const GgufValue& got, const GgufValue& expected, const std::string& key) {
  if (const float* number = std::get_if<float>(&expected)) {
    ASSERT_TRUE(std::holds_alternative<float>(got)) << key;
    EXPECT_NEAR(std::get<float>(got), *number, 1e-6 * std::abs(*number)) << key;
  } else {
    EXPECT_EQ(got, expected) << key;
  }
}

// A folder that is converted says what a GGUF file of the model says, and means the same.
TEST_P(Architectures, FolderBecomesGguf) {
  const test::TemporaryFolder folder;
  write_folder(folder.path(), GetParam().json["config"], GetParam().tensors());
  if (!GetParam().json.contains("gguf")) {
    test::expect_error<FormatError>([&] { export_gguf(folder.path(), folder / "model.gguf"); },
                                    {"GGUF cannot say"});
    EXPECT_FALSE(std::filesystem::exists(folder / "model.gguf"));
    return;
  }
  export_gguf(folder.path(), folder / "model.gguf");
  write_gguf(folder / "expected.gguf", GetParam());
  const GgufFile got(folder / "model.gguf"), expected(folder / "expected.gguf");
  for (const auto& [key, value] : expected.metadata()) {
    ASSERT_TRUE(got.metadata().contains(key)) << key;
    expect_same_value(got.metadata().at(key), value, key);
  }
  const auto sorted = [](std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    return names;
  };
  ASSERT_EQ(sorted(got.names()), sorted(expected.names()));
  for (const std::string& name : expected.names()) {
    const auto values = got.tensor(name).to_vector<float>(),
               wanted = expected.tensor(name).to_vector<float>();
    ASSERT_EQ(values.size(), wanted.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], wanted[i], 1e-6 * std::abs(wanted[i])) << name;
  }
  expect_prefill(Model::load(folder / "model.gguf", options_for(GetParam(), {})), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Architectures, testing::ValuesIn(golden_models()),
                         [](const auto& one) { return one.param.name; });

// The published files have experts as blocks of 4 bits with neighbours in a byte, and scales apart.
TEST(GptOssFolder, ExpertsInMxfp4) {
  const Golden& model = golden("gpt_oss");
  nlohmann::json config = model.json["config"];
  config["hidden_size"] = 64;  // whole blocks
  config["quantization_config"] = {{"quant_method", "mxfp4"}};
  TensorMap tensors, published;
  for (const auto& entry : model.json["tensors"]) {
    auto sizes = entry["shape"].get<std::vector<std::int64_t>>();
    std::replace(sizes.begin(), sizes.end(), std::int64_t{48}, std::int64_t{64});
    const auto name = entry["name"].get<std::string>();
    Tensor x = formula(name, Shape(sizes.begin(), sizes.end()));
    if (!name.ends_with("experts.gate_up_proj") && !name.ends_with("experts.down_proj")) {
      tensors.emplace(name, x);
      published.emplace(name, x);
      continue;
    }
    const Tensor rows = x.transpose(1, 2).contiguous(), rounded = quantise(rows, DType::mxfp4);
    tensors.emplace(name, dequantise(rounded).transpose(1, 2).contiguous());
    const std::vector<std::byte> bytes = rounded.to_bytes();
    std::vector<std::uint8_t> blocks, scales;
    for (std::size_t at = 0; at < bytes.size(); at += 17) {
      scales.push_back(static_cast<std::uint8_t>(bytes[at]));
      std::uint8_t numbers[32];
      for (std::size_t i = 0; i < 16; ++i) {
        numbers[i] = static_cast<std::uint8_t>(bytes[at + 1 + i]) & 15;
        numbers[i + 16] = static_cast<std::uint8_t>(bytes[at + 1 + i]) >> 4;
      }
      for (std::size_t i = 0; i < 32; i += 2)
        blocks.push_back(static_cast<std::uint8_t>(numbers[i] | numbers[i + 1] << 4));
    }
    const Shape shape{rows.size(0), rows.size(1), rows.size(2) / 32};
    published.emplace(name + "_scales", tensor<std::uint8_t>(scales).reshape(shape));
    published.emplace(name + "_blocks",
                      tensor<std::uint8_t>(blocks).reshape({shape[0], shape[1], shape[2], 16}));
  }
  const test::TemporaryFolder plain, folder;
  write_folder(plain.path(), config, tensors);
  write_folder(folder.path(), config, published);
  export_gguf(folder.path(), folder / "model.gguf");
  export_gguf(plain.path(), plain / "model.gguf");
  const GgufFile small(folder / "model.gguf"), large(plain / "model.gguf");
  for (const char* part : {"gate", "up", "down"}) {
    const std::string name = fmt::format("blk.1.ffn_{}_exps.weight", part);
    EXPECT_EQ(small.dtype(name), DType::mxfp4);
    EXPECT_EQ(dequantise(small.tensor(name)).to_vector<float>(), large.tensor(name).to_vector<float>());
  }
  const auto scores_of = [&](const std::filesystem::path& path) {
    return Session(Model::load(path, options_for(model, {}))).feed_all(model.tokens);
  };
  const auto got = scores_of(folder.path()), converted = scores_of(folder / "model.gguf");
  ASSERT_EQ(got.size(), converted.size());
  for (std::size_t i = 0; i < got.size(); ++i) expect_row(got[i], converted[i], i);
  const auto refused = [&](const char* name, const Tensor& instead) {
    TensorMap broken = published;
    broken.insert_or_assign(name, instead);
    const test::TemporaryFolder other;
    write_folder(other.path(), config, broken);
    test::expect_error<FormatError>([&] { Model::load(other.path()); }, {"experts of shape"});
  };
  refused("model.layers.0.mlp.experts.gate_up_proj_blocks", zeros({4, 128, 2, 8}, DType::u8));
  refused("model.layers.0.mlp.experts.gate_up_proj_scales", zeros({4, 64, 2}, DType::u8));
  refused("model.layers.0.mlp.experts.down_proj_bias", zeros({4}));
}

// Gemma 3 with eyes: the language model is a part of the file and of its configuration.
TEST(MultimodalFolder, LanguageModelIsFound) {
  const Golden& model = golden("gemma3");
  for (const std::string prefix : {"language_model.model.", "model.language_model."}) {
    TensorMap tensors;
    for (const auto& [name, x] : model.tensors()) tensors.emplace(prefix + name.substr(6), x);
    tensors.emplace("vision_tower.embeddings.weight", zeros({2, 2}));
    const test::TemporaryFolder folder;
    write_folder(folder.path(), {{"model_type", "gemma3"}, {"text_config", model.json["config"]}}, tensors);
    expect_prefill(Model::load(folder.path(), options_for(model, {})), model);
  }
}

// As Qwen's documentation has it: max_position_embeddings stays what it was without YaRN.
TEST(YarnFolder, ContextIsWhatItStretchesTo) {
  const Golden& model = golden("qwen3");
  const auto context = [&](const nlohmann::json& rope) {
    nlohmann::json config = model.json["config"];
    config.erase("rope_parameters");
    config["max_position_embeddings"] = 80;
    config["rope_scaling"] = rope;
    const test::TemporaryFolder folder;
    write_folder(folder.path(), config, model.tensors());
    return Model::load(folder.path(), options_for(model, {})).config().context;
  };
  const auto yarn = [](double factor) -> nlohmann::json {
    return {{"rope_type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", 64}};
  };
  EXPECT_EQ(context(yarn(4)), 256);
  EXPECT_EQ(context(yarn(1)), 80);
  EXPECT_EQ(context(nullptr), 80);
}

// ---- what is refused, and how

class RefusedFolder : public testing::Test {
 protected:
  // Of the golden model, after a change.
  template <typename Change>
  void refuse(std::string_view name, Change change, std::initializer_list<std::string_view> parts) {
    const test::TemporaryFolder folder;
    nlohmann::json config = golden(name).json["config"];
    TensorMap tensors = golden(name).tensors();
    change(config, tensors);
    write_folder(folder.path(), config, tensors);
    test::expect_error<FormatError>([&] { Model::load(folder.path()); }, parts);
  }
};

TEST_F(RefusedFolder, UnknownArchitecture) {
  refuse("llama", [](auto& config, auto&) { config["model_type"] = "mamba"; },
         {"config.json': unknown architecture \"mamba\"; known are llama, mistral, mixtral, granite, "
          "smollm3, qwen2, qwen2_moe, qwen3, qwen3_moe, phi3, olmo2, gemma2, gemma3, gemma3_text, gpt_oss"});
}
TEST_F(RefusedFolder, MissingTensors) {
  refuse("llama", [](auto&, auto& tensors) { tensors.erase("model.layers.1.self_attn.o_proj.weight"); },
         {"there is no tensor blk.1.attn_output.weight"});
  refuse("qwen3_moe",
         [](auto&, auto& tensors) { tensors.erase("model.layers.1.mlp.experts.4.up_proj.weight"); },
         {"there is no tensor model.layers.1.mlp.experts.4.up_proj.weight"});
  refuse("gemma2",
         [](auto&, auto& tensors) { tensors.erase("model.layers.2.post_feedforward_layernorm.weight"); },
         {"there is no tensor blk.2.post_ffw_norm.weight"});
  refuse("qwen3", [](auto&, auto& tensors) { tensors.erase("model.layers.1.self_attn.q_norm.weight"); },
         {"there is no tensor blk.1.attn_q_norm.weight"});
}
TEST_F(RefusedFolder, WrongShapes) {
  refuse("qwen2", [](auto& config, auto&) { config["intermediate_size"] = 65; },
         {"tensor blk.0.ffn_gate.weight is (64, 48), the configuration says (65, 48)"});
  refuse("qwen2_moe", [](auto& config, auto&) { config["num_experts"] = 5; },
         {"tensor blk.0.ffn_gate_inp.weight is (6, 48), the configuration says (5, 48)"});
  refuse("llama", [](auto& config, auto&) { config["num_key_value_heads"] = 3; },
         {"4 heads do not share 3 keys and values"});
}
// As models of embeddings have it: as a causal one it would give other numbers.
TEST_F(RefusedFolder, AttentionInBothDirections) {
  refuse("gemma3", [](auto& config, auto&) { config["use_bidirectional_attention"] = true; },
         {"attention in both directions"});
}
TEST_F(RefusedFolder, RopeThatIsNotKnown) {
  refuse("llama",
         [](auto& config, auto&) {
           config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
         },
         {"unknown rope scaling \"dynamic\"; known are default, linear, llama3, yarn, longrope, su"});
  refuse("phi3_longrope_short",
         [](auto& config, auto&) {
           config["rope_scaling"]["long_factor"] = {1.0, 2.0};
         },
         {"long_factor must be 6 positive numbers"});
}
TEST_F(RefusedFolder, HostileSizes) {
  for (const char* name : {"num_hidden_layers", "head_dim", "hidden_size", "num_attention_heads",
                           "max_position_embeddings", "vocab_size"})
    refuse("qwen3", [&](auto& config, auto&) { config[name] = 999999999999; }, {"config.json"});
  refuse("mixtral", [](auto& config, auto&) { config["num_experts_per_tok"] = 5; }, {"5 of 4 experts"});
}
TEST_F(RefusedFolder, LayersAndActivationsThatAreNotKnown) {
  refuse("gemma3",
         [](auto& config, auto&) {
           config["layer_types"] = {"sliding_attention", "linear_attention", "full_attention"};
         },
         {"a layer of type \"linear_attention\""});
  refuse("llama", [](auto& config, auto&) { config["hidden_act"] = "relu"; },
         {"hidden_act \"relu\" is not supported; silu is"});
  refuse("granite", [](auto& config, auto&) { config["logits_scaling"] = 0; },
         {"logits_scaling must be positive"});
}

TEST(RefusedGguf, UnknownArchitectureAndRope) {
  const test::TemporaryFolder folder;
  Golden model = golden("qwen2");
  const auto refuse = [&](std::initializer_list<std::string_view> parts) {
    write_gguf(folder / "model.gguf", model);
    test::expect_error<FormatError>([&] { Model::load(folder / "model.gguf"); }, parts);
  };
  model.json["gguf"]["qwen2.rope.scaling.type"] = "spiral";
  refuse({"unknown rope scaling \"spiral\"; known are none, linear, yarn, longrope"});
  model = golden("qwen2");
  for (const char* key : {"qwen2.block_count", "qwen2.embedding_length", "qwen2.attention.head_count"}) {
    model.json["gguf"][key] = 4000000000u;
    refuse({"a model with 4000000000"});
    model = golden("qwen2");
  }
  Golden granite = golden("granite");
  for (const char* key : {"granite.embedding_scale", "granite.residual_scale", "granite.logit_scale"}) {
    const auto before = granite.json["gguf"][key];
    granite.json["gguf"][key] = -1.5;
    write_gguf(folder / "granite.gguf", granite);
    test::expect_error<FormatError>([&] { Model::load(folder / "granite.gguf"); }, {key, "must be positive"});
    granite.json["gguf"][key] = before;
  }
  model.json["gguf"]["general.architecture"] = "bert";
  refuse(
      {"unknown architecture \"bert\"; known are llama, granite, smollm3, qwen2, qwen2moe, qwen3, qwen3moe, "
       "phi3, olmo2, gemma2, gemma3"});
}

// ---- files of GGUF's first converters say less

class OldGguf : public testing::Test {
 protected:
  // The golden model's, without some keys of its architecture.
  const std::filesystem::path& write(std::string_view name, std::initializer_list<std::string> missing) {
    Golden model = golden(name);
    nlohmann::json& metadata = model.json["gguf"];
    for (const std::string& key : missing)
      EXPECT_EQ(metadata.erase(metadata["general.architecture"].get<std::string>() + "." + key), 1u) << key;
    write_gguf(path_, model);
    return path_;
  }

  const test::TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "model.gguf";
};

TEST_F(OldGguf, Gemma2WithoutWindowAndCaps) {
  const ModelConfig config =
      Model::load(write("gemma2", {"attention.sliding_window", "attn_logit_softcapping",
                                   "final_logit_softcapping", "attention.scale"}))
          .config();
  EXPECT_EQ(config.windows, (std::vector<std::int64_t>{4096, 0, 4096}));
  EXPECT_EQ(config.attention_soft_cap, 50);
  EXPECT_EQ(config.output_soft_cap, 30);
  EXPECT_EQ(config.attention_scale, 0.25);  // of heads of 16
}
TEST_F(OldGguf, QwenWithoutSizesOfExperts) {
  test::expect_error<FormatError>(
      [&] { Model::load(write("qwen2_moe", {"expert_feed_forward_length"})); },
      {"tensor blk.0.ffn_gate_exps.weight is (6, 32, 48), the configuration says (6, 21, 48)"});
  test::expect_error<FormatError>(
      [&] { Model::load(write("qwen2_moe", {"expert_shared_feed_forward_length"})); },
      {"tensor blk.0.ffn_gate_shexp.weight is (40, 48), the configuration says (64, 48)"});
}
TEST_F(OldGguf, LinearRopeUnderItsFirstKey) {
  Golden model = golden("llama_linear");
  nlohmann::json& metadata = model.json["gguf"];
  metadata["llama.rope.scale_linear"] = metadata["llama.rope.scaling.factor"];
  metadata.erase("llama.rope.scaling.factor");
  metadata.erase("llama.rope.scaling.type");
  write_gguf(path_, model);
  expect_prefill(Model::load(path_, options_for(model, {})), model);
}

// What config.json does not say means what transformers takes it for; null means that there is no window.
TEST(Folders, WindowsThatAreNotSaid) {
  const test::TemporaryFolder folder;
  const auto windows = [&](const char* name, const auto& change) {
    Golden model = golden(name);
    nlohmann::json& config = model.json["config"];
    config.erase("sliding_window");
    change(config);
    write_folder(folder.path(), config, model.tensors());
    const auto all = Model::load(folder.path()).config().windows;
    return *std::max_element(all.begin(), all.end());
  };
  const auto nothing = [](auto&) {};
  const auto null = [](auto& config) { config["sliding_window"] = nullptr; };
  for (const char* name : {"mistral", "gemma2", "gemma3"}) {
    EXPECT_EQ(windows(name, nothing), 4096) << name;
    EXPECT_EQ(windows(name, null), 0) << name;
  }
  EXPECT_EQ(windows("gpt_oss", nothing), 128);
  EXPECT_EQ(windows("mixtral", nothing), 0);
  EXPECT_EQ(windows("qwen2", nothing), 0);
  EXPECT_EQ(windows("qwen2",
                    [](auto& config) {
                      config["use_sliding_window"] = true;
                      config["max_window_layers"] = 1;
                      config.erase("layer_types");
                    }),
            4096);
}

TEST_F(OldGguf, NoneIsNoTokenizer) {
  Golden model = golden("llama");
  model.json["gguf"]["tokenizer.ggml.model"] = "none";
  write_gguf(path_, model);
  const Model loaded = Model::load(path_, options_for(model, {}));
  expect_prefill(loaded, model);
  test::expect_error<ValueError>([&] { loaded.tokenizer(); }, {"came without a tokenizer"});
}

TEST(WithoutTokenizer, TokensRunAndTextIsRefused) {
  const test::TemporaryFolder folder;
  const Golden& llama = golden("llama");
  write_folder(folder.path(), llama.json["config"], llama.tensors());
  const Model model = Model::load(folder.path());
  test::expect_error<ValueError>([&] { model.tokenizer(); }, {"came without a tokenizer"});
  Session session(model);
  test::expect_error<ValueError>([&] { session.generate(llama.tokens); }, {"came without a tokenizer"});
}

TEST(FeedTogether, RefusesWhatDoesNotGoTogether) {
  const test::TemporaryFolder folder;
  const Golden& llama = golden("llama");
  write_folder(folder.path(), llama.json["config"], llama.tensors());
  const Model model = Model::load(folder.path(), {.sequences = 2}), other = Model::load(folder.path());
  Session a(model), b(model), c(other);
  const auto refuse = [](std::vector<Session*> sessions, std::vector<std::vector<TokenId>> tokens,
                         std::string_view part) {
    test::expect_error<ValueError>([&] { Session::feed_together(sessions, tokens); }, {part});
  };
  refuse({&a, &a}, {{1}, {2}}, "a session twice");
  refuse({&a, &c}, {{1}, {2}}, "sessions of one model");
  refuse({&a, &b}, {{1}}, "2 sessions with tokens for 1");
  refuse({&a, &b}, {{1}, {}}, "at least one token");
  refuse({&a, &b}, {{1}, {96}}, "token 96 is not in the vocabulary of 96");
  EXPECT_TRUE(a.tokens().empty());  // nothing was fed
  EXPECT_TRUE(Session::feed_together({}, {}).empty());
}

}  // namespace
}  // namespace hearth::llm
