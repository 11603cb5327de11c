// All gradients of attention over short sequences at once, side by side as the heads of one result.
#include "gpu/attention_engines.h"
#include "gpu/attention_shape.h"
#include "gpu/kernels.h"
#include "gpu/rope_angles.h"
#include "graph/packed_attention.h"

namespace hearth::gpu {
namespace {

// Inputs: q, k, v, packed, dy; then the rope's.
struct In {
  enum : std::size_t { q, k, v, packed, dy, positions };
};

class JoinedGradientsKernel final : public Kernel {
 public:
  JoinedGradientsKernel(GpuDevice& device, const Step& step)
      : device_(device),
        dtype_(step.inputs[In::q].dtype),
        rope_(step.attention_gradients->rope),
        packed_(step.inputs[In::q].shape, dtype_),
        shape_(attention_shape(step.inputs[In::q], step.inputs[In::k], step.inputs[In::v],
                               step.attention_gradients->attention)),
        engine_(whole_gradients_engine(device.target(), dtype_, shape_.features, shape_.keys).value()) {
    const Layout& dy = step.inputs[In::dy];
    shape_.dy = place_of(dy);
    packets_ = in_packets(step.inputs[In::q]) && in_packets(step.inputs[In::k]) &&
               in_packets(step.inputs[In::v]) && in_packets(dy);
    if (rope_) {
      const std::int64_t half = shape_.features / 2;
      turned_by_.emplace(step, In::positions, step.inputs.size() > In::positions + 1, *rope_, half);
      angles_.emplace(device, dtype_, shape_.queries, half);
    }
  }

  std::size_t scratch_bytes() const override { return angles_ ? angles_->bytes() : 0; }

  void run(const KernelArguments& arguments) const override {
    if (packed_.rows == 0) return;
    void* const* in = arguments.inputs;
    const bool packets = packets_ && on_packet(in[In::q]) && on_packet(in[In::k]) && on_packet(in[In::v]) &&
                         on_packet(in[In::dy]);
    void* const logarithms = static_cast<char*>(in[In::packed]) +
                             packed_.logarithms * static_cast<std::int64_t>(dtype_size(dtype_));
    Arguments values;
    values.add(shape_);
    for (const auto operand : {In::q, In::k, In::v, In::packed}) values.add(in[operand]);
    values.add(logarithms);
    values.add(in[In::dy]);
    values.add(arguments.outputs[0]);
    RopeAngles::Table table{};
    if (angles_) {
      table = angles_->compute(turned_by_->turns(in), arguments.scratch);
      values.add(table.cosine);
      values.add(table.sine);
    }
    const auto source = [&] {
      return whole_gradients_source(engine_, dtype_, packets, rope_ ? &*rope_ : nullptr);
    };
    const Function& function =
        (packets ? in_packets_ : by_element_).get(device_, source, "attention_gradients");
    device_.allow_shared(function, engine_.shared);
    device_.launch(function,
                   {.x = static_cast<unsigned>(shape_.batch * shape_.heads),
                    .threads = engine_.threads,
                    .shared = engine_.shared},
                   values);
  }

 private:
  GpuDevice& device_;
  DType dtype_;
  std::optional<RopeAttributes> rope_;
  PackedAttention packed_;
  AttentionShape shape_;
  AttentionEngine engine_;
  bool packets_ = false;
  std::optional<RopeInputs> turned_by_;
  std::optional<RopeAngles> angles_;
  LazyFunction in_packets_, by_element_;
};

}  // namespace

bool attention_gradients_fit(const GpuDevice& device, const Step& step) {
  const Layout &q = step.inputs[In::q], &k = step.inputs[In::k];
  const auto alike = [&](std::size_t input) { return step.inputs[input].dtype == q.dtype; };
  if (!alike(In::k) || !alike(In::v) || !alike(In::packed) || !alike(In::dy)) return false;
  if (step.attention_gradients->rope && step.inputs[In::positions].dtype != DType::i64) return false;
  return q.shape == k.shape && step.inputs[In::packed].contiguous() &&
         whole_gradients_engine(device.target(), q.dtype, q.shape[3], q.shape[2]).has_value();
}

std::unique_ptr<Kernel> make_attention_gradients(GpuDevice& device, const Step& step) {
  return std::make_unique<JoinedGradientsKernel>(device, step);
}

}  // namespace hearth::gpu
