// Grammars: what the text of a language model must look like.
//
//   session.generate(prompt, {.grammar = llm::Grammar::from_json_schema(R"({"type": "integer"})")});
#pragma once

#include <memory>
#include <string_view>

namespace hearth::llm {

namespace grammar {
struct Automaton;
}

// Immutable and cheap to copy; may be used from several threads at once.
class Grammar {
 public:
  // Rules in the notation of GBNF:
  //
  //   root   ::= answer ("," " "? answer){0,3}     # begins with `root`
  //   answer ::= "yes" | "no" | [0-9]+
  //
  // Throws FormatError with line and column for a text that is not that, and naming the rule for one that
  // begins with itself, never ends, or repeats more than 2^18 things.
  static Grammar parse(std::string_view gbnf);

  // JSON that is valid by a schema, itself a text of JSON; "{}" is any JSON. Everything that matches is
  // valid; of what is valid not everything matches: properties come in the order of the schema, further ones
  // only where `additionalProperties` allows them (or there are no `properties`), between parts there is
  // little white space, numbers have up to 16 digits on each side of the point.
  //
  // Known are type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems,
  // maxItems, minLength, maxLength, pattern (without look-around and back-references), format (date, time,
  // date-time, uuid), minimum, maximum, exclusiveMinimum, exclusiveMaximum (of numbers that are not integers:
  // whole ones), anyOf, oneOf (of alternatives that cannot hold together), allOf, $ref within the schema.
  // Throws FormatError naming the place and the keyword for any other one that would be a condition; those
  // that begin with x- are none.
  static Grammar from_json_schema(std::string_view schema);

  // Whether a whole text is as it should be. Throws Error where there are too many ways to read it.
  bool matches(std::string_view text) const;

  // For the library itself.
  const grammar::Automaton& automaton() const { return *automaton_; }

 private:
  explicit Grammar(std::shared_ptr<const grammar::Automaton> automaton);
  std::shared_ptr<const grammar::Automaton> automaton_;
};

}  // namespace hearth::llm
