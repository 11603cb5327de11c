// Which libraries a device has.
#include "gpu/vendor/vendor_library.h"

#include <map>
#include <mutex>

namespace hearth::gpu {
namespace {

template <class Problem>
struct Opened {
  bool tried = false;
  std::vector<std::unique_ptr<VendorLibrary<Problem>>> libraries;
  std::vector<OpenAttempt> attempts;
};
template <class Problem>
using OpenedOf = std::map<GpuDevice*, Opened<Problem>>;

std::mutex mutex;
// Like devices, never destroyed.
auto& products = *new OpenedOf<PlainProduct>;
auto& convolutions = *new OpenedOf<PlainConvolution>;

template <class Problem, class... Open>
std::vector<const VendorLibrary<Problem>*> libraries_of(OpenedOf<Problem>& all, GpuDevice& device,
                                                        const Open&... open) {
  const std::lock_guard lock(mutex);
  Opened<Problem>& of_device = all[&device];
  if (!of_device.tried) {
    of_device.tried = true;
    device.use();
    const auto add = [&](std::unique_ptr<VendorLibrary<Problem>> library) {
      if (library) of_device.libraries.push_back(std::move(library));
    };
    (add(open(device, of_device.attempts)), ...);
  }
  std::vector<const VendorLibrary<Problem>*> libraries;
  for (const auto& library : of_device.libraries) libraries.push_back(library.get());
  return libraries;
}

template <class Problem>
void add_attempts(const OpenedOf<Problem>& all, std::vector<OpenAttempt>& attempts) {
  for (const auto& [device, of_device] : all)
    attempts.insert(attempts.end(), of_device.attempts.begin(), of_device.attempts.end());
}

}  // namespace

std::vector<const ProductLibrary*> product_libraries(GpuDevice& device) {
  return device.driver().kind == DeviceKind::cuda
             ? libraries_of(products, device, open_cublaslt)
             : libraries_of(products, device, open_hipblaslt, open_rocblas);
}

std::vector<const ConvolutionLibrary*> convolution_libraries(GpuDevice& device) {
  return device.driver().kind == DeviceKind::cuda ? libraries_of(convolutions, device, open_cudnn)
                                                  : libraries_of(convolutions, device, open_miopen);
}

std::string installed_dnn_library(const Driver& driver, std::vector<OpenAttempt>& attempts) {
  return driver.kind == DeviceKind::cuda ? installed_cudnn(driver, attempts)
                                         : installed_miopen(driver, attempts);
}

void add_product_library(GpuDevice& device, std::unique_ptr<ProductLibrary> library) {
  const std::lock_guard lock(mutex);
  products[&device].libraries.push_back(std::move(library));
}

std::vector<OpenAttempt> library_attempts() {
  const std::lock_guard lock(mutex);
  std::vector<OpenAttempt> attempts;
  add_attempts(products, attempts);
  add_attempts(convolutions, attempts);
  return attempts;
}

}  // namespace hearth::gpu
