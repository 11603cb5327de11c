// Sizes of models, and what would make them smaller.
#include "llm/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/config.h"
#include "llm/model.h"
#include "tensor/key_value_cache.h"

namespace hearth::llm {
namespace {

constexpr std::int64_t least_context = 256;  // that is worth proposing

// What a whole model comes to in a type, all of its numbers in it.
std::size_t size_in(DType type, std::int64_t numbers) {
  return static_cast<std::size_t>(storage_bytes(type, numbers / 256 * 256));
}

std::size_t available_on(Device device) {
  const DeviceInfo info = device_info(device);
  const Config limits = config();
  double most = std::min(static_cast<double>(info.free_memory),
                         static_cast<double>(info.total_memory) * limits.max_memory_fraction);
  if (limits.max_memory_gb > 0) most = std::min(most, limits.max_memory_gb * (1ull << 30));
  return static_cast<std::size_t>(most);
}

std::string advice_for(const MemoryPlan& plan, const LoadOptions& options, const ModelConfig& model,
                       std::int64_t numbers) {
  std::string advice;
  const auto add = [&](const std::string& text) { advice += (advice.empty() ? "" : ", or ") + text; };
  const std::size_t beside = plan.needed() - plan.cache;
  if (beside < plan.available) {  // a smaller cache is enough
    const double share = static_cast<double>(plan.available - beside) /
                         static_cast<double>(std::max<std::size_t>(1, plan.cache));
    const auto context =
        static_cast<std::int64_t>(share * static_cast<double>(plan.context)) / least_context * least_context;
    if (context >= least_context) add(fmt::format("--ctx {}", context));
    const auto needs = [&](DType type) {
      return static_cast<double>(block_bytes(type)) / static_cast<double>(block_elements(type)) /
             (static_cast<double>(block_bytes(options.cache_dtype)) /
              static_cast<double>(block_elements(options.cache_dtype)));
    };
    const bool has_q8_0 = model.head_size % scaled_run == 0;
    for (const DType type : {DType::f16, DType::q8_0})
      if ((has_q8_0 || type != DType::q8_0) && needs(type) <= share && needs(type) < 1) {
        add(fmt::format("--cache-type {}", dtype_name(type)));
        break;
      }
  }
  for (const DType type : {DType::q8_0, DType::q6_k, DType::q4_k, DType::q3_k, DType::q2_k}) {
    const std::size_t size = size_in(type, numbers);
    if (size < plan.weights && size + plan.cache + plan.working <= plan.available) {
      add(fmt::format("weights in {} ('hearth quantize')", dtype_name(type)));
      break;
    }
  }
  return advice;
}

}  // namespace

MemoryPlan plan_memory(const std::filesystem::path& path, const LoadOptions& options) {
  return plan_memory(open_model(path), options);
}

MemoryPlan plan_memory(const ModelFile& file, const LoadOptions& options) {
  const FileSize size = file.size();
  const std::size_t cache = cache_bytes_of(file.config, options);
  const bool tied = !file.contains("output.weight");
  // With so many of the last layers on the device. Where that is not all, the embedding stays behind; as the
  // output it is there all the same.
  const auto with = [&](std::int64_t on_device) {
    MemoryPlan plan;
    plan.layers = file.config.layers;
    plan.device_layers = on_device;
    plan.context = context_of(file.config, options);
    plan.available = available_on(options.device);
    std::size_t left = 0;
    for (std::int64_t i = 0; i < plan.layers - on_device; ++i)
      left += size.layers[static_cast<std::size_t>(i)];
    const bool split = on_device < plan.layers;
    const std::size_t left_cache =
        cache / static_cast<std::size_t>(plan.layers) * static_cast<std::size_t>(plan.layers - on_device);
    plan.weights = size.bytes - left - (split && !tied ? size.embedding : 0);
    plan.cache = cache - left_cache;
    plan.working = (plan.weights + plan.cache) / 20;
    if (split) {
      plan.host_weights = left + size.embedding;
      plan.host_cache = left_cache;
      plan.host_available = available_on(Device{});
    }
    return plan;
  };
  const std::vector<Placement> placements = placements_of(file.config, options);
  MemoryPlan plan = with(placements.back().end - placements.back().first);
  plan.fitting_layers = plan.device_layers;
  while (plan.fitting_layers > 0 && !with(plan.fitting_layers).fits()) --plan.fitting_layers;
  if (!plan.fits()) plan.advice = advice_for(plan, options, file.config, size.numbers);
  return plan;
}

}  // namespace hearth::llm
