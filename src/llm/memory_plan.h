// What a model will take of a device's memory, before it is loaded.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "hearth/llm.h"
#include "llm/weights.h"

namespace hearth::llm {

struct MemoryPlan {
  std::size_t weights = 0, cache = 0;
  std::size_t working = 0;    // for what is computed in between; a guess
  std::size_t available = 0;  // on the device, within the limits of the configuration
  // The same of the layers that are on the CPU, where the device is another. Their weights may stay in the
  // file.
  std::size_t host_weights = 0, host_cache = 0, host_available = 0;
  std::int64_t layers = 0, device_layers = 0;  // of the model; of these on the device
  std::int64_t fitting_layers = 0;             // that would fit the device
  std::int64_t context = 0;                    // tokens of each sequence
  std::string advice = {};  // what would make it fit, where it does not; empty: nothing would
  std::size_t needed() const { return weights + cache + working; }
  bool fits() const { return needed() <= available; }
  bool fits_host() const {
    return host_available == 0 ? fits() : host_weights + host_cache <= host_available;
  }
};

// Reads the beginnings of files. Throws as Model::load().
MemoryPlan plan_memory(const std::filesystem::path& path, const LoadOptions& options);
MemoryPlan plan_memory(const ModelFile& file, const LoadOptions& options);

}  // namespace hearth::llm
