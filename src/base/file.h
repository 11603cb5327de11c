// Files: mapping and reading them whole, and replacing them so that a failure never costs the old contents.
//
// Every failure is a FileError with the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

// A file's contents, mapped for reading. The file must not be shortened by others while mapped (the system
// answers reads past the new end with SIGBUS); replacing it, as AtomicFile does, is harmless.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Begins at a page boundary.
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Gives memory of a mapped file back to the system, which reads the file again where somebody asks again.
void forget_mapped(std::span<const std::byte> bytes);

// The whole file. Also reads what cannot be mapped, such as pipes.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text_file(const std::filesystem::path& path);

// A file under construction. What is written goes to a temporary file in the same folder; commit() makes it
// the file at `path` in one step, durably. Until then, and if anything fails, what was at `path` stays as it
// was, and destruction without commit() leaves no trace. Where the file system can, the temporary has no name
// until commit() is about to rename it, so that a process killed while writing leaves nothing behind.
//
// A symbolic link at `path` is followed and stays a link; the permissions of an existing file are kept. An
// existing file that the user may not write is not replaced, nor is anything that is not a regular file.
class AtomicFile {
 public:
  // How the temporary is made; `named` does not ask for an unnamed one first.
  enum class Temporary { unnamed_if_possible, named };

  explicit AtomicFile(const std::filesystem::path& path,
                      Temporary temporary = Temporary::unnamed_if_possible);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Writes over bytes that have been written before; offset + bytes.size() <= size().
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }

  // Flushes to the disk and renames. Nothing can be written afterwards.
  void commit();

 private:
  void open_temporary(bool unnamed, unsigned mode);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void require_open() const;
  void discard() noexcept;
  [[noreturn]] void fail(const char* action, int error);

  std::filesystem::path path_;    // as given, for messages
  std::filesystem::path target_;  // with links resolved
  std::filesystem::path temporary_;
  bool named_ = false;  // temporary_ exists in the folder
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// Replaces the file at `path`, as AtomicFile does, with `bytes` or with what `write` writes.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_atomically(const std::filesystem::path& path, std::string_view text);
void write_atomically(const std::filesystem::path& path, const std::function<void(AtomicFile&)>& write);

}  // namespace hearth
