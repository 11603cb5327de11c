// What the file system says about a file that is not there yet.
#include "cli/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hearth/error.h"

namespace hearth::cli {

void check_writable(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw ValueError(fmt::format("{} is a folder", path.string()));
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, error))
    throw FileError(fmt::format("cannot write {}: there is no folder {}", path.string(), folder.string()));
  const auto& asked = std::filesystem::exists(path, error) ? path : folder;
  if (access(asked.c_str(), W_OK) != 0)
    throw FileError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

void check_output(const std::filesystem::path& path, bool force) {
  check_writable(path);
  if (!force && std::filesystem::exists(path))
    throw ValueError(fmt::format("{} is there already; --force replaces it", path.string()));
}

void check_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!std::filesystem::is_directory(there, error))
    throw ValueError(fmt::format("{} is no folder", there.string()));
  if (access(there.c_str(), W_OK) != 0)
    throw FileError(fmt::format("cannot write to {}: {}", folder.string(), std::strerror(errno)));
}

}  // namespace hearth::cli
