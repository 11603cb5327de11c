// Starting programs: the environment for our library, then exec.
#include "tool/start_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tool/chip_names.h"
#include "tool/commands.h"

namespace hipemu::tool {
namespace {

namespace fs = std::filesystem;

// Programs ask for the library by the name they were linked with: one for each major version of ROCm.
bool has_library(const fs::path& folder) {
  std::error_code failed;
  for (const char* name : {"libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so.5"})
    if (fs::exists(folder / name, failed)) return true;
  return false;
}

void set_variable(const std::string& name, const std::string& value) {
  if (setenv(name.c_str(), value.c_str(), 1) != 0)
    throw ToolError(fmt::format("cannot set {}: {}", name, std::strerror(errno)));
}

}  // namespace

std::string library_folder() {
  if (const char* chosen = std::getenv("HIPEMU_LIB_DIR"); chosen && *chosen) {
    if (!has_library(chosen))
      throw ToolError(fmt::format("HIPEMU_LIB_DIR={} holds no libamdhip64.so.6", chosen));
    return fs::absolute(chosen).string();
  }
  std::error_code failed;
  const fs::path here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path candidates[] = {here / "../lib", here / "../lib/hipemu", here, HIPEMU_BUILD_LIBRARIES};
  for (const fs::path& folder : candidates)
    if (has_library(folder)) return folder.lexically_normal().string();
  throw ToolError(
      fmt::format("libamdhip64.so.6 is neither in {} nor in {}; HIPEMU_LIB_DIR can name its folder",
                  candidates[0].lexically_normal().string(), HIPEMU_BUILD_LIBRARIES));
}

int start_program(const ProgramStart& start) {
  if (start.command.empty()) throw ToolError("no program given: hipemu run [options] -- ./program arguments");
  if (!start.chips.empty()) {
    check_chips(start.chips);
    set_variable("HIPEMU", start.chips);
  }
  if (start.check) set_variable("HIPEMU_CHECK", *start.check);
  if (start.seed) set_variable("HIPEMU_SEED", std::to_string(*start.seed));
  for (const auto& [name, value] : start.variables) set_variable(name, value);
  const char* path = std::getenv("LD_LIBRARY_PATH");
  set_variable("LD_LIBRARY_PATH", library_folder() + (path && *path ? std::string(":") + path : ""));

  std::vector<char*> arguments;
  for (const std::string& argument : start.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "hipemu: cannot run {}: {}\n", start.command[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

}  // namespace hipemu::tool
