// Mapping, reading and atomically replacing files, over POSIX.
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "hearth/error.h"

namespace hearth {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error) {
  throw FileError(fmt::format("[file] cannot {} '{}': {}", action, path.string(), reason(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

template <typename Call>
auto retry_interrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

template <typename Container>
Container read_whole(const std::filesystem::path& path) {
  const Descriptor file(retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (file.get() < 0) fail("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  // One byte more than expected, so that the end is seen without growing.
  Container contents;
  contents.resize(static_cast<std::size_t>(status.st_size) + 1);
  std::size_t size = 0;
  for (;;) {
    if (size == contents.size()) contents.resize(size + size / 2 + 4096);
    const auto count =
        retry_interrupted([&] { return ::read(file.get(), contents.data() + size, contents.size() - size); });
    if (count < 0) fail("read", path, errno);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  contents.resize(size);
  return contents;
}

void sync_folder(const std::filesystem::path& folder, const std::filesystem::path& path) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) return;  // a folder that may be written but not read: nothing to sync through
  if (retry_interrupted([&] { return ::fsync(descriptor.get()); }) == 0) return;
  if (errno == EINVAL || errno == ENOTSUP) return;  // a file system without such a thing
  throw FileError(fmt::format("[file] '{}' is written, but its folder could not be flushed to the disk: {}",
                              path.string(), reason(errno)));
}

}  // namespace

// ---- reading

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: opening a pipe must fail below rather than wait for a writer.
  const Descriptor file(
      retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (file.get() < 0) fail("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (!S_ISREG(status.st_mode))
    throw FileError(fmt::format("[file] cannot map '{}': not a regular file", path.string()));
  if (status.st_size == 0) return;
  size_ = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail("map", path, errno);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void forget_mapped(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()), end = begin + bytes.size();
  // Whole pages of its own: others may be in use.
  const std::uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  return read_whole<std::vector<std::byte>>(path);
}

std::string read_text_file(const std::filesystem::path& path) { return read_whole<std::string>(path); }

// ---- writing

AtomicFile::AtomicFile(const std::filesystem::path& path, Temporary temporary) : path_(path) {
  // Absolute first: of a relative path that is not there yet nothing would be resolved, nor its folder known.
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(path, ignored);
  target_ = std::filesystem::weakly_canonical(absolute, ignored);
  if (target_.empty()) target_ = absolute;
  if (!target_.has_filename()) fail("write", EISDIR);

  unsigned mode = 0666;
  struct stat status {};
  const bool replaces = ::stat(target_.c_str(), &status) == 0;
  if (replaces) {
    if (S_ISDIR(status.st_mode)) fail("write", EISDIR);
    if (!S_ISREG(status.st_mode))
      throw FileError(fmt::format("[file] cannot write '{}': not a regular file", path.string()));
    if (::access(target_.c_str(), W_OK) != 0) fail("write", errno);
    mode = status.st_mode & 0777u;
  }
  open_temporary(temporary == Temporary::unnamed_if_possible, mode);
  if (replaces && ::fchmod(descriptor_, mode) != 0) fail("set the permissions of", errno);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::open_temporary(bool unnamed, unsigned mode) {
  const auto folder = target_.parent_path();
#ifdef O_TMPFILE
  // Naming it later goes through /proc.
  if (unnamed && ::access("/proc/self/fd", X_OK) == 0)
    descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
#else
  (void)unnamed;
#endif
  static std::atomic<unsigned> serial{0};
  do {
    temporary_ = folder / fmt::format(".hearth-{}-{}.tmp", ::getpid(), serial++);
    if (descriptor_ >= 0) return;
    descriptor_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) fail("write", errno);
  named_ = true;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  require_open();
  write_at(size_, bytes);
  size_ += bytes.size();
}

void AtomicFile::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  require_open();
  if (offset > size_ || bytes.size() > size_ - offset)
    throw ValueError(fmt::format("[file] overwriting bytes {} to {} of '{}', which has {}", offset,
                                 offset + bytes.size(), path_.string(), size_));
  write_at(offset, bytes);
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = retry_interrupted(
        [&] { return ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (count < 0) fail("write", errno);
    if (count == 0) fail("write", ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void AtomicFile::commit() {
  require_open();
  if (retry_interrupted([&] { return ::fsync(descriptor_); }) != 0) fail("flush", errno);
  if (!named_) {
    const auto self = fmt::format("/proc/self/fd/{}", descriptor_);
    while (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      if (errno != EEXIST) fail("write", errno);
      temporary_ += "~";  // left by a killed process of the same number
    }
    named_ = true;
  }
  // Network file systems may report a full disk only here. The descriptor is gone even when close fails.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail("write", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("replace", errno);
  named_ = false;
  sync_folder(target_.parent_path(), path_);
}

void AtomicFile::require_open() const {
  if (descriptor_ < 0)
    throw ValueError(fmt::format("[file] '{}' has been committed or has failed", path_.string()));
}

void AtomicFile::discard() noexcept {
  if (named_) ::unlink(temporary_.c_str());
  named_ = false;
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void AtomicFile::fail(const char* action, int error) {
  discard();
  hearth::fail(action, path_, error);
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text)));
}

void write_atomically(const std::filesystem::path& path, const std::function<void(AtomicFile&)>& write) {
  AtomicFile file(path);
  write(file);
  file.commit();
}

}  // namespace hearth
