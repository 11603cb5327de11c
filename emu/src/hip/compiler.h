// Compiling HIP source by running clang as a child process, without a shell, in a private folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hipemu::hip {

// A folder that only this user can enter; it goes with everything in it when the object does.
class TemporaryFolder {
 public:
  TemporaryFolder();  // throws std::filesystem::filesystem_error
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Makes the folders on the way. `name` is relative and stays inside; throws std::invalid_argument
  // otherwise.
  std::filesystem::path write(const std::string& name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

// For what several compilations share; goes when the process ends. Safe from any thread.
const TemporaryFolder& process_folder();

struct CompilerRun {
  bool success = false;
  std::string log;  // what the compiler wrote
};

// Runs the compiler in `folder`. HIPEMU_CLANG names it; else clang++-19 and later ones, then clang++.
CompilerRun run_compiler(const std::filesystem::path& folder, const std::vector<std::string>& arguments);
// Makes a code object of an object file; both names are relative to `folder`.
CompilerRun run_linker(const std::filesystem::path& folder, const std::string& object,
                       const std::string& output);

// Where HIP's headers are installed ("" when nowhere, or when HIPEMU_HIPRTC=builtin asks for the ones that
// come with this library).
std::string hip_include_folder();

// Options that make clang find the device libraries for a chip. Those of older releases lack a file for newer
// chips; it is made once per process, next to links to the others. -nogpulib when there are none at all.
std::vector<std::string> device_library_options(std::string_view processor);

std::optional<std::string> read_text(const std::filesystem::path& path);

}  // namespace hipemu::hip
