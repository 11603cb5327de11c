// Zip archives with stored and deflated members, zip64 included: what .npz files are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "io/bytes.h"
#include "io/deflate.h"

namespace hearth::io {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;             // of the expanded bytes
  std::uint64_t size = 0;            // expanded; at most what the stored bytes can expand to
  std::uint64_t begin = 0, end = 0;  // of the stored bytes, from the beginning of the archive
};

// The members of an archive, in the order of its directory. Throws FormatError, naming `source`, for a
// damaged directory, encrypted members, compression other than deflate, members that overlap, a name that
// occurs twice.
std::vector<ZipEntry> read_zip_directory(Bytes archive, std::string_view source);

// Reads one member, which `source` names, from its beginning to its end. read() of the last byte checks the
// CRC.
class ZipMemberReader {
 public:
  ZipMemberReader(Bytes archive, const ZipEntry& entry, std::string_view source);

  // Fills `out`, which must not be longer than what is left of the member.
  void read(std::span<std::byte> out);

 private:
  const ZipEntry& entry_;
  std::string source_;
  Bytes stored_;
  std::unique_ptr<Inflater> inflater_;  // null: stored
  std::uint64_t left_;
  std::uint32_t crc_ = 0;
};

// Writes an archive into `file`, the same for the same members: times are fixed.
class ZipWriter {
 public:
  ZipWriter(AtomicFile& file, bool compress) : file_(file), compress_(compress) {}

  // A member whose contents are the pieces one after the other. Throws ValueError for a name over 65535
  // bytes.
  void add(const std::string& name, std::initializer_list<Bytes> pieces);
  // Writes the directory; nothing can be added afterwards.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint32_t crc;
    std::uint64_t size, stored_size, offset;
  };
  std::string local_header(const Member& member) const;
  std::string directory_entry(const Member& member) const;

  AtomicFile& file_;
  bool compress_;
  std::vector<Member> members_;
};

}  // namespace hearth::io
