#include "llm/forced_calls.h"

#include <algorithm>
#include <string_view>

namespace hearth::llm {
namespace {

using Json = nlohmann::ordered_json;

// A schema that becomes part of another one refers to its own parts from further up.
void move_references(Json& schema, const std::string& to) {
  if (schema.is_object())
    if (const auto reference = schema.find("$ref"); reference != schema.end() && reference->is_string())
      if (const auto text = reference->get<std::string>(); text.starts_with('#'))
        *reference = to + text.substr(1);
  for (Json& part : schema)
    if (part.is_structured()) move_references(part, to);
}

}  // namespace

Json forced_call_schema(const Json& tools, const std::vector<std::string>& names) {
  Json calls = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (std::find(names.begin(), names.end(), function["name"].get<std::string>()) == names.end()) continue;
    const auto described = function.find("parameters");
    Json arguments =
        described != function.end() && described->is_object() ? *described : Json{{"type", "object"}};
    move_references(arguments, "#/anyOf/" + std::to_string(calls.size()) + "/properties/arguments");
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", function["name"]}}}, {"arguments", arguments}}},
                     {"required", {"name", "arguments"}},
                     {"additionalProperties", false}});
  }
  return {{"anyOf", calls}};
}

}  // namespace hearth::llm
