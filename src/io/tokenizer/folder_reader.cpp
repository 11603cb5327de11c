// Tokenizers in folders of Hugging Face.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ranges>

#include "base/file.h"
#include "hearth/error.h"
#include "io/bytes.h"
#include "io/tokenizer/end_names.h"
#include "io/tokenizer/json_document.h"
#include "io/tokenizer/json_steps.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/readers.h"

namespace hearth::tokenizer {

Definition read_vocab_and_merges(std::string_view vocab, std::string_view merges_text,
                                 std::string_view source) {
  Definition definition;
  definition.source = source;
  auto document = parse_vocab_json(vocab, source);
  for (auto& [text, id] : document.ids) {
    auto& token = token_at(definition, id, document.ids.size());
    if (!token.text.empty())
      fail(source,
           fmt::format("the tokens {} and {} both have the id {}", io::show(token.text), io::show(text), id));
    token.text = std::move(text);
  }
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  for (bool first = true; !merges_text.empty(); first = false) {
    const auto end = std::min(merges_text.find('\n'), merges_text.size());
    auto line = merges_text.substr(0, end);
    merges_text.remove_prefix(std::min(end + 1, merges_text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (first && line.starts_with("#version"))) continue;
    merges.push_back(split_merge(line, merges.size(), source));
  }
  definition.model =
      BpeModel{{.symbols = BpeSymbols::bytes_as_characters}, resolve_merges(definition, merges)};
  definition.decoder = {DecodeBytesStep{}};
  return definition;
}

namespace {

// Tokens of the configuration that are not in the vocabulary, or are no ordinary part of it.
void add_configured_tokens(const JsonFields& config, Definition& definition) {
  const auto added = config.object("added_tokens_decoder");
  if (!added) return;
  const auto& entries = *config.find("added_tokens_decoder");
  const auto count = definition.tokens.size() + entries.size();
  for (const auto& [number, value] : entries.items()) {
    const JsonFields fields(value, "added_tokens_decoder", definition.source);
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
    if (error != std::errc() || end != number.data() + number.size())
      fail(definition.source, fmt::format("added_tokens_decoder: {} is no id", io::show(number)));
    auto& token = token_at(definition, id, count);
    const auto text = fields.required_text("content");
    if (!token.text.empty() && token.text != text)
      fail(definition.source,
           fmt::format("the added token {} has the id {} of {}", io::show(text), id, io::show(token.text)));
    token.text = text;
    if (token.kind == TokenKind::normal)
      token.kind = fields.flag("special", false) ? TokenKind::control : TokenKind::user_defined;
    token.strip_left = fields.flag("lstrip", false);
    token.strip_right = fields.flag("rstrip", false);
    token.single_word = fields.flag("single_word", false);
  }
}

// "<s>" or {"content": "<s>", ...}
std::optional<TokenId> configured_token(const JsonFields& config, const char* field,
                                        const Definition& definition) {
  const auto* value = config.find(field);
  if (!value) return std::nullopt;
  const auto text =
      value->is_object() ? config.object(field)->required_text("content") : config.text(field).value();
  return find_token(definition, text);
}

}  // namespace

void apply_config(std::string_view text, std::string_view source, bool with_added_tokens,
                  Definition& definition) {
  const auto document = parse_json(text, source);
  const JsonFields config(document, "the configuration", source);
  if (with_added_tokens) add_configured_tokens(config, definition);
  auto& special = definition.special;
  const auto use = [&](const char* field, std::optional<TokenId>& to) {
    if (const auto id = configured_token(config, field, definition)) to = id;
  };
  use("bos_token", special.bos);
  use("eos_token", special.eos);
  use("unk_token", special.unknown);
  use("pad_token", special.padding);
  use("sep_token", special.separator);
  use("mask_token", special.mask);
  if (!special.bos) use("cls_token", special.bos);
  if (!with_added_tokens) return;
  // tokenizer.json says itself what goes around a text; the others leave it to this.
  const auto around = [&](const char* field, std::optional<TokenId> id, std::vector<TokenId>& tokens) {
    if (!config.find(field)) return;
    tokens.clear();
    if (config.flag(field, false) && id) tokens.push_back(*id);
  };
  around("add_bos_token", special.bos, definition.prefix);
  around("add_eos_token", special.eos, definition.suffix);
}

namespace {

// vocab.json and merges.txt leave the pre-tokeniser to the class that reads them.
void use_class(const std::optional<std::string>& name, Definition& definition) {
  const std::string_view pre = name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast" ? "qwen2" : "gpt-2";
  if (name && pre == "gpt-2" && *name != "GPT2Tokenizer" && *name != "GPT2TokenizerFast")
    fail(definition.source,
         fmt::format("tokenizer_class {} with vocab.json is not supported", io::show(*name)));
  const auto known = find_pre_tokeniser(pre).value();
  if (known.nfc) definition.normaliser.emplace_back(NormalFormStep{NormalForm::nfc});
  for (const auto& pattern : known.patterns) definition.pre_tokeniser.emplace_back(SplitStep{pattern});
}

Definition read_model_file(const std::filesystem::path& path) {
  const auto bytes = read_text_file(path);
  if (looks_like_ranks(bytes))
    fail(path.string(),
         "ranks of tiktoken, for which the pattern must be known: use Tokenizer::from_tiktoken");
  return read_sentencepiece(bytes, path.string());
}

// Where transformers would stop: an id, or a list, in generation_config.json, else in config.json. Ids of
// ordinary tokens are left out: configurations have defaults that mean nothing in their vocabulary.
void add_ends(const std::filesystem::path& folder, Definition& definition) {
  auto& special = definition.special;
  const auto add = [&](const nlohmann::json& value) {
    if (!value.is_number_integer() || value < 0 || value >= definition.tokens.size()) return;
    const auto id = value.get<TokenId>();
    const Token& token = definition.tokens[static_cast<std::size_t>(id)];
    if (token.kind != TokenKind::control && token.kind != TokenKind::user_defined) return;
    if (id == special.eos || id == special.end_of_turn || std::ranges::count(end_names, token.text) > 0)
      return;
    // These are the places that GGUF files have, too.
    for (auto* place : {&special.eos, &special.end_of_turn, &special.end_of_message})
      if (!*place) {
        *place = id;
        return;
      }
  };
  for (const char* name : {"generation_config.json", "config.json"}) {
    const auto path = folder / name;
    if (!std::filesystem::exists(path)) continue;
    const auto document = parse_json(read_text_file(path), path.string());
    const auto found = document.find("eos_token_id");
    if (found == document.end() || found->is_null()) continue;
    if (!found->is_array()) return add(*found);
    for (const auto& id : *found) add(id);
    return;
  }
}

}  // namespace

Definition read_folder(const std::filesystem::path& path) {
  const auto has = [&](const char* name) { return std::filesystem::exists(path / name); };
  const auto config_path = path / "tokenizer_config.json";
  const bool has_config = std::filesystem::exists(config_path);
  const auto config = has_config ? read_text_file(config_path) : "{}";
  Definition definition;
  bool complete = false;
  if (has("tokenizer.json")) {
    definition =
        read_tokenizer_json(read_text_file(path / "tokenizer.json"), (path / "tokenizer.json").string());
    complete = true;
  } else if (has("vocab.json") && has("merges.txt")) {
    definition = read_vocab_and_merges(read_text_file(path / "vocab.json"),
                                       read_text_file(path / "merges.txt"), path.string());
    const auto document = parse_json(config, config_path.string());
    use_class(JsonFields(document, "the configuration", config_path.string()).text("tokenizer_class"),
              definition);
  } else if (has("tokenizer.model")) {
    definition = read_model_file(path / "tokenizer.model");
  } else {
    throw FileError(fmt::format(
        "[tokenizer] '{}' has no tokenizer.json, no vocab.json with merges.txt and no tokenizer.model",
        path.string()));
  }
  if (has_config) apply_config(config, config_path.string(), !complete, definition);
  add_ends(path, definition);
  return definition;
}

Definition read_folder(const std::filesystem::path& path, std::size_t model_tokens) {
  Definition definition = read_folder(path);
  const auto is_known = [&](TokenId id) { return static_cast<std::size_t>(id) < model_tokens; };
  const auto is_added = [](const Token& token) {
    return token.text.empty() || token.kind == TokenKind::control || token.kind == TokenKind::user_defined;
  };
  auto& tokens = definition.tokens;
  const auto* bpe = std::get_if<BpeModel>(&definition.model);
  const bool needs_none =
      std::ranges::all_of(tokens | std::views::drop(model_tokens), is_added) &&
      std::ranges::all_of(definition.prefix, is_known) && std::ranges::all_of(definition.suffix, is_known) &&
      (!bpe || !bpe->merges || std::ranges::all_of(*bpe->merges, is_known, &Merge::result));
  if (tokens.size() <= model_tokens || !needs_none) return definition;
  tokens.resize(model_tokens);
  auto& special = definition.special;
  for (auto* id : {&special.bos, &special.eos, &special.unknown, &special.padding, &special.separator,
                   &special.mask, &special.end_of_turn, &special.end_of_message})
    if (*id && !is_known(**id)) id->reset();
  return definition;
}

}  // namespace hearth::tokenizer
