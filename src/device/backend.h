// Backend: what a device can do for a plan.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/step.h"
#include "hearth/config.h"
#include "hearth/device.h"

namespace hearth {

// A kernel and what it is to work on. The arrays live until the call that gets them returns.
struct StepRun {
  const Kernel* kernel = nullptr;
  KernelArguments arguments;
  std::uint32_t inputs = 0, outputs = 0, numbers = 0;
};

// The steps of one plan, made ready to run again and again. One thread at a time.
class Replay {
 public:
  virtual ~Replay() = default;
  // Has the effect of running the steps one by one; each time with the same kernels, perhaps with other
  // arguments.
  virtual void run(std::span<const StepRun> steps) = 0;
  // True iff they have the arguments that they had the last time.
  virtual bool unchanged(std::span<const StepRun> steps) const = 0;
  virtual std::size_t launches() const = 0;  // kernels that the device is given in one run
};

// An argument of a user's kernel.
struct KernelValue {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

// A user's kernel on a device. Safe from any thread.
class LoadedKernel {
 public:
  struct Resources {
    int registers = 0, shared_bytes = 0, spilled_bytes = 0, most_threads = 0;
  };
  virtual ~LoadedKernel() = default;
  virtual void launch(const std::array<unsigned, 3>& blocks, const std::array<unsigned, 3>& threads,
                      unsigned shared_bytes, std::span<const KernelValue> values) const = 0;
  virtual const Resources& resources() const = 0;
};

// A copy to a device beside the work that the device has been given.
class Upload {
 public:
  virtual ~Upload() = default;
  virtual bool done() const = 0;
  // The memory, for work that is given to the device from now on: it waits for the copy, the caller does not.
  virtual std::shared_ptr<Buffer> finish() = 0;
};

// A copy to the host of what the work that the device had been given by then leaves in memory. Later work
// goes on beside it.
class Download {
 public:
  virtual ~Download() = default;  // waits, too
  // Until it is done. What that work did wrong is told as by Backend::synchronize().
  virtual void wait() = 0;
};

// A place in the work of a device; hearth/event.h.
class WorkMark {
 public:
  virtual ~WorkMark() = default;
  virtual bool reached() const = 0;
  virtual void wait() const = 0;
  virtual double seconds_since(const WorkMark& earlier) const = 0;  // of the same backend; both reached
};

// Threads: every function may be called from any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceInfo info() const = 0;

  // Memory for `bytes` (0 is allowed), aligned to 64. Throws OutOfMemory.
  virtual std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryPurpose purpose) = 0;
  virtual void copy_to_host(void* host, const Buffer& source, std::size_t offset, std::size_t bytes) = 0;
  // Memory of the host that copy_to_host() fills without copying twice; null where there is none such.
  virtual std::shared_ptr<Buffer> allocate_host(std::size_t bytes) { return (void)bytes, nullptr; }
  // The host's memory has been read when it returns.
  virtual void copy_from_host(Buffer& target, std::size_t offset, const void* host, std::size_t bytes) = 0;
  // New memory with the same bytes; the host's memory has been read when it returns. Null where that takes as
  // long as copy_from_host().
  virtual std::unique_ptr<Upload> upload(const void* host, std::size_t bytes) {
    return (void)host, (void)bytes, nullptr;
  }
  // To memory that allocate_host() gave, which lives until it is done. Null where the host had better read
  // memory itself.
  virtual std::unique_ptr<Download> download(void* host, std::shared_ptr<Buffer> source, std::size_t offset,
                                             std::size_t bytes) {
    return (void)host, (void)source, (void)offset, (void)bytes, nullptr;
  }
  // A whole tensor in a block format, whose bytes the host has as in files; the device may order them as its
  // kernels like.
  virtual void store_blocks(Buffer& target, DType, const void* host, std::size_t bytes) {
    copy_from_host(target, 0, host, bytes);
  }
  virtual void load_blocks(void* host, const Buffer& source, DType, std::size_t bytes) {
    copy_to_host(host, source, 0, bytes);
  }
  // The format in which weights in a block format are multiplied fastest; the same where that is as files
  // have them. repack() makes rows of it, from `first_row` on, of a matrix (all_rows, depth) at byte `offset`
  // of the target, from the host's bytes of a file. Rows come in fours.
  virtual DType repacked_format(DType format) const { return format; }
  virtual void repack(DType format, const void* host, std::int64_t rows, Buffer& target, std::size_t offset,
                      std::int64_t first_row, std::int64_t all_rows, std::int64_t depth) {
    (void)format, (void)host, (void)rows, (void)target, (void)offset, (void)first_row, (void)all_rows,
        (void)depth;
  }
  // True iff Buffer::data can be dereferenced by the host.
  virtual bool host_accessible() const = 0;

