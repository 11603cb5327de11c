// Which way a product or a convolution is computed: by one of our own kernels or by a vendor's library.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/kernels.h"
#include "gpu/vendor/vendor_library.h"

namespace hearth::gpu {

// A kernel of ours.
struct OwnWay {
  std::string name;  // "own" or begins with it
  bool likely;       // to be the fastest
  // Throws KernelError where it does not fit the step.
  std::function<std::unique_ptr<Kernel>(const Step&)> make;
};

// A library that may know ways; see VendorLibrary.
struct LibraryWays {
  std::string name;
  bool by_default;
  std::function<LibraryCalls(int most)> calls;
  std::function<std::unique_ptr<LibraryCall>(std::string_view name)> call;
};

template <class Problem>
std::vector<LibraryWays> ways_of(const std::vector<const VendorLibrary<Problem>*>& libraries,
                                 const Problem& problem) {
  std::vector<LibraryWays> ways;
  for (const VendorLibrary<Problem>* library : libraries)
    ways.push_back({library->name(), library->by_default(),
                    [=](int most) { return library->calls(problem, most); },
                    [=](std::string_view name) { return library->call(problem, name); }});
  return ways;
}

// A step that can be computed in several ways.
struct Contraction {
  std::string text;  // of the operation, for the tuning file: "matmul bf16 4096x4096x1024 nt"
  double multiplications = 0;
  std::int64_t depth = 0;                               // products that make one element of the result
  std::vector<OwnWay> own;                              // the first is used where nothing is known
  std::function<std::vector<LibraryWays>()> libraries;  // those that may be used
};

// What the tuning file says is fastest. Where it says nothing: with Config::enable_tuning or the level
// `aggressive`, the ways are measured now; otherwise a library that may be used by default takes large
// problems, after its result was compared with our own kernel's, once per shape.
std::unique_ptr<Kernel> choose_way(GpuDevice& device, const Step& step, const Contraction& contraction);

// A way by its name: "own", "own mma_large", "cuBLASLt 13.1.0 #0". Null where there is none of that name.
std::unique_ptr<Kernel> make_way(GpuDevice& device, const Step& step, const Contraction& contraction,
                                 const std::string& name);

}  // namespace hearth::gpu
