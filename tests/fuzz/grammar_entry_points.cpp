// Grammars and schemas of JSON, for fuzzing.
#include <stdexcept>
#include <string>

#include "fuzz/entry_points.h"
#include "hearth/grammar.h"
#include "llm/grammar/automaton.h"
#include "llm/grammar/matcher.h"

namespace hearth::fuzz {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// Goes where the grammar leads, by the first byte that it allows, or the last. A text can always go on or
// end.
void follow(const llm::Grammar& grammar, bool first) {
  llm::grammar::Matcher matcher(grammar.automaton());
  llm::grammar::Place place = matcher.start();
  std::string text;
  for (int step = 0; step < 200 && matcher.may_go_on(place); ++step) {
    llm::grammar::Place next = llm::grammar::nowhere;
    for (int i = 0; i < 256 && next == llm::grammar::nowhere; ++i) {
      const auto byte = static_cast<std::uint8_t>(first ? i : 255 - i);
      next = matcher.step(place, byte);
      if (next != llm::grammar::nowhere) text += static_cast<char>(byte);
    }
    require(next != llm::grammar::nowhere, "a place from which nothing leads on");
    place = next;
  }
  require(matcher.may_end(place) || matcher.may_go_on(place), "a text goes on or ends");
  require(grammar.matches(text) == matcher.may_end(place), "the same text, read again");
}

void use(const llm::Grammar& grammar) {
  follow(grammar, true);
  follow(grammar, false);
  for (const char* text : {"", "a", "{}", "[1, \"x\"]"}) (void)grammar.matches(text);
}

}  // namespace

void grammar(io::Bytes file) { use(llm::Grammar::parse(io::as_text(file))); }
void json_schema(io::Bytes file) { use(llm::Grammar::from_json_schema(io::as_text(file))); }

}  // namespace hearth::fuzz
