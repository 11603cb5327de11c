// The sum's result takes the place of the gradient by x, at the beginning of what the norm's step writes; who
// reads the sum reads it there.
#include "plan/added_gradients.h"

#include <algorithm>

#include "plan/step_uses.h"

namespace hearth {
namespace {

constexpr std::size_t norm_inputs = 3;  // x, dy, weight

bool gives_all_gradients(const Step& step) {
  return step.op == Op::rms_norm_grads || step.op == Op::layer_norm_grads;
}

class GradientAdder : StepJoiner {
 public:
  GradientAdder(const LinearGraph& graph, const Backend& backend, Drafts& drafts)
      : StepJoiner(graph, backend, drafts), graph_(graph), drafts_(drafts) {}

  std::size_t run() {
    for (std::size_t index = 0; index < steps_.size(); ++index)
      if (gives_all_gradients(steps_[index].step) && backend_.adds_gradient(steps_[index].step)) join(index);
    return remove_all();
  }

 private:
  struct Reader {
    std::size_t step, input;
  };

  // The one input that shows anything of the gradient by x; nothing where there are several, or a result.
  std::optional<Reader> only_reader(const DraftStep& norm, std::int64_t elements) const {
    const std::uint32_t root = norm.outputs[0];
    for (const auto output : graph_.outputs) {
      const Value& value = drafts_.values[drafts_.canonical[output]];
      if (value.root == root && value.layout.offset < elements) return std::nullopt;
    }
    std::optional<Reader> found;
    std::size_t before = steps_.size();
    for (const std::size_t step : uses_.readers(root)) {
      if (step == before) continue;  // it has several such inputs
      before = step;
      for (std::size_t input = 0; input < steps_[step].inputs.size(); ++input) {
        const Source& source = steps_[step].inputs[input];
        if (source.root != root || source.offset >= elements) continue;
        if (found) return std::nullopt;
        found = {step, input};
      }
    }
    return found;
  }

  // Whether the step adds two dense values of so many elements, and does nothing else.
  static bool only_adds(const DraftStep& draft, DType dtype, std::int64_t elements) {
    const Step& step = draft.step;
    const auto& instructions = step.expression.instructions;
    if (step.op != Op::copy || step.joined > 0 || draft.outputs.size() != 1 || draft.inputs.size() != 2 ||
        instructions.size() != 1 || !step.expression.immediates.empty())
      return false;
    const auto& add = instructions[0];
    return add.op == Op::add && add.operand == dtype && add.result == dtype &&
           add.operands[0] != add.operands[1] && element_count(step.domain) == elements &&
           std::all_of(step.inputs.begin(), step.inputs.end(),
                       [&](const Layout& input) { return input.dtype == dtype && input.contiguous(); });
  }

  void join(std::size_t index) {
    DraftStep& norm = steps_[index];
    const Layout& x = norm.step.inputs[0];
    const std::int64_t elements = element_count(x.shape);
    const auto reader = only_reader(norm, elements);
    if (!reader || norm.inputs.size() != norm_inputs) return;
    DraftStep& sum = steps_[reader->step];
    const DType dtype = norm.step.outputs[0].dtype;
    if (sum.inputs[reader->input].offset != 0 || !only_adds(sum, dtype, elements) ||
        uses_.asked_for(sum.outputs[0]))
      return;
    const Source other = sum.inputs[1 - reader->input];
    if (const auto writer = uses_.writer(other.root); writer && *writer >= index) return;

    norm.inputs.push_back(other);
    norm.step.inputs.push_back({dtype, x.shape, contiguous_strides(x.shape)});
    norm.nodes += sum.nodes;
    for (const std::size_t step : uses_.readers(sum.outputs[0]))
      for (Source& source : steps_[step].inputs)
        if (source.root == sum.outputs[0]) source.root = norm.outputs[0];
    remove(sum);
  }

  const LinearGraph& graph_;
  const Drafts& drafts_;
};

}  // namespace

bool adds_gradient(const Step& step) { return gives_all_gradients(step) && step.inputs.size() > norm_inputs; }

std::size_t join_added_gradients(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  const bool any = std::any_of(drafts.steps.begin(), drafts.steps.end(),
                               [](const DraftStep& draft) { return gives_all_gradients(draft.step); });
  return any ? GradientAdder(graph, backend, drafts).run() : 0;
}

}  // namespace hearth
