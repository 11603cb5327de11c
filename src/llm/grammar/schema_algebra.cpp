// Merging schemas, and finding out that they exclude each other.
#include "llm/grammar/schema_algebra.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"

namespace hearth::llm::grammar {
namespace {

constexpr std::size_t most_properties = 10000;  // of two schemas; names are looked for one by one

const std::set<std::string> all_types{"null", "boolean", "integer", "number", "string", "array", "object"};

bool lists(const Schema& array, const Schema& value) {
  return std::find(array.begin(), array.end(), value) != array.end();
}

Schema common(const Schema& a, const Schema& b) {
  const std::set<Schema> of_b(b.begin(), b.end());
  Schema result = Schema::array();
  for (const Schema& item : a)
    if (of_b.contains(item)) result.push_back(item);
  return result;
}

Schema united(Schema a, const Schema& b) {
  std::set<Schema> of_a(a.begin(), a.end());
  for (const Schema& item : b)
    if (of_a.insert(item).second) a.push_back(item);
  return a;
}

// Values that a schema lists; null: it lists none.
Schema values_of(const Schema& schema) {
  if (schema.contains("const")) return Schema::array({schema["const"]});
  return schema.contains("enum") && schema["enum"].is_array() ? schema["enum"] : Schema();
}

Schema type_list(const std::set<std::string>& types) {
  Schema list = Schema::array();
  for (const std::string& type : types)
    if (type != "integer" || !types.contains("number")) list.push_back(type);
  return list;
}

}  // namespace

bool is_annotation(const std::string& keyword) {
  static const std::set<std::string> annotations{
      "$schema",       "$id",      "$comment",    "$defs",           "definitions",
      "$anchor",       "title",    "description", "default",         "examples",
      "deprecated",    "readOnly", "writeOnly",   "contentEncoding", "contentMediaType",
      "discriminator", "nullable"};  // lets more through than the other keywords do
  return annotations.contains(keyword) || keyword.starts_with("x-");
}

std::set<std::string> types_of(const Schema& schema) {
  if (!schema.is_object() || !schema.contains("type")) return all_types;
  std::set<std::string> types;
  const auto add = [&](const Schema& type) {
    if (!type.is_string() || !all_types.contains(type.get<std::string>()))
      throw ValueError(fmt::format("{} is no type", type.dump()));
    types.insert(type.get<std::string>());
    if (type == "number") types.insert("integer");
  };
  if (schema["type"].is_array())
    for (const Schema& type : schema["type"]) add(type);
  else
    add(schema["type"]);
  return types;
}

Schema both(const Schema& a, const Schema& b) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  if (!a.is_object() || !b.is_object()) throw ValueError("a schema is an object, true or false");
  Schema result = a;
  for (const auto& [keyword, value] : b.items()) {
    if (is_annotation(keyword)) continue;
    if (!a.contains(keyword) || a[keyword] == value) {
      result[keyword] = value;
      continue;
    }
    const Schema& other = a[keyword];
    if (keyword == "type") {
      std::set<std::string> types;
      const auto left = types_of(a), right = types_of(b);
      std::set_intersection(left.begin(), left.end(), right.begin(), right.end(),
                            std::inserter(types, types.end()));
      if (types.empty()) throw ValueError("no type is allowed by both of two schemas");
      result[keyword] = type_list(types);
    } else if (keyword == "properties" && other.is_object() && value.is_object()) {
      if (other.size() + value.size() > most_properties)
        throw ValueError("too many properties to put together");
      for (const auto& [name, schema] : value.items())
        result[keyword][name] = other.contains(name) ? both(other[name], schema) : schema;
    } else if (keyword == "required" && other.is_array() && value.is_array()) {
      result[keyword] = united(other, value);
    } else if (keyword == "enum" && other.is_array() && value.is_array()) {
      result[keyword] = common(other, value);
    } else if (keyword == "items") {
      result[keyword] = both(other, value);
    } else if ((keyword.starts_with("min") || keyword == "exclusiveMinimum") && other.is_number() &&
               value.is_number()) {
      result[keyword] = std::max(other, value);
    } else if ((keyword.starts_with("max") || keyword == "exclusiveMaximum") && other.is_number() &&
               value.is_number()) {
      result[keyword] = std::min(other, value);
    } else {
      throw ValueError(fmt::format("two values of '{}' cannot be put together", keyword));
    }
  }
  // What one schema calls additional, the other may have among its properties.
  const auto closed = [](const Schema& schema, const Schema& other) {
    if (!schema.contains("additionalProperties") || schema["additionalProperties"] == true) return false;
    if (!other.contains("properties") || !other["properties"].is_object()) return false;
    for (const auto& [name, unused] : other["properties"].items())
      if (!schema.contains("properties") || !schema["properties"].contains(name)) return true;
    return false;
  };
  if (closed(a, b) || closed(b, a))
    throw ValueError("additionalProperties of one schema forbids what another one with it has as properties");
  return result;
}

bool apart(const Schema& left, const Schema& right,
           const std::function<const Schema&(const Schema&)>& resolve) {
  const Schema &a = resolve(left), &b = resolve(right);
  if (a == false || b == false) return true;
  if (!a.is_object() || !b.is_object()) return false;
  const Schema a_values = values_of(a), b_values = values_of(b);
  if (a_values.is_array() && b_values.is_array()) return common(a_values, b_values).empty();
  const auto a_types = types_of(a), b_types = types_of(b);
  const bool share_type = std::any_of(a_types.begin(), a_types.end(),
                                      [&](const std::string& type) { return b_types.contains(type); });
  if (!share_type) return true;
  if (a_types != std::set<std::string>{"object"} || b_types != a_types) return false;
  const auto requires_name = [](const Schema& schema, const std::string& name) {
    return schema.contains("required") && schema["required"].is_array() && lists(schema["required"], name);
  };
  if (!a.contains("properties") || !a["properties"].is_object() || !b.contains("properties") ||
      !b["properties"].is_object())
    return false;
  for (const auto& [name, schema] : a["properties"].items())
    if (requires_name(a, name) && requires_name(b, name) && b["properties"].contains(name)) {
      const Schema x = values_of(resolve(schema)), y = values_of(resolve(b["properties"][name]));
      if (x.is_array() && y.is_array() && common(x, y).empty()) return true;
    }
  return false;
}

}  // namespace hearth::llm::grammar
