// The kernels that are worth compiling before they are needed.
#pragma once

#include <string>
#include <vector>

#include "gpu/compiler.h"
#include "gpu/target.h"

namespace hearth::gpu {

struct CatalogueEntry {
  std::string name;  // what it computes, for people: "silu(x) * y, f16"
  KernelSource source;
  std::string function;  // its name in the source
  int threads = 256;     // per block, as it is launched
};

// The texts are those that the backend itself makes, so that it finds them in the cache.
std::vector<CatalogueEntry> catalogue(const Target& target);

}  // namespace hearth::gpu
