// Runs clang, and finds what it needs.
#include "hip/compiler.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include "hip/fork_server.h"
#include "hip/spawn.h"

extern char** environ;

namespace hipemu::hip {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  const char* base = std::getenv("TMPDIR");
  std::string pattern = std::string(base && *base ? base : "/tmp") + "/hipemu-XXXXXX";
  if (!mkdtemp(pattern.data()))
    throw fs::filesystem_error("cannot make a temporary folder", pattern,
                               std::error_code(errno, std::generic_category()));
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // nothing can be done about it here
  fs::remove_all(path_, ignored);
}

fs::path TemporaryFolder::write(const std::string& name, std::string_view text) const {
  const fs::path relative = fs::path(name).lexically_normal();
  if (relative.empty() || relative.is_absolute() || *relative.begin() == "..")
    throw std::invalid_argument("'" + name + "' does not name a file in the program's folder");
  const fs::path target = path_ / relative;
  fs::create_directories(target.parent_path());
  std::ofstream file(target, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw fs::filesystem_error("cannot write", target, std::make_error_code(std::errc::io_error));
  return target;
}

const TemporaryFolder& process_folder() {
  static const pid_t owner = getpid();
  static TemporaryFolder* const folder = [] {
    // A child that was forked has this folder too, and must not take it from its parent.
    std::atexit([] {
      if (getpid() == owner) delete folder;
    });
    return new TemporaryFolder;
  }();
  return *folder;
}

std::optional<std::string> read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

// An empty name does not run.
int spawn_and_read(const std::string& program, const fs::path& folder,
                   const std::vector<std::string>& arguments, std::string& log) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  Descriptor reading(ends[0]), writing(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());

  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = spawn(program, actions, argv.data(), environ, child);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), program);
  writing.reset();

  char buffer[4096];
  for (;;) {
    const ssize_t size = read(reading.get(), buffer, sizeof buffer);
    if (size > 0) log.append(buffer, static_cast<size_t>(size));
    if (size == 0 || (size < 0 && errno != EINTR)) break;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    // Where the program ignores SIGCHLD there is no status to be had: the caller looks for the output.
    if (errno != EINTR) return 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

CompilerRun run(const std::string& program, const fs::path& folder,
                const std::vector<std::string>& arguments) {
  CompilerRun result;
  try {
    std::optional<int> status = run_fork(program, folder, arguments, result.log);
    if (!status) status = spawn_and_read(program, folder, arguments, result.log);
    result.success = *status == 0;
  } catch (const std::system_error& error) {
    result.log = fmt::format("hipemu: cannot run {}: {}\n", program, error.what());
  }
  return result;
}

bool can_run(const std::string& program) {
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (;;) {
    const size_t colon = rest.find(':');
    const std::string candidate = std::string(rest.substr(0, colon)) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return true;
    if (colon == std::string_view::npos) return false;
    rest.remove_prefix(colon + 1);
  }
}

std::string find_compiler() {
  if (const char* named = std::getenv("HIPEMU_CLANG")) return named;
  for (int version = 19; version <= 24; ++version) {
    std::string name = fmt::format("clang++-{}", version);
    if (can_run(name)) return name;
  }
  for (const char* name : {"clang++", "/opt/rocm/llvm/bin/clang++", "/opt/rocm/lib/llvm/bin/clang++"})
    if (can_run(name)) return name;
  return "";
}

std::vector<std::string> rocm_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"ROCM_PATH", "HIP_PATH"})
    if (const char* value = std::getenv(variable)) folders.emplace_back(value);
  folders.insert(folders.end(), {"/opt/rocm", "/usr", "/usr/local"});
  return folders;
}

fs::path device_library_folder() {
  std::vector<fs::path> candidates;
  if (const char* named = std::getenv("HIPEMU_DEVICE_LIBS")) candidates.emplace_back(named);
  for (const std::string& folder : rocm_folders()) candidates.push_back(fs::path(folder) / "amdgcn/bitcode");
  std::error_code error;
  // Debian's are under the folder of the host's architecture.
  for (const auto& entry : fs::directory_iterator("/usr/lib", error))
    candidates.push_back(entry.path() / "amdgcn/bitcode");
  candidates.emplace_back("/usr/lib/amdgcn/bitcode");
  for (const fs::path& candidate : candidates)
    if (fs::exists(candidate / "ocml.bc", error)) return candidate;
  return {};
}

// "1100" of gfx1100 is 11000: major, two digits of minor, stepping in hexadecimal.
int isa_version(std::string_view digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  int major = 0;
  for (const char digit : digits.substr(0, digits.size() - 2)) major = major * 10 + value(digit);
  return major * 1000 + value(digits[digits.size() - 2]) * 100 + value(digits.back());
}

}  // namespace

CompilerRun run_compiler(const fs::path& folder, const std::vector<std::string>& arguments) {
  const std::string compiler = find_compiler();
  if (compiler.empty())
    return {false, "hipemu: no clang++ found: install clang 19 or later, or name one in HIPEMU_CLANG\n"};
  return run(compiler, folder, arguments);
}

CompilerRun run_linker(const fs::path& folder, const std::string& object, const std::string& output) {
  // The one that clang itself would run.
  static const std::string linker = [] {
    std::string name = run_compiler(process_folder().path(), {"-print-prog-name=lld"}).log;
    while (!name.empty() && name.back() == '\n') name.pop_back();
    return name;
  }();
  return run(linker, folder,
             {"-flavor", "gnu", "-m", "elf64_amdgpu", "--no-undefined", "-shared", "-o", output, object});
}

std::string hip_include_folder() {
  const char* choice = std::getenv("HIPEMU_HIPRTC");
  if (choice && std::string_view(choice) == "builtin") return "";
  for (const std::string& folder : rocm_folders()) {
    std::error_code error;
    const fs::path include = fs::path(folder) / "include";
    if (fs::exists(include / "hip/amd_detail/amd_hip_runtime.h", error)) return include.string();
  }
  return "";
}

std::vector<std::string> device_library_options(std::string_view processor) {
  const fs::path installed = device_library_folder();
  if (installed.empty()) return {"-nogpulib"};
  const std::string digits(processor.substr(std::min<size_t>(3, processor.size())));
  const std::string file = "oclc_isa_version_" + digits + ".bc";
  std::error_code error;
  if (digits.size() < 3 || fs::exists(installed / file, error))
    return {"--rocm-device-lib-path=" + installed.string()};

  // The missing file says one thing, the number of the chip.
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  const TemporaryFolder& folder = process_folder();
  const std::string name = "device-libs-" + digits;
  const fs::path libraries = folder.path() / name;
  if (!fs::exists(libraries, error)) {
    folder.write(name + "/isa_version.ll",
                 fmt::format("@__oclc_ISA_version = linkonce_odr protected local_unnamed_addr "
                             "addrspace(4) constant i32 {}\n",
                             isa_version(digits)));
    // When it cannot be made, compiling will say what is missing.
    run_compiler(libraries, {"-x", "ir", "isa_version.ll", "-c", "-emit-llvm", "-nogpulib",
                             "--target=amdgcn-amd-amdhsa", "-Wno-override-module", "-o", file});
    for (const auto& entry : fs::directory_iterator(installed, error))
      fs::create_symlink(entry.path(), libraries / entry.path().filename(), error);
  }
  return {"--rocm-device-lib-path=" + libraries.string()};
}

}  // namespace hipemu::hip
