// Runs llvm-symbolizer as a child process: reading DWARF is not worth a library here.
#include "code_object/source_lines.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "code_object/elf.h"

extern char** environ;

namespace hipemu {
namespace {

// A file that is gone when this goes.
class TemporaryFile {
 public:
  explicit TemporaryFile(Bytes contents) {
    const char* directory = std::getenv("TMPDIR");
    path_ = std::string(directory && *directory ? directory : "/tmp") + "/hipemu-XXXXXX";
    const int descriptor = mkostemp(path_.data(), O_CLOEXEC);
    if (descriptor < 0) {
      path_.clear();
      return;
    }
    while (!contents.empty()) {
      const ssize_t written = write(descriptor, contents.data(), contents.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      contents = contents.subspan(std::size_t(written));
    }
    complete_ = contents.empty();
    close(descriptor);
  }
  ~TemporaryFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool complete() const { return complete_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool complete_ = false;
};

std::string find_in_path(const std::string& program) {
  const char* variable = std::getenv("PATH");
  std::string_view path = variable ? variable : "/usr/bin:/bin";
  while (true) {
    const std::size_t colon = path.find(':');
    const std::string candidate = std::string(path.substr(0, colon)) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) return {};
    path.remove_prefix(colon + 1);
  }
}

// In PATH, or next to clang: distributions put the unversioned name only into LLVM's own folder.
std::string find_symbolizer() {
  for (const char* name : {"llvm-symbolizer-19", "llvm-symbolizer"})
    if (std::string path = find_in_path(name); !path.empty()) return path;
  for (const char* name : {"clang++-19", "clang++", "hipcc"}) {
    const std::string compiler = find_in_path(name);
    if (compiler.empty()) continue;
    std::error_code failed;
    const auto real = std::filesystem::canonical(compiler, failed);
    if (failed) continue;
    const std::string candidate = (real.parent_path() / "llvm-symbolizer").string();
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

// What the program prints, empty when it fails.
std::string output_of(std::vector<std::string> command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int status = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  if (status == 0) {
    char buffer[1024];
    while (true) {
      const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text.append(buffer, std::size_t(got));
    }
    int exit_status = 0;
    while (waitpid(child, &exit_status, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  return text;
}

// "kernel.hip:12:5" -> "kernel.hip:12"; "??:0:0" -> "".
std::string file_and_line(std::string_view line) {
  line = line.substr(0, line.find('\n'));
  if (line.starts_with("??")) return {};
  const std::size_t column = line.rfind(':');
  if (column == std::string_view::npos || column == 0) return {};
  line = line.substr(0, column);
  if (line.ends_with(":0")) return {};
  return std::string(line);
}

// Code is loaded without a look at the sections, so they may be damaged: then there are no lines.
bool has_lines(Bytes file) {
  try {
    const auto debug_lines = elf::find_section(file, ".debug_line");
    return debug_lines && !debug_lines->empty();
  } catch (const CodeObjectError&) {
    return false;
  }
}

std::string look_up(Bytes file, uint64_t virtual_address) {
  if (!has_lines(file)) return {};
  static const std::string symbolizer = find_symbolizer();
  if (symbolizer.empty()) return {};
  const TemporaryFile copy(file);
  if (!copy.complete()) return {};
  return file_and_line(output_of(
      {symbolizer, "--obj=" + copy.path(), "--functions=none", fmt::format("{:#x}", virtual_address)}));
}

}  // namespace

std::string SourceLines::find(Bytes file, uint64_t virtual_address) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(virtual_address);
  if (known != known_.end()) return known->second;
  return known_[virtual_address] = look_up(file, virtual_address);
}

}  // namespace hipemu
