// Opening a shared library by trying names in order, with a record of what was tried.
#pragma once

#include <string>
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

// Folders in which ROCm may be installed, in the order to search: $ROCM_PATH, /opt/rocm, versioned folders.
std::vector<std::string> rocm_library_folders();

}  // namespace hearth::gpu
