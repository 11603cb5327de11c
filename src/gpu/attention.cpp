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

enum class Result { output, dq, dk, dv, dk_and_dv };

// What a kernel of attention.h or attention_backward.h computes, and what it needs for that.
struct Task {
  Result result;
  const char* name;
  int own;            // operands of the block's own rows
  int rows, columns;  // operands that pass by, where a transposed copy is needed for the second product
  int untransposed;   // operands that pass by, where it is not
  int sums;           // results
  bool keeps_own;     // own rows may be held in registers
};
constexpr Task forward_task{Result::output, "attention", 1, 1, 1, 2, 1, true};
constexpr Task q_task{Result::dq, "attention_gradient_q", 2, 2, 1, 2, 1, false};
constexpr Task kv_task{Result::dk_and_dv, "attention_gradient_kv", 2, 2, 2, 2, 2, false};
constexpr Task k_task{Result::dk, "attention_gradient_k", 2, 2, 1, 2, 1, false};
constexpr Task v_task{Result::dv, "attention_gradient_v", 1, 1, 1, 2, 1, false};

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
  const bool forward = task.result == Result::output;
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
    const std::size_t beside =
        task.own == 2 ? 8 * static_cast<std::size_t>(others) : 0;  // what the kernel declares
    return beside + 2 * static_cast<std::size_t>(
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

// Two warpgroups that multiply and one that loads; see attention_wgmma.h.
bool has_warpgroups(const Target& target, DType dtype, int features) {
  return target.matrix == MatrixUnit::wgmma90 && dtype != DType::f32 && (features == 64 || features == 128);
}
Engine warpgroup_engine(DType dtype, int features) {
  const int stages = features == 64 ? 3 : 2, rows = 128;
  return {"attention_wgmma.h",
          fmt::format("WgmmaForward<{}, {}>", storage_type(dtype), features),
          {features, rows, rows, 0, false, 0},
          384,
          static_cast<std::size_t>((1 + 2 * stages) * rows * features * 2 + 1024)};
}
KernelSource warpgroup_source(const Engine& engine, DType dtype) {
  return {
      "attention_warpgroups",
      fmt::format("#include \"{0}\"\nusing Engine = attention::{1};\n"
                  "KERNEL void __launch_bounds__(Engine::threads, 1) attention_forward(AttentionShape shape, "
                  "const {2}* q, const {2}* k, const {2}* v, {2}* out, f32* logarithms, f32*) {{\n"
                  "  Engine::run(shape, q, k, v, out, logarithms);\n}}\n",
                  engine.header, engine.type, storage_type(dtype)),
      {"--gpu-architecture=sm_90a"}};
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

KernelSource gradient_source(const Engine& engine, DType dtype, bool packets, const Task& task) {
  const std::string type(storage_type(dtype));
  const bool by_q = task.result == Result::dq;
  const bool k = task.result != Result::dv, v = task.result != Result::dk;
  return {
      task.name,
      fmt::format("#include \"attention_backward.h\"\n#include \"{0}\"\nusing Engine = attention::{1};\n"
                  "KERNEL void __launch_bounds__(Engine::threads) attention_gradient(AttentionShape shape, "
                  "const {2}* q, const {2}* k, const {2}* v, const f32* logarithms, const f32* delta, "
                  "const {2}* dy, {3}) {{\n"
                  "  attention::{4}>(shape, q, k, v, logarithms, delta, dy, {5});\n}}\n",
                  engine.header, engine.type, type,
                  by_q ? fmt::format("{0}* dq", type) : fmt::format("{0}* dk, {0}* dv", type),
                  by_q ? fmt::format("gradient_q<Engine, {}", packets)
                       : fmt::format("gradient_kv<Engine, {}, {}, {}", packets, k, v),
                  by_q ? "dq" : "dk, dv"),
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
    if (shape_.splits == 1 && shape_.stacked == 1 && packets_ &&
        has_warpgroups(device.target(), dtype_, shape_.features))
      warpgroups_ = std::make_unique<Engine>(warpgroup_engine(dtype_, shape_.features));
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
    const bool by_warpgroups = warpgroups_ && packets;
    const Engine& engine = by_warpgroups ? *warpgroups_ : engine_;
    const auto source = [&](bool in_packets) {
      return by_warpgroups ? warpgroup_source(engine, dtype_) : forward_source(engine, dtype_, in_packets);
    };
    const Function& function = function_.get(device_, packets, engine.shared, source, "attention_forward");
    const std::int64_t blocks =
        by_warpgroups ? parts(shape_.queries, engine.tiles.own) * shape_.heads * shape_.batch : blocks_;
    device_.launch(function,
                   {.x = static_cast<unsigned>(blocks),
                    .threads = static_cast<unsigned>(engine.threads),
                    .shared = static_cast<unsigned>(engine.shared)},
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
  std::unique_ptr<Engine> warpgroups_;  // where they can be used, for whole packets
  std::int64_t blocks_ = 0;
  PacketFunction function_;
  LazyFunction combine_;
};

// Inputs: q, k, v, packed, delta, dy.
class GradientKernel : public AttentionKernel {
 public:
  GradientKernel(GpuDevice& device, const Step& step) : AttentionKernel(device, step) {
    const Layout &packed = step.inputs[3], &delta = step.inputs[4], &dy = step.inputs[5];
    if (!packed.contiguous()) throw KernelError("[attention] its result is not where it was written");
    shape_.dy = place_of(dy);
    shape_.delta_batch = delta.strides[0];
    shape_.delta_head = delta.strides[1];
    shape_.delta_row = delta.strides[2];
    packets_ = packets_ && in_packets(dy);
  }

 protected:
  // A kernel that computes some of the gradients.
  struct Part {
    Task task;
    Engine engine;
    std::int64_t blocks;
    PacketFunction function;
    Part(Task part_task, Engine part_engine, std::int64_t count)
        : task(part_task), engine(std::move(part_engine)), blocks(count) {}
  };

  template <class... Results>
  void launch(const Part& part, const KernelArguments& arguments, const Results&... results) const {
    const auto input = [&](std::size_t i) { return arguments.inputs[i]; };
    const bool packets =
        packets_ && aligned(input(0)) && aligned(input(1)) && aligned(input(2)) && aligned(input(5));
    const auto source = [&](bool in_packets) {
      return gradient_source(part.engine, dtype_, in_packets, part.task);
    };
    const Function& function =
        part.function.get(device_, packets, part.engine.shared, source, "attention_gradient");
    const float* const logarithms_in = logarithms(input(3));
    device_.launch(function,
                   {.x = static_cast<unsigned>(part.blocks),
                    .threads = static_cast<unsigned>(part.engine.threads),
                    .shared = static_cast<unsigned>(part.engine.shared)},
                   shape_, input(0), input(1), input(2), logarithms_in, input(4), input(5), results...);
  }
};

class QueryGradientKernel final : public GradientKernel {
 public:
  QueryGradientKernel(GpuDevice& device, const Step& step)
      : GradientKernel(device, step),
        part_(q_task, engine_for(device.target(), dtype_, shape_.features, q_task), 0) {
    part_.blocks = parts(shape_.queries, part_.engine.tiles.own) * shape_.heads * shape_.batch;
  }
  void run(const KernelArguments& arguments) const override {
    if (part_.blocks > 0) launch(part_, arguments, arguments.outputs[0]);
  }

 private:
  Part part_;
};

class KeyGradientKernel final : public GradientKernel {
 public:
  KeyGradientKernel(GpuDevice& device, const Step& step) : GradientKernel(device, step) {
    // Wide heads have too many sums for a lane's registers: one kernel for each gradient.
    const Target& target = device.target();
    const bool units = dtype_ != DType::f32 && target.matrix != MatrixUnit::none;
    const bool apart = units && (2 * shape_.features * 16 / target.wave_size > 128 || shape_.features > 192);
    add_part(apart ? k_task : kv_task);
    if (apart) add_part(v_task);
  }
  void run(const KernelArguments& arguments) const override {
    const std::int64_t count = element_count({shape_.batch, shape_.groups, shape_.keys, shape_.features});
    if (count == 0) return;
    void* const dk = arguments.outputs[0];
    void* const dv = static_cast<char*>(dk) + count * static_cast<std::int64_t>(dtype_size(dtype_));
    for (const auto& part : parts_) launch(*part, arguments, dk, dv);
  }

 private:
  void add_part(const Task& task) {
    Engine engine = engine_for(device_.target(), dtype_, shape_.features, task);
    const std::int64_t blocks = parts(shape_.keys, engine.tiles.own) * shape_.groups * shape_.batch;
    parts_.push_back(std::make_unique<Part>(task, std::move(engine), blocks));
  }
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention(GpuDevice& device, const Step& step) {
  if (step.op == Op::attention) return std::make_unique<ForwardKernel>(device, step);
  if (step.op == Op::attention_grad_q) return std::make_unique<QueryGradientKernel>(device, step);
  return std::make_unique<KeyGradientKernel>(device, step);
}

}  // namespace hearth::gpu
