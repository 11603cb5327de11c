// Files that commands write, looked at before the work is done.
#pragma once

#include <filesystem>

namespace hearth::cli {

// Throws FileError if nothing can be written there.
void check_writable(const std::filesystem::path& path);
// Also ValueError for a file that is there and may not be replaced.
void check_output(const std::filesystem::path& path, bool force);
// Throws ValueError for what is no folder, FileError for one that cannot be made or written to.
void check_folder(const std::filesystem::path& folder);

}  // namespace hearth::cli
