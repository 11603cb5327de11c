// Readers of each value are found in one pass over the graph; then values are looked at in graph order. What
// one is computed from must stay in memory, so that of two, one from the other, only the first is computed
// again.
#include "plan/recomputed.h"

#include <algorithm>
#include <map>
#include <set>

namespace hearth {
namespace {

class Recomputer {
 public:
  Recomputer(const LinearGraph& graph, const Backend& backend, Drafts& drafts, Grouping& grouping)
      : graph_(graph), backend_(backend), drafts_(drafts), grouping_(grouping) {}

  void run() {
    find_readers();
    for (const auto& [node, readers] : readers_)
      if (fits(node, readers)) compute_again(node, readers);
  }

 private:
  // Of a value: how often its own group reads it, and how often each other one.
  struct Readers {
    std::uint32_t inside = 0;
    std::map<std::int32_t, std::uint32_t> groups;
    bool elementwise = true;  // all of them are
  };

  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t canonical(std::uint32_t node) const { return drafts_.canonical[node]; }
  std::int32_t group_of(std::uint32_t node) const { return grouping_.group_of[node]; }
  Group& group(std::int32_t index) { return grouping_.groups[static_cast<std::size_t>(index)]; }

  void find_readers() {
    const auto size = static_cast<std::uint32_t>(graph_.nodes.size());
    for (auto output : graph_.outputs) note(canonical(output), -1);
    for (std::uint32_t node = 0; node < size; ++node) {
      if (canonical(node) != node || drafts_.uses[node] == 0) continue;
      for (auto edge : graph_.inputs_of(node)) {
        const auto input = canonical(edge);
        const bool alike = is_elementwise(graph_.ops[node]) && at(node).shape == at(input).shape;
        note(input, alike ? group_of(node) : -1);
      }
    }
  }

  void note(std::uint32_t input, std::int32_t reader) {
    if (!is_elementwise(graph_.ops[input]) || group_of(input) < 0) return;
    Readers& readers = readers_[input];
    if (reader < 0)
      readers.elementwise = false;
    else if (reader == group_of(input))
      ++readers.inside;
    else
      ++readers.groups[reader];
  }

  // Its own group must read it, too: then nothing is left of it there but an instruction.
  bool fits(std::uint32_t node, const Readers& readers) {
    if (!readers.elementwise || readers.inside == 0 || readers.groups.empty() ||
        !backend_.recomputes(at(node).dtype))
      return false;
    for (auto edge : graph_.inputs_of(node)) {
      const auto operand = canonical(edge);
      if (graph_.ops[operand] == Op::constant) continue;
      if (again_.contains(operand) || at(operand).shape != at(node).shape) return false;
      for (const auto& [reader, count] : readers.groups)
        if (!reads(reader, operand)) return false;
    }
    return std::all_of(readers.groups.begin(), readers.groups.end(), [&](const auto& reader) {
      const Group& found = group(reader.first);
      return found.members.size() + found.again.size() < max_members && takes(found, node);
    });
  }

  // Behind a product only what it had better go on with, or nothing worse than what it goes on with anyway.
  bool takes(const Group& reader, std::uint32_t node) const {
    if (reader.anchor < 0) return true;
    const auto anchor = static_cast<std::uint32_t>(reader.anchor);
    const auto goes_on = [&](std::uint32_t with) {
      return backend_.fuses_epilogue(graph_.ops[anchor], at(anchor).dtype, graph_.ops[with]);
    };
    return goes_on(node) || !std::all_of(reader.members.begin(), reader.members.end(), goes_on);
  }

  // Whether a group has an operand, from elsewhere, in the shape in which it was computed.
  bool reads(std::int32_t index, std::uint32_t operand) {
    if (group_of(operand) == index) return false;
    const auto& members = group(index).members;
    return std::any_of(members.begin(), members.end(), [&](std::uint32_t member) {
      const auto edges = graph_.inputs_of(member);
      return at(member).shape == at(operand).shape &&
             std::any_of(edges.begin(), edges.end(), [&](auto edge) { return canonical(edge) == operand; });
    });
  }

  void compute_again(std::uint32_t node, const Readers& readers) {
    for (const auto& [reader, count] : readers.groups) {
      group(reader).again.push_back(node);
      drafts_.uses[node] -= count;
    }
    again_.insert(node);
  }

  const LinearGraph& graph_;
  const Backend& backend_;
  Drafts& drafts_;
  Grouping& grouping_;
  std::map<std::uint32_t, Readers> readers_;  // per elementwise value, in graph order
  std::set<std::uint32_t> again_;
};

}  // namespace

void recompute_values(const LinearGraph& graph, const Backend& backend, Drafts& drafts, Grouping& grouping) {
  // A backend that stores these stores all.
  if (backend.recomputes(DType::f32)) Recomputer(graph, backend, drafts, grouping).run();
}

}  // namespace hearth
