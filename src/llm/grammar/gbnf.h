// Grammars as text, in the notation of llama.cpp's GBNF.
#pragma once

#include <string_view>

#include "llm/grammar/expression.h"

namespace hearth::llm::grammar {

// Throws FormatError with line and column.
Rules parse_gbnf(std::string_view text);

}  // namespace hearth::llm::grammar
