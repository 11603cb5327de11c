// The ways to compute a convolution.
#include "gpu/convolution_choice.h"

#include "gpu/contraction_choice.h"
#include "gpu/convolution.h"
#include "hearth/config.h"

namespace hearth::gpu {
namespace {

Contraction contraction_of(GpuDevice& device, const PlainConvolution& convolution) {
  const auto own = [&device](const Step& step) { return make_own_convolution(device, step); };
  const auto libraries = [&device, convolution] {
    return config().vendor_dnn_enabled ? ways_of(convolution_libraries(device), convolution)
                                       : std::vector<LibraryWays>();
  };
  return {convolution.text(),
          convolution.multiplications(),
          convolution.depth(),
          {{"own", true, own}},
          libraries};
}

}  // namespace

std::unique_ptr<Kernel> choose_convolution(GpuDevice& device, const Step& step) {
  const std::optional<PlainConvolution> convolution = plain_convolution(step);
  return convolution ? choose_way(device, step, contraction_of(device, *convolution))
                     : make_own_convolution(device, step);
}

std::unique_ptr<Kernel> make_convolution(GpuDevice& device, const Step& step, const std::string& name) {
  const std::optional<PlainConvolution> convolution = plain_convolution(step);
  return convolution ? make_way(device, step, contraction_of(device, *convolution), name) : nullptr;
}

}  // namespace hearth::gpu
