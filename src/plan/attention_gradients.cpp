// The gradients' steps read delta, sums of what came in times what went out (tensor/fused_attention.cpp). The
// one step computes them itself: theirs goes where nobody else reads it.
#include "plan/attention_gradients.h"

#include "plan/step_uses.h"
#include "plan/turned_parts.h"

namespace hearth {
namespace {

// Inputs of attention_grad_q and attention_grad_kv: q, k, v, packed, delta, dy.
constexpr std::size_t packed_input = 3, delta_input = 4;

class GradientJoiner : StepJoiner {
 public:
  using StepJoiner::StepJoiner;

  std::size_t run() {
    for (DraftStep& draft : steps_)
      if (joins_heads(draft.step)) join(draft);
    return remove_all();
  }

 private:
  // The step that wrote the dense values which a part shows from `offset` on, if it is one of this operation
  // and only `readers` inputs, all of the concat, read what it wrote; null otherwise.
  const DraftStep* writer_of(const DraftStep& concat, std::size_t part, Op op, std::int64_t offset,
                             std::size_t readers) const {
    const Source& source = concat.inputs[part];
    const auto writer = uses_.writer(source.root);
    if (!writer || steps_[*writer].step.op != op || source.offset != offset ||
        uses_.readers(source.root).size() != readers || uses_.asked_for(source.root) ||
        !concat.step.inputs[part].contiguous())
      return nullptr;
    return &steps_[*writer];
  }

  static bool read_alike(const DraftStep& a, const DraftStep& b) {
    if (std::get<AttentionAttributes>(a.step.attributes).fields() !=
        std::get<AttentionAttributes>(b.step.attributes).fields())
      return false;
    for (std::size_t i = 0; i < a.inputs.size(); ++i)
      if (a.inputs[i].root != b.inputs[i].root || a.inputs[i].offset != b.inputs[i].offset ||
          a.step.inputs[i].strides != b.step.inputs[i].strides)
        return false;
    return true;
  }

  void join(DraftStep& concat) {
    constexpr std::size_t parts = 3;
    const auto& turned = concat.step.turned_parts;
    if ((turned ? turned->parts : concat.inputs.size()) != parts || (turned && turned->turned != 2)) return;
    const DraftStep* const by_q = writer_of(concat, 0, Op::attention_grad_q, 0, 1);
    const DraftStep* const by_k = writer_of(concat, 1, Op::attention_grad_kv, 0, 2);
    const DraftStep* const by_v =
        writer_of(concat, 2, Op::attention_grad_kv, element_count(concat.step.inputs[1].shape), 2);
    if (by_q == nullptr || by_k == nullptr || by_k != by_v || !read_alike(*by_q, *by_k)) return;
    // Other shapes of as many elements join them in another order.
    const Shape &q = by_q->step.inputs[0].shape, heads{q[0], q[2], q[1], q[3]};
    for (std::size_t part = 0; part < parts; ++part)
      if (concat.step.inputs[part].shape != heads) return;
    if (by_q->inputs[packed_input].offset != 0) return;

    DraftStep joined = concat;
    joined.inputs.clear();
    joined.step.inputs.clear();
    const auto add = [&](const DraftStep& from, std::size_t input) {
      joined.inputs.push_back(from.inputs[input]);
      joined.step.inputs.push_back(from.step.inputs[input]);
    };
    for (std::size_t i = 0; i < by_q->inputs.size(); ++i)
      if (i != delta_input) add(*by_q, i);
    for (std::size_t i = parts; i < concat.inputs.size(); ++i) add(concat, i);
    joined.step.attention_gradients = {std::get<AttentionAttributes>(by_q->step.attributes),
                                       turned ? std::optional(turned->rope) : std::nullopt};
    joined.step.turned_parts.reset();
    joined.nodes += by_q->nodes + by_k->nodes;
    if (!backend_.joins_attention_gradients(joined.step)) return;

    const std::uint32_t delta = by_q->inputs[delta_input].root;
    remove(*by_q);
    remove(*by_k);
    if (const auto writer = uses_.writer(delta); writer && uses_.readers(delta).size() == 2 &&
                                                 !uses_.asked_for(delta) &&
                                                 steps_[*writer].outputs.size() == 1) {
      joined.nodes += steps_[*writer].nodes;
      remove(steps_[*writer]);
    }
    concat = std::move(joined);
  }
};

}  // namespace

std::size_t join_attention_gradients(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  return has_step(drafts.steps, Op::attention_grad_kv) ? GradientJoiner(graph, backend, drafts).run() : 0;
}

}  // namespace hearth
