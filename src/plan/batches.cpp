// Two passes over the steps: what each of them joins, then the new list.
#include "plan/batches.h"

#include <algorithm>
#include <map>
#include <optional>

namespace hearth {
namespace {

// Beyond this many elements a launch of its own costs next to nothing.
constexpr std::int64_t most_elements = 1 << 21;
// Of steps that read nothing but leaves, such as casts of weights: they all run where the first of them does,
// and what they give takes memory from there on.
constexpr std::int64_t most_early_elements = 1 << 17;

constexpr std::size_t never = ~std::size_t{0};

// What steps of one kind have in common, or nothing for a step that stays alone.
using Kind = std::vector<std::uint32_t>;
// Rows that go to tensors of the same sizes: keys and values.
Kind kind_of_store(const Step& step) {
  Kind kind{static_cast<std::uint32_t>(step.op)};
  for (const Layout& input : step.inputs) {
    kind.push_back(static_cast<std::uint32_t>(input.dtype));
    for (const auto size : input.shape) kind.push_back(static_cast<std::uint32_t>(size));
    kind.push_back(static_cast<std::uint32_t>(input.shape.size()));
  }
  return kind;
}

std::optional<Kind> kind_of(const Step& step) {
  if (step.op == Op::store_rows) return kind_of_store(step);
  const std::int64_t count = element_count(step.domain);
  if (step.op != Op::copy || count == 0 || count > most_elements) return std::nullopt;
  Kind kind;
  for (const Layout& input : step.inputs) {
    const bool single = std::all_of(input.strides.begin(), input.strides.end(),
                                    [](std::int64_t stride) { return stride == 0; });
    if (!single && !input.contiguous()) return std::nullopt;
    kind.push_back(static_cast<std::uint32_t>(input.dtype) * 2 + single);
  }
  const Expression& expression = step.expression;
  for (const DType dtype : expression.immediates) kind.push_back(static_cast<std::uint32_t>(dtype));
  for (const auto& instruction : expression.instructions)
    kind.insert(kind.end(),
                {static_cast<std::uint32_t>(instruction.op), static_cast<std::uint32_t>(instruction.operand),
                 static_cast<std::uint32_t>(instruction.result), instruction.operands[0],
                 instruction.operands[1], instruction.operands[2]});
  for (const auto output : expression.outputs) kind.push_back(output);
  // The lengths, so that no two kinds have the same list.
  kind.insert(kind.end(), {static_cast<std::uint32_t>(step.inputs.size()),
                           static_cast<std::uint32_t>(expression.immediates.size()),
                           static_cast<std::uint32_t>(expression.instructions.size())});
  return kind;
}

struct Batch {
  std::vector<std::size_t> members;
  std::size_t place = 0;          // of the step that it is put in place of
  std::size_t needed_by = never;  // the first step that reads a result of a member
};

DraftStep merged(const std::vector<std::size_t>& members, std::vector<DraftStep>& steps) {
  DraftStep all = std::move(steps[members[0]]);
  if (members.size() == 1) return all;
  all.step.parts = {element_count(all.step.domain)};
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  for (std::size_t i = 1; i < members.size(); ++i) {
    DraftStep& next = steps[members[i]];
    all.step.parts.push_back(element_count(next.step.domain));
    append(all.inputs, next.inputs);
    append(all.outputs, next.outputs);
    append(all.numbers, next.numbers);
    append(all.step.inputs, next.step.inputs);
    append(all.step.outputs, next.step.outputs);
    all.nodes += next.nodes;
  }
  std::int64_t total = 0;
  for (const auto count : all.step.parts) total += count;
  all.step.domain = {total};
  return all;
}

}  // namespace

std::size_t batch_steps(const LinearGraph& graph, const Backend& backend, std::vector<DraftStep>& steps) {
  std::vector<std::size_t> first_use(graph.nodes.size(), never);
  for (std::size_t step = steps.size(); step-- > 0;)
    for (const Source& input : steps[step].inputs) first_use[input.root] = step;

  std::vector<Batch> batches;
  std::map<std::pair<Kind, bool>, std::size_t> open;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const DraftStep& draft = steps[step];
    const auto kind = kind_of(draft.step);
    std::size_t needed_by = never;
    for (const auto output : draft.outputs) needed_by = std::min(needed_by, first_use[output]);
    // A number that is read as memory is written by a step: it is not there from the beginning.
    const bool early = std::all_of(draft.inputs.begin(), draft.inputs.end(),
                                   [&](const Source& input) { return graph.ops[input.root] == Op::value; });
    const bool small = !early || element_count(draft.step.domain) <= most_early_elements;
    const std::size_t most = kind && small ? backend.most_parts(draft.step) : 1;
    if (most > 1) {
      const auto [found, is_new] = open.try_emplace({*kind, early}, batches.size());
      if (!is_new) {
        Batch& batch = batches[found->second];
        if (batch.members.size() < most && (early || batch.needed_by > step)) {
          batch.members.push_back(step);
          batch.needed_by = std::min(batch.needed_by, needed_by);
          if (!early) batch.place = step;
          continue;
        }
        found->second = batches.size();
      }
    }
    batches.push_back({{step}, step, needed_by});
  }

  const std::size_t before = steps.size();
  std::sort(batches.begin(), batches.end(), [](const Batch& a, const Batch& b) { return a.place < b.place; });
  std::vector<DraftStep> result;
  result.reserve(batches.size());
  for (const Batch& batch : batches) result.push_back(merged(batch.members, steps));
  steps = std::move(result);
  return before - steps.size();
}

}  // namespace hearth
