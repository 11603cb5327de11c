// str() and repr() of values.
#include <fmt/format.h>

#include "llm/template/interpreter.h"
#include "llm/template/numbers.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

void append_repr(Interpreter& in, const Value& value, std::string& out);

void append_items(Interpreter& in, const List& items, std::string& out) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(in, items[i], out);
  }
}

void append_repr(Interpreter& in, const Value& value, std::string& out) {
  in.budget().take(16);  // or so
  switch (value.kind()) {
    case Value::Kind::undefined:
      out += "Undefined";
      break;
    case Value::Kind::none:
      out += "None";
      break;
    case Value::Kind::boolean:
      out += value.boolean() ? "True" : "False";
      break;
    case Value::Kind::integer:
      out += integer_text(value.integer());
      break;
    case Value::Kind::real:
      out += real_text(value.real());
      break;
    case Value::Kind::text:
      in.budget().take(value.text().size());
      out += quote(value.text());
      break;
    case Value::Kind::markup:
      in.budget().take(value.text().size());
      out += fmt::format("Markup({})", quote(value.text()));
      break;
    case Value::Kind::list:
      out += '[';
      append_items(in, value.items(), out);
      out += ']';
      break;
    case Value::Kind::tuple:
      out += '(';
      append_items(in, value.items(), out);
      out += value.items().size() == 1 ? ",)" : ")";
      break;
    case Value::Kind::dict: {
      out += '{';
      bool first = true;
      for (const auto& [key, item] : value.dict().entries()) {
        if (!std::exchange(first, false)) out += ", ";
        append_repr(in, key, out);
        out += ": ";
        append_repr(in, item, out);
      }
      out += '}';
      break;
    }
    case Value::Kind::object:
      out += value.as()->repr(in);
      break;
  }
}

}  // namespace

std::string to_repr(Interpreter& in, const Value& value) {
  std::string out;
  append_repr(in, value, out);
  return out;
}

std::string to_text(Interpreter& in, const Value& value) {
  if (value.is_text()) {
    in.budget().take(value.text().size());
    return value.text();
  }
  return value.is_undefined() ? std::string() : to_repr(in, value);
}

Value to_soft_text(Interpreter& in, const Value& value) {
  return value.is_text() ? value : Value(to_text(in, value));
}

std::string escape(Interpreter& in, const Value& value) {
  if (value.is_markup()) return to_text(in, value);
  std::string out = escape_html(to_text(in, value));
  in.budget().take(out.size());
  return out;
}

}  // namespace hearth::jinja
