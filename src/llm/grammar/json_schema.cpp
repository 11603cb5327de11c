// From a schema to rules: each type of value has an expression; references become rules, so that they may be
// circular.
#include "llm/grammar/json_schema.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/unicode.h"
#include "hearth/error.h"
#include "llm/grammar/json_text.h"
#include "llm/grammar/pattern.h"
#include "llm/grammar/schema_algebra.h"

namespace hearth::llm::grammar {
namespace {

constexpr int most_schemas = 64, most_values = 10000;
constexpr std::size_t most_alternatives = 500;  // each is compared with each
constexpr std::size_t most_merged = 1 << 18;    // values of schemas that are put together or told apart
constexpr std::size_t most_text = 1 << 20;
constexpr std::size_t longest_name = 256;  // of properties, where others may come
constexpr std::int64_t most_count = 1 << 18;

std::size_t values_in(const Schema& schema) {
  std::size_t count = 1;
  if (schema.is_structured())
    for (const Schema& part : schema) count += values_in(part);
  return count;
}

// A reference is part of a URI, in which "<" is "%3C".
std::string unescaped(std::string_view fragment) {
  std::string text;
  for (std::size_t i = 0; i < fragment.size();) {
    std::size_t next = i + 1;
    const auto byte = fragment[i] == '%' ? unicode::hexadecimal(fragment, next, 2) : std::nullopt;
    text += byte ? static_cast<char>(*byte) : fragment[i];
    i = byte ? next : i + 1;
  }
  return text;
}

class Compiler {
 public:
  explicit Compiler(const Schema& root) : root_(root) {
    space_ = add_rule("space",
                      choice({text(""), text(" "),
                              sequence({text("\n"), repeat(points({{' ', ' '}, {'\t', '\t'}}), 0, 20)})}));
    character_ = add_rule("character", json_any_character());
    rules_.root = add_rule("root", {});
    define(rules_.root, value(root, "#"));
  }

  Rules take() { return std::move(rules_); }

