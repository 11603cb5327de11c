// A cache of keys and values: store_rows and cached_attention.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "gpu/expression_source.h"
#include "gpu/kernel_arguments.h"
#include "gpu/kernels.h"
#include "gpu/launch_recorder.h"
#include "gpu/nest.h"
#include "hearth/error.h"

namespace hearth::gpu {

#include "gpu/kernels/key_value_cache_arguments.h"

namespace {

constexpr unsigned threads = 256, small_threads = 128;

// ---- store_rows

// As kernels/key_value_cache.h has it.
struct StorePart {
  const void* indices;
  std::int64_t index_stride;
  const void* values;
  Nest<1> places;
  void* out;
};

// `from`, `to`: types of the kernel's language; bytes that are moved as one, or packets of what is converted.
KernelSource store_source(std::string_view from, std::string_view to, std::string_view index,
                          std::size_t parts, std::size_t loads) {
  // Not one of two that is chosen first: that would be a copy in memory.
  const auto store = [&](std::string_view part) {
    return fmt::format("store_part<{}>({}, count, length, rows, fault);\n", index, part);
  };
  return {
      "store_rows",
      fmt::format("#include \"key_value_cache.h\"\n"
                  "using Part = StorePart<{1}, {0}>;\n"
                  "KERNEL void store_rows(Part part, {2}u64 count, Divisor length, i64 rows, Fault fault) "
                  "{{\n  after_previous();\n  {3}}}\n",
                  from, to, parts == 1 ? "" : "Part next, ",
                  parts == 1 ? store("part")
                             : "if (blockIdx.y == 0)\n    " + store("part") + "  else\n    " + store("next")),
      {},
      loads};
}

class StoreRowsKernel final : public Kernel {
 public:
  StoreRowsKernel(GpuDevice& device, const Step& step)
      : device_(device),
        copy_(make_copy(device, step.inputs[0])),
        from_(step.inputs[2].dtype),
        to_(step.inputs[0].dtype),
        rows_(step.inputs[0].shape[0]),
        count_(step.inputs[1].shape[0]) {
    const std::int64_t elements = element_count(step.inputs[2].shape);
    for (std::size_t first = 0; first < step.inputs.size(); first += part_inputs) {
      const Layout& values = step.inputs[first + 2];
      parts_.push_back({step.inputs[first + 1].strides[0], collapse(values.shape, {values.strides})});
    }
    if (elements == 0) return;
    length_ = elements / count_;
    const std::size_t element = dtype_size(from_);
    unit_ = std::gcd<std::int64_t>(16, length_ * static_cast<std::int64_t>(element));
    for (const Part& part : parts_) unit_ = std::gcd(unit_, unit_bytes(part.places, 1, element));
    unit_ /= static_cast<std::int64_t>(element);
  }

  void run(const KernelArguments& arguments) const override {
    std::int64_t unit = unit_;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      void* const* in = arguments.inputs + part * part_inputs;
      if (in[0] != arguments.outputs[part])  // else in place
        copy_cache(*copy_, in, arguments.outputs + part);
      unit = aligned_unit(unit * size_of(from_), in[2]) / size_of(from_);
      unit = aligned_unit(unit * size_of(to_), arguments.outputs[part]) / size_of(to_);
    }
    if (length_ == 0) return;
    launch(functions_.get(
               device_, unit, [&] { return source(unit); }, "store_rows"),
           unit, arguments);
  }

 private:
  static constexpr std::size_t part_inputs = 3;
  struct Part {
    std::int64_t index_stride;
    StridedLoop places;
  };

  static std::int64_t size_of(DType dtype) { return static_cast<std::int64_t>(dtype_size(dtype)); }

  // `unit`: elements that are moved as one.
  KernelSource source(std::int64_t unit) const {
    const std::int64_t bytes = unit * size_of(from_);
    const auto type = [&](DType dtype) {
      return from_ == to_ ? std::string(unit_type(bytes))
                          : fmt::format("Packet<{}, {}>", storage_type(dtype), unit);
    };
    return store_source(type(from_), type(to_), index_type(count_ * length_), parts_.size(),
                        static_cast<std::size_t>(bytes));
  }
  void launch(const Function& store, std::int64_t unit, const KernelArguments& arguments) const {
    const Divisor length(length_ / unit);
    const std::int64_t count = count_ * (length_ / unit);
    std::vector<StorePart> parts;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      void* const* in = arguments.inputs + i * part_inputs;
      parts.push_back(
          {in[1], parts_[i].index_stride, in[2], Nest<1>(parts_[i].places, unit), arguments.outputs[i]});
    }
    const Fault fault{device_.fault(), static_cast<std::uint64_t>(Op::store_rows)};
    Arguments values;
    for (const StorePart& part : parts) values.add(part);
    values.add(count);
    values.add(length);
    values.add(rows_);
    values.add(fault);
    device_.launch(store,
                   {.x = device_.grid_for(static_cast<std::uint64_t>(count), threads),
                    .y = static_cast<unsigned>(parts_.size()),
                    .threads = threads},
                   values);
  }

