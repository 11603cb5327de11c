// Reading and writing zip archives (PKWARE's APPNOTE.TXT names the fields).
#include "io/zip.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"

namespace hearth::io {
namespace {

constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t entry_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t end64_locator_signature = 0x07064b50;
constexpr std::size_t local_bytes = 30, entry_bytes = 46, end_bytes = 22, end64_bytes = 56,
                      locator_bytes = 20;
constexpr std::uint16_t zip64_field = 1;
constexpr std::uint16_t method_stored = 0, method_deflated = 8;
constexpr std::uint16_t flag_encrypted = 1, flag_utf8 = 1 << 11;
constexpr std::uint16_t version_zip64 = 45;
constexpr std::uint16_t date_1980_01_01 = (1 << 5) | 1;
constexpr std::uint32_t in_zip64 = 0xffffffff;  // a 32-bit size or offset that stands in the zip64 field
constexpr std::uint16_t count_in_zip64 = 0xffff;

[[noreturn]] void fail(std::string_view source, const std::string& rule) {
  throw FormatError(fmt::format("[zip] '{}': {}", source, rule));
}

bool has(Bytes archive, std::uint64_t offset, std::uint64_t count) {
  return offset <= archive.size() && count <= archive.size() - offset;
}

struct Directory {
  std::uint64_t begin, size, count;
};

Directory find_directory(Bytes archive, std::string_view source) {
  // The end record is followed only by a comment, whose length it states.
  constexpr std::size_t longest_comment = 0xffff;
  if (archive.size() < end_bytes) fail(source, "too short for a zip archive");
  std::size_t end = archive.size() - end_bytes;
  const std::size_t first = end - std::min(end, longest_comment);
  while (load_little<std::uint32_t>(archive, end) != end_signature ||
         load_little<std::uint16_t>(archive, end + 20) != archive.size() - end - end_bytes) {
    if (end == first) fail(source, "not a zip archive, or cut short: it has no end record");
    --end;
  }

  Directory directory{load_little<std::uint32_t>(archive, end + 16),
                      load_little<std::uint32_t>(archive, end + 12),
                      load_little<std::uint16_t>(archive, end + 10)};
  const auto part = load_little<std::uint16_t>(archive, end + 4);
  if (part != 0 && part != count_in_zip64) fail(source, "archives in several parts are not supported");
  if (end >= locator_bytes &&
      load_little<std::uint32_t>(archive, end - locator_bytes) == end64_locator_signature) {
    const auto end64 = load_little<std::uint64_t>(archive, end - locator_bytes + 8);
    if (!has(archive, end64, end64_bytes) || load_little<std::uint32_t>(archive, end64) != end64_signature)
      fail(source, "the zip64 end record is not where it should be");
    directory = {load_little<std::uint64_t>(archive, end64 + 48),
                 load_little<std::uint64_t>(archive, end64 + 40),
                 load_little<std::uint64_t>(archive, end64 + 32)};
    end = end64;
  }
  if (directory.begin > end || directory.size > end - directory.begin)
    fail(source, "the directory is outside the archive");
  if (directory.count > directory.size / entry_bytes)
    fail(source,
         fmt::format("{} members do not fit in a directory of {} bytes", directory.count, directory.size));
  return directory;
}

struct DirectoryEntry {
  ZipEntry entry;
  std::uint64_t stored_size, local_offset;
};

// Sizes that do not fit in 32 bits stand in the zip64 extra field, in this order, if they are needed.
void apply_zip64(Bytes extra, DirectoryEntry& found, std::string_view source) {
  while (extra.size() >= 4) {
    const auto id = load_little<std::uint16_t>(extra, 0);
    const auto length = load_little<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4) break;
    if (id == zip64_field) {
      auto values = extra.subspan(4, length);
      for (auto* field : {&found.entry.size, &found.stored_size, &found.local_offset}) {
        if (*field != in_zip64) continue;
        if (values.size() < 8) break;
        *field = load_little<std::uint64_t>(values, 0);
        values = values.subspan(8);
      }
      return;
    }
    extra = extra.subspan(4 + std::size_t{length});
  }
  if (found.entry.size == in_zip64 || found.stored_size == in_zip64 || found.local_offset == in_zip64)
    fail(source, fmt::format("member {}: its zip64 sizes are missing", show(found.entry.name)));
}

DirectoryEntry parse_entry(Bytes directory, std::size_t& position, std::string_view source) {
  const auto rest = directory.subspan(position);
  if (rest.size() < entry_bytes || load_little<std::uint32_t>(rest, 0) != entry_signature)
    fail(source, "the directory is damaged");
  const auto flags = load_little<std::uint16_t>(rest, 8);
  const auto method = load_little<std::uint16_t>(rest, 10);
  const std::size_t name_length = load_little<std::uint16_t>(rest, 28);
  const std::size_t extra_length = load_little<std::uint16_t>(rest, 30);
  const std::size_t comment_length = load_little<std::uint16_t>(rest, 32);
  const auto length = entry_bytes + name_length + extra_length + comment_length;
  if (length > rest.size()) fail(source, "the directory is damaged");
  position += length;

  DirectoryEntry found{};
  auto& entry = found.entry;
  entry.name = as_text(rest.subspan(entry_bytes, name_length));
  entry.crc = load_little<std::uint32_t>(rest, 16);
  found.stored_size = load_little<std::uint32_t>(rest, 20);
  entry.size = load_little<std::uint32_t>(rest, 24);
  found.local_offset = load_little<std::uint32_t>(rest, 42);
  apply_zip64(rest.subspan(entry_bytes + name_length, extra_length), found, source);

  if (flags & flag_encrypted) fail(source, fmt::format("member {} is encrypted", show(entry.name)));
  if (method != method_stored && method != method_deflated)
    fail(source,
         fmt::format("member {} is compressed with method {}; stored (0) and deflate (8) are supported",
                     show(entry.name), method));
  entry.deflated = method == method_deflated;
  return found;
}

void locate_data(Bytes archive, std::uint64_t directory_begin, DirectoryEntry& found,
                 std::string_view source) {
  auto& entry = found.entry;
  const auto offset = found.local_offset;
  const auto members = archive.first(directory_begin);
  if (!has(members, offset, local_bytes) || load_little<std::uint32_t>(members, offset) != local_signature)
    fail(source, fmt::format("member {} is not where the directory says", show(entry.name)));
  entry.begin = offset + local_bytes + load_little<std::uint16_t>(members, offset + 26) +
                load_little<std::uint16_t>(members, offset + 28);
  if (!has(members, entry.begin, found.stored_size))
    fail(source, fmt::format("member {} reaches beyond the end of the archive", show(entry.name)));
  entry.end = entry.begin + found.stored_size;

  if (!entry.deflated && entry.size != found.stored_size)
    fail(source, fmt::format("member {} is stored, but with {} bytes instead of {}", show(entry.name),
                             found.stored_size, entry.size));
  if (entry.deflated && entry.size / largest_expansion > found.stored_size)
    fail(source, fmt::format("member {}: {} bytes cannot expand to {}", show(entry.name), found.stored_size,
                             entry.size));
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(Bytes archive, std::string_view source) {
  const auto directory = find_directory(archive, source);
  const auto bytes = archive.subspan(directory.begin, directory.size);
  std::vector<DirectoryEntry> found;
  std::size_t position = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    found.push_back(parse_entry(bytes, position, source));
    locate_data(archive, directory.begin, found.back(), source);
  }

  std::vector<const DirectoryEntry*> order;
  for (const auto& member : found) order.push_back(&member);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->local_offset < b->local_offset; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->local_offset < order[i - 1]->entry.end)
      fail(source, fmt::format("members {} and {} overlap", show(order[i - 1]->entry.name),
                               show(order[i]->entry.name)));
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->entry.name < b->entry.name; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->entry.name == order[i - 1]->entry.name)
      fail(source, fmt::format("member {} occurs twice", show(order[i]->entry.name)));

  std::vector<ZipEntry> entries;
  for (auto& member : found) entries.push_back(std::move(member.entry));
  return entries;
}

