// Attention and its gradients: how many blocks, with which kernel.
#include <algorithm>

#include "gpu/attention_engines.h"
#include "gpu/attention_shape.h"
#include "gpu/kernels.h"
#include "gpu/tensor_map.h"
#include "graph/packed_attention.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

std::int64_t parts(std::int64_t size, std::int64_t one) { return (size + one - 1) / one; }

// (batch, head, row, feature) as the copy engine sees it.
std::vector<TensorAxis> axes_of(const Layout& layout, std::uint32_t rows) {
  const auto axis = [&](std::size_t i, std::uint32_t box) {
    return TensorAxis{layout.shape[i], layout.strides[i], box};
  };
  return {axis(3, 64), axis(2, rows), axis(1, 1), axis(0, 1)};
}

// A kernel for one result. Whether operands can be read in packets decides which one it is.
class Variants {
 public:
  Variants(GpuDevice& device, DType dtype, std::int64_t features, AttentionResult result)
      : device_(device),
        dtype_(dtype),
        result_(result),
        general_(attention_engine(device.target(), dtype, features, result)),
        faster_(warpgroup_engine(device.target(), dtype, features, result)) {
    if (!has_copy_engine(device)) faster_.reset();
  }

  const AttentionEngine& general() const { return general_; }
  void set_faster(std::optional<AttentionEngine> engine) { faster_ = std::move(engine); }
  const AttentionEngine& engine(bool packets) const { return packets && faster_ ? *faster_ : general_; }

  // Rows of an operand that the copy engine brings at a time.
  std::uint32_t own_rows() const { return static_cast<std::uint32_t>(faster_->tiles.own); }
  std::uint32_t passing_rows() const { return static_cast<std::uint32_t>(faster_->tiles.others); }

  template <class... Values>
  void launch(bool packets, std::int64_t blocks, const Values&... values) const {
    const AttentionEngine& chosen = engine(packets);
    const auto source = [&] { return attention_source(chosen, dtype_, result_, packets); };
    const Function& function = (packets ? in_packets_ : by_element_).get(device_, source, "attention_kernel");
    device_.allow_shared(function, chosen.shared);
    device_.launch(function,
                   {.x = static_cast<unsigned>(blocks), .threads = chosen.threads, .shared = chosen.shared},
                   values...);
  }

 private:
  GpuDevice& device_;
  DType dtype_;
  AttentionResult result_;
  AttentionEngine general_;
  std::optional<AttentionEngine> faster_;  // for operands in packets
  LazyFunction in_packets_, by_element_;
};

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(GpuDevice& device, const Step& step)
      : device_(device),
        dtype_(step.inputs[0].dtype),
        packed_(step.inputs[0].shape, dtype_),
        layouts_{step.inputs[0], step.inputs[1], step.inputs[2]} {
    const Layout &q = step.inputs[0], &k = step.inputs[1], &v = step.inputs[2];
    shape_ = attention_shape(q, k, v, std::get<AttentionAttributes>(step.attributes));
    packets_ = in_packets(q) && in_packets(k) && in_packets(v);
  }

 protected:
  enum Which : std::size_t { query, key, value, output_gradient };

  bool copy_engine_fits() const {
    return std::all_of(layouts_.begin(), layouts_.end(),
                       [](const Layout& layout) { return takes_axes(axes_of(layout, 1)); });
  }
  TensorMap map(Which operand, void* pointer, std::uint32_t rows) const {
    return tensor_map(device_, dtype_, pointer, axes_of(layouts_[operand], rows));
  }
  // One after another in the blocks that the device can hold: the next sequence is loaded meanwhile. Long
  // ones are better given out as blocks become free.
  std::int64_t resident(const AttentionEngine& engine, std::int64_t blocks) const {
    constexpr int short_sequence = 512;
    if (!engine.stays || std::max(shape_.keys, shape_.queries) > short_sequence) return blocks;
    return std::min<std::int64_t>(blocks, device_.compute_units());
  }

  std::int64_t query_blocks(const AttentionEngine& engine) const {
    return parts(std::int64_t{shape_.stacked} * shape_.queries, engine.tiles.own) *
           (shape_.heads / shape_.stacked) * shape_.batch * shape_.splits;
  }
  float* logarithms(void* packed) const {
    return reinterpret_cast<float*>(static_cast<char*>(packed) +
                                    packed_.logarithms * static_cast<std::int64_t>(dtype_size(dtype_)));
  }

  GpuDevice& device_;
  DType dtype_;
  PackedAttention packed_;
  std::vector<Layout> layouts_;  // of q, k, v and dy
  AttentionShape shape_{};
  bool packets_ = false;
};

