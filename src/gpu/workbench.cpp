// Filling, timing, comparing.
#include "gpu/workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/event.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "gpu/staged_copy.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// Floats get numbers between -1 and 1, others 0 or 1.
KernelSource fill_source(DType dtype) {
  return {"fill",
          fmt::format("#include \"gpu.h\"\n"
                      "KERNEL void fill({0}* out, u64 count, u32 seed) {{\n"
                      "  for (u64 i = global_thread(); i < count; i += global_threads()) {{\n"
                      "    u32 bits = ((u32)i ^ (u32)(i >> 32) * 0x85ebca6bu) * 0x9e3779b9u + seed;\n"
                      "    bits = (bits ^ bits >> 15) * 0x2c1b3c6du;\n"
                      "    bits ^= bits >> 13;\n"
                      "    out[i] = store<{0}>(({1}){2});\n  }}\n}}\n",
                      storage_type(dtype), compute_type(dtype),
                      is_floating(dtype) ? "((f32)(bits & 0xffffu) * (1.0f / 32768) - 1.0f)" : "(bits & 1)"),
          {}};
}

// Each thread's largest difference, in units of what is allowed.
KernelSource compare_source(DType dtype) {
  return {"compare",
          fmt::format("#include \"gpu.h\"\n"
                      "KERNEL void compare(const {0}* got, const {0}* wanted, u64 count, f32 relative,\n"
                      "                    f32 absolute, f32* worst) {{\n"
                      "  f32 largest = 0;\n"
                      "  for (u64 i = global_thread(); i < count; i += global_threads()) {{\n"
                      "    const f32 b = load(wanted[i]), difference = load(got[i]) - b;\n"
                      "    const f32 size = b < 0 ? -b : b;\n"
                      "    const f32 units = (difference < 0 ? -difference : difference) / "
                      "(relative * size + absolute);\n"
                      "    if (!(units <= largest)) largest = units == units ? units : 3.0e38f;\n"
                      "  }}\n"
                      "  worst[global_thread()] = largest;\n}}\n",
                      storage_type(dtype)),
          {}};
}

constexpr unsigned threads = 256;

struct Extent {
  std::int64_t before = 0, after = 0;  // elements below and from the first on
};
Extent extent_of(const Layout& layout) {
  Extent extent{0, 1};
  for (std::size_t axis = 0; axis < layout.shape.size(); ++axis) {
    if (layout.shape[axis] == 0) return {0, 0};
    const std::int64_t reach = (layout.shape[axis] - 1) * layout.strides[axis];
    (reach < 0 ? extent.before : extent.after) += std::abs(reach);
  }
  return extent;
}

}  // namespace

Workbench::Workbench(GpuDevice& device, const Step& step) : device_(device), step_(step) {
  std::uint32_t seed = 1;
  for (const Layout& input : step.inputs) {
    const Extent extent = extent_of(input);
    const auto count = static_cast<std::uint64_t>(extent.before + extent.after);
    memory_.push_back(device.pool().allocate(count * dtype_size(input.dtype), MemoryPurpose::tuning));
    fill(memory_.back()->data, input.dtype, count, seed++);
    inputs_.push_back(static_cast<char*>(memory_.back()->data) +
                      extent.before * static_cast<std::int64_t>(dtype_size(input.dtype)));
  }
  for (const Layout& output : step.outputs) {
    memory_.push_back(device.pool().allocate(
        static_cast<std::size_t>(element_count(output.shape)) * dtype_size(output.dtype),
        MemoryPurpose::tuning));
    outputs_.push_back(memory_.back()->data);
  }
  numbers_.resize(step.expression.immediates.size());
}

void Workbench::fill(void* memory, DType dtype, std::uint64_t count, std::uint32_t seed) {
  if (count == 0) return;
  const Function function = device_.function(fill_source(dtype), "fill");
  device_.launch(function, {.x = device_.grid_for(count, threads), .threads = threads}, memory, count, seed);
}

void Workbench::run(const Kernel& kernel, void* scratch) {
  kernel.run({inputs_.data(), outputs_.data(), numbers_.data(), scratch});
}

double Workbench::seconds(const Kernel& kernel) {
  const auto scratch = device_.pool().allocate(kernel.scratch_bytes(), MemoryPurpose::tuning);
  const Event begin(device_, Event::Timing::on), end(device_, Event::Timing::on);
  const auto timed = [&](int runs) {
    begin.record(device_.stream());
    for (int i = 0; i < runs; ++i) run(kernel, scratch->data);
    end.record(device_.stream());
    device_.wait();
    return end.seconds_since(begin) / runs;
  };
  run(kernel, scratch->data);  // compiles
  device_.wait();
  constexpr double slice = 2e-3, enough = 20e-3;  // seconds of a sample; beyond it, once will do
  constexpr int most_runs = 200, samples = 5;
  const double first = timed(1);
  if (first > enough) return first;
  const int runs = std::clamp(static_cast<int>(slice / std::max(first, 1e-6)), 1, most_runs);
  double best = first;
  for (int i = 0; i < samples; ++i) best = std::min(best, timed(runs));
  return best;
}

void Workbench::set_reference(const Kernel& kernel) {
  const auto scratch = device_.pool().allocate(kernel.scratch_bytes(), MemoryPurpose::tuning);
  run(kernel, scratch->data);
  reference_ = memory_[inputs_.size()];
}

void Workbench::compare(std::int64_t depth, std::size_t scratch_bytes,
                        const std::function<void(StreamHandle, void*, void*)>& work) {
  const DType dtype = step_.outputs[0].dtype;
  const auto count = static_cast<std::uint64_t>(element_count(step_.domain));
  const auto result = device_.pool().allocate(count * dtype_size(dtype), MemoryPurpose::tuning);
  const auto scratch = device_.pool().allocate(scratch_bytes, MemoryPurpose::tuning);
  fill(result->data, dtype, count, 99);  // what was there before must not be the right answer
  device_.use();
  work(device_.stream(), result->data, scratch->data);

  const unsigned blocks = std::min(64u, device_.grid_for(count, threads));
  std::vector<float> worst(std::size_t{blocks} * threads);
  const auto found = device_.pool().allocate(worst.size() * sizeof(float), MemoryPurpose::tuning);
  // Results are rounded to the dtype by both; sums in f32 in another order differ by a few units of their
  // parts, which are at most 1 each.
  const float rounding = dtype == DType::bf16 ? 0x1p-8f : dtype == DType::f16 ? 0x1p-11f : 0x1p-24f;
  const float relative = 2 * rounding, absolute = 0x1p-22f * static_cast<float>(depth);
  const Function function = device_.function(compare_source(dtype), "compare");
  device_.launch(function, {.x = blocks, .threads = threads}, result->data, reference_->data, count, relative,
                 absolute, found->data);
  copy_to_host(device_, worst.data(), found->data, worst.size() * sizeof(float));
  device_.wait();
  const float largest = *std::max_element(worst.begin(), worst.end());
  if (largest > 1)
    throw LibraryError(fmt::format("[{}] differs from our own kernel by {:.3g} times what rounding allows",
                                   op_name(step_.op), static_cast<double>(largest)));
}

}  // namespace hearth::gpu
