// Attention and its gradients: which tiles, which variant, how many blocks.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "graph/packed_attention.h"
#include "hearth/error.h"

namespace hearth::gpu {

#include "gpu/kernels/attention_arguments.h"

namespace {

constexpr std::size_t most_shared_amd = 64 << 10, most_shared = 99 << 10, unasked_shared = 48 << 10;

// What a kernel computes, by the name of the function of attention.h or attention_backward.h.
struct Task {
  const char* name;
  int own;            // operands of the block's own rows
  int rows, columns;  // operands that pass by, where a transposed copy is needed for the second product
  int untransposed;   // operands that pass by, where it is not
  int sums;           // results
  bool keeps_own;     // own rows may be held in registers
};
constexpr Task forward_task{"forward", 1, 1, 1, 2, 1, true};
constexpr Task q_task{"gradient_q", 2, 2, 1, 2, 1, false};
constexpr Task kv_task{"gradient_kv", 2, 2, 2, 2, 2, false};
constexpr Task k_task{"gradient_k", 2, 2, 1, 2, 1, false};
constexpr Task v_task{"gradient_v", 1, 1, 1, 2, 1, false};

// The engine of a kernel: a type of attention_mma.h or attention_fma.h.
struct Engine {
  const char* header;
  std::string type;
  AttentionTiles tiles;
  int threads;
  std::size_t shared;  // bytes
};

int rounded_features(std::int64_t features, std::initializer_list<int> sizes) {
  for (const int size : sizes)
    if (features <= size) return size;
  throw KernelError(fmt::format("[attention] heads of {} features, at most 256 are supported", features));
}

Engine fma_engine(DType dtype, std::int64_t features, const Task& task) {
  const int size = rounded_features(features, {64, 128, 192, 256});
  const bool forward = task.own == 1;
  const int own_tiles = size <= 128 ? 2 : 1;
  const int others = size <= 64 || (size == 128 && forward) ? 32 : 16;
  const bool together = forward || size <= 192;
  const AttentionTiles tiles{size, own_tiles * 16, others, 4, false, own_tiles * 16 * (others + 4)};
  const int elements = attention_shared_elements(tiles, task.own, together ? 2 : 1, 0);
  return {
      "attention_fma.h",
      fmt::format("FmaEngine<{}, {}, {}, {}, {}>", storage_type(dtype), size, own_tiles, others, together),
      tiles, 256, static_cast<std::size_t>(elements) * 4};
}

Engine mma_engine(const Target& target, DType dtype, std::int64_t features, const Task& task) {
  const int size = rounded_features(features, {32, 64, 96, 128, 192, 256});
  const bool transposes = target.amd, wide = target.wave_size == 64;
  const int depth = wide ? 32 : 16;
  // Registers of a lane for 16 own rows as an operand, and for their sums.
  const int own_registers = target.matrix == MatrixUnit::wmma11 ? size / 2 : size / depth * 4;
  const int sum_registers = size * 16 / target.wave_size * task.sums;
  int own_tiles = sum_registers <= 32 ? 2 : 1, waves = 4, others = size <= 128 && task.sums == 1 ? 64 : 32;
  const std::size_t limit = target.amd ? most_shared_amd : std::min(most_shared, target.shared_bytes);
  const auto shared = [&](bool holds) {
    const AttentionTiles tiles{size, waves * own_tiles * 16, others, 8, holds, 0};
    return 2 * static_cast<std::size_t>(
                   transposes ? attention_shared_elements(tiles, task.own, task.rows, task.columns)
                              : attention_shared_elements(tiles, task.own, task.untransposed, 0));
  };
  bool holds = task.keeps_own && own_registers * own_tiles * task.own <= 32;
  if (shared(holds) > limit && others > 32) others = 32;
  if (shared(holds) > limit && own_tiles > 1) own_tiles = 1;
  if (shared(holds) > limit && own_registers * task.own <= 64) holds = true;
  if (shared(holds) > limit && others > depth) others = depth;
  if (shared(holds) > limit) waves = 2;
  if (shared(holds) > limit)
    throw KernelError(fmt::format("[attention] {} features need {} bytes of shared memory, {} has {}", size,
                                  shared(holds), target.architecture, limit));
  const AttentionTiles tiles{size, waves * own_tiles * 16, others, 8, holds, 0};
  return {"attention_mma.h",
          fmt::format("MmaEngine<{}, {}, {}, {}, {}, {}>", storage_type(dtype), size, waves, own_tiles,
                      others, holds),
          tiles, waves * target.wave_size, shared(holds)};
}

Engine engine_for(const Target& target, DType dtype, std::int64_t features, const Task& task) {
  return dtype == DType::f32 || target.matrix == MatrixUnit::none ? fma_engine(dtype, features, task)
                                                                  : mma_engine(target, dtype, features, task);
}

KernelSource forward_source(const Engine& engine, DType dtype, bool packets) {
  return {
      "attention",
      fmt::format("#include \"attention.h\"\n#include \"{0}\"\nusing Engine = attention::{1};\n"
                  "KERNEL void __launch_bounds__(Engine::threads) attention_forward(AttentionShape shape, "
                  "const {2}* q, const {2}* k, const {2}* v, {2}* out, f32* logarithms, f32* partial) {{\n"
                  "  attention::forward<Engine, {3}>(shape, q, k, v, out, logarithms, partial);\n}}\n",
                  engine.header, engine.type, storage_type(dtype), packets),
      {}};
}

KernelSource combine_source(DType dtype) {
  return {"attention_combine",
          fmt::format("#include \"attention.h\"\n"
                      "KERNEL void attention_combine(AttentionShape shape, const f32* partial, {0}* out, "
                      "f32* logarithms) {{\n  attention::combine(shape, partial, out, logarithms);\n}}\n",
                      storage_type(dtype)),
          {}};
}

// A kernel of which alignment decides the variant, with the shared memory it needs.
class PacketFunction {
 public:
  template <class MakeSource>
  const Function& get(GpuDevice& device, bool packets, std::size_t shared, const MakeSource& make_source,
                      const char* name) const {
    const Function& function = (packets ? in_packets_ : by_element_)
                                   .get(
                                       device, [&] { return make_source(packets); }, name);
    if (shared > unasked_shared && !device.target().amd)
      device.driver().check(device.driver().call.allow_shared(function.handle, static_cast<int>(shared)),
                            "asking for shared memory");
    return function;
  }

