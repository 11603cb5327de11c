// Rules to state machines over bytes, and what must hold of them.
#include "llm/grammar/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>

#include "base/unicode.h"
#include "hearth/error.h"

namespace hearth::llm::grammar {
namespace {

constexpr std::size_t most_states = std::size_t{1} << 18, most_transitions = std::size_t{1} << 20;

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

class Builder {
 public:
  explicit Builder(const Rules& rules) {
    automaton_.root = rules.root;
    for (const Rule& rule : rules.all) {
      name_ = &rule.name;
      const std::int32_t start = fresh(), end = fresh();
      automaton_.states[static_cast<std::size_t>(end)].final = true;
      automaton_.starts.push_back(start);
      build(rule.expression, start, end);
    }
  }

  Automaton take() { return std::move(automaton_); }

 private:
  std::int32_t fresh() {
    if (automaton_.states.size() >= most_states) too_large(most_states, "states");
    automaton_.states.emplace_back();
    return static_cast<std::int32_t>(automaton_.states.size()) - 1;
  }
  // A state that gets one more edge, jump or call.
  State& leaving(std::int32_t state) {
    if (++transitions_ > most_transitions) too_large(most_transitions, "transitions");
    return automaton_.states[index(state)];
  }
  void edge(std::int32_t from, std::int32_t to, std::uint8_t first, std::uint8_t last) {
    leaving(from).edges.push_back({first, last, to});
  }
  void jump(std::int32_t from, std::int32_t to) { leaving(from).jumps.push_back(to); }

  [[noreturn]] void too_large(std::size_t most, const char* what) const {
    throw FormatError(
        fmt::format("[grammar] rule '{}': the grammar is too large; repetitions count as often as they may "
                    "come ({} {} are possible)",
                    *name_, most, what));
  }

  // Ways from `from` to `to`. Adds nothing that leads into `from` or out of `to`, so that both can be shared.
  void build(const Expression& e, std::int32_t from, std::int32_t to) {
    switch (e.kind) {
      case Expression::Kind::text:
        if (e.text.empty()) jump(from, to);
        for (std::size_t i = 0; i < e.text.size(); ++i) {
          const std::int32_t next = i + 1 < e.text.size() ? fresh() : to;
          edge(from, next, static_cast<std::uint8_t>(e.text[i]), static_cast<std::uint8_t>(e.text[i]));
          from = next;
        }
        break;
      case Expression::Kind::points:
        for (const PointRange& range : e.points) build_points(range, from, to);
        break;
      case Expression::Kind::sequence:
        if (e.parts.empty()) jump(from, to);
        for (std::size_t i = 0; i < e.parts.size(); ++i) {
          const std::int32_t next = i + 1 < e.parts.size() ? fresh() : to;
          build(e.parts[i], from, next);
          from = next;
        }
        break;
      case Expression::Kind::choice:
        for (const Expression& part : e.parts) build(part, from, to);
        break;
      case Expression::Kind::repeat:
        build_repeat(e, from, to);
        break;
      case Expression::Kind::call:
        leaving(from).calls.push_back({e.rule, to});
        break;
    }
  }

  void build_repeat(const Expression& e, std::int32_t from, std::int32_t to) {
    const Expression& part = e.parts[0];
    for (std::int64_t i = 0; i < e.least; ++i) {
      const std::int32_t next = fresh();
      build(part, from, next);
      from = next;
    }
    if (e.most < 0) {
      const std::int32_t loop = fresh();
      jump(from, loop);
      build(part, loop, loop);
      jump(loop, to);
      return;
    }
    for (std::int64_t i = e.least; i < e.most; ++i) {
      const std::int32_t next = fresh();
      jump(from, to);
      build(part, from, next);
      from = next;
    }
    jump(from, to);
  }

  // Code points of one length in UTF-8 are a range of strings of bytes.
  void build_points(const PointRange& range, std::int32_t from, std::int32_t to) {
    for (const PointRange& length : {PointRange{0, 0x7f}, PointRange{0x80, 0x7ff}, PointRange{0x800, 0xffff},
                                     PointRange{0x10000, 0x10ffff}}) {
      const char32_t first = std::max(range.first, length.first), last = std::min(range.last, length.last);
      if (first > last) continue;
      std::string low, high;
      unicode::append(low, first);
      unicode::append(high, last);
      build_strings(low, high, from, to);
    }
  }

  // Strings from `low` to `high`, of one length; all but the first bytes are 80 to BF.
  void build_strings(std::string_view low, std::string_view high, std::int32_t from, std::int32_t to) {
    auto a = static_cast<std::uint8_t>(low[0]), b = static_cast<std::uint8_t>(high[0]);
    if (low.size() == 1) return edge(from, to, a, b);
    const auto through = [&](std::uint8_t first, std::uint8_t last, std::string_view rest_low,
                             std::string_view rest_high) {
      const std::int32_t next = fresh();
      edge(from, next, first, last);
      build_strings(rest_low, rest_high, next, to);
    };
    const std::string lowest(low.size() - 1, '\x80'), highest(low.size() - 1, '\xbf');
    low.remove_prefix(1);
    high.remove_prefix(1);
    if (a == b) return through(a, b, low, high);
    if (low != lowest) through(a, a, low, highest), ++a;
    if (high != highest) through(b, b, lowest, high), --b;
    if (a <= b) through(a, b, lowest, highest);
  }

