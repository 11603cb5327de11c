// Python's two ways to format: "%s and %d" % (a, b), and "{} and {:d}".format(a, b).
#pragma once

#include "llm/template/object.h"

namespace hearth::jinja {

// A marked format escapes what it prints, and its result is marked.
Value format_percent(Interpreter& in, const Value& format, const Value& arguments);
Value format_braces(Interpreter& in, const Value& format, const Arguments& arguments);
// format(value, specification)
std::string format_value(Interpreter& in, const Value& value, std::string_view specification);

}  // namespace hearth::jinja
