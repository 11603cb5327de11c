// Regular expressions, for strings of JSON.
#pragma once

#include <string_view>

#include "llm/grammar/expression.h"

namespace hearth::llm::grammar {

// What is between the quotes of a string that a pattern of ECMA 262 is found in. Look-around, back-references
// and \b are not known; classes like \w are ASCII. Throws ValueError saying what is wrong, without a prefix.
Expression string_with_pattern(std::string_view pattern);

}  // namespace hearth::llm::grammar
