// A rope works over (sequences, heads, time, features), the concat over (sequences, time, heads, features): a
// part must show the rope's dense result with these two axes exchanged.
#include "plan/turned_parts.h"

#include <array>

#include "plan/step_uses.h"

namespace hearth {
namespace {

constexpr std::size_t head_axes = 4;
constexpr std::array<std::size_t, head_axes> of_rope = {0, 2, 1, 3};  // where an axis of the concat is there

class PartTurner : StepJoiner {
 public:
  using StepJoiner::StepJoiner;

  std::size_t run() {
    for (DraftStep& draft : steps_)
      if (joins_heads(draft.step)) join(draft);
    return remove_all();
  }

 private:
  // The step of the rope that a part shows and nobody else reads; null where it is none.
  const DraftStep* rope_of(const DraftStep& concat, std::size_t part) {
    const Source& source = concat.inputs[part];
    const auto writer = uses_.writer(source.root);
    if (!writer || source.offset != 0 || uses_.readers(source.root).size() != 1 ||
        uses_.asked_for(source.root))
      return nullptr;
    const DraftStep& rope = steps_[*writer];
    if (rope.step.op != Op::rope || rope.step.domain.size() != head_axes) return nullptr;
    const Layout& shown = concat.step.inputs[part];
    const Strides dense = contiguous_strides(rope.step.domain);
    for (std::size_t axis = 0; axis < head_axes; ++axis) {
      const std::size_t there = of_rope[axis];
      if (shown.shape[axis] != rope.step.domain[there] ||
          (shown.shape[axis] != 1 && shown.strides[axis] != dense[there]))
        return nullptr;
    }
    return &rope;
  }

  static bool turn_alike(const DraftStep& a, const DraftStep& b) {
    const auto &first = std::get<RopeAttributes>(a.step.attributes),
               &second = std::get<RopeAttributes>(b.step.attributes);
    if (first.fields() != second.fields() || a.inputs.size() != b.inputs.size()) return false;
    for (std::size_t i = 1; i < a.inputs.size(); ++i)
      if (a.inputs[i].root != b.inputs[i].root || a.inputs[i].offset != b.inputs[i].offset ||
          a.step.inputs[i].strides != b.step.inputs[i].strides)
        return false;
    return true;
  }

  void join(DraftStep& concat) {
    std::vector<const DraftStep*> ropes;
    for (std::size_t part = 0; part < concat.inputs.size(); ++part) {
      const DraftStep* rope = rope_of(concat, part);
      if (rope == nullptr || (!ropes.empty() && !turn_alike(*ropes[0], *rope))) break;
      ropes.push_back(rope);
    }
    if (ropes.empty()) return;
    DraftStep joined = concat;
    for (std::size_t part = 0; part < ropes.size(); ++part) {
      const Layout& x = ropes[part]->step.inputs[0];
      joined.inputs[part] = ropes[part]->inputs[0];
      for (std::size_t axis = 0; axis < head_axes; ++axis)
        joined.step.inputs[part].strides[axis] = x.strides[of_rope[axis]];
      joined.nodes += ropes[part]->nodes;
    }
    const TurnedParts turned{std::get<RopeAttributes>(ropes[0]->step.attributes), concat.inputs.size(),
                             ropes.size()};
    for (std::size_t i = 1; i < ropes[0]->inputs.size(); ++i) {
      joined.inputs.push_back(ropes[0]->inputs[i]);
      joined.step.inputs.push_back(ropes[0]->step.inputs[i]);
    }
    joined.step.turned_parts = turned;
    if (!backend_.turns_parts(joined.step, turned)) return;
    for (const DraftStep* rope : ropes) remove(*rope);
    concat = std::move(joined);
  }
};

}  // namespace

bool joins_heads(const Step& step) {
  return step.op == Op::concat && step.domain.size() == head_axes &&
         std::get<AxisAttributes>(step.attributes).axis == head_axes - 2;
}

std::size_t join_turned_parts(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  return has_step(drafts.steps, Op::rope) ? PartTurner(graph, backend, drafts).run() : 0;
}

}  // namespace hearth
