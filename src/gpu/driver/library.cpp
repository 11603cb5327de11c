// dlopen with a memory.
#include "gpu/driver/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

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

void append_matching(std::vector<std::string>& folders, const std::filesystem::path& parent,
                     std::string_view prefix, std::string_view below) {
  std::error_code error;
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error))
    if (entry.path().filename().string().starts_with(prefix))
      found.push_back((entry.path() / below).string());
  std::sort(found.rbegin(), found.rend());  // newest first, as far as names tell
  folders.insert(folders.end(), found.begin(), found.end());
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

std::vector<std::string> rocm_library_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"ROCM_PATH", "HIP_PATH"})
    if (const char* path = std::getenv(variable); path != nullptr && *path != '\0')
      folders.push_back(std::string(path) + "/lib");
  folders.emplace_back("/opt/rocm/lib");
  append_matching(folders, "/opt/rocm", "core-", "lib");
  append_matching(folders, "/opt", "rocm-", "lib");
  return folders;
}

}  // namespace hearth::gpu