 private:
  LazyFunction in_packets_, by_element_;
};

AttentionPlace place_of(const Layout& layout) {
  return {layout.strides[0], layout.strides[1], layout.strides[2], layout.strides[3]};
}

// Whether rows can be read eight features at a time, given a pointer that is a multiple of 16 bytes.
bool in_packets(const Layout& layout) {
  const auto fits = [&](std::size_t axis) {
    return layout.shape[axis] <= 1 || layout.strides[axis] % 8 == 0;
  };
  return layout.strides[3] == 1 && layout.shape[3] % 8 == 0 && fits(0) && fits(1) && fits(2);
}
bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(GpuDevice& device, const Step& step)
      : device_(device), dtype_(step.inputs[0].dtype), packed_(step.inputs[0].shape, dtype_) {
    const Layout &q = step.inputs[0], &k = step.inputs[1], &v = step.inputs[2];
    const auto& attributes = std::get<AttentionAttributes>(step.attributes);
    constexpr std::int64_t most = 1 << 30;
    for (const Layout* layout : {&q, &k})
      for (const auto size : layout->shape)
        if (size > most) throw KernelError(fmt::format("[attention] an axis of {} elements", size));
    const auto whole = [](std::int64_t size) { return static_cast<int>(size); };
    shape_ = {.batch = whole(q.shape[0]),
              .heads = whole(q.shape[1]),
              .groups = whole(k.shape[1]),
              .queries = whole(q.shape[2]),
              .keys = whole(k.shape[2]),
              .features = whole(q.shape[3]),
              .stacked = 1,
              .bounded = attributes.causal || attributes.window > 0,
              .window = whole(std::min(attributes.window, most)),
              .splits = 1,
              .split_keys = whole(k.shape[2]),
              .scale = static_cast<float>(attributes.scale),
              .q = place_of(q),
              .k = place_of(k),
              .v = place_of(v),
              .dy = {},
              .delta_batch = 0,
              .delta_head = 0,
              .delta_row = 0};
    packets_ = in_packets(q) && in_packets(k) && in_packets(v);
  }

