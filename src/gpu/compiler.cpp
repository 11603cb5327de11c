// Compiling kernels, and remembering what was compiled.
#include "gpu/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/file.h"
#include "base/hash.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr std::size_t memory_entries = 1024;
constexpr std::uint64_t file_magic = 0x31306c656e72656b;  // "kernel01"

void add_text(Hasher& hasher, std::string_view text) {
  hasher.add(static_cast<std::uint64_t>(text.size()));
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
    hasher.add(word);
  }
}

Hash128 checksum(std::span<const char> bytes) {
  Hasher hasher;
  add_text(hasher, {bytes.data(), bytes.size()});
  return hasher.finish();
}

std::string hexadecimal(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

class Cache {
 public:
  std::vector<char> get(const Hash128& key) {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(key); found != entries_.end()) {
      ++stats_.memory_hits;
      order_.splice(order_.begin(), order_, found->second.position);
      return found->second.code;
    }
    std::vector<char> code = read(key);
    if (!code.empty()) {
      ++stats_.disk_hits;
      remember(key, code);
    }
    return code;
  }

  void put(const Hash128& key, const std::vector<char>& code) {
    const std::lock_guard lock(mutex_);
    remember(key, code);
    write(key, code);
  }

  void count(bool failed, double seconds) {
    const std::lock_guard lock(mutex_);
    ++stats_.compilations;
    stats_.errors += failed;
    stats_.seconds += seconds;
  }
  CompilerStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
    order_.clear();
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(kernel_cache_folder(), ignored))
      if (entry.path().extension() == ".kernel") std::filesystem::remove(entry.path(), ignored);
  }

 private:
  struct Entry {
    std::vector<char> code;
    std::list<Hash128>::iterator position;
  };

  void remember(const Hash128& key, const std::vector<char>& code) {
    if (entries_.contains(key)) return;
    order_.push_front(key);
    entries_[key] = {code, order_.begin()};
    if (entries_.size() <= memory_entries) return;
    entries_.erase(order_.back());
    order_.pop_back();
  }

  static std::filesystem::path path_of(const Hash128& key) {
    const auto folder = kernel_cache_folder();
    return folder.empty() ? folder : folder / (hexadecimal(key) + ".kernel");
  }

  // Magic, key, checksum of the code, code. A file that is not exactly that is as good as none.
  struct FileHeader {
    std::uint64_t magic;
    Hash128 key, checksum;
  };

  std::vector<char> read(const Hash128& key) const {
    const auto path = path_of(key);
    std::error_code error;
    if (path.empty() || !std::filesystem::exists(path, error)) return {};
    try {
      const std::vector<std::byte> bytes = read_file(path);
      FileHeader header;
      if (bytes.size() <= sizeof header) return {};
      std::memcpy(&header, bytes.data(), sizeof header);
      std::vector<char> code(bytes.size() - sizeof header);
      std::memcpy(code.data(), bytes.data() + sizeof header, code.size());
      if (header.magic != file_magic || !(header.key == key) || !(header.checksum == checksum(code)))
        return {};
      return code;
    } catch (const FileError&) {
      return {};
    }
  }

  void write(const Hash128& key, const std::vector<char>& code) const {
    const auto path = path_of(key);
    if (path.empty()) return;
    try {
      std::filesystem::create_directories(path.parent_path());
      const FileHeader header{file_magic, key, checksum(code)};
      write_atomically(path, [&](AtomicFile& file) {
        file.write(std::as_bytes(std::span(&header, 1)));
        file.write(std::as_bytes(std::span(code)));
      });
    } catch (const std::exception&) {
      // A cache that cannot be written (read-only home, full disk) costs time, not results.
    }
  }

  std::mutex mutex_;
  std::unordered_map<Hash128, Entry, Hash128Hasher> entries_;
  std::list<Hash128> order_;  // most recently used first
  CompilerStats stats_;
};

Cache& cache() {
  static Cache& instance = *new Cache;
  return instance;
}

std::vector<std::string> all_options(const Driver& driver, const std::string& architecture, int wave_size,
                                     const KernelSource& source) {
  std::vector<std::string> options;
  if (driver.kind == DeviceKind::rocm)
    options = {"--offload-arch=" + architecture, "-DHEARTH_AMD", "-O3", "-ffp-contract=off"};
  else
    options = {"--gpu-architecture=" + architecture, "-DHEARTH_NVIDIA", "--fmad=false", "-default-device"};
  options.push_back("-std=c++17");
  options.push_back(fmt::format("-DWAVE={}", wave_size));
  options.insert(options.end(), source.options.begin(), source.options.end());
  return options;
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
  int major = 0, minor = 0;
  driver.call.compiler_version(&major, &minor);
  hasher.add(major);
  hasher.add(minor);
  hasher.add(driver.version);
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
  const auto path = std::filesystem::path(folder) / fmt::format("{}-{}.cpp", source.name, hexadecimal(key));
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

}  // namespace

std::filesystem::path kernel_cache_folder() {
  if (const char* folder = std::getenv("HEARTH_KERNEL_CACHE"); folder != nullptr && *folder != '\0')
    return std::string_view(folder) == "off" ? std::filesystem::path() : std::filesystem::path(folder);
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder != '\0')
    return std::filesystem::path(folder) / "hearth" / "kernels";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "hearth" / "kernels";
  return {};
}

std::vector<char> compile(const Driver& driver, const std::string& architecture, int wave_size,
                          const KernelSource& source) {
  if (driver.compiler_library.empty())
    throw CompileError(fmt::format("[{}] kernels cannot be compiled: {} was not found beside {}", driver.name,
                                   driver.kind == DeviceKind::rocm ? "libhiprtc" : "libnvrtc",
                                   driver.library));
  const auto options = all_options(driver, architecture, wave_size, source);
  const Hash128 key = key_of(driver, options, source);
  if (std::vector<char> code = cache().get(key); !code.empty()) return code;

  const auto begin = std::chrono::steady_clock::now();
  keep_source(key, options, source);
  Program program(driver, source);
  const int result = program.compile(options);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  cache().count(result != 0, elapsed.count());
  if (result != 0) {
    const std::string log = program.log();
    throw CompileError(fmt::format("[{}] kernel {} did not compile for {}: {}\n{}", driver.name, source.name,
                                   architecture, driver.call.compiler_error(result), log),
                       log);
  }
  std::vector<char> code = program.code();
  cache().put(key, code);
  return code;
}

CompilerStats compiler_stats() { return cache().stats(); }
void clear_kernel_cache() { cache().clear(); }

}  // namespace hearth::gpu
