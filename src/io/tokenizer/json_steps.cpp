// The parts of tokenizer.json that say what is done with text.
#include "io/tokenizer/json_steps.h"

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {

using nlohmann::json;

// ---- fields

JsonFields::JsonFields(const json& object, std::string name, std::string_view source)
    : object_(&object), name_(std::move(name)), source_(source) {
  if (!object.is_object()) fail("must be an object");
}

void JsonFields::fail(const std::string& rule) const {
  tokenizer::fail(source_, fmt::format("{} {}", name_, rule));
}

const json* JsonFields::find(const char* field) const {
  const auto found = object_->find(field);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> JsonFields::text(const char* field) const {
  const auto* value = find(field);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(fmt::format("has a field {} that is not a string", field));
  return value->get<std::string>();
}

std::string JsonFields::required_text(const char* field) const {
  if (auto value = text(field)) return std::move(*value);
  fail(fmt::format("has no field {}", field));
}

std::optional<std::int64_t> JsonFields::integer(const char* field) const {
  const auto* value = find(field);
  if (!value) return std::nullopt;
  if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<std::uint64_t>() >> 63 != 0))
    fail(fmt::format("has a field {} that is not an integer", field));
  return value->get<std::int64_t>();
}

bool JsonFields::flag(const char* field, bool without) const {
  const auto* value = find(field);
  if (!value) return without;
  if (!value->is_boolean()) fail(fmt::format("has a field {} that is not a boolean", field));
  return value->get<bool>();
}

std::optional<JsonFields> JsonFields::object(const char* field) const {
  const auto* value = find(field);
  if (!value) return std::nullopt;
  return JsonFields(*value, field, source_);
}

std::vector<JsonFields> JsonFields::list(const char* field) const {
  std::vector<JsonFields> result;
  const auto* value = find(field);
  if (!value) return result;
  if (!value->is_array()) fail(fmt::format("has a field {} that is not a list", field));
  for (const auto& item : *value) result.emplace_back(item, field, source_);
  return result;
}