class ForwardKernel final : public AttentionKernel {
 public:
  ForwardKernel(GpuDevice& device, const Step& step)
      : AttentionKernel(device, step), variants_(device, dtype_, shape_.features, AttentionResult::output) {
    if (packed_.rows == 0) return;
    // Few queries: those of the heads that share keys make one tile.
    if (shape_.queries < 16) shape_.stacked = shape_.heads / shape_.groups;
    // Few blocks and many keys: each block takes a part of the keys.
    const AttentionTiles& tiles = variants_.general().tiles;
    const std::int64_t wanted = parts(2 * device.compute_units(), query_blocks(variants_.general()));
    const std::int64_t key_tiles = parts(shape_.keys, tiles.others);
    constexpr std::int64_t least_tiles = 4, most_splits = 128;
    const std::int64_t splits = std::min({wanted, key_tiles / least_tiles, most_splits});
    if (splits > 1) {
      shape_.split_keys = static_cast<int>(parts(key_tiles, splits) * tiles.others);
      shape_.splits = static_cast<int>(parts(shape_.keys, shape_.split_keys));
    }
    if (shape_.splits > 1 || shape_.stacked > 1 || !copy_engine_fits()) variants_.set_faster(std::nullopt);
    if (shape_.splits == 1 && shape_.stacked == 1 && shape_.keys > 0)
      if (auto whole =
              whole_engine(device.target(), dtype_, shape_.features, std::max(shape_.queries, shape_.keys)))
        variants_.set_faster(std::move(whole));
  }

  std::size_t scratch_bytes() const override {
    if (shape_.splits == 1) return 0;
    return static_cast<std::size_t>(shape_.splits * packed_.rows * (shape_.features + 1)) * sizeof(float);
  }

  void run(const KernelArguments& arguments) const override {
    if (packed_.rows == 0) return;
    void *const q = arguments.inputs[0], *const k = arguments.inputs[1], *const v = arguments.inputs[2];
    void* const out = arguments.outputs[0];
    float* const logarithms_out = logarithms(out);
    void* const partial = shape_.splits > 1 ? arguments.scratch : nullptr;
    const bool packets = packets_ && on_packet(q) && on_packet(k) && on_packet(v);
    const AttentionEngine& engine = variants_.engine(packets);
    const std::int64_t blocks = resident(engine, query_blocks(engine));
    if (engine.warpgroups)
      variants_.launch(packets, blocks, shape_, map(query, q, variants_.own_rows()),
                       map(key, k, variants_.passing_rows()), map(value, v, variants_.passing_rows()), out,
                       logarithms_out, partial);
    else
      variants_.launch(packets, blocks, shape_, q, k, v, out, logarithms_out, partial);
    if (partial == nullptr) return;
    constexpr unsigned threads = 256;
    const auto rows_per_block = threads / static_cast<unsigned>(device_.wave_size());
    const auto source = [&] { return combine_source(dtype_); };
    device_.launch(
        combine_.get(device_, source, "attention_combine"),
        {.x = device_.grid_for(static_cast<std::uint64_t>(packed_.rows), rows_per_block), .threads = threads},
        shape_, partial, out, logarithms_out);
  }

 private:
  Variants variants_;
  LazyFunction combine_;
};

