// What programs do with a GPU, for finding out which kernels they need.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hearth::cli {

struct Workload {
  std::string name;           // "gpt bf16"
  std::function<void()> run;  // on the default device, once
};

// Training steps of the models, a step of text generation, and the operations that these do not use.
std::vector<Workload> kernel_workloads();

}  // namespace hearth::cli
