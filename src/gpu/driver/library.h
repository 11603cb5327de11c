// Opening a shared library by trying names in order, with a record of what was tried.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/driver/driver.h"

namespace hearth::gpu {

class Library {
 public:
  // Tries each name in turn. A library that the process has already loaded under one of the bare names is
  // taken first, so that two versions never meet in one process.
  Library(const std::vector<std::string>& names, std::vector<OpenAttempt>& attempts);

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }

  // The address of a function; null when it is not there.
  void* find(const char* name) const;

  // Sets `function` to the first of the names that exists. Appends the first name to `missing` when none
  // does.
  template <class Function>
  void bind(Function*& function, std::initializer_list<const char*> names,
            std::vector<std::string>& missing) const {
    for (const char* name : names) {
      function = reinterpret_cast<Function*>(find(name));
      if (function != nullptr) return;
    }
    missing.emplace_back(*names.begin());
  }

 private:
  void* handle_ = nullptr;  // never closed: vendor libraries do not survive it
  std::string path_;
};

// What the search for an installation reads. Tests give a folder and variables of their own.
struct SearchPlace {
  std::filesystem::path root = "/";
  std::function<std::string(const char*)> variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
};

// Folders in which ROCm may be installed, in the order to search: what the user named ($ROCM_PATH, $HIP_PATH,
// $LD_LIBRARY_PATH), /opt/rocm, versioned folders (newest first), those of the loader (an empty path), wheels
// of pip. Only folders that exist.
std::vector<std::filesystem::path> rocm_library_folders(const SearchPlace& place = {});

// Names for dlopen: each file in each folder, the first folder first. An empty folder gives bare names.
std::vector<std::string> names_in(const std::vector<std::filesystem::path>& folders,
                                  const std::vector<std::string>& files);

// The path of a library of this process whose file name begins so ("libamd_comgr.so"); empty when none does.
std::string loaded_library(std::string_view file);

}  // namespace hearth::gpu
