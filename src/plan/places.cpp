// From lifetimes to memory.
#include "plan/places.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "plan/memory.h"

namespace hearth {
namespace {

class Placer {
 public:
  Placer(const LinearGraph& graph, const Drafts& drafts, const std::vector<std::size_t>& scratch_bytes,
         const std::vector<Replacement>& replacements, Plan& plan)
      : graph_(graph),
        drafts_(drafts),
        scratch_bytes_(scratch_bytes),
        replacements_(replacements),
        plan_(plan) {}

  Placement run() {
    // The roots of the results get buffers of their own; everything else lives in the arena.
    std::vector<std::int64_t> output_of(roots(), -1);
    for (auto output : graph_.outputs) {
      const auto root = drafts_.values[drafts_.canonical[output]].root;
      if (graph_.ops[root] == Op::value || output_of[root] >= 0) continue;
      output_of[root] = static_cast<std::int64_t>(plan_.output_bytes.size());
      plan_.output_bytes.push_back(bytes_of(root));
    }

    std::vector<std::uint32_t> last_use(roots(), 0);
    for (std::uint32_t step = 0; step < drafts_.steps.size(); ++step)
      for (const auto& input : drafts_.steps[step].inputs) last_use[input.root] = step;

    find_donors(output_of, last_use);

    std::vector<MemoryRequest> requests;
    std::vector<std::int64_t> request_of(roots(), -1);
    std::vector<std::int64_t> scratch_request;  // per step
    std::unordered_set<std::int64_t> taken;     // requests whose memory has been taken over
    for (std::uint32_t step = 0; step < drafts_.steps.size(); ++step) {
      for (std::size_t k = 0; k < drafts_.steps[step].outputs.size(); ++k) {
        const auto root = drafts_.steps[step].outputs[k];
        if (output_of[root] >= 0) continue;
        MemoryRequest request{bytes_of(root), step, std::max(step, last_use[root]), -1};
        for (std::size_t i = 0; i < drafts_.steps[step].inputs.size() && request.takes_over < 0; ++i) {
          const auto candidate = request_of[drafts_.steps[step].inputs[i].root];
          if (candidate < 0 || taken.contains(candidate) ||
              !may_overwrite(drafts_.steps[step], i, k, last_use, step))
            continue;
          request.takes_over = candidate;
          taken.insert(candidate);
          ++result_.in_place;
        }
        request_of[root] = static_cast<std::int64_t>(requests.size());
        requests.push_back(request);
        result_.bytes += request.bytes;
      }
      scratch_request.push_back(static_cast<std::int64_t>(requests.size()));
      requests.push_back({scratch_bytes_[step], step, step, -1});
    }
    const auto memory = plan_memory(requests);
    plan_.arena_bytes = memory.total;
    plan_.stats.arena_bytes = memory.total;
    plan_.stats.required_bytes = memory.required;
    for (const auto request : scratch_request)
      result_.scratch.push_back(memory.offsets[static_cast<std::size_t>(request)]);

    std::vector<std::uint32_t> leaf_of(roots(), no_node);
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (graph_.ops[node] != Op::value) continue;
      leaf_of[node] = static_cast<std::uint32_t>(plan_.leaves.size());
      plan_.leaves.push_back(node);
    }
    result_.places.resize(roots());
    for (std::uint32_t node = 0; node < roots(); ++node) {
      if (leaf_of[node] != no_node)
        result_.places[node] = {Place::Kind::leaf, leaf_of[node], 0};
      else if (output_of[node] >= 0)
        result_.places[node] = {Place::Kind::output, static_cast<std::uint32_t>(output_of[node]), 0};
      else if (request_of[node] >= 0)
        result_.places[node] = {
            Place::Kind::arena, 0,
            static_cast<std::int64_t>(memory.offsets[static_cast<std::size_t>(request_of[node])])};
    }
    for (auto output : graph_.outputs) {
      const Value& value = drafts_.values[drafts_.canonical[output]];
      const Place& place = result_.places[value.root];
      plan_.results.push_back({place, value.layout.offset,
                               canonical_strides(at(output).shape, value.layout.strides),
                               place.kind == Place::Kind::leaf});
    }
    return std::move(result_);
  }

