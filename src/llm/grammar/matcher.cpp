// Stepping through automata.
#include "llm/grammar/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hearth/error.h"

namespace hearth::llm::grammar {
namespace {

constexpr std::int32_t root_frame = 0, unknown_frame = 1;
constexpr std::size_t most_configurations = 10000;  // of one place
constexpr std::size_t much = 100000;                // places or frames
constexpr std::size_t many = 4000000;               // configurations of all places
constexpr std::size_t closing_work = 32;            // for a configuration; for an edge that is looked at, 1

}  // namespace

Matcher::Matcher(const Automaton& automaton) : automaton_(automaton) {
  clear();
  start_ = close({{automaton.starts[index(automaton.root)], root_frame}});
}

void Matcher::clear() {
  frames_ = {{-1, -1}, {-1, -1}};
  frame_numbers_.clear();
  places_.clear();
  steps_.clear();
  place_numbers_.clear();
  held_ = 0;
  close({});  // nowhere
}

void Matcher::spend(std::size_t work) {
  if (work > work_left_)
    throw Error("[grammar] there are too many ways to go on with the text: the grammar is too ambiguous");
  work_left_ -= work;
}

std::int32_t Matcher::frame(std::int32_t state, std::int32_t parent) {
  const std::uint64_t key = static_cast<std::uint64_t>(state) << 32 | static_cast<std::uint32_t>(parent);
  const auto [at, added] = frame_numbers_.try_emplace(key, static_cast<std::int32_t>(frames_.size()));
  if (added) frames_.push_back({state, parent});
  return at->second;
}

Place Matcher::close(std::vector<Configuration> open) {
  Content content;
  std::set<Configuration> seen(open.begin(), open.end());
  const auto push = [&](const Configuration& configuration) {
    if (!seen.insert(configuration).second) return;
    if (seen.size() > most_configurations)
      throw Error(
          fmt::format("[grammar] there are more than {} ways to read the text so far: the grammar is "
                      "too ambiguous",
                      most_configurations));
    open.push_back(configuration);
  };
  while (!open.empty()) {
    const auto [at, within] = open.back();
    open.pop_back();
    const State& state = automaton_.states[index(at)];
    spend(closing_work * (1 + state.jumps.size() + state.calls.size()));
    if (!state.edges.empty()) content.configurations.push_back({at, within});
    for (const std::int32_t to : state.jumps) push({to, within});
    for (const State::Call& called : state.calls) {
      // A call that is the last thing its rule does returns where the rule itself does.
      const bool last = automaton_.states[index(called.after)].only_final();
      push({automaton_.starts[index(called.rule)], last ? within : frame(called.after, within)});
    }
    if (!state.final) continue;
    if (within == root_frame)
      content.may_end = true;
    else if (within == unknown_frame)
      content.leaves = true;
    else
      push({frames_[index(within)].state, frames_[index(within)].parent});
  }
  std::sort(content.configurations.begin(), content.configurations.end());
  return number_of(std::move(content));
}

Place Matcher::number_of(Content content) {
  const int flags = (content.may_end ? 1 : 0) + (content.leaves ? 2 : 0);
  const auto [number, added] =
      place_numbers_.try_emplace({content.configurations, flags}, static_cast<Place>(places_.size()));
  if (added) {
    held_ += content.configurations.size();
    places_.push_back(std::move(content));
    steps_.resize(steps_.size() + index(automaton_.byte_classes), -1);
  }
  return number->second;
}

Place Matcher::step(Place place, std::uint8_t byte) {
  const std::size_t known = index(place) * index(automaton_.byte_classes) + automaton_.byte_class[byte];
  if (steps_[known] >= 0) return steps_[known];
  std::vector<Configuration> next;
  for (const auto& [state, within] : places_[index(place)].configurations) {
    const std::vector<State::Edge>& edges = automaton_.states[index(state)].edges;
    spend(edges.size());
    for (const State::Edge& edge : edges)
      if (edge.first <= byte && byte <= edge.last) next.push_back({edge.to, within});
  }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  const Place result = close(std::move(next));
  steps_[known] = result;
  return result;
}

Place Matcher::step(Place place, std::string_view bytes) {
  for (const char byte : bytes) {
    if (place == nowhere) break;
    place = step(place, static_cast<std::uint8_t>(byte));
  }
  return place;
}

Place Matcher::lonely(std::int32_t state) { return close({{state, unknown_frame}}); }

Place Matcher::forget_all_but(Place place) {
  if (places_.size() < much && frames_.size() < much && held_ < many) return place;
  const std::vector<Frame> old = std::move(frames_);
  const Content kept = places_[index(place)];
  clear();
  start_ = close({{automaton_.starts[index(automaton_.root)], root_frame}});
  // Frames are made again from the outermost in; a frame's parent has a smaller number.
  std::vector<bool> needed(old.size());
  for (const Configuration& c : kept.configurations) needed[index(c.frame)] = true;
  for (std::size_t i = old.size(); i-- > 2;)
    if (needed[i]) needed[index(old[i].parent)] = true;
  std::vector<std::int32_t> numbers{root_frame, unknown_frame};
  for (std::size_t i = 2; i < old.size(); ++i)
    numbers.push_back(needed[i] ? frame(old[i].state, numbers[index(old[i].parent)]) : -1);
  // What the configurations reach at no cost is among them.
  Content moved{{}, kept.may_end, kept.leaves};
  for (const Configuration& c : kept.configurations)
    moved.configurations.push_back({c.state, numbers[index(c.frame)]});
  std::sort(moved.configurations.begin(), moved.configurations.end());
  return number_of(std::move(moved));
}

}  // namespace hearth::llm::grammar