  // Makes a step ready. Throws DTypeError where the backend has no kernel for it.
  virtual std::unique_ptr<Kernel> prepare(const Step& step) = 0;
  // True iff a step of this operation goes on with an expression over its result, of that type, and `next` in
  // it had better be done there than in a step of its own.
  virtual bool fuses_epilogue(Op op, DType result, Op next) const = 0;
  // True iff this product goes on with an expression over the halves of its columns (Step::halves). kept: and
  // is stored itself by the side of that.
  virtual bool fuses_halves(const Step& product, bool kept) const {
    (void)product, (void)kept;
    return false;
  }

  // True iff this product had better go on with all that its elementwise readers compute than be stored for
  // them, and results that belong side by side can be stored so (Step::joined).
  virtual bool joins_readers(const Step& product) const {
    (void)product;
    return false;
  }

  // True iff computing an elementwise value of this type again costs less than storing and reading it.
  virtual bool recomputes(DType dtype) const {
    (void)dtype;
    return false;
  }

  // True iff this product, with its expression, had better give its result normed (Step::normed).
  virtual bool norms_result(const Step& product) const {
    (void)product;
    return false;
  }

  // True iff the step of a product can take the norm of its first operand upon itself. Its first input is
  // then the norm's, the norm's weight follows its other inputs, and the attributes are the norm's.
  virtual bool takes_norm(const Step& product, const Step& norm) const {
    (void)product;
    (void)norm;
    return false;
  }

  // The type to which the step of a product rounds its first operand before it does anything else, if it
  // does.
  virtual std::optional<DType> rounds_operand(const Step& product) const {
    (void)product;
    return std::nullopt;
  }

  // How many neighbours share a scale where the step of a product had better be given its first operand,
  // dense rows, rounded by the step that computes it (RoundedRows); nothing if not.
  virtual std::optional<std::uint32_t> rounds_rows(const Step& writer, const Step& product) const {
    (void)writer;
    (void)product;
    return std::nullopt;
  }

  // The type of numbers that the step of a product makes of its weights before it multiplies, if it does and
  // if another product's step, given such numbers, had better make them on the side (Step::converts).
  virtual std::optional<DType> converts_weights(const Step& product) const {
    (void)product;
    return std::nullopt;
  }

  // True iff the step of a product can go on as StoredHeads says; `store` has a part for keys and one for
  // values.
  virtual bool stores_heads(const Step& product, const Step& store, const StoredHeads& heads) const {
    (void)product;
    (void)store;
    (void)heads;
    return false;
  }

  // True iff the step of a product can go on as TurnedHeads says.
  virtual bool turns_heads(const Step& product, const TurnedHeads& heads) const {
    (void)product;
    (void)heads;
    return false;
  }

  // True iff the step of a concat can turn parts as TurnedParts says.
  virtual bool turns_parts(const Step& concat, const TurnedParts& parts) const {
    (void)concat;
    (void)parts;
    return false;
  }

  // True iff the step of rms_norm_grads or layer_norm_grads can add another gradient to the one by x.
  virtual bool adds_gradient(const Step& norm) const {
    (void)norm;
    return false;
  }

  // True iff the step of a concat can compute its parts as AttentionGradients says.
  virtual bool joins_attention_gradients(const Step& concat) const {
    (void)concat;
    return false;
  }

  // How many small elementwise steps or store_rows like this one can be parts of one step.
  virtual std::size_t most_parts(const Step& step) const {
    (void)step;
    return 1;
  }

  // Before the steps of a plan, which work on so many bytes: waits while the device has more work before it
  // than Config::max_in_flight_gb allows.
  virtual void admit_work(std::size_t bytes) { (void)bytes; }

  // For a plan that runs more than once; null where running the steps one by one is as good.
  virtual std::unique_ptr<Replay> make_replay() { return nullptr; }

  // Throws CompileError, and DeviceError where the device runs no such kernels.
  virtual std::shared_ptr<const LoadedKernel> load_kernel(const std::string& source, const std::string& name,
                                                          const std::vector<std::string>& options) = 0;
  virtual void synchronize() = 0;
  virtual std::unique_ptr<const WorkMark> mark() = 0;  // behind all work so far
  virtual MemoryStats memory_stats() const = 0;
  virtual void reset_peak_memory() = 0;
  virtual void empty_cache() = 0;
  virtual void warm_up(std::size_t bytes) = 0;
  virtual void configure(const Config& config) { (void)config; }  // it has changed
};

// The backend of a device. Throws DeviceUnavailable.
Backend& backend(Device device);
// Adds one under an index that no device of this machine has: it is not among devices(), and is kept until
// the process ends. Throws ValueError when the index is taken.
void add_backend(Device device, std::unique_ptr<Backend> backend);

}  // namespace hearth
