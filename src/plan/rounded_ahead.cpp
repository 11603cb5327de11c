#include "plan/rounded_ahead.h"

#include "plan/step_uses.h"

namespace hearth {
namespace {

class RowRounder {
 public:
  RowRounder(const LinearGraph& graph, const Backend& backend, Drafts& drafts)
      : graph_(graph), backend_(backend), drafts_(drafts), uses_(graph, drafts) {}

  std::size_t run() {
    std::size_t rounded = 0;
    for (DraftStep& product : drafts_.steps) {
      DraftStep* const writer = writer_for(product);
      if (writer == nullptr) continue;
      if (const auto neighbours = backend_.rounds_rows(writer->step, product.step)) {
        join(*writer, product, *neighbours);
        ++rounded;
      }
    }
    return rounded;
  }

 private:
  static bool normed(const DraftStep& product) {
    return std::holds_alternative<NormAttributes>(product.step.attributes);
  }

  // The step that computes what the product multiplies, if it may round it; else null.
  DraftStep* writer_for(const DraftStep& product) const {
    if (product.step.op != Op::quantised_matmul || !reads_whole(drafts_, product, 0)) return nullptr;
    if (normed(product) && !graph_.is_leaf(product.inputs.back().root)) return nullptr;
    const std::uint32_t root = product.inputs[0].root;
    const auto index = uses_.writer(root);
    if (!index) return nullptr;
    DraftStep& writer = drafts_.steps[*index];
    return !writer.step.rounds && writer.outputs[0] == root ? &writer : nullptr;
  }

  void join(DraftStep& writer, DraftStep& product, std::uint32_t run) {
    constexpr std::int64_t note_bytes = 8;
    const std::int64_t elements = element_count(product.step.inputs[0].shape);
    const Shape bytes{elements + elements / run * note_bytes};
    const auto root = static_cast<std::uint32_t>(drafts_.held.size());
    drafts_.held.push_back({DType::u8, bytes[0]});
    writer.step.outputs.push_back({DType::u8, bytes, contiguous_strides(bytes)});
    writer.outputs.push_back(root);
    writer.step.rounds = {run, normed(product)};
    if (normed(product)) {
      writer.step.inputs.push_back(product.step.inputs.back());
      writer.inputs.push_back(product.inputs.back());
    }
    product.step.x_run = run;
    product.inputs[0] = {root, 0};
  }

  const LinearGraph& graph_;
  const Backend& backend_;
  Drafts& drafts_;
  const StepUses uses_;
};

}  // namespace

std::size_t round_ahead(const LinearGraph& graph, const Backend& backend, Drafts& drafts) {
  if (!has_step(drafts.steps, Op::quantised_matmul)) return 0;
  return RowRounder(graph, backend, drafts).run();
}

}  // namespace hearth
