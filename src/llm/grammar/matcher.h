// Reading a text by an automaton, byte by byte, along all ways at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/grammar/automaton.h"

namespace hearth::llm::grammar {

// A state, and the calls it is in: frame 0 is that of the root rule, others say where a rule goes on.
struct Configuration {
  std::int32_t state, frame;
  friend auto operator<=>(const Configuration&, const Configuration&) = default;
};

// Where a text can be. Those with the same configurations have the same number.
using Place = std::int32_t;
inline constexpr Place nowhere = 0;

// Remembers every step it ever took. Not for several threads.
class Matcher {
 public:
  explicit Matcher(const Automaton& automaton);  // which must outlive it

  Place start() const { return start_; }
  // `nowhere`: no text goes on like that. Throws Error where there are too many ways to read the text.
  Place step(Place place, std::uint8_t byte);
  Place step(Place place, std::string_view bytes);
  bool may_end(Place place) const { return places_[index(place)].may_end; }
  bool may_go_on(Place place) const { return !places_[index(place)].configurations.empty(); }
  const std::vector<Configuration>& configurations(Place place) const {
    return places_[index(place)].configurations;
  }

  // A state alone, in a call nobody knows: the rule may leave it for any place.
  Place lonely(std::int32_t state);
  // Whether the text may have left the rule of the lonely() state that it began in.
  bool leaves(Place place) const { return places_[index(place)].leaves; }

  // Bounds the work until it is allowed again: steps that were not taken before, and what others spend.
  void allow_work(std::size_t work) { work_left_ = work; }
  // Throws Error where less is left.
  void spend(std::size_t work);

  // Forgets all but this place, once much is remembered; its number is another one then.
  Place forget_all_but(Place place);

 private:
  struct Frame {
    std::int32_t state, parent;
  };
  struct Content {
    std::vector<Configuration> configurations;  // those with edges
    bool may_end = false, leaves = false;
  };
  static std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }
  void clear();
  std::int32_t frame(std::int32_t state, std::int32_t parent);
  // The place of these and all that they reach at no cost.
  Place close(std::vector<Configuration> open);
  Place number_of(Content content);

  const Automaton& automaton_;
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, std::int32_t> frame_numbers_;
  std::vector<Content> places_;
  std::vector<Place> steps_;  // byte_classes of each place; -1: not taken yet
  std::map<std::pair<std::vector<Configuration>, int>, Place> place_numbers_;
  Place start_ = nowhere;
  std::size_t held_ = 0;  // configurations of all places
  std::size_t work_left_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace hearth::llm::grammar