  const std::string* name_ = nullptr;
  std::size_t transitions_ = 0;
  Automaton automaton_;
};

// States from which the end of their rule can be reached: by jumps and calls, and by edges if wanted.
std::vector<bool> ending_states(const Automaton& a, bool edges) {
  struct Waiting {  // `from` ends if both others do
    std::int32_t from, start, after;
  };
  std::vector<std::vector<std::int32_t>> before(a.states.size());
  std::vector<std::vector<Waiting>> waiting(a.states.size());
  std::vector<bool> ends(a.states.size());
  std::vector<std::int32_t> open;
  const auto mark = [&](std::int32_t state) {
    if (!ends[index(state)]) ends[index(state)] = true, open.push_back(state);
  };
  for (std::int32_t from = 0; from < static_cast<std::int32_t>(a.states.size()); ++from) {
    const State& state = a.states[index(from)];
    for (const std::int32_t to : state.jumps) before[index(to)].push_back(from);
    if (edges)
      for (const State::Edge& edge : state.edges) before[index(edge.to)].push_back(from);
    for (const State::Call& called : state.calls) {
      const Waiting both{from, a.starts[index(called.rule)], called.after};
      waiting[index(both.start)].push_back(both);
      waiting[index(both.after)].push_back(both);
    }
    if (state.final) mark(from);
  }
  while (!open.empty()) {
    const std::size_t state = index(open.back());
    open.pop_back();
    for (const std::int32_t from : before[state]) mark(from);
    for (const Waiting& both : waiting[state])
      if (ends[index(both.start)] && ends[index(both.after)]) mark(both.from);
  }
  return ends;
}

// For each rule, those that it may begin with.
std::vector<std::vector<std::int32_t>> first_calls(const Automaton& a) {
  const std::vector<bool> ends = ending_states(a, false);
  std::vector<std::vector<std::int32_t>> first(a.starts.size());
  std::vector<bool> seen(a.states.size());  // rules have no state in common
  for (std::size_t rule = 0; rule < first.size(); ++rule) {
    std::vector<std::int32_t> open{a.starts[rule]};
    while (!open.empty()) {
      const std::size_t at = index(open.back());
      open.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      const State& state = a.states[at];
      open.insert(open.end(), state.jumps.begin(), state.jumps.end());
      for (const State::Call& called : state.calls) {
        first[rule].push_back(called.rule);
        if (ends[index(a.starts[index(called.rule)])]) open.push_back(called.after);
      }
    }
  }
  return first;
}

void check_left_recursion(const Automaton& a, const Rules& rules) {
  const auto first = first_calls(a);
  // Rules that begin only with rules that are fine are fine. What is left leads round in circles.
  std::vector<std::vector<std::int32_t>> callers(first.size());
  std::vector<std::size_t> missing(first.size());
  std::vector<std::int32_t> open;
  for (std::size_t rule = 0; rule < first.size(); ++rule) {
    for (const std::int32_t other : first[rule])
      callers[index(other)].push_back(static_cast<std::int32_t>(rule));
    missing[rule] = first[rule].size();
    if (missing[rule] == 0) open.push_back(static_cast<std::int32_t>(rule));
  }
  while (!open.empty()) {
    const std::size_t rule = index(open.back());
    open.pop_back();
    for (const std::int32_t caller : callers[rule])
      if (--missing[index(caller)] == 0) open.push_back(caller);
  }
  const auto bad = std::find_if(missing.begin(), missing.end(), [](std::size_t count) { return count > 0; });
  if (bad == missing.end()) return;
  std::vector<bool> passed(first.size());
  std::vector<std::int32_t> path;
  auto rule = static_cast<std::int32_t>(bad - missing.begin());
  while (!passed[index(rule)]) {
    passed[index(rule)] = true;
    path.push_back(rule);
    rule = *std::find_if(first[index(rule)].begin(), first[index(rule)].end(),
                         [&](std::int32_t other) { return missing[index(other)] > 0; });
  }
  std::string circle;
  for (auto at = std::find(path.begin(), path.end(), rule); at != path.end(); ++at)
    circle += rules.all[index(*at)].name + " -> ";
  throw FormatError(
      fmt::format("[grammar] a rule begins with itself: {}{}; put what it repeats first, or use * and +",
                  circle, rules.all[index(rule)].name));
}

void classify_bytes(Automaton& a) {
  std::bitset<257> begins;  // a class begins here
  for (const State& state : a.states)
    for (const State::Edge& edge : state.edges) begins.set(edge.first), begins.set(edge.last + 1u);
  int current = 0;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins.test(byte)) ++current;
    a.byte_class[byte] = static_cast<std::uint8_t>(current);
  }
  a.byte_classes = current + 1;
}

}  // namespace

Automaton make_automaton(const Rules& rules) {
  Automaton a = Builder(rules).take();
  const std::vector<bool> ends = ending_states(a, true);
  for (std::size_t rule = 0; rule < a.starts.size(); ++rule)
    if (!ends[index(a.starts[rule])])
      throw FormatError(fmt::format("[grammar] rule '{}' never ends", rules.all[rule].name));
  check_left_recursion(a, rules);
  classify_bytes(a);
  return a;
}

}  // namespace hearth::llm::grammar