ZipMemberReader::ZipMemberReader(Bytes archive, const ZipEntry& entry, std::string_view source)
    : entry_(entry),
      source_(source),
      stored_(archive.subspan(entry.begin, entry.end - entry.begin)),
      left_(entry.size) {
  if (entry.deflated) inflater_ = std::make_unique<Inflater>(stored_, Inflater::Format::raw, source);
}

void ZipMemberReader::read(std::span<std::byte> out) {
  if (inflater_) {
    if (inflater_->read(out) != out.size()) fail(source_, "fewer bytes than the directory says");
  } else {
    std::copy_n(stored_.begin(), out.size(), out.begin());
    stored_ = stored_.subspan(out.size());
  }
  crc_ = crc32(out, crc_);
  left_ -= out.size();
  if (left_ > 0) return;
  if (std::byte extra; inflater_ && inflater_->read({&extra, 1}) != 0)
    fail(source_, "more bytes than the directory says");
  if (crc_ != entry_.crc) fail(source_, "damaged: wrong CRC");
}

// ---- writing

std::string ZipWriter::local_header(const Member& member) const {
  std::string text;
  append_little(text, local_signature);
  append_little(text, version_zip64);
  append_little(text, flag_utf8);
  append_little(text, compress_ ? method_deflated : method_stored);
  append_little(text, std::uint16_t{0});  // time
  append_little(text, date_1980_01_01);
  append_little(text, member.crc);
  append_little(text, in_zip64);
  append_little(text, in_zip64);
  append_little(text, static_cast<std::uint16_t>(member.name.size()));
  append_little(text, std::uint16_t{20});
  text += member.name;
  append_little(text, zip64_field);
  append_little(text, std::uint16_t{16});
  append_little(text, member.size);
  append_little(text, member.stored_size);
  return text;
}

