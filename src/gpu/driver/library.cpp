// dlopen with a memory.
#include "gpu/driver/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace hearth::gpu {
namespace {

// Where a handle comes from on disk.
std::string path_of(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      *map->l_name != '\0')
    return map->l_name;
  return fallback;
}

using Folders = std::vector<std::filesystem::path>;

// Those folders of `parent` whose names begin so, newest version first.
Folders matching(const std::filesystem::path& parent, std::string_view prefix) {
  std::error_code error;
  Folders found;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error))
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return strverscmp(a.filename().c_str(), b.filename().c_str()) > 0;
  });
  return found;
}

// Where pip puts ROCm's wheels, for the Pythons that a user is likely to mean.
Folders wheel_folders(const SearchPlace& place) {
  Folders libraries;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string folder = place.variable(name); !folder.empty())
      libraries.push_back(std::filesystem::path(folder) / "lib");
  if (const std::string home = place.variable("HOME"); !home.empty())
    libraries.push_back(std::filesystem::path(home) / ".local/lib");
  libraries.push_back(place.root / "usr/local/lib");
  libraries.push_back(place.root / "usr/lib");
  Folders folders;
  for (const auto& library : libraries)
    for (const auto& python : matching(library, "python3"))
      for (const char* packages : {"site-packages", "dist-packages"})
        folders.push_back(python / packages / "_rocm_sdk_core/lib");
  return folders;
}

}  // namespace

Library::Library(const std::vector<std::string>& names, std::vector<OpenAttempt>& attempts) {
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle_ == nullptr) continue;
    path_ = path_of(handle_, name);
    attempts.push_back({path_ + " (already loaded)", ""});
    return;
  }
  for (const std::string& name : names) {
    // A path that does not exist is not worth a line in a report.
    std::error_code error;
    if (name.find('/') != std::string::npos && !std::filesystem::exists(name, error)) continue;
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      path_ = path_of(handle_, name);
      attempts.push_back({path_, ""});
      return;
    }
    const char* problem = dlerror();
    attempts.push_back({name, problem != nullptr ? problem : "unknown problem"});
  }
}

void* Library::find(const char* name) const { return handle_ != nullptr ? dlsym(handle_, name) : nullptr; }

Folders rocm_library_folders(const SearchPlace& place) {
  Folders candidates;
  for (const char* name : {"ROCM_PATH", "HIP_PATH"})
    if (const std::string path = place.variable(name); !path.empty())
      candidates.push_back(std::filesystem::path(path) / "lib");
  std::istringstream loader_path(place.variable("LD_LIBRARY_PATH"));
  for (std::string path; std::getline(loader_path, path, ':');)
    if (!path.empty()) candidates.emplace_back(path);
  candidates.push_back(place.root / "opt/rocm/lib");
  for (const auto& core : matching(place.root / "opt/rocm", "core-")) candidates.push_back(core / "lib");
  for (const auto& version : matching(place.root / "opt", "rocm-")) candidates.push_back(version / "lib");
  candidates.emplace_back();
  const Folders wheels = wheel_folders(place);
  candidates.insert(candidates.end(), wheels.begin(), wheels.end());

  Folders folders;
  for (const auto& folder : candidates) {
    std::error_code error;
    if (!folder.empty() && !std::filesystem::is_directory(folder, error)) continue;
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
  }
  return folders;
}

std::vector<std::string> names_in(const Folders& folders, const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const auto& folder : folders)
    for (const std::string& file : files) names.push_back((folder / file).string());
  return names;
}

std::string loaded_library(std::string_view file) {
  struct Search {
    std::string_view file;
    std::string path;
  } search{file, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const std::string path = library->dlpi_name;
        const bool found = path.substr(path.rfind('/') + 1).starts_with(wanted.file);
        if (found) wanted.path = path;
        return found ? 1 : 0;
      },
      &search);
  return search.path;
}

}  // namespace hearth::gpu
