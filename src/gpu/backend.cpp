// The GPU backend: one implementation for every vendor's driver.
#include "device/backend.h"

#include <fmt/format.h>

#include "base/config_listeners.h"
#include "gpu/backends.h"
#include "gpu/block_planes.h"
#include "gpu/block_product.h"
#include "gpu/converted_product.h"
#include "gpu/device.h"
#include "gpu/event.h"
#include "gpu/halved_product.h"
#include "gpu/host_memory.h"
#include "gpu/in_flight.h"
#include "gpu/kernels.h"
#include "gpu/matmul.h"
#include "gpu/matmul_wgmma.h"
#include "gpu/pinned_pool.h"
#include "gpu/replay.h"
#include "gpu/staged_copy.h"
#include "gpu/turned_product.h"
#include "gpu/user_kernel.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

class TimedMark final : public WorkMark {
 public:
  explicit TimedMark(const GpuDevice& device) : event_(device, Event::Timing::on) {
    event_.record(device.stream());
  }
  bool reached() const override { return event_.reached(); }
  void wait() const override { event_.wait(); }
  double seconds_since(const WorkMark& earlier) const override {
    return event_.seconds_since(static_cast<const TimedMark&>(earlier).event_);
  }

 private:
  Event event_;
};

class GpuBackend final : public Backend {
 public:
  explicit GpuBackend(std::unique_ptr<GpuDevice> device) : device_(std::move(device)), gpu_(*device_) {}

