// Folders and the files in them.
#include "gpu/vendor/installation.h"

#include <cstdlib>
#include <string_view>

namespace hearth::gpu {

using Folders = std::vector<std::filesystem::path>;

Folders rocm_folders_of(const Driver& driver) {
  const std::filesystem::path folder = std::filesystem::path(driver.library).parent_path();
  Folders folders{folder};
  // The wheels of pip keep them in a package beside that of the runtime.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path().parent_path(), error))
    if (entry.path().filename().string().starts_with("_rocm_sdk_libraries"))
      folders.push_back(entry.path() / "lib");
  return folders;
}

Folders cuda_folders_of(const Driver& driver, const std::string& package) {
  Folders folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable); home != nullptr && *home != '\0')
      folders.push_back(std::filesystem::path(home) / "lib64");
  folders.emplace_back();  // where the loader looks
  if (!driver.compiler_library.empty()) {
    const std::filesystem::path folder = std::filesystem::path(driver.compiler_library).parent_path();
    folders.push_back(folder);
    // The wheels of pip: "nvidia/cuda_nvrtc/lib" is beside "nvidia/cublas/lib".
    folders.push_back(folder.parent_path().parent_path() / package / "lib");
  }
  folders.emplace_back("/usr/local/cuda/lib64");
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

std::filesystem::path rocblas_kernels(const std::filesystem::path& folder) {
  const char* given = std::getenv("ROCBLAS_TENSILE_LIBPATH");
  return given != nullptr && *given != '\0' ? std::filesystem::path(given) : folder / "rocblas" / "library";
}

}  // namespace hearth::gpu
