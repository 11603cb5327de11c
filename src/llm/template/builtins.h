// The functions of the language, by name.
#pragma once

#include <span>
#include <string_view>

#include "llm/template/object.h"

namespace hearth::jinja {

// Null where there is none of that name. In filters and tests the subject is what stands before `|` and `is`.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
const Builtin* find_method(const Value& subject, std::string_view name);

// The tables they look into, one per file.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> lookup_filters();
std::span<const Builtin> value_filters();
std::span<const Builtin> tests();
std::span<const Builtin> globals();
std::span<const Builtin> text_methods();
std::span<const Builtin> list_methods();
std::span<const Builtin> tuple_methods();
std::span<const Builtin> dict_methods();

// What methods and filters share.
Value replaced(Interpreter& in, const Value& text, std::string_view old, std::string_view with,
               std::size_t limit);
Value padded(Interpreter& in, const Value& text, Integer width, char align, std::string_view fill);
// Some letter is of this case, and none of another.
bool all_cased(std::string_view text, bool (*is)(char32_t));

}  // namespace hearth::jinja
