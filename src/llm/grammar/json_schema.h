// Schemas of JSON as rules (hearth/grammar.h says what is known of them).
#pragma once

#include <string_view>

#include "llm/grammar/expression.h"

namespace hearth::llm::grammar {

// Throws FormatError naming the place in the schema.
Rules rules_of_schema(std::string_view schema);

}  // namespace hearth::llm::grammar
