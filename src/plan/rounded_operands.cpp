#include "plan/rounded_operands.h"

#include <algorithm>

#include "plan/step_uses.h"

namespace hearth {
namespace {

class Rounder {
 public:
  Rounder(const LinearGraph& graph, const Backend& backend, Drafts& drafts)
      : backend_(backend), drafts_(drafts), uses_(graph, drafts) {}

  std::size_t run() {
    std::size_t rounded = 0;
    for (DraftStep& writer : drafts_.steps)
      for (std::size_t k = 0; k < writer.outputs.size(); ++k) {
        const std::uint32_t root = writer.outputs[k];
        if (const auto dtype = wanted(root); dtype && casts(writer)) {
          round(writer, k, *dtype);
          ++rounded;
        }
      }
    return rounded;
  }

 private:
  // The type to which all that read the value round it.
  std::optional<DType> wanted(std::uint32_t root) const {
    const auto& readers = uses_.readers(root);
    if (readers.empty() || uses_.asked_for(root)) return std::nullopt;
    std::optional<DType> common;
    for (const std::size_t index : readers) {
      const DraftStep& reader = drafts_.steps[index];
      if (reader.step.op != Op::quantised_matmul || reader.inputs[0].root != root ||
          !reads_whole(drafts_, reader, 0) || reads_elsewhere(reader, root))
        return std::nullopt;
      const auto dtype = backend_.rounds_operand(reader.step);
      if (!dtype || (common && *common != *dtype)) return std::nullopt;
      common = dtype;
    }
    return common;
  }
  static bool reads_elsewhere(const DraftStep& reader, std::uint32_t root) {
    return std::any_of(reader.inputs.begin() + 1, reader.inputs.end(),
                       [&](const Source& source) { return source.root == root; });
  }

  // Whether a step can end with a cast.
  bool casts(const DraftStep& writer) const {
    const Step& step = writer.step;
    if (step.op == Op::copy) return step.parts.empty() && step.joined == 0;
    const bool plain = step.expression.instructions.empty();
    switch (step.op) {
      case Op::rms_norm:
      case Op::layer_norm:
        if (!plain) return false;
        break;
      case Op::matmul:
      case Op::quantised_matmul:
        if (step.joined > 0 || step.stored || step.turned || step.normed) return false;
        break;
      default:
        return false;
    }
    return backend_.fuses_epilogue(step.op, step.outputs[0].dtype, Op::cast);
  }

  void round(DraftStep& writer, std::size_t k, DType dtype) {
    Expression& expression = writer.step.expression;
    Layout& output = writer.step.outputs[k];
    if (expression.inputs.empty() && expression.immediates.empty()) {  // the operation's result, as it is
      expression.inputs = {output.dtype};
      expression.outputs = {0};
    }
    const auto cast = static_cast<std::uint16_t>(expression.first_result() + expression.instructions.size());
    expression.instructions.push_back({Op::cast, output.dtype, dtype, {expression.outputs[k], 0, 0}});
    expression.outputs[k] = cast;
    output.dtype = dtype;
    const std::uint32_t root = writer.outputs[k];
    drafts_.held[root].dtype = dtype;
    for (const std::size_t reader : uses_.readers(root)) drafts_.steps[reader].step.inputs[0].dtype = dtype;
  }

  const Backend& backend_;
  Drafts& drafts_;
  const StepUses uses_;
};

}  // namespace

std::size_t round_operands(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  if (!has_step(drafts.steps, Op::quantised_matmul)) return 0;
  return Rounder(graph, backend, drafts).run();
}

}  // namespace hearth
