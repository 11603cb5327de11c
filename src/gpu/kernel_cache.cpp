// Keeping compiled kernels.
#include "gpu/kernel_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "base/file.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr std::size_t memory_entries = 1024;
constexpr std::uint64_t file_magic = 0x31306c656e72656b;  // "kernel01"

// Before the code in a file. A file that is not exactly that is as good as none.
struct FileHeader {
  std::uint64_t magic;
  Hash128 key, checksum;
};

Hash128 checksum(std::span<const char> bytes) {
  Hasher hasher;
  add_text(hasher, {bytes.data(), bytes.size()});
  return hasher.finish();
}

struct Contents {
  Hash128 key;
  std::vector<char> code;
};

std::optional<Contents> read_checked(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  try {
    const std::vector<std::byte> bytes = read_file(path);
    FileHeader header;
    if (bytes.size() <= sizeof header) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof header);
    Contents contents{header.key, std::vector<char>(bytes.size() - sizeof header)};
    std::memcpy(contents.code.data(), bytes.data() + sizeof header, contents.code.size());
    if (header.magic != file_magic || !(header.checksum == checksum(contents.code))) return std::nullopt;
    return contents;
  } catch (const FileError&) {
    return std::nullopt;
  }
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::filesystem::path folder_of_user() {
  if (const std::string folder = variable("HEARTH_KERNEL_CACHE"); !folder.empty())
    return folder == "off" ? "" : folder;
  const std::filesystem::path folder = user_cache_folder();
  return folder.empty() ? folder : folder / "kernels";
}

}  // namespace

std::filesystem::path user_cache_folder() {
  if (const std::string folder = variable("XDG_CACHE_HOME"); !folder.empty())
    return std::filesystem::path(folder) / "hearth";
  if (const std::string home = variable("HOME"); !home.empty())
    return std::filesystem::path(home) / ".cache" / "hearth";
  return {};
}

void add_text(Hasher& hasher, std::string_view text) {
  hasher.add(static_cast<std::uint64_t>(text.size()));
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
    hasher.add(word);
  }
}

KernelCache::KernelCache(std::filesystem::path folder, std::uint64_t limit)
    : folder_(std::move(folder)), limit_(limit) {}

std::vector<char> KernelCache::get(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    ++memory_hits_;
    order_.splice(order_.begin(), order_, found->second.position);
    return found->second.code;
  }
  std::vector<char> code = read(key);
  if (!code.empty()) {
    ++disk_hits_;
    remember(key, code);
  }
  return code;
}

void KernelCache::put(const Hash128& key, const std::vector<char>& code) {
  const std::lock_guard lock(mutex_);
  remember(key, code);
  write(key, code);
}

void KernelCache::forget() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  order_.clear();
}

void KernelCache::clear() {
  forget();
  std::error_code ignored;
  for (const File& file : files()) std::filesystem::remove(file.path, ignored);
}

std::vector<KernelCache::File> KernelCache::files() const {
  std::vector<File> found;
  std::error_code error;
  if (folder_.empty()) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (entry.path().extension() != ".kernel") continue;
    std::error_code gone;  // another process may remove it meanwhile
    const File file{entry.path(), entry.file_size(gone), entry.last_write_time(gone)};
    if (!gone) found.push_back(file);
  }
  std::sort(found.begin(), found.end(), [](const File& a, const File& b) { return a.used < b.used; });
  return found;
}

std::vector<char> KernelCache::read_code(const std::filesystem::path& file) {
  auto contents = read_checked(file);
  return contents ? std::move(contents->code) : std::vector<char>();
}

std::uint64_t KernelCache::memory_hits() const {
  const std::lock_guard lock(mutex_);
  return memory_hits_;
}
std::uint64_t KernelCache::disk_hits() const {
  const std::lock_guard lock(mutex_);
  return disk_hits_;
}

void KernelCache::remember(const Hash128& key, const std::vector<char>& code) {
  if (entries_.contains(key)) return;
  order_.push_front(key);
  entries_[key] = {code, order_.begin()};
  if (entries_.size() <= memory_entries) return;
  entries_.erase(order_.back());
  order_.pop_back();
}

std::filesystem::path KernelCache::path_of(const Hash128& key) const {
  return folder_ / fmt::format("{:016x}{:016x}.kernel", key.high, key.low);
}

std::vector<char> KernelCache::read(const Hash128& key) const {
  if (folder_.empty()) return {};
  auto contents = read_checked(path_of(key));
  if (!contents || !(contents->key == key)) return {};
  std::error_code ignored;  // a folder that may only be read serves as well
  std::filesystem::last_write_time(path_of(key), std::filesystem::file_time_type::clock::now(), ignored);
  return std::move(contents->code);
}

void KernelCache::write(const Hash128& key, const std::vector<char>& code) {
  if (folder_.empty()) return;
  try {
    std::filesystem::create_directories(folder_);
    const FileHeader header{file_magic, key, checksum(code)};
    write_atomically(path_of(key), [&](AtomicFile& file) {
      file.write(std::as_bytes(std::span(&header, 1)));
      file.write(std::as_bytes(std::span(code)));
    });
    const std::uint64_t bytes = sizeof header + code.size();
    if (bytes > bytes_until_trim_)
      trim();
    else
      bytes_until_trim_ -= bytes;
  } catch (const std::exception&) {
    // A cache that cannot be written (read-only home, full disk) costs time, not results.
  }
}

// Other processes write too: the folder is looked at again each time an eighth of the limit was written.
void KernelCache::trim() {
  const std::vector<File> found = files();
  std::uint64_t total = 0;
  for (const File& file : found) total += file.bytes;
  for (const File& file : found) {
    if (total <= limit_) break;
    std::error_code ignored;
    std::filesystem::remove(file.path, ignored);
    total -= file.bytes;
  }
  bytes_until_trim_ = std::min(limit_ / 8, limit_ - std::min(limit_, total));
}

KernelCache& kernel_cache() {
  static KernelCache& instance = *new KernelCache(folder_of_user());  // threads may compile until the end
  return instance;
}

}  // namespace hearth::gpu
