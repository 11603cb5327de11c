// Running a plan.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/profile.h"
#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/small_vector.h"
#include "plan/plan.h"

namespace hearth {
namespace {

template <typename T>
bool all_finite(const void* data, std::int64_t count) {
  const T* values = static_cast<const T*>(data);
  return std::all_of(values, values + count,
                     [](T value) { return std::isfinite(static_cast<double>(value)); });
}

// Strict validation: every floating result of a step must be finite.
void check_results(const Plan& plan, const PlannedStep& step,
                   const std::vector<std::shared_ptr<Buffer>>& outputs, const Buffer* arena,
                   Backend& backend) {
  for (std::uint32_t k = 0; k < step.outputs; ++k) {
    const auto index = step.places_begin + step.inputs + k;
    const Elements& elements = plan.elements[index];
    if (!is_floating(elements.dtype) || elements.count == 0) continue;
    const Place& place = plan.places[index];
    const Buffer& buffer = place.kind == Place::Kind::output ? *outputs[place.index] : *arena;
    std::vector<std::byte> values(static_cast<std::size_t>(elements.count) * dtype_size(elements.dtype));
    backend.copy_to_host(values.data(), buffer, static_cast<std::size_t>(place.bytes), values.size());
    bool finite = true;
    if (elements.dtype == DType::f64)
      finite = all_finite<double>(values.data(), elements.count);
    else if (elements.dtype == DType::f32)
      finite = all_finite<float>(values.data(), elements.count);
    else if (elements.dtype == DType::f16)
      finite = all_finite<float16>(values.data(), elements.count);
    else if (elements.dtype == DType::bf16)
      finite = all_finite<bfloat16>(values.data(), elements.count);
    if (!finite)
      throw KernelError(fmt::format("[{}] a result is NaN or infinite (enable_strict_validation is set)",
                                    step.op == Op::copy ? "elementwise" : op_name(step.op)));
  }
}

KernelArguments arguments_of(const PlannedStep& step, std::span<void* const> pointers, const Buffer* arena,
                             const PlanBindings& bindings) {
  void* const* places = pointers.data() + step.places_begin;
  return {places, places + step.inputs, bindings.numbers.data() + step.numbers_begin,
          arena ? static_cast<char*>(arena->data) + step.scratch : nullptr};
}

void replay(const Plan& plan, std::span<void* const> pointers, const Buffer* arena,
            const std::vector<std::shared_ptr<Buffer>>& outputs, Backend& backend,
            const PlanBindings& bindings) {
  std::vector<StepRun> steps;
  steps.reserve(plan.steps.size());
  for (const auto& step : plan.steps)
    steps.push_back({step.kernel.get(), arguments_of(step, pointers, arena, bindings), step.inputs,
                     step.outputs, step.numbers});
  std::vector<ReplayOutput> written;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    written.push_back(
        {outputs[i].get(), plan.output_bytes[i], i < bindings.donated.size() && bindings.donated[i]});
  plan.replay->run(steps, written, backend);
}

}  // namespace

std::vector<std::shared_ptr<Buffer>> run_plan(const Plan& plan, Backend& backend,
                                              const PlanBindings& bindings) {
  std::vector<std::shared_ptr<Buffer>> outputs;
  outputs.reserve(plan.output_bytes.size());
  std::size_t bytes = plan.arena_bytes;
  for (std::size_t i = 0; i < plan.output_bytes.size(); ++i) {
    const bool given = i < bindings.donated.size() && bindings.donated[i];
    outputs.push_back(given ? bindings.donated[i]
                            : backend.allocate(plan.output_bytes[i], MemoryPurpose::results));
    bytes += plan.output_bytes[i];
  }
  const auto arena = plan.arena_bytes ? backend.allocate(plan.arena_bytes, MemoryPurpose::arenas) : nullptr;

  SmallVector<void*, 16> pointers(plan.places.size());
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const Place& place = plan.places[i];
    void* base = place.kind == Place::Kind::leaf     ? bindings.leaves[place.index]
                 : place.kind == Place::Kind::output ? outputs[place.index]->data
                 : arena                             ? arena->data
                                                     : nullptr;  // of size 0
    pointers[i] = static_cast<char*>(base) + place.bytes;
  }

  backend.admit_work(bytes);
  const bool profile = profiling_enabled();
  const bool validate = config().enable_strict_validation;
  if (plan.replay && !profile && !validate) {
    replay(plan, pointers, arena.get(), outputs, backend, bindings);
    return outputs;
  }
  if (profile) backend.synchronize();  // what was queued before is not the first step's
  for (const auto& step : plan.steps) {
    const KernelArguments arguments = arguments_of(step, pointers, arena.get(), bindings);
    if (!profile && !validate) {
      step.kernel->run(arguments);
      continue;
    }
    const std::int64_t begin = profile_clock();
    step.kernel->run(arguments);
    backend.synchronize();
    if (profile) record_step(step.op == Op::copy ? "elementwise" : op_name(step.op), begin, profile_clock());
    if (validate) check_results(plan, step, outputs, arena.get(), backend);
  }
  return outputs;
}

}  // namespace hearth
