// JSON in and out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "llm/template/value.h"

namespace hearth::jinja {

class Interpreter;

// Fails for text that is not UTF-8 and for values nested too deeply.
Value from_json(const nlohmann::ordered_json& json);

// As Python's json.dumps.
struct JsonStyle {
  bool ascii_only = false, sort_keys = false;
  std::optional<std::string> indent;  // null: all on one line
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(Interpreter& in, const Value& value, const JsonStyle& style);

}  // namespace hearth::jinja