  GpuDevice& device_;
  std::unique_ptr<Kernel> copy_;
  std::vector<Part> parts_;
  DType from_, to_;
  std::int64_t rows_, count_;
  std::int64_t length_ = 0, unit_ = 1;  // elements of a row; of them, how many can be moved as one
  UnitFunctions functions_;
};

// ---- cached_attention

// Shared memory that is only held, so that no two blocks of attention fit on a compute unit beside one of a
// product.
unsigned held_bytes(const GpuDevice& device) {
  return static_cast<unsigned>(device.target().shared_bytes / 4);
}

class CachedAttentionKernel final : public Kernel {
 public:
  CachedAttentionKernel(GpuDevice& device, const Step& step)
      : device_(device), run_(step.rounds ? step.rounds->run : 0) {
    const auto& attributes = std::get<CachedAttentionAttributes>(step.attributes);
    const Layout &q = step.inputs[0], &keys = step.inputs[1], &values = step.inputs[2],
                 &table = step.inputs[5];
    if (!keys.contiguous() || !values.contiguous() || !table.contiguous())
      throw KernelError("[cached_attention] keys, values and table must be dense");
    scaled_ = keys.dtype == DType::i8;
    if (scaled_ && (!step.inputs[6].contiguous() || !step.inputs[7].contiguous()))
      throw KernelError("[cached_attention] scales must be dense");
    const std::size_t sinks = scaled_ ? 8 : 6;
    if (step.inputs.size() > sinks) sinks_ = sinks;
    if (sinks_ > 0 && !step.inputs[sinks_].contiguous())
      throw KernelError("[cached_attention] sinks must be dense");
    constexpr std::int64_t most_features = 256;
    if (q.shape[2] > most_features)
      throw KernelError(
          fmt::format("[cached_attention] heads of {} features; at most {}", q.shape[2], most_features));
    const auto whole = [](std::int64_t size) {
      if (size > 1 << 30) throw KernelError(fmt::format("[cached_attention] an axis of {} elements", size));
      return static_cast<int>(size);
    };
    shape_ = {.queries = whole(q.shape[0]),
              .heads = whole(q.shape[1]),
              .groups = whole(keys.shape[1]),
              .features = whole(q.shape[2]),
              .splits = 1,
              .least_keys = 1,
              .page = whole(attributes.page),
              .pages = whole(table.shape[1]),
              .sequences = whole(table.shape[0]),
              .window = whole(attributes.window),
              .scale = static_cast<float>(attributes.scale),
              .soft_cap = static_cast<float>(attributes.soft_cap),
              .slots = whole(keys.shape[0]),
              .q_query = q.strides[0],
              .q_head = q.strides[1],
              .q_feature = q.strides[2],
              .sequence_stride = step.inputs[3].strides[0],
              .position_stride = step.inputs[4].strides[0]};
    if (element_count(q.shape) == 0) return;
    const auto divide = [&](int most_heads) {
      const int shared_heads = shape_.heads / shape_.groups;
      heads_ = std::min(most_heads, static_cast<int>(std::bit_ceil(static_cast<unsigned>(shared_heads))));
      blocks_ =
          static_cast<std::int64_t>(shape_.queries) * shape_.groups * ((shared_heads + heads_ - 1) / heads_);
    };
    // A block reads keys once for all its heads; where blocks are few, more of them with fewer heads are
    // faster.
    divide(2);
    if (blocks_ > device.compute_units()) divide(4);
    // Few blocks: each takes a part of the keys. How many keys there are is known on the device only.
    const std::int64_t capacity =
        shape_.window > 0 ? std::min<std::int64_t>(shape_.window, std::int64_t{shape_.pages} * shape_.page)
                          : std::int64_t{shape_.pages} * shape_.page;
    // More numbers of a lane than these would not leave registers for the kernel beside it.
    spreads_ =
        device.target().early_start && blocks_ <= device.compute_units() && dtype_size(keys.dtype) <= 2;
    constexpr std::uint32_t indices = 1u << 3 | 1u << 4 | 1u << 5;  // sequences, positions, table
    steady_ = (step.steady & indices) == indices;
    early_ = spreads_ && steady_ && attributes.old_keys;
    // Fewer than a block has on its way at once: those that are too many cost less than others that wait.
    shape_.least_keys = early_ ? 32 : 128;
    const std::int64_t at_once = (device.target().amd ? 4 : 2) * device.compute_units();
    // More than run at once: smaller ones, all of which may, so that none waits for keys alone.
    if (blocks_ > at_once && static_cast<int>(small_threads) / device.wave_size() >= heads_)
      attend_threads_ = small_threads;
    // Of a batch; where blocks are few, the kernels beside them need the shared memory.
    staged_ =
        device.target().early_start && !spreads_ && dtype_size(keys.dtype) == 2 && shape_.features % 8 == 0;
    const std::int64_t wanted =
        spreads_ ? device.compute_units() / blocks_ : (at_once + blocks_ - 1) / blocks_;
    shape_.splits = static_cast<int>(
        std::clamp<std::int64_t>(std::min(wanted, capacity / shape_.least_keys), 1, most_attention_splits));
    attend_ = device.function({"cached_attention", text(step), {}, scaled_ ? 8u : 16u}, "cached_attention");
    if (spreads_) device_.allow_shared(attend_, held_bytes(device));
    if (staged_) device_.allow_shared(attend_, staged_bytes());
  }

