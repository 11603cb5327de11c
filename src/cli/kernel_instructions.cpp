// Reading what llvm-objdump prints.
#include "cli/kernel_instructions.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace hearth::cli {
namespace {

// A file that goes away with its object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const char> contents)
      : path_((std::filesystem::temp_directory_path() / "hearth-code-XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    if (file < 0) return;
    complete_ = write(file, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size());
    close(file);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  bool complete() const { return complete_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool complete_ = false;
};

std::string output_of(const std::string& command) {
  struct Close {
    void operator()(std::FILE* pipe) const { pclose(pipe); }
  };
  const std::unique_ptr<std::FILE, Close> pipe(popen(command.c_str(), "r"));
  std::string text;
  std::array<char, 1 << 16> part;
  while (pipe) {
    const std::size_t size = std::fread(part.data(), 1, part.size(), pipe.get());
    if (size == 0) break;
    text.append(part.data(), size);
  }
  return text;
}

bool is_load(std::string_view name) {
  return name.starts_with("global_load") || name.starts_with("buffer_load") || name.starts_with("flat_load");
}
// "global_load_dwordx4" before gfx11, "global_load_b128" since.
bool is_wide(std::string_view name) { return name.ends_with("dwordx4") || name.ends_with("b128"); }
bool is_matrix(std::string_view name) {
  return name.starts_with("v_wmma") || name.starts_with("v_mfma") || name.starts_with("v_smfma") ||
         name.starts_with("v_swmma");
}

}  // namespace

const std::string& disassembler() {
  static const std::string found = [] {
    for (const char* name : {"llvm-objdump-20", "llvm-objdump-19", "/opt/rocm/llvm/bin/llvm-objdump"})
      if (output_of(fmt::format("{} --version 2>/dev/null", name)).find("amdgcn") != std::string::npos)
        return std::string(name);
    return std::string();
  }();
  return found;
}

std::map<std::string, Instructions> count_instructions(std::span<const char> code) {
  std::map<std::string, Instructions> kernels;
  if (disassembler().empty()) return kernels;
  const TemporaryFile file(code);
  if (!file.complete()) return kernels;
  const std::string text =
      output_of(fmt::format("{} -d --no-show-raw-insn '{}' 2>/dev/null", disassembler(), file.path()));
  Instructions* current = nullptr;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // "0000000000001900 <name>:", then a tab before each instruction.
    if (const auto begin = line.find('<'); line.ends_with(">:") && begin != std::string_view::npos)
      current = &kernels[std::string(line.substr(begin + 1, line.size() - begin - 3))];
    if (current == nullptr || !line.starts_with('\t')) continue;
    const std::string_view name = line.substr(1, line.find(' ') - 1);
    current->loads += is_load(name);
    current->wide_loads += is_load(name) && is_wide(name);
    current->matrix += is_matrix(name);
  }
  return kernels;
}

}  // namespace hearth::cli
