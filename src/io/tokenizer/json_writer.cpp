// Byte-level BPE to tokenizer.json.
#include "io/tokenizer/json_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hearth/error.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(std::string_view what) {
  throw ValueError(fmt::format("[tokenizer] {} cannot be written to tokenizer.json", what));
}

const std::string& text_of(const Definition& definition, TokenId id) {
  return definition.tokens.at(static_cast<std::size_t>(id)).text;
}

Json added_tokens(const Definition& definition) {
  Json list = Json::array();
  for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
    const Token& token = definition.tokens[id];
    if (token.kind == TokenKind::normal) continue;
    if (token.kind != TokenKind::control) refuse(fmt::format("the kind of token {}", token.text));
    list.push_back({{"id", id},
                    {"content", token.text},
                    {"single_word", token.single_word},
                    {"lstrip", token.strip_left},
                    {"rstrip", token.strip_right},
                    {"normalized", token.in_normalised_text},
                    {"special", true}});
  }
  return list;
}

Json pre_tokenizer(const Definition& definition) {
  Json steps = Json::array();
  for (const auto& step : definition.pre_tokeniser) {
    const auto* split = std::get_if<SplitStep>(&step);
    if (!split || !split->is_pattern || split->behaviour != SplitBehaviour::isolated || split->invert)
      refuse("a step of the pre-tokeniser");
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", split->what}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json post_processor(const Definition& definition) {
  if (!definition.suffix.empty() || definition.prefix.size() > 1) refuse("what stands around a text");
  if (definition.prefix.empty()) return nullptr;
  const std::string& text = text_of(definition, definition.prefix[0]);
  const auto special = [&](int type) { return Json{{"SpecialToken", {{"id", text}, {"type_id", type}}}}; };
  const auto sequence = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {special(0), sequence("A", 0)}},
          {"pair", {special(0), sequence("A", 0), special(1), sequence("B", 1)}},
          {"special_tokens",
           {{text, {{"id", text}, {"ids", {definition.prefix[0]}}, {"tokens", Json::array({text})}}}}}};
}

}  // namespace

std::string to_tokenizer_json(const Definition& definition) {
  const auto* bpe = std::get_if<BpeModel>(&definition.model);
  if (!bpe || bpe->options.symbols != BpeSymbols::bytes_as_characters || !bpe->merges ||
      !definition.normaliser.empty())
    refuse("anything but byte-level BPE");
  Json vocabulary = Json::object(), merges = Json::array();
  for (std::size_t id = 0; id < definition.tokens.size(); ++id)
    vocabulary.emplace(definition.tokens[id].text, id);
  for (const Merge& merge : *bpe->merges)
    merges.push_back({text_of(definition, merge.left), text_of(definition, merge.right)});
  const Json file{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens(definition)},
      {"normalizer", nullptr},
      {"pre_tokenizer", pre_tokenizer(definition)},
      {"post_processor", post_processor(definition)},
      {"decoder",
       {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", bpe->options.whole_pieces_first},
        {"vocab", std::move(vocabulary)},
        {"merges", std::move(merges)}}}};
  return file.dump(1);
}

std::string to_tokenizer_config(const Definition& definition, std::int64_t context) {
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", context},
              {"clean_up_tokenization_spaces", false}};
  if (definition.special.bos) config["bos_token"] = text_of(definition, *definition.special.bos);
  if (definition.special.eos) config["eos_token"] = text_of(definition, *definition.special.eos);
  return config.dump(1);
}

}  // namespace hearth::tokenizer
