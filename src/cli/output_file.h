// Files that commands write, looked at before the work is done.
#pragma once

#include <filesystem>

namespace hearth::cli {

// Throws FileError if nothing can be written there.
void check_writable(const std::filesystem::path& path);
// Also ValueError for a file that is there and may not be replaced.
void check_output(const std::filesystem::path& path, bool force);

// The folder of a run, which it has for itself. Where it was not there it is made, and goes with this if it
// is still empty.
class RunFolder {
 public:
  // Throws ValueError for what is no folder and while another process has it, FileError for one that cannot
  // be made or written to.
  explicit RunFolder(std::filesystem::path folder);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  std::filesystem::path folder_;
  bool made_ = false;
  int lock_ = -1;  // a descriptor of the folder; the lock goes with it
};

}  // namespace hearth::cli
