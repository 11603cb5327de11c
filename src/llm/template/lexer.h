// A template cut into tokens, with white space already taken off where tags ask for it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "llm/template/value.h"

namespace hearth::jinja {

struct Token {
  enum class Kind {
    data,            // text outside of tags
    variable_begin,  // {{
    variable_end,
    block_begin,  // {%
    block_end,
    name,
    string,
    number,
    symbol,  // an operator or a bracket
    end,     // of the template
  };
  Kind kind;
  std::string text;   // of data and strings: what they stand for; else as written
  std::size_t line;   // from 1
  Value number = {};  // of a number

  bool is(Kind k) const { return kind == k; }
  bool is_symbol(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
  bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
  // For messages.
  std::string describe() const;
};

// Trims as Jinja does with trim_blocks and lstrip_blocks set: the line end after a block goes, and so does
// the white space before a block that begins a line. Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace hearth::jinja
