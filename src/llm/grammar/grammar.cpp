// Grammars as users see them.
#include "hearth/grammar.h"

#include <utility>

#include "llm/grammar/automaton.h"
#include "llm/grammar/gbnf.h"
#include "llm/grammar/json_schema.h"
#include "llm/grammar/matcher.h"

namespace hearth::llm {

Grammar::Grammar(std::shared_ptr<const grammar::Automaton> automaton) : automaton_(std::move(automaton)) {}

Grammar Grammar::parse(std::string_view gbnf) {
  return Grammar(std::make_shared<grammar::Automaton>(make_automaton(grammar::parse_gbnf(gbnf))));
}

Grammar Grammar::from_json_schema(std::string_view schema) {
  return Grammar(std::make_shared<grammar::Automaton>(make_automaton(grammar::rules_of_schema(schema))));
}

bool Grammar::matches(std::string_view text) const {
  grammar::Matcher matcher(*automaton_);
  grammar::Place place = matcher.start();
  for (const char byte : text)
    place = matcher.forget_all_but(matcher.step(place, static_cast<std::uint8_t>(byte)));
  return matcher.may_end(place);
}

}  // namespace hearth::llm