 protected:
  int sharing() const { return shape_.heads / shape_.groups; }
  static std::int64_t parts(std::int64_t size, std::int64_t one) { return (size + one - 1) / one; }
  float* logarithms(void* packed) const {
    return reinterpret_cast<float*>(static_cast<char*>(packed) +
                                    packed_.logarithms * static_cast<std::int64_t>(dtype_size(dtype_)));
  }

  GpuDevice& device_;
  DType dtype_;
  PackedAttention packed_;
  AttentionShape shape_{};
  bool packets_ = false;
};

class ForwardKernel final : public AttentionKernel {
 public:
  ForwardKernel(GpuDevice& device, const Step& step)
      : AttentionKernel(device, step),
        engine_(engine_for(device.target(), dtype_, shape_.features, forward_task)) {
    if (packed_.rows == 0) return;
    // Few queries: those of the heads that share keys make one tile.
    if (shape_.queries < 16) shape_.stacked = sharing();
    blocks_ = parts(std::int64_t{shape_.stacked} * shape_.queries, engine_.tiles.own) *
              (shape_.heads / shape_.stacked) * shape_.batch;
    // Few blocks and many keys: each block takes a part of the keys.
    const std::int64_t wanted = parts(2 * device.compute_units(), blocks_);
    const std::int64_t tiles = parts(shape_.keys, engine_.tiles.others);
    constexpr std::int64_t least_tiles = 4, most_splits = 128;
    const std::int64_t splits = std::min({wanted, tiles / least_tiles, most_splits});
    if (splits > 1) {
      shape_.split_keys = static_cast<int>(parts(tiles, splits) * engine_.tiles.others);
      shape_.splits = static_cast<int>(parts(shape_.keys, shape_.split_keys));
    }
    blocks_ *= shape_.splits;
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
    const bool packets = packets_ && aligned(q) && aligned(k) && aligned(v);
    const auto source = [&](bool in_packets) { return forward_source(engine_, dtype_, in_packets); };
    const Function& function = function_.get(device_, packets, engine_.shared, source, "attention_forward");
    device_.launch(function,
                   {.x = static_cast<unsigned>(blocks_),
                    .threads = static_cast<unsigned>(engine_.threads),
                    .shared = static_cast<unsigned>(engine_.shared)},
                   shape_, q, k, v, out, logarithms_out, partial);
    if (partial == nullptr) return;
    constexpr unsigned threads = 256;
    const auto rows_per_block = threads / static_cast<unsigned>(device_.wave_size());
    device_.launch(
        combine_.get(
            device_, [&] { return combine_source(dtype_); }, "attention_combine"),
        {.x = device_.grid_for(static_cast<std::uint64_t>(packed_.rows), rows_per_block), .threads = threads},
        shape_, partial, out, logarithms_out);
  }

 private:
  Engine engine_;
  std::int64_t blocks_ = 0;
  PacketFunction function_;
  LazyFunction combine_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(GpuDevice& device, const Step& step) {
  if (step.op == Op::attention) return std::make_unique<ForwardKernel>(device, step);
  throw KernelError(fmt::format("[{}] has no kernel on {} yet", op_name(step.op), device.name()));
}

}  // namespace hearth::gpu
