// Compiling kernels.
#include "gpu/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <span>

#include "base/file.h"
#include "gpu/kernel_cache.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// The compiler's own library and, of ROCm, the one that does its work, by whatever version it is named.
std::set<std::filesystem::path> compiler_files(const Driver& driver) {
  const std::filesystem::path compiler = driver.compiler_library;
  std::set<std::filesystem::path> files{compiler};
  std::error_code error;
  if (driver.kind == DeviceKind::rocm)
    for (const auto& entry : std::filesystem::directory_iterator(compiler.parent_path(), error))
      if (entry.path().filename().string().starts_with("libamd_comgr.so"))
        files.insert(std::filesystem::canonical(entry.path(), error));
  return files;
}

// Files are named by it, so that a change of either makes new kernels. Kernels compiled before a device was
// there must be found when it is: nothing of the driver counts.
void add_identity(Hasher& hasher, const Driver& driver) {
  add_text(hasher, driver.compiler_version_text());
  for (const auto& file : compiler_files(driver)) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error) continue;
    hasher.add(static_cast<std::uint64_t>(size));
    hasher.add(std::filesystem::last_write_time(file, error).time_since_epoch().count());
  }
}

std::vector<std::string> all_options(const Driver& driver, const std::string& architecture, int wave_size,
                                     const KernelSource& source) {
  std::vector<std::string> options;
  if (driver.kind == DeviceKind::rocm)
    options = {"--offload-arch=" + architecture, "-DHEARTH_AMD", "-O3", "-ffp-contract=off"};
  else
    // Kernels are never moved to another chip, so they may use what only sm_90 itself has (wgmma).
    options = {"--gpu-architecture=" + (architecture == "sm_90" ? "sm_90a" : architecture), "-DHEARTH_NVIDIA",
               "--fmad=false", "-default-device"};
  options.push_back("-std=c++17");
  options.push_back(fmt::format("-DWAVE={}", wave_size));
  options.insert(options.end(), source.options.begin(), source.options.end());
  return options;
}

std::mutex compiler_mutex;  // held while a compiler works that cannot do two things at once
std::mutex stats_mutex;
CompilerStats stats;

void count(bool failed, double seconds) {
  const std::lock_guard lock(stats_mutex);
  ++stats.compilations;
  stats.errors += failed;
  stats.seconds += seconds;
}

// Those of our headers that a text includes, directly or not.
std::vector<const KernelHeader*> included_headers(const std::string& text) {
  std::vector<const KernelHeader*> included;
  const auto add_from = [&](std::string_view from) {
    for (const KernelHeader& header : kernel_headers())
      if (from.find(fmt::format("#include \"{}\"", header.name)) != std::string_view::npos &&
          std::find(included.begin(), included.end(), &header) == included.end())
        included.push_back(&header);
  };
  add_from(text);
  for (std::size_t i = 0; i < included.size(); ++i) add_from(included[i]->text);  // grows as it goes
  return included;
}

Hash128 key_of(const Driver& driver, const std::vector<std::string>& options, const KernelSource& source) {
  Hasher hasher;
  add_identity(hasher, driver);
  for (const std::string& option : options) add_text(hasher, option);
  for (const KernelHeader* header : included_headers(source.text)) add_text(hasher, header->text);
  add_text(hasher, source.text);
  return hasher.finish();
}

// For reading, profiling and bug reports: the folder $HEARTH_KERNEL_SOURCES gets the text of each kernel that
// is compiled, with the options in its first line.
void keep_source(const Hash128& key, const std::vector<std::string>& options, const KernelSource& source) {
  const char* folder = std::getenv("HEARTH_KERNEL_SOURCES");
  if (folder == nullptr || *folder == '\0') return;
  const std::string text = fmt::format("// {}\n{}", fmt::join(options, " "), source.text);
  std::filesystem::create_directories(folder);
  const auto path =
      std::filesystem::path(folder) / fmt::format("{}-{:016x}{:016x}.cpp", source.name, key.high, key.low);
  write_atomically(path, [&](AtomicFile& file) { file.write(std::as_bytes(std::span(text))); });
}

