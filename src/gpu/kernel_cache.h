// Compiled kernels, in memory and in a folder of the user's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace hearth::gpu {

// Safe from any thread, and from several processes on one folder. A file that is damaged counts as missing.
class KernelCache {
 public:
  static constexpr std::uint64_t default_limit = std::uint64_t{1} << 30;

  // `folder` may be empty: nothing is kept on disk. When the files together pass `limit` bytes, those that
  // were not used for longest go.
  explicit KernelCache(std::filesystem::path folder, std::uint64_t limit = default_limit);

  std::vector<char> get(const Hash128& key);  // empty when it is not there
  void put(const Hash128& key, const std::vector<char>& code);
  void forget();  // what is in memory
  void clear();   // and what is on disk

  struct File {
    std::filesystem::path path;
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type used;
  };
  std::vector<File> files() const;  // the one used last is last
  // The code in a file of the cache; empty when the file is damaged.
  static std::vector<char> read_code(const std::filesystem::path& file);

  const std::filesystem::path& folder() const { return folder_; }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t memory_hits() const;
  std::uint64_t disk_hits() const;

 private:
  struct Entry {
    std::vector<char> code;
    std::list<Hash128>::iterator position;
  };
  void remember(const Hash128& key, const std::vector<char>& code);
  std::filesystem::path path_of(const Hash128& key) const;
  std::vector<char> read(const Hash128& key) const;
  void write(const Hash128& key, const std::vector<char>& code);
  void trim();

  std::filesystem::path folder_;
  std::uint64_t limit_;
  mutable std::mutex mutex_;
  std::unordered_map<Hash128, Entry, Hash128Hasher> entries_;
  std::list<Hash128> order_;  // most recently used first
  std::uint64_t memory_hits_ = 0, disk_hits_ = 0;
  std::uint64_t bytes_until_trim_ = 0;  // that may be written before the folder is looked at again
};

// That of this process: in $HEARTH_KERNEL_CACHE ("off": not on disk), or $XDG_CACHE_HOME/hearth/kernels, or
// ~/.cache/hearth/kernels.
KernelCache& kernel_cache();

// The user's folder for what Hearth keeps: $XDG_CACHE_HOME/hearth, or ~/.cache/hearth; empty without a home.
std::filesystem::path user_cache_folder();

// Of text, for keys.
void add_text(Hasher& hasher, std::string_view text);

}  // namespace hearth::gpu