std::string ZipWriter::directory_entry(const Member& member) const {
  std::string extra;
  const auto narrow = [&](std::uint64_t value) {
    if (value < in_zip64) return static_cast<std::uint32_t>(value);
    append_little(extra, value);
    return in_zip64;
  };
  const auto size = narrow(member.size);
  const auto stored_size = narrow(member.stored_size);
  const auto offset = narrow(member.offset);

  std::string text;
  append_little(text, entry_signature);
  append_little(text, version_zip64);  // made by
  append_little(text, version_zip64);  // needed
  append_little(text, flag_utf8);
  append_little(text, compress_ ? method_deflated : method_stored);
  append_little(text, std::uint16_t{0});
  append_little(text, date_1980_01_01);
  append_little(text, member.crc);
  append_little(text, stored_size);
  append_little(text, size);
  append_little(text, static_cast<std::uint16_t>(member.name.size()));
  append_little(text, static_cast<std::uint16_t>(extra.empty() ? 0 : extra.size() + 4));
  append_little(text, std::uint16_t{0});  // comment
  append_little(text, std::uint16_t{0});  // disk
  append_little(text, std::uint16_t{0});  // internal attributes
  append_little(text, std::uint32_t{0});  // external attributes
  append_little(text, offset);
  text += member.name;
  if (!extra.empty()) {
    append_little(text, zip64_field);
    append_little(text, static_cast<std::uint16_t>(extra.size()));
    text += extra;
  }
  return text;
}

void ZipWriter::add(const std::string& name, std::initializer_list<Bytes> pieces) {
  if (name.size() > 0xffff)
    throw ValueError(fmt::format("[zip] the name {} is longer than 65535 bytes", show(name)));
  Member member{name, 0, 0, 0, file_.size()};
  file_.write(local_header(member));  // again below, when its figures are known
  const auto begin = file_.size();
  std::unique_ptr<Deflater> deflater;
  if (compress_) deflater = std::make_unique<Deflater>([&](Bytes bytes) { file_.write(bytes); });
  for (const auto piece : pieces) {
    member.crc = crc32(piece, member.crc);
    member.size += piece.size();
    if (deflater)
      deflater->write(piece);
    else
      file_.write(piece);
  }
  if (deflater) deflater->finish();
  member.stored_size = file_.size() - begin;
  const auto header = local_header(member);
  file_.overwrite(member.offset, std::as_bytes(std::span(header)));
  members_.push_back(std::move(member));
}

void ZipWriter::finish() {
  const auto begin = file_.size();
  std::string text;
  for (const auto& member : members_) text += directory_entry(member);
  const std::uint64_t size = text.size(), count = members_.size();
  if (begin >= in_zip64 || size >= in_zip64 || count >= count_in_zip64) {
    const std::uint64_t end64 = begin + size;
    append_little(text, end64_signature);
    append_little(text, std::uint64_t{end64_bytes - 12});  // of the rest of this record
    append_little(text, version_zip64);
    append_little(text, version_zip64);
    append_little(text, std::uint32_t{0});
    append_little(text, std::uint32_t{0});
    append_little(text, count);
    append_little(text, count);
    append_little(text, size);
    append_little(text, begin);
    append_little(text, end64_locator_signature);
    append_little(text, std::uint32_t{0});
    append_little(text, end64);
    append_little(text, std::uint32_t{1});
  }
  const auto count16 = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, count_in_zip64));
  append_little(text, end_signature);
  append_little(text, std::uint32_t{0});
  append_little(text, count16);
  append_little(text, count16);
  append_little(text, static_cast<std::uint32_t>(std::min<std::uint64_t>(size, in_zip64)));
  append_little(text, static_cast<std::uint32_t>(std::min<std::uint64_t>(begin, in_zip64)));
  append_little(text, std::uint16_t{0});
  file_.write(text);
}

}  // namespace hearth::io