// Inputs: q, k, v, packed, delta, dy.
class GradientKernel : public AttentionKernel {
 public:
  GradientKernel(GpuDevice& device, const Step& step) : AttentionKernel(device, step) {
    const Layout &packed = step.inputs[3], &delta = step.inputs[4], &dy = step.inputs[5];
    if (!packed.contiguous()) throw KernelError("[attention] its result is not where it was written");
    layouts_.push_back(dy);
    shape_.dy = place_of(dy);
    shape_.delta_batch = delta.strides[0];
    shape_.delta_head = delta.strides[1];
    shape_.delta_row = delta.strides[2];
    packets_ = packets_ && in_packets(dy);
  }

 protected:
  bool packets(const KernelArguments& arguments) const {
    return packets_ && on_packet(arguments.inputs[0]) && on_packet(arguments.inputs[1]) &&
           on_packet(arguments.inputs[2]) && on_packet(arguments.inputs[5]);
  }
  // first: dq or dk.
  void launch(const Variants& variants, std::int64_t blocks, const KernelArguments& arguments, void* first,
              void* dv) const {
    void* const* in = arguments.inputs;
    const float* const logarithms_in = logarithms(in[3]);
    const bool whole = packets(arguments);
    const AttentionEngine& engine = variants.engine(whole);
    if (!engine.warpgroups) {
      variants.launch(whole, blocks, shape_, in[0], in[1], in[2], logarithms_in, in[4], in[5], first, dv);
      return;
    }
    const bool by_keys = dv != nullptr;
    const std::uint32_t queries = by_keys ? variants.passing_rows() : variants.own_rows();
    const std::uint32_t keys = by_keys ? variants.own_rows() : variants.passing_rows();
    variants.launch(whole, resident(engine, blocks), shape_, map(query, in[0], queries),
                    map(key, in[1], keys), map(value, in[2], keys), logarithms_in, in[4],
                    map(output_gradient, in[5], queries), first, dv);
  }
};

class QueryGradientKernel final : public GradientKernel {
 public:
  QueryGradientKernel(GpuDevice& device, const Step& step)
      : GradientKernel(device, step), variants_(device, dtype_, shape_.features, AttentionResult::dq) {
    if (!copy_engine_fits()) variants_.set_faster(std::nullopt);
  }

  void run(const KernelArguments& arguments) const override {
    if (packed_.rows == 0) return;
    void* const none = nullptr;
    launch(variants_, query_blocks(variants_.engine(packets(arguments))), arguments, arguments.outputs[0],
           none);
  }

 private:
  Variants variants_;
};

class KeyGradientKernel final : public GradientKernel {
 public:
  KeyGradientKernel(GpuDevice& device, const Step& step) : GradientKernel(device, step) {
    const auto add = [&](AttentionResult result) {
      kernels_.push_back(std::make_unique<Variants>(device, dtype_, shape_.features, result));
      if (!copy_engine_fits()) kernels_.back()->set_faster(std::nullopt);
    };
    const bool apart = gradients_apart(device.target(), dtype_, shape_.features);
    add(apart ? AttentionResult::dk : AttentionResult::dk_and_dv);
    if (apart) add(AttentionResult::dv);
  }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t count = element_count({shape_.batch, shape_.groups, shape_.keys, shape_.features});
    if (count == 0) return;
    void* const dk = arguments.outputs[0];
    void* const dv = static_cast<char*>(dk) + count * static_cast<std::int64_t>(dtype_size(dtype_));
    for (const auto& kernel : kernels_) {
      const int own = kernel->engine(packets(arguments)).tiles.own;
      launch(*kernel, parts(shape_.keys, own) * shape_.groups * shape_.batch, arguments, dk, dv);
    }
  }

 private:
  std::vector<std::unique_ptr<Variants>> kernels_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(GpuDevice& device, const Step& step) {
  if (step.op == Op::attention) return std::make_unique<ForwardKernel>(device, step);
  if (step.op == Op::attention_grad_q) return std::make_unique<QueryGradientKernel>(device, step);
  return std::make_unique<KeyGradientKernel>(device, step);
}

}  // namespace hearth::gpu
