// JSON.
#include "llm/template/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/unicode.h"
#include "llm/template/interpreter.h"
#include "llm/template/numbers.h"
#include "llm/template/operators.h"

namespace hearth::jinja {
namespace {

const std::string& checked_text(const std::string& text) {
  if (!unicode::is_valid(text)) throw Failure("a text that is not UTF-8");
  return text;
}

Value from_json_at(const nlohmann::ordered_json& json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > deepest_value) throw Failure("lists or dicts are nested too deeply");
  switch (json.type()) {
    case Type::null:
      return {};
    case Type::boolean:
      return json.get<bool>();
    case Type::number_integer:
      return json.get<std::int64_t>();
    case Type::number_unsigned:
      return json.get<std::uint64_t>();
    case Type::number_float:
      return json.get<double>();
    case Type::string:
      return checked_text(json.get_ref<const std::string&>());
    case Type::array: {
      List items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json_at(item, depth + 1));
      return Value::list(std::move(items));
    }
    case Type::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, value] : json.items())
        dict->add(checked_text(key), from_json_at(value, depth + 1));
      return std::shared_ptr<const Dict>(std::move(dict));
    }
    default:
      throw Failure("a value of JSON that is neither text nor a number, list or object");
  }
}

class JsonWriter {
 public:
  JsonWriter(Interpreter& in, const JsonStyle& style) : in_(in), style_(style) {}

  std::string run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const Value& value, std::size_t level) {
    in_.budget().spend(1);
    switch (value.kind()) {
      case Value::Kind::none:
        return put("null");
      case Value::Kind::boolean:
        return put(value.boolean() ? "true" : "false");
      case Value::Kind::integer:
        return put(integer_text(value.integer()));
      case Value::Kind::real:
        return put(number(value.real()));
      case Value::Kind::text:
      case Value::Kind::markup:
        return string(value.text());
      case Value::Kind::list:
      case Value::Kind::tuple:
        return list(value.items(), level);
      case Value::Kind::dict:
        return dict(value.dict(), level);
      default:
        throw Failure(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
    }
  }

  void list(const List& items, std::size_t level) {
    if (items.empty()) return put("[]");
    put("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      separate(i, level + 1);
      write(items[i], level + 1);
    }
    new_line(level);
    put("]");
  }

  void dict(const Dict& dict, std::size_t level) {
    if (dict.size() == 0) return put("{}");
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return ordered(in_.budget(), Comparison::less, a->first, b->first);
      });
    put("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i, level + 1);
      string(key(entries[i]->first));
      put(style_.key_separator);
      write(entries[i]->second, level + 1);
    }
    new_line(level);
    put("}");
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return real_text(value);
  }

  static std::string key(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none()) return "null";
    if (key.is_boolean()) return key.boolean() ? "true" : "false";
    if (key.is_integer()) return integer_text(key.integer());
    if (key.is_real()) return number(key.real());
    throw Failure(fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name()));
  }

  void string(std::string_view text) {
    std::string quoted = "\"";
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = at;
      const char32_t point = unicode::next(text, at);
      static constexpr std::string_view special = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";
      const auto found = point < 0x80 ? special.find(static_cast<char>(point)) : special.npos;
      if (found != special.npos)
        (quoted += '\\') += letters[found];
      else if (point < 0x20 || (style_.ascii_only && point > 0x7e))
        escape(quoted, point);
      else
        quoted += text.substr(begin, at - begin);
    }
    put(quoted += '"');
  }

  static void escape(std::string& out, char32_t point) {
    const auto unit = [&](std::uint32_t value) { out += fmt::format("\\u{:04x}", value); };
    if (point < 0x10000) {
      unit(point);
    } else {
      unit(0xd800 + ((point - 0x10000) >> 10));
      unit(0xdc00 + ((point - 0x10000) & 0x3ff));
    }
  }

  void separate(std::size_t i, std::size_t level) {
    if (i > 0) put(style_.item_separator);
    new_line(level);
  }

  void new_line(std::size_t level) {
    if (!style_.indent) return;
    put("\n");
    for (; level > 0; --level) put(*style_.indent);
  }

  void put(std::string_view text) {
    in_.budget().take(text.size());
    out_ += text;
  }

  Interpreter& in_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

Value from_json(const nlohmann::ordered_json& json) { return from_json_at(json, 1); }

std::string to_json(Interpreter& in, const Value& value, const JsonStyle& style) {
  return JsonWriter(in, style).run(value);
}

}  // namespace hearth::jinja