  DeviceInfo info() const override { return gpu_.info(); }
  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryPurpose purpose) override {
    return gpu_.pool().allocate(bytes, purpose);
  }
  void copy_to_host(void* host, const Buffer& source, std::size_t offset, std::size_t bytes) override {
    if (bytes == 0) return;
    const std::byte* const from = static_cast<const std::byte*>(source.data) + offset;
    if (gpu_.host_memory().holds(host, bytes)) {
      gpu_.use();
      gpu_.check(gpu_.driver().call.copy_to_host(host, from, bytes, gpu_.stream()), "copying to the host");
      // By an event, behind which HIP lets the host see memory that is not coherent.
      const Event copied(gpu_);
      copied.record(gpu_.stream());
      copied.wait();
    } else {
      gpu::copy_to_host(gpu_, host, from, bytes);
    }
    gpu_.synchronize();
  }
  std::shared_ptr<Buffer> allocate_host(std::size_t bytes) override {
    return gpu_.host_memory().allocate(bytes);
  }
  void copy_from_host(Buffer& target, std::size_t offset, const void* host, std::size_t bytes) override {
    if (bytes == 0) return;
    gpu_.in_flight().admit(bytes);
    copy_to_device(gpu_, static_cast<std::byte*>(target.data) + offset, host, bytes, gpu_.stream());
  }
  std::unique_ptr<Upload> upload(const void* host, std::size_t bytes) override {
    return start_upload(gpu_, host, bytes);
  }
  std::unique_ptr<Download> download(void* host, std::shared_ptr<Buffer> source, std::size_t offset,
                                     std::size_t bytes) override {
    return start_download(gpu_, host, std::move(source), offset, bytes);
  }
  void store_blocks(Buffer& target, DType format, const void* host, std::size_t bytes) override {
    std::vector<std::byte> planes(bytes);
    blocks_to_planes(format, static_cast<const std::byte*>(host), planes.data(), bytes);
    copy_from_host(target, 0, planes.data(), bytes);
  }
  void load_blocks(void* host, const Buffer& source, DType format, std::size_t bytes) override {
    std::vector<std::byte> planes(bytes);
    copy_to_host(planes.data(), source, 0, bytes);
    planes_to_blocks(format, planes.data(), static_cast<std::byte*>(host), bytes);
  }
  bool host_accessible() const override { return false; }

  std::unique_ptr<Kernel> prepare(const Step& step) override {
    switch (op_kind(step.op)) {
      case OpKind::reduce:
        return make_reduction(gpu_, step);
      case OpKind::scan:
        return step.op == Op::argmax || step.op == Op::argmin ? make_arg_reduction(gpu_, step)
                                                              : make_scan(gpu_, step);
      case OpKind::movement:
        if (is_quantised(step.outputs[0].dtype)) return make_quantised(gpu_, step);
        if (!step.parts.empty()) return make_batched_elementwise(gpu_, step);
        return step.op == Op::copy ? make_elementwise(gpu_, step) : make_movement(gpu_, step);
      case OpKind::indexing:
        return step.op == Op::store_rows ? make_store_rows(gpu_, step) : make_indexing(gpu_, step);
      case OpKind::contraction:
        return step.op == Op::matmul ? make_matmul(gpu_, step) : make_convolution(gpu_, step);
      case OpKind::pooling:
        return make_pooling(gpu_, step);
      case OpKind::normalisation:
        return step.op == Op::rope ? make_rope(gpu_, step) : make_normalisation(gpu_, step);
      case OpKind::quantised:
        return step.op == Op::expert_matmul ? make_expert_matmul(gpu_, step) : make_quantised(gpu_, step);
      case OpKind::random:
        return make_random(gpu_, step);
      case OpKind::composite:
        if (step.op == Op::cached_attention) return make_cached_attention(gpu_, step);
        return step.op == Op::cross_entropy || step.op == Op::cross_entropy_grad
                   ? make_cross_entropy(gpu_, step)
                   : make_attention(gpu_, step);
      default:
        throw KernelError(fmt::format("[{}] is not a step", op_name(step.op)));
    }
  }
  bool fuses_epilogue(Op op, DType result, Op next) const override {
    if (op == Op::layer_norm || op == Op::rms_norm) return result == DType::f32 && next == Op::cast;
    if (op == Op::quantised_matmul) return true;
    if (op != Op::matmul) return false;
    // One block has a multiprocessor to itself there, and the matrix unit waits while it computes.
    const bool waits = gpu_.target().matrix == MatrixUnit::wgmma90 && dtype_size(result) == 2;
    const bool takes_long = op_row(next).rule == DTypeRule::floating;  // exp, gelu, a quotient, ...
    return !waits || !takes_long;
  }

  bool fuses_halves(const Step& product, bool kept) const override {
    return product.op == Op::matmul
               ? halves_fit(gpu_, product)
               : !kept && (few_rows_take_halves(gpu_, product) || group_rows_fit(gpu_, product) ||
                           converted_takes_halves(gpu_, product));
  }

  bool joins_readers(const Step& product) const override {
    return is_floating(product.outputs[0].dtype) && !skinny_fits(product);
  }

  bool recomputes(DType dtype) const override { return dtype != DType::f64; }

  bool norms_result(const Step& product) const override { return wgmma_norms(gpu_, product); }

  bool takes_norm(const Step& product, const Step& norm) const override {
    return quantised_takes_norm(gpu_, product, norm);
  }
  std::optional<DType> rounds_operand(const Step& product) const override {
    return gpu::rounds_operand(gpu_, product);
  }
  std::optional<DType> converts_weights(const Step& product) const override {
    return gpu::converts_weights(gpu_, product);
  }
  std::optional<std::uint32_t> rounds_rows(const Step& writer, const Step& product) const override {
    return few_rows_rounded_by(gpu_, product, writer);
  }
  bool stores_heads(const Step& product, const Step& store, const StoredHeads& heads) const override {
    return few_rows_store_heads(gpu_, product, store, heads) ||
           group_rows_store_heads(gpu_, product, store, heads);
  }
  bool turns_heads(const Step& product, const TurnedHeads&) const override { return turned_fit(product); }
  bool turns_parts(const Step& concat, const TurnedParts&) const override { return turned_parts_fit(concat); }
  bool adds_gradient(const Step&) const override { return true; }
  bool joins_attention_gradients(const Step& concat) const override {
    return attention_gradients_fit(gpu_, concat);
  }
  std::size_t most_parts(const Step& step) const override {
    return step.op == Op::store_rows ? most_stored_parts : most_batched_parts(step);
  }

  void admit_work(std::size_t bytes) override { gpu_.in_flight().admit(bytes); }
  std::unique_ptr<Replay> make_replay() override { return gpu::make_replay(gpu_); }
  std::shared_ptr<const LoadedKernel> load_kernel(const std::string& source, const std::string& name,
                                                  const std::vector<std::string>& options) override {
    return load_user_kernel(gpu_, source, name, options);
  }
  void synchronize() override { gpu_.synchronize(); }
  std::unique_ptr<const WorkMark> mark() override { return std::make_unique<TimedMark>(gpu_); }
  MemoryStats memory_stats() const override {
    MemoryStats stats = gpu_.pool().stats();
    gpu_.pinned().add_to(stats);
    gpu_.in_flight().add_to(stats);
    return stats;
  }
  void reset_peak_memory() override {
    gpu_.pool().reset_peak();
    gpu_.in_flight().reset_peak();
  }
  void empty_cache() override {
    gpu_.pool().empty_cache();
    gpu_.pinned().release_kept();
  }
  void warm_up(std::size_t bytes) override {
    const KernelSource source{"warm_up", "#include \"gpu.h\"\nKERNEL void warm_up() {}\n", {}};
    gpu_.launch(gpu_.function(source, "warm_up"), {.threads = 1});
    { const PinnedPool::Block block = gpu_.pinned().take(PinnedPool::largest); }
    if (bytes > 0) gpu_.pool().reserve(bytes);
    gpu_.synchronize();
  }
  void configure(const Config& config) override { gpu_.configure(config); }

 private:
  std::unique_ptr<GpuDevice> device_;
  GpuDevice& gpu_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Device device) {
  return make_backend(std::make_unique<GpuDevice>(driver_of(device.kind), device.index, device));
}

std::unique_ptr<Backend> make_backend(std::unique_ptr<GpuDevice> device) {
  return std::make_unique<GpuBackend>(std::move(device));
}

}  // namespace hearth::gpu
