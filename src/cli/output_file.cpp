// What the file system says about a file that is not there yet.
#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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

namespace {

void check_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!std::filesystem::is_directory(there, error))
    throw ValueError(fmt::format("{} is no folder", there.string()));
  if (access(there.c_str(), W_OK) != 0)
    throw FileError(fmt::format("cannot write to {}: {}", folder.string(), std::strerror(errno)));
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  check_folder(folder_);
  std::error_code error;
  made_ = std::filesystem::create_directories(folder_, error);
  if (!error) lock_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0)
    throw FileError(
        fmt::format("cannot make {}: {}", folder_.string(), error ? error.message() : std::strerror(errno)));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;  // or there are no locks
  ::close(lock_);
  throw ValueError(fmt::format("another run is writing to {}: give another --output", folder_.string()));
}

RunFolder::~RunFolder() {
  if (made_) ::rmdir(folder_.c_str());  // fails unless it is empty
  ::close(lock_);
}

}  // namespace hearth::cli