 private:
  // Results that may be written over the leaf they replace: a parameter's new value over the old one.
  void find_donors(const std::vector<std::int64_t>& output_of, const std::vector<std::uint32_t>& last_use) {
    plan_.donors.assign(plan_.output_bytes.size(), -1);
    std::unordered_set<std::uint32_t> unavailable;  // leaves that are results themselves, or taken
    for (auto output : graph_.outputs) unavailable.insert(drafts_.values[drafts_.canonical[output]].root);
    std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::size_t>>
        produced;  // root -> step, output
    for (std::uint32_t step = 0; step < drafts_.steps.size(); ++step)
      for (std::size_t k = 0; k < drafts_.steps[step].outputs.size(); ++k)
        produced[drafts_.steps[step].outputs[k]] = {step, k};
    std::unordered_map<const Node*, std::uint32_t> leaves;
    for (std::uint32_t node = 0; node < size(); ++node)
      if (graph_.ops[node] == Op::value) leaves.emplace(&at(node), node);

    std::uint32_t position = 0;
    std::unordered_map<std::uint32_t, std::uint32_t> leaf_position;
    for (std::uint32_t node = 0; node < size(); ++node)
      if (graph_.ops[node] == Op::value) leaf_position[node] = position++;

    for (const auto& replacement : replacements_) {
      const auto leaf = leaves.find(replacement.leaf);
      const auto root = drafts_.values[drafts_.canonical[graph_.outputs[replacement.result]]].root;
      if (leaf == leaves.end() || output_of[root] < 0 || unavailable.contains(leaf->second)) continue;
      const auto output = static_cast<std::size_t>(output_of[root]);
      const Node& old = at(leaf->second);
      if (plan_.donors[output] >= 0 || bytes_of(leaf->second) != bytes_of(root) || old.storage.offset != 0 ||
          !is_contiguous(old.shape, old.storage.strides))
        continue;
      const auto [step, k] = produced.at(root);
      bool free = last_use[leaf->second] < step;
      for (std::size_t i = 0; i < drafts_.steps[step].inputs.size(); ++i)
        if (drafts_.steps[step].inputs[i].root == leaf->second)
          free = may_overwrite(drafts_.steps[step], i, k, last_use, step);
      if (!free) continue;
      plan_.donors[output] = leaf_position[leaf->second];
      plan_.stats.replaced_bytes += bytes_of(root);
      unavailable.insert(leaf->second);
      ++result_.in_place;
    }
  }

  std::size_t bytes_of(std::uint32_t root) const {
    const Elements& held = drafts_.held[root];
    return static_cast<std::size_t>(storage_bytes(held.dtype, held.count));
  }

  // Whether output k of a step may be written over input i: the input ends here and lies exactly as the
  // output. store_rows replaces some rows of its first input; an elementwise step must not read the input
  // after the output's instruction.
  bool may_overwrite(const DraftStep& draft, std::size_t i, std::size_t k,
                     const std::vector<std::uint32_t>& last_use, std::uint32_t step) const {
    constexpr std::size_t store_inputs = 3;
    const auto& heads = draft.step.stored;
    const bool stores =
        heads ? (i == heads->keys && k == 1) || (i == heads->values && k == 2)
              : draft.step.op == Op::store_rows && i % store_inputs == 0 && i / store_inputs == k;
    if ((draft.step.op != Op::copy && !stores) || last_use[draft.inputs[i].root] != step) return false;
    const Layout& input = draft.step.inputs[i];
    const Layout& output = draft.step.outputs[k];
    if (block_bytes(input.dtype) != block_bytes(output.dtype) || !input.contiguous() ||
        element_count(input.shape) != drafts_.held[draft.inputs[i].root].count)
      return false;
    // The same memory must not be read through another input.
    for (std::size_t other = 0; other < draft.inputs.size(); ++other)
      if (other != i && draft.inputs[other].root == draft.inputs[i].root) return false;
    if (stores) return true;
    const Expression& expression = draft.step.expression;
    const std::size_t inputs = expression.inputs.size(), outputs = expression.outputs.size();
    if (i / inputs != k / outputs) return false;  // of different parts
    const std::size_t written = expression.outputs[k % outputs];
    if (written < expression.first_result()) return false;
    for (std::size_t j = written - expression.first_result() + 1; j < expression.instructions.size(); ++j)
      for (int a = 0; a < operand_count(expression.instructions[j].op); ++a)
        if (expression.instructions[j].operands[a] == i % inputs) return false;
    return true;
  }

  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(graph_.nodes.size()); }
  std::uint32_t roots() const { return static_cast<std::uint32_t>(drafts_.held.size()); }

  const LinearGraph& graph_;
  const Drafts& drafts_;
  const std::vector<std::size_t>& scratch_bytes_;
  const std::vector<Replacement>& replacements_;
  Plan& plan_;
  Placement result_;
};

}  // namespace

Placement place_values(const LinearGraph& graph, const Drafts& drafts,
                       const std::vector<std::size_t>& scratch_bytes,
                       const std::vector<Replacement>& replacements, Plan& plan) {
  return Placer(graph, drafts, scratch_bytes, replacements, plan).run();
}

}  // namespace hearth
