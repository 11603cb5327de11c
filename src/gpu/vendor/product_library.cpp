// Which libraries a device has.
#include "gpu/vendor/product_library.h"

#include <map>
#include <mutex>
#include <string_view>

namespace hearth::gpu {
namespace {

struct Opened {
  bool tried = false;
  std::vector<std::unique_ptr<ProductLibrary>> libraries;
  std::vector<OpenAttempt> attempts;
};

std::mutex mutex;
auto& opened = *new std::map<GpuDevice*, Opened>;  // like devices, never destroyed

}  // namespace

std::vector<const ProductLibrary*> product_libraries(GpuDevice& device) {
  const std::lock_guard lock(mutex);
  Opened& of_device = opened[&device];
  if (!of_device.tried) {
    of_device.tried = true;
    device.use();
    const auto add = [&](std::unique_ptr<ProductLibrary> library) {
      if (library) of_device.libraries.push_back(std::move(library));
    };
    if (device.driver().kind == DeviceKind::cuda) {
      add(open_cublaslt(device, of_device.attempts));
    } else {
      add(open_hipblaslt(device, of_device.attempts));
      add(open_rocblas(device, of_device.attempts));
    }
  }
  std::vector<const ProductLibrary*> libraries;
  for (const auto& library : of_device.libraries) libraries.push_back(library.get());
  return libraries;
}

void add_product_library(GpuDevice& device, std::unique_ptr<ProductLibrary> library) {
  const std::lock_guard lock(mutex);
  opened[&device].libraries.push_back(std::move(library));
}

std::vector<OpenAttempt> product_library_attempts() {
  const std::lock_guard lock(mutex);
  std::vector<OpenAttempt> attempts;
  for (const auto& [device, of_device] : opened)
    attempts.insert(attempts.end(), of_device.attempts.begin(), of_device.attempts.end());
  return attempts;
}

std::vector<std::filesystem::path> rocm_folders_of(const Driver& driver) {
  const std::filesystem::path folder = std::filesystem::path(driver.library).parent_path();
  std::vector<std::filesystem::path> folders{folder};
  // The wheels of pip keep them in a package beside that of the runtime.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path().parent_path(), error))
    if (entry.path().filename().string().starts_with("_rocm_sdk_libraries"))
      folders.push_back(entry.path() / "lib");
  return folders;
}

bool has_kernels_for(const std::filesystem::path& folder, const std::string& architecture) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.find(architecture);
    if (at == std::string::npos || (!name.ends_with(".dat") && !entry.is_directory(error))) continue;
    const std::size_t end = at + architecture.size();  // not that of "gfx90" in "gfx90a.dat"
    if (end == name.size() || std::string_view("._-:").find(name[end]) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace hearth::gpu
