// Running a plan.
#include <fmt/format.h>

#include <chrono>

#include "device/profile.h"
#include "hearth/config.h"
#include "hearth/error.h"
#include "plan/plan.h"

namespace hearth {

std::vector<std::shared_ptr<Buffer>> run_plan(const Plan& plan, Backend& backend, const PlanBindings& bindings) {
  std::vector<std::shared_ptr<Buffer>> outputs;
  outputs.reserve(plan.output_bytes.size());
  for (auto bytes : plan.output_bytes) outputs.push_back(backend.allocate(bytes));
  const auto arena = plan.arena_bytes ? backend.allocate(plan.arena_bytes) : nullptr;

  std::vector<void*> pointers(plan.places.size());
  for (std::size_t i = 0; i < plan.places.size(); ++i) {
    const Place& place = plan.places[i];
    void* base = place.kind == Place::Kind::leaf     ? bindings.leaves[place.index]
                 : place.kind == Place::Kind::output ? outputs[place.index]->data
                                                     : arena->data;
    pointers[i] = static_cast<char*>(base) + place.bytes;
  }

  const bool profile = profiling_enabled();
  for (const auto& step : plan.steps) {
    void* const* places = pointers.data() + step.places_begin;
    const KernelArguments arguments{places, places + step.inputs, bindings.numbers.data() + step.numbers_begin};
    if (!profile) {
      step.kernel->run(arguments);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    step.kernel->run(arguments);
    backend.synchronize();
    record_step(op_name(step.op), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return outputs;
}

}  // namespace hearth