namespace {

// {"String": " "} or {"Regex": "\\s"}.
struct Text {
  std::string what;
  bool is_pattern = false;
};
Text read_text(const JsonFields& fields) {
  const auto* value = fields.find("pattern");
  if (value && value->is_string()) return {value->get<std::string>()};
  const auto pattern = fields.object("pattern");
  if (!pattern) fields.fail("has no pattern");
  if (const auto regex = pattern->text("Regex")) return {*regex, true};
  auto text = pattern->required_text("String");
  if (text.empty()) fields.fail("has an empty pattern");
  return {std::move(text)};
}

[[noreturn]] void unknown_type(const JsonFields& fields, const std::string& type) {
  fields.fail(fmt::format("is of the type {}, which is not supported", io::show(type)));
}

// ---- normalisers

void add_normaliser(const JsonFields& fields, std::vector<NormaliserStep>& steps) {
  const auto type = fields.required_text("type");
  if (type == "Sequence") {
    for (const auto& item : fields.list("normalizers")) add_normaliser(item, steps);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps.emplace_back(NormalFormStep{type == "NFC"    ? NormalForm::nfc
                                      : type == "NFD"  ? NormalForm::nfd
                                      : type == "NFKC" ? NormalForm::nfkc
                                                       : NormalForm::nfkd});
  } else if (type == "Prepend") {
    steps.emplace_back(PrependStep{fields.required_text("prepend")});
  } else if (type == "Replace") {
    auto [what, is_pattern] = read_text(fields);
    steps.emplace_back(ReplaceStep{std::move(what), fields.required_text("content"), is_pattern});
  } else if (type == "Lowercase") {
    steps.emplace_back(LowercaseStep{});
  } else if (type == "StripAccents") {
    steps.emplace_back(StripMarksStep{true});
  } else if (type == "Strip") {
    steps.emplace_back(StripStep{fields.flag("strip_left", true), fields.flag("strip_right", true)});
  } else if (type == "BertNormalizer") {
    const bool lowercase = fields.flag("lowercase", true);
    steps.emplace_back(
        BertCleanStep{fields.flag("clean_text", true), fields.flag("handle_chinese_chars", true)});
    if (fields.flag("strip_accents", lowercase)) {
      steps.emplace_back(NormalFormStep{NormalForm::nfd});
      steps.emplace_back(StripMarksStep{});
    }
    if (lowercase) steps.emplace_back(LowercaseStep{});
  } else if (type == "Precompiled") {
    auto table = from_base64(fields.text("precompiled_charsmap").value_or(""));
    if (!table) fields.fail("has a table that is not base64");
    if (!table->empty()) steps.emplace_back(CharacterMapStep{std::move(*table)});
  } else {
    unknown_type(fields, type);
  }
}

// ---- pre-tokenisers

SplitBehaviour read_behaviour(const JsonFields& fields, const char* without) {
  const auto name = fields.text("behavior").value_or(without);
  if (name == "Isolated") return SplitBehaviour::isolated;
  if (name == "Removed") return SplitBehaviour::removed;
  if (name == "MergedWithPrevious") return SplitBehaviour::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehaviour::merged_with_next;
  if (name == "Contiguous") return SplitBehaviour::contiguous;
  fields.fail(fmt::format("has the unknown behavior {}", io::show(name)));
}

// How a mark is put before a text that has none: not at all, everywhere, or only where the whole text begins.
std::string prepend_scheme(const JsonFields& fields) {
  const bool legacy = fields.flag("add_prefix_space", true);
  const auto scheme = fields.text("prepend_scheme").value_or(legacy ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    fields.fail(fmt::format("has the unknown prepend_scheme {}", io::show(scheme)));
  return scheme;
}

std::string read_replacement(const JsonFields& fields) {
  auto replacement = fields.text("replacement").value_or(std::string(space_mark));
  if (replacement.empty()) fields.fail("has an empty replacement");
  return replacement;
}

constexpr const char* punctuation = R"([\p{P}!-/:-@\[-`{-~])";

void add_pre_tokeniser(const JsonFields& fields, JsonPreTokeniser& result) {
  auto& steps = result.steps;
  const auto split = [&](std::string pattern, SplitBehaviour behaviour = SplitBehaviour::isolated,
                         bool invert = false) {
    steps.emplace_back(SplitStep{std::move(pattern), true, behaviour, invert});
  };
  const auto type = fields.required_text("type");
  if (type == "Sequence") {
    for (const auto& item : fields.list("pretokenizers")) add_pre_tokeniser(item, result);
    return;
  }
  // Only the last step may leave bytes to the model; those after it see them as characters.
  if (result.byte_level) {
    result.byte_level = false;
    steps.emplace_back(MapBytesStep{});
  }
  if (type == "ByteLevel") {
    if (fields.flag("add_prefix_space", true)) steps.emplace_back(PrependStep{" ", true});
    if (fields.flag("use_regex", true)) split(gpt2_pattern());
    result.byte_level = true;
  } else if (type == "Split") {
    auto [what, is_pattern] = read_text(fields);
    steps.emplace_back(SplitStep{std::move(what), is_pattern, read_behaviour(fields, "Isolated"),
                                 fields.flag("invert", false)});
  } else if (type == "Metaspace") {
    const auto mark = read_replacement(fields);
    const auto scheme = prepend_scheme(fields);
    steps.emplace_back(ReplaceStep{" ", mark});
    if (scheme != "never") steps.emplace_back(PrependStep{mark, true, scheme == "first"});
    if (fields.flag("split", true))
      steps.emplace_back(SplitStep{mark, false, SplitBehaviour::merged_with_next});
  } else if (type == "Digits") {
    split(fields.flag("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "Punctuation") {
    split(punctuation, read_behaviour(fields, "Isolated"));
  } else if (type == "Whitespace") {
    split(R"(\w+|[^\w\s]+)", SplitBehaviour::removed, true);
  } else if (type == "WhitespaceSplit") {
    split(R"(\s)", SplitBehaviour::removed);
  } else if (type == "BertPreTokenizer") {
    split(R"(\s)", SplitBehaviour::removed);
    split(punctuation);
  } else if (type == "CharDelimiterSplit") {
    steps.emplace_back(SplitStep{fields.required_text("delimiter"), false, SplitBehaviour::removed});
  } else {
    unknown_type(fields, type);
  }
}

// ---- post-processors

// ["[SEP]", 102]
TokenId read_pair(const JsonFields& fields, const char* field) {
  const auto* value = fields.find(field);
  if (!value || !value->is_array() || value->size() != 2 || !(*value)[1].is_number_integer() ||
      (*value)[1].get<std::int64_t>() < 0 || (*value)[1].get<std::int64_t>() > 0x7fffffff)
    fields.fail(fmt::format("must have a token and its id as {}", field));
  return (*value)[1].get<TokenId>();
}

void add_template(const JsonFields& fields, Definition& definition) {
  const auto special = fields.object("special_tokens");
  bool after_text = false;
  for (const auto& item : fields.list("single")) {
    if (item.find("Sequence")) {
      after_text = true;
      continue;
    }
    const auto token = item.object("SpecialToken");
    const auto name = token ? token->required_text("id") : "";
    const auto entry = special ? special->object(name.c_str()) : std::nullopt;
    const auto* ids = entry ? entry->find("ids") : nullptr;
    if (!ids || !ids->is_array())
      fields.fail(fmt::format("does not say what its token {} is", io::show(name)));
    for (const auto& id : *ids) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > 0x7fffffff)
        fields.fail(fmt::format("has an id of {} that is no id", io::show(name)));
      (after_text ? definition.suffix : definition.prefix).push_back(id.get<TokenId>());
    }
  }
}

void add_post_processor(const JsonFields& fields, Definition& definition) {
  const auto type = fields.required_text("type");
  if (type == "Sequence") {
    for (const auto& item : fields.list("processors")) add_post_processor(item, definition);
  } else if (type == "TemplateProcessing") {
    add_template(fields, definition);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    definition.prefix.push_back(read_pair(fields, "cls"));
    definition.suffix.push_back(read_pair(fields, "sep"));
  } else if (type != "ByteLevel") {  // which is about offsets only
    unknown_type(fields, type);
  }
}

// ---- decoders

// `whole`: whether the tokens have become one text, of which only the beginning can still be changed.
void add_decoder(const JsonFields& fields, Definition& definition, bool& whole) {
  const auto type = fields.required_text("type");
  auto& steps = definition.decoder;
  if (type == "Sequence") {
    for (const auto& item : fields.list("decoders")) add_decoder(item, definition, whole);
  } else if (type == "Fuse") {
    whole = true;
  } else if (type == "Strip") {
    const auto start = fields.integer("start").value_or(0), stop = fields.integer("stop").value_or(0);
    if (!whole || stop != 0 || start > 1 || fields.required_text("content") != " ")
      fields.fail("strips something else than one space at the beginning, which is not supported");
    definition.strip_first_space |= start == 1;
  } else if (whole) {
    fields.fail(fmt::format("comes after Fuse as {}, which is not supported", io::show(type)));
  } else if (type == "ByteLevel") {
    steps.emplace_back(DecodeBytesStep{});
  } else if (type == "ByteFallback") {
    steps.emplace_back(DecodeByteFallbackStep{});
  } else if (type == "Replace") {
    auto [what, is_pattern] = read_text(fields);
    if (is_pattern) fields.fail("replaces a pattern, which is not supported");
    steps.emplace_back(ReplaceStep{std::move(what), fields.required_text("content")});
  } else if (type == "Metaspace") {
    steps.emplace_back(ReplaceStep{read_replacement(fields), " "});
    definition.strip_first_space |= prepend_scheme(fields) != "never";
  } else if (type == "WordPiece") {
    steps.emplace_back(
        DecodeWordPieceStep{fields.text("prefix").value_or("##"), fields.flag("cleanup", true)});
    definition.strip_first_space = true;
  } else {
    unknown_type(fields, type);
  }
}

}  // namespace

std::vector<NormaliserStep> read_normaliser(const std::optional<JsonFields>& fields) {
  std::vector<NormaliserStep> steps;
  if (fields) add_normaliser(*fields, steps);
  return steps;
}

JsonPreTokeniser read_pre_tokeniser(const std::optional<JsonFields>& fields) {
  JsonPreTokeniser result;
  if (fields) add_pre_tokeniser(*fields, result);
  return result;
}

void read_post_processor(const std::optional<JsonFields>& fields, Definition& definition) {
  if (fields) add_post_processor(*fields, definition);
}

void read_decoder(const std::optional<JsonFields>& fields, Definition& definition) {
  bool whole = false;
  if (fields) add_decoder(*fields, definition, whole);
}

}  // namespace hearth::tokenizer
