// The parts of tokenizer.json that say what is done with text.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

// An object whose fields are read with their types checked. A field that is null counts as absent. All throw
// FormatError with the file and the field's name.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string name, std::string_view source);

  std::optional<std::string> text(const char* field) const;
  std::string required_text(const char* field) const;
  std::optional<std::int64_t> integer(const char* field) const;
  bool flag(const char* field, bool without) const;
  std::optional<JsonFields> object(const char* field) const;
  std::vector<JsonFields> list(const char* field) const;  // of objects; empty without the field
  const nlohmann::json* find(const char* field) const;    // null without the field

  const std::string& name() const { return name_; }
  [[noreturn]] void fail(const std::string& rule) const;

 private:
  const nlohmann::json* object_;
  std::string name_;
  std::string_view source_;
};

// Without an object: nothing is done.
std::vector<NormaliserStep> read_normaliser(const std::optional<JsonFields>& fields);

struct JsonPreTokeniser {
  std::vector<PreTokeniserStep> steps;
  bool byte_level = false;  // the model's symbols are bytes, written in the characters of byte_level.h
};
JsonPreTokeniser read_pre_tokeniser(const std::optional<JsonFields>& fields);

// Fill in what goes around a text; how tokens are decoded.
void read_post_processor(const std::optional<JsonFields>& fields, Definition& definition);
void read_decoder(const std::optional<JsonFields>& fields, Definition& definition);

}  // namespace hearth::tokenizer