  std::size_t scratch_bytes() const override {
    if (shape_.splits == 1) return 0;
    return static_cast<std::size_t>(shape_.queries) * static_cast<std::size_t>(shape_.heads) *
           static_cast<std::size_t>(shape_.splits) * static_cast<std::size_t>(shape_.features + 2) *
           sizeof(float);
  }

  void run(const KernelArguments& arguments) const override {
    if (blocks_ == 0) return;
    void* const* in = arguments.inputs;
    const bool split = shape_.splits > 1;
    LaunchShape launch{.x = static_cast<unsigned>(blocks_ * shape_.splits), .threads = attend_threads_};
    if (spreads_) {
      launch.x = static_cast<unsigned>(device_.compute_units());
      launch.shared = held_bytes(device_);
      launch.spreads = true;
    }
    if (staged_) launch.shared = staged_bytes();
    device_.launch(attend_, launch, shape_, in[0], in[1], in[2], scaled_ ? in[6] : nullptr,
                   scaled_ ? in[7] : nullptr, sinks_ > 0 ? in[sinks_] : nullptr, in[3], in[4], in[5],
                   arguments.outputs[0], run_ > 0 ? arguments.outputs[1] : nullptr,
                   split ? arguments.scratch : nullptr,
                   split ? device_.arrivals(static_cast<std::size_t>(blocks_)) : nullptr,
                   Fault{device_.fault(), static_cast<std::uint64_t>(Op::cached_attention)});
  }

 private:
  // Keys and values on their way through shared memory (kernels/key_value_cache.h).
  static constexpr int stages = 2;
  unsigned staged_bytes() const {
    constexpr unsigned keys = 4, packet = 16;
    return stages * keys * 2 * packet * attend_threads_;
  }
  std::string text(const Step& step) const {
    const std::string_view q = storage_type(step.inputs[0].dtype), cache = storage_type(step.inputs[1].dtype);
    return fmt::format(
        "#include \"key_value_cache.h\"\n"
        "KERNEL_OF({9}{7}) void cached_attention(CachedAttentionShape shape, const {0}* q, const {1}* keys,\n"
        "    const {1}* values, const f16* key_scales, const f16* value_scales, const f32* sinks, const i64* "
        "sequences,\n"
        "    const i64* positions, const i64* table, {0}* out, u8* rounded_rows, f32* scratch, u32* "
        "arrived,\n"
        "    Fault fault) {{\n"
        "{5}"
        "  cached::attend<{9}, {0}, {1}, {2}, {3}, {4}, {10}, {8}, {12}, {11}, {13}>(shape, q, keys, "
        "values,\n"
        "      key_scales, value_scales, sinks, sequences, positions, table, out, rounded_rows, scratch, "
        "arrived, fault, [] "
        "{{{6}}});\n}}\n",
        q, cache, heads_, shape_.features, shape_.soft_cap > 0, steady_ ? "" : "  after_previous();\n",
        steady_ ? " after_previous(); " : "",
        device_.target().amd ? "" : fmt::format(", {}", 2 * threads / attend_threads_), spreads_ && steady_,
        attend_threads_, sinks_ > 0, run_, early_, staged_ ? stages : 0);
  }

  GpuDevice& device_;
  std::uint32_t run_;  // of rounded rows; 0: they are not rounded
  CachedAttentionShape shape_{};
  bool scaled_ = false;    // bytes, with scales
  std::size_t sinks_ = 0;  // which input they are; 0: none
  bool spreads_ = false;   // a block for each compute unit, so that the product behind it can start early
  bool steady_ = false;    // no step before this one writes to sequences, positions and table
  bool early_ = false;     // keys and values are read before the kernel waits
  bool staged_ = false;    // they are on their way through shared memory
  int heads_ = 1;
  std::int64_t blocks_ = 0;
  unsigned attend_threads_ = threads;
  Function attend_;
};

}  // namespace

void copy_cache(const Kernel& copy, void* const* from, void* const* to) {
  copy.run({from, to, nullptr, nullptr});
  if (LaunchRecorder* const recorder = LaunchRecorder::current()) recorder->hold_next();
}

bool attention_rounds_rows(const GpuDevice& device, const Step& attention, std::uint32_t run) {
  const Layout &q = attention.inputs[0], &out = attention.outputs[0];
  return device.target().early_start && q.shape[2] % run == 0 && out.dtype == DType::f32 && out.contiguous();
}
std::unique_ptr<Kernel> make_store_rows(GpuDevice& device, const Step& step) {
  return std::make_unique<StoreRowsKernel>(device, step);
}
std::unique_ptr<Kernel> make_cached_attention(GpuDevice& device, const Step& step) {
  return std::make_unique<CachedAttentionKernel>(device, step);
}

}  // namespace hearth::gpu