// A program of the run-time compiler.
class Program {
 public:
  Program(const Driver& driver, const KernelSource& source) : driver_(driver) {
    std::vector<const char*> texts, names;
    for (const KernelHeader* header : included_headers(source.text)) {
      texts.push_back(header->text);
      names.push_back(header->name);
    }
    driver.check_compiler(
        driver.call.program_create(&program_, source.text.c_str(), source.name.c_str(),
                                   static_cast<int>(texts.size()), texts.data(), names.data()),
        "creating a program");
  }
  ~Program() { driver_.call.program_destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    return driver_.call.program_compile(program_, static_cast<int>(texts.size()), texts.data());
  }
  std::string log() const {
    std::size_t size = 0;
    if (driver_.call.program_log_size(program_, &size) != 0 || size <= 1) return {};
    std::string text(size, '\0');
    driver_.call.program_log(program_, text.data());
    text.resize(std::strlen(text.c_str()));
    return text;
  }
  std::vector<char> code() const {
    std::size_t size = 0;
    driver_.check_compiler(driver_.call.program_code_size(program_, &size),
                           "asking for the size of the code");
    std::vector<char> bytes(size);
    driver_.check_compiler(driver_.call.program_code(program_, bytes.data()), "asking for the code");
    return bytes;
  }

 private:
  const Driver& driver_;
  ProgramHandle program_ = nullptr;
};

void require_compiler(const Driver& driver) {
  if (!driver.compiler_library.empty()) return;
  throw CompileError(fmt::format("[{}] kernels cannot be compiled: {}; run `hearth doctor`", driver.name,
                                 driver.kind == DeviceKind::cuda ? "no libnvrtc was found"
                                 : driver.library.empty()
                                     ? "no libhiprtc was found"
                                     : "there is no libhiprtc beside " + driver.library));
}

void require_known_chip(const Driver& driver, const std::string& architecture) {
  int version = 0;
  if (driver.kind != DeviceKind::rocm || driver.call.runtime_version == nullptr ||
      driver.call.runtime_version(&version) != 0 || rocm_may_compile(version, architecture))
    return;
  throw CompileError(fmt::format("[{}] {} is of a ROCm that does not know {}; a newer one is needed",
                                 driver.name, driver.compiler_library, architecture));
}

}  // namespace

bool rocm_may_compile(int version, std::string_view architecture) {
  constexpr int careful_since = 50'400'000;
  constexpr std::string_view known_before[] = {
      "gfx700",  "gfx701",  "gfx702",  "gfx801",  "gfx802",  "gfx803",  "gfx900",  "gfx902",
      "gfx904",  "gfx906",  "gfx908",  "gfx909",  "gfx90a",  "gfx90c",  "gfx1010", "gfx1011",
      "gfx1012", "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035"};
  const std::string_view chip = architecture.substr(0, architecture.find(':'));  // without its features
  return version >= careful_since ||
         std::find(std::begin(known_before), std::end(known_before), chip) != std::end(known_before);
}

std::vector<char> compile(const Driver& driver, const std::string& architecture, int wave_size,
                          const KernelSource& source) {
  require_compiler(driver);
  const auto options = all_options(driver, architecture, wave_size, source);
  const Hash128 key = key_of(driver, options, source);
  if (std::vector<char> code = kernel_cache().get(key); !code.empty()) return code;
  keep_source(key, options, source);
  std::vector<char> code = compile_uncached(driver, architecture, wave_size, source);
  kernel_cache().put(key, code);
  return code;
}

std::vector<char> compile_uncached(const Driver& driver, const std::string& architecture, int wave_size,
                                   const KernelSource& source) {
  require_compiler(driver);
  require_known_chip(driver, architecture);
  std::unique_lock alone(compiler_mutex, std::defer_lock);
  if (!driver.compiles_in_parallel) alone.lock();
  const auto begin = std::chrono::steady_clock::now();
  Program program(driver, source);
  const int result = program.compile(all_options(driver, architecture, wave_size, source));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  count(result != 0, elapsed.count());
  if (result != 0) {
    const std::string log = program.log();
    throw CompileError(fmt::format("[{}] kernel {} did not compile for {}: {}\n{}", driver.name, source.name,
                                   architecture, driver.call.compiler_error(result), log),
                       log);
  }
  return program.code();
}

CompilerStats compiler_stats() {
  CompilerStats result;
  {
    const std::lock_guard lock(stats_mutex);
    result = stats;
  }
  result.memory_hits = kernel_cache().memory_hits();
  result.disk_hits = kernel_cache().disk_hits();
  return result;
}

}  // namespace hearth::gpu