 private:
  // Names the place of what goes wrong inside it.
  class Place {
   public:
    Place(Compiler& compiler, std::string step) : compiler_(compiler) {
      if (compiler.path_.size() >= most_schemas) compiler.fail("schemas are nested too deep");
      compiler.path_.push_back(std::move(step));
    }
    ~Place() { compiler_.path_.pop_back(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Compiler& compiler_;
  };

  [[noreturn]] void fail(std::string_view what) const {
    std::string path;
    for (const std::string& step : path_) path += (path.empty() ? "" : "/") + step;
    throw FormatError(fmt::format("[json schema] {}: {}", path.empty() ? "#" : path, what));
  }
  template <class F>
  auto here(const F& f) const -> decltype(f()) {
    try {
      return f();
    } catch (const ValueError& error) {
      fail(error.what());
    }
  }

  int add_rule(std::string name, Expression expression) {
    rules_.all.push_back({std::move(name), std::move(expression)});
    return static_cast<int>(rules_.all.size()) - 1;
  }
  void define(int rule, Expression expression) {
    rules_.all[static_cast<std::size_t>(rule)].expression = std::move(expression);
  }
  Expression space() const { return call(space_); }
  Expression separator() const { return sequence({text(","), space()}); }

  // ---- references

  const Schema& target(const std::string& reference) const {
    if (!reference.starts_with('#'))
      fail(fmt::format("$ref {}: only references within the schema are known", reference));
    const std::string fragment = reference.substr(1);
    for (const std::string& pointer : {fragment, unescaped(fragment)})  // not all who write them escape
      try {
        return root_.at(Schema::json_pointer(pointer));
      } catch (const Schema::exception&) {
      }
    fail(fmt::format("$ref {}: there is no such place", reference));
  }

  const Schema& resolved(const Schema& schema) const {
    const Schema* at = &schema;
    for (int i = 0; i < most_schemas && at->is_object() && at->contains("$ref") && (*at)["$ref"].is_string();
         ++i)
      at = &target((*at)["$ref"].get<std::string>());
    return *at;
  }

  void count_merged(const Schema& schema) {
    merged_ += values_in(schema);
    if (merged_ > most_merged)
      fail(fmt::format("schemas of more than {} values have to be put together", most_merged));
  }

  // What holds by a schema and by what another refers to.
  Schema merged(const Schema& a, const Schema& b) {
    const Schema& other = resolved(b);
    count_merged(a);
    count_merged(other);
    return here([&] { return both(a, other); });
  }

  Expression referenced(const std::string& reference) {
    const auto known = references_.find(reference);
    if (known != references_.end()) return call(known->second);
    const Schema& schema = target(reference);
    const int rule = add_rule(reference, {});
    references_.emplace(reference, rule);
    define(rule, value(schema, "$ref " + reference));
    return call(rule);
  }

  // ---- values

  Expression value(const Schema& schema, const std::string& step) {
    const Place place(*this, step);
    if (++values_ > most_values)
      fail("the schema is too large, or its parts refer to each other in too many ways");
    if (schema == true) return any();
    if (schema == false) fail("nothing is valid");
    if (!schema.is_object()) fail("a schema is an object, true or false");
    for (const char* combined : {"$ref", "allOf", "anyOf", "oneOf"})
      if (schema.contains(combined)) return combination(schema, combined);
    if (schema.contains("enum") || schema.contains("const")) return listed(schema);
    return by_type(schema);
  }

  Expression combination(const Schema& schema, const std::string& keyword) {
    Schema rest = schema;
    rest.erase(keyword);
    const Schema given = schema[keyword];
    bool alone = true;
    for (const auto& [other, unused] : rest.items()) alone = alone && is_annotation(other);
    if (keyword == "$ref") {
      if (!given.is_string()) fail("$ref is not a string");
      if (alone) return referenced(given.get<std::string>());
      return value(merged(rest, schema), "$ref");
    }
    if (!given.is_array() || given.empty()) fail(fmt::format("{} is not a list of schemas", keyword));
    if (keyword == "allOf") {
      for (const Schema& part : given) rest = merged(rest, part);
      return value(rest, keyword);
    }
    if (keyword == "oneOf") {
      if (given.size() > most_alternatives) fail("too many alternatives");
      for (const Schema& part : given) count_merged(resolved(part));
      for (std::size_t i = 0; i < given.size(); ++i)
        for (std::size_t k = 0; k < i; ++k)
          if (!here([&] {
                return apart(given[i], given[k],
                             [&](const Schema& s) -> const Schema& { return resolved(s); });
              }))
            fail(fmt::format("oneOf: {} and {} may hold at once; anyOf is known", k, i));
    }
    std::vector<Expression> options;
    for (std::size_t i = 0; i < given.size(); ++i)
      options.push_back(value(alone ? given[i] : merged(rest, given[i]), fmt::format("{}/{}", keyword, i)));
    return choice(std::move(options));
  }

  Expression listed(const Schema& schema) {
    allow(schema, {"enum", "const", "type"});
    std::vector<Expression> options;
    const Schema values = schema.contains("enum") ? schema["enum"] : Schema::array({schema["const"]});
    if (!values.is_array()) fail("enum is not a list");
    const auto types = here([&] { return types_of(schema); });
    for (const Schema& item : values) {
      if (schema.contains("const") && item != schema["const"]) continue;
      const char* type = item.is_null()             ? "null"
                         : item.is_boolean()        ? "boolean"
                         : item.is_number_integer() ? "integer"
                         : item.is_number()         ? "number"
                         : item.is_string()         ? "string"
                         : item.is_array()          ? "array"
                                                    : "object";
      if (types.contains(type)) options.push_back(text(item.dump()));
    }
    if (options.empty()) fail("nothing is valid");
    return choice(std::move(options));
  }

  // Without a type, the one whose conditions are there; without any, all.
  Expression by_type(const Schema& schema) {
    auto types = here([&] { return types_of(schema); });
    static const std::map<std::string, std::vector<std::string>> keywords{
        {"string", {"minLength", "maxLength", "pattern", "format"}},
        {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
        {"array", {"items", "prefixItems", "minItems", "maxItems"}},
        {"object", {"properties", "required", "additionalProperties"}}};
    std::vector<std::string> known{"type"};
    std::set<std::string> conditioned;
    for (const auto& [type, words] : keywords)
      for (const std::string& word : words) {
        known.push_back(word);
        if (schema.contains(word)) conditioned.insert(type);
      }
    allow(schema, known);
    if (!schema.contains("type")) {
      if (conditioned.empty()) return any();
      types = conditioned;
    }
    std::vector<Expression> options;
    for (const std::string& type : types) {
      if (type == "null") options.push_back(text("null"));
      if (type == "boolean") options.push_back(choice({text("true"), text("false")}));
      if (type == "integer" && !types.contains("number"))
        options.push_back(here([&] { return json_integer(limits(schema, true)); }));
      if (type == "number") options.push_back(here([&] { return json_number(limits(schema, false)); }));
      if (type == "string") options.push_back(string(schema));
      if (type == "array") options.push_back(array(schema));
      if (type == "object") options.push_back(object(schema));
    }
    if (options.empty()) fail("no type is allowed");
    return choice(std::move(options));
  }

  // No condition: it holds of everything.
  static bool always_holds(const std::string& keyword, const Schema& condition) {
    if (keyword == "uniqueItems") return condition == false;
    if (keyword == "propertyNames")
      return condition == true || condition == Schema::object() || condition == Schema{{"type", "string"}};
    return false;
  }

  void allow(const Schema& schema, const std::vector<std::string>& known) const {
    for (const auto& [keyword, condition] : schema.items())
      if (!is_annotation(keyword) && std::find(known.begin(), known.end(), keyword) == known.end() &&
          !always_holds(keyword, condition))
        fail(fmt::format("'{}' is not known here", keyword));
  }

  Expression any() {
    if (any_ < 0) {
      any_ = add_rule("any value", {});
      define(any_, by_type(Schema{{"type", {"null", "boolean", "number", "string", "array", "object"}}}));
    }
    return call(any_);
  }

  Limits limits(const Schema& schema, bool whole) const {
    Limits result;
    const auto take = [&](const char* keyword, bool lower, bool outside) {
      if (!schema.contains(keyword)) return;
      if (!schema[keyword].is_number()) fail(fmt::format("{} is not a number", keyword));
      const double given = schema[keyword].get<double>();
      double used = given;
      bool excluded = outside;
      if (given != std::floor(given)) {
        if (!whole) fail(fmt::format("{} {}: only whole limits of numbers are known", keyword, given));
        used = lower ? std::ceil(given) : std::floor(given);
        excluded = false;
      }
      constexpr double beyond = 1e16;  // what numbers have digits for
      auto limit = static_cast<std::int64_t>(std::clamp(used, -beyond, beyond));
      // As it is written: above 2^53 not all integers are doubles.
      if (schema[keyword].is_number_integer() && std::abs(used) < beyond)
        limit = schema[keyword].get<std::int64_t>();
      auto& side = lower ? result.low : result.high;
      auto& open = lower ? result.above_low : result.below_high;
      const bool tighter = !side || (lower ? limit > *side : limit < *side);
      if (tighter)
        side = limit, open = excluded;
      else if (limit == *side)
        open = open || excluded;
    };
    take("minimum", true, false);
    take("exclusiveMinimum", true, true);
    take("maximum", false, false);
    take("exclusiveMaximum", false, true);
    return result;
  }

  // The value of a keyword that counts; nothing: it is not there.
  std::optional<std::int64_t> count(const Schema& schema, const char* keyword) const {
    if (!schema.contains(keyword)) return std::nullopt;
    const Schema& given = schema[keyword];
    if (!given.is_number_integer() || given < 0) fail(fmt::format("{} is not a count", keyword));
    if (given > most_count) fail(fmt::format("{} is more than {}", keyword, most_count));
    return given.get<std::int64_t>();
  }

  Expression quoted(Expression inside) const { return sequence({text("\""), std::move(inside), text("\"")}); }

  Expression string(const Schema& schema) {
    const auto least = count(schema, "minLength"), most = count(schema, "maxLength");
    if (most && *most < least.value_or(0)) fail("maxLength is below minLength");
    if (schema.contains("pattern")) {
      if (least || most) fail("a pattern with minLength or maxLength beside it is not known");
      if (!schema["pattern"].is_string()) fail("pattern is not a string");
      return quoted(here([&] { return string_with_pattern(schema["pattern"].get<std::string>()); }));
    }
    static const std::string date =
        "[1-9]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|"
        "1\\d|2[0-8]))";
    static const std::string time =
        "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
    static const std::map<std::string, std::string> formats{
        {"date", "^" + date + "$"},
        {"time", "^" + time + "$"},
        {"date-time", "^" + date + "T" + time + "$"},
        {"uuid", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}};
    if (schema.contains("format") && schema["format"].is_string()) {
      const auto known = formats.find(schema["format"].get<std::string>());
      if (known != formats.end() && !least && !most) return quoted(string_with_pattern(known->second));
    }
    return quoted(repeat(call(character_), least.value_or(0), most.value_or(-1)));
  }

  Expression array(const Schema& schema) {
    const std::int64_t least = count(schema, "minItems").value_or(0);
    const auto limit = count(schema, "maxItems");
    if (limit && *limit < least) fail("maxItems is below minItems");
    const Schema first = schema.contains("prefixItems") ? schema["prefixItems"] : Schema::array();
    const Schema others = schema.contains("items") ? schema["items"] : Schema(true);
    if (!first.is_array()) fail("prefixItems is not a list");
    auto fixed = static_cast<std::int64_t>(first.size());
    if (limit) fixed = std::min(fixed, *limit);
    std::int64_t most = limit.value_or(-1);
    if (others == false) most = most < 0 ? fixed : std::min(most, fixed);
    if (most >= 0 && most < least) fail("nothing is valid");
    // From the last to the first; each goes on with the next.
    Expression rest = text("");
    if (most < 0 || most > fixed) {
      const int item = add_rule("item", value(others, "items"));
      const auto more = [&](std::int64_t from, std::int64_t to) {
        return repeat(sequence({separator(), call(item)}), from, to);
      };
      if (fixed == 0) {
        Expression some =
            sequence({call(item), more(std::max<std::int64_t>(0, least - 1), most < 0 ? -1 : most - 1)});
        rest = least == 0 ? optional(std::move(some)) : std::move(some);
      } else {
        rest = more(std::max<std::int64_t>(0, least - fixed), most < 0 ? -1 : most - fixed);
      }
    }
    for (std::int64_t i = fixed; i-- > 0;) {
      std::vector<Expression> parts;
      if (i > 0) parts.push_back(separator());
      parts.push_back(value(first[static_cast<std::size_t>(i)], fmt::format("prefixItems/{}", i)));
      // A rule for each, or expressions would be nested as deep as there are items.
      parts.push_back(call(add_rule("items after", std::move(rest))));
      rest = sequence(std::move(parts));
      if (i >= least) rest = optional(std::move(rest));
    }
    return sequence({text("["), space(), std::move(rest), space(), text("]")});
  }

  struct Property {
    Expression pair;
    bool required;
  };

  Expression pair(Expression name, Expression of) const {
    return sequence({std::move(name), text(":"), space(), std::move(of)});
  }

  Expression object(const Schema& schema) {
    const Schema properties = schema.contains("properties") ? schema["properties"] : Schema::object();
    const Schema required = schema.contains("required") ? schema["required"] : Schema::array();
    if (!properties.is_object()) fail("properties is not an object");
    if (!required.is_array()) fail("required is not a list");
    if (required.size() > most_values) fail("too many properties are required");
    const Schema additional =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : Schema(properties.empty());
    std::vector<Property> all;
    std::vector<std::string> names;
    const auto add = [&](const std::string& name, const Schema& of, const std::string& step) {
      const bool needed = std::find(required.begin(), required.end(), Schema(name)) != required.end();
      if (of == false && !needed) return;
      all.push_back({pair(text(Schema(name).dump()), value(of, step)), needed});
    };
    for (const auto& [name, of] : properties.items()) {
      names.push_back(name);
      add(name, of, "properties/" + name);
    }
    for (const Schema& name : required) {
      if (!name.is_string()) fail("required has something that is not a string");
      if (properties.contains(name.get<std::string>())) continue;
      if (std::find(names.begin(), names.end(), name.get<std::string>()) != names.end()) continue;
      names.push_back(name.get<std::string>());
      add(names.back(), schema.contains("additionalProperties") ? additional : Schema(true),
          "required/" + names.back());
    }
    // What may follow, after something (behind a comma) and at the start.
    Expression following = text(""), leading = text("");
    if (additional != false) {
      for (const std::string& name : names)
        if (name.size() > longest_name) fail("a property with a long name beside additionalProperties");
      Expression name = names.empty() ? repeat(call(character_), 0, -1) : json_other_text(names);
      const int other = add_rule("other property",
                                 pair(quoted(std::move(name)), value(additional, "additionalProperties")));
      following = repeat(sequence({separator(), call(other)}), 0, -1);
      leading = optional(sequence({call(other), following}));
    }
    for (std::size_t i = all.size(); i-- > 0;) {
      auto& [own, needed] = all[i];
      const int single = add_rule("property", std::move(own)),
                after = add_rule("properties after", std::move(following)),
                without_it = needed ? -1 : add_rule("properties", std::move(leading));
      leading = sequence({call(single), call(after)});
      Expression behind = sequence({separator(), call(single)});
      if (needed) {
        following = sequence({std::move(behind), call(after)});
      } else {
        leading = choice({std::move(leading), call(without_it)});
        following = sequence({optional(std::move(behind)), call(after)});
      }
    }
    return sequence({text("{"), space(), std::move(leading), space(), text("}")});
  }

  const Schema& root_;
  Rules rules_;
  std::map<std::string, int> references_;
  std::vector<std::string> path_;
  std::size_t merged_ = 0;
  int space_ = 0, character_ = 0, any_ = -1, values_ = 0;
};

}  // namespace

Rules rules_of_schema(std::string_view schema) {
  if (schema.size() > most_text) throw FormatError("[json schema] a schema of more than 1 MiB");
  const auto check_depth = [](int depth, Schema::parse_event_t, const Schema&) {
    if (depth > 4 * most_schemas) throw FormatError("[json schema] the schema is nested too deep");
    return true;
  };
  const auto json = Schema::parse(schema, check_depth, false);
  if (json.is_discarded()) throw FormatError("[json schema] the schema is not JSON");
  return Compiler(json).take();
}

}  // namespace hearth::llm::grammar
