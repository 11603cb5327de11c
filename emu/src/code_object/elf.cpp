// Checked reading of ELF64 headers.
#include "code_object/elf.h"

#include <algorithm>

namespace hipemu::elf {

bool is_elf(Bytes file) {
  return file.size() >= 4 && std::memcmp(file.data(),
                                         "\x7f"
                                         "ELF",
                                         4) == 0;
}

Header read_header(Bytes file) {
  if (!is_elf(file)) throw CodeObjectError("[code object] not an ELF file");
  const auto header = read<Header>(file, 0, "ELF header");
  if (header.file_class != 2 || header.data != 1 || header.version != 1)
    throw CodeObjectError("[code object] not a 64-bit little-endian ELF file");
  return header;
}

std::vector<ProgramHeader> read_program_headers(Bytes file, const Header& header) {
  if (header.program_count == 0) return {};
  if (header.program_entry_size != sizeof(ProgramHeader))
    throw CodeObjectError(
        fmt::format("[code object] program headers have {} bytes, not 56", header.program_entry_size));
  std::vector<ProgramHeader> headers(header.program_count);
  const Bytes source =
      slice(file, header.program_offset, headers.size() * sizeof(ProgramHeader), "program headers");
  std::memcpy(headers.data(), source.data(), source.size());
  return headers;
}

std::vector<SectionHeader> read_section_headers(Bytes file, const Header& header) {
  if (header.section_count == 0) return {};
  if (header.section_entry_size != sizeof(SectionHeader))
    throw CodeObjectError(
        fmt::format("[code object] section headers have {} bytes, not 64", header.section_entry_size));
  std::vector<SectionHeader> headers(header.section_count);
  const Bytes source =
      slice(file, header.section_offset, headers.size() * sizeof(SectionHeader), "section headers");
  std::memcpy(headers.data(), source.data(), source.size());
  return headers;
}

std::optional<Bytes> find_section(Bytes file, std::string_view name) {
  const Header header = read_header(file);
  const auto sections = read_section_headers(file, header);
  if (header.names_index >= sections.size()) return std::nullopt;
  const SectionHeader& names_section = sections[header.names_index];
  const Bytes names = slice(file, names_section.offset, names_section.size, "section names");
  for (const SectionHeader& section : sections) {
    if (section.type == section_without_bytes || section.name >= names.size()) continue;
    // The name must be followed by its terminating zero.
    const Bytes rest = names.subspan(section.name);
    if (rest.size() <= name.size() || rest[name.size()] != std::byte{0}) continue;
    if (std::memcmp(rest.data(), name.data(), name.size()) == 0)
      return slice(file, section.offset, section.size, name);
  }
  return std::nullopt;
}

uint64_t file_size(Bytes file) {
  const Header header = read_header(file);
  uint64_t end = sizeof(Header);
  const auto extend = [&](uint64_t offset, uint64_t size) {
    end = std::max(end, checked_sum(offset, size, "size of the file"));
  };
  if (header.program_count) extend(header.program_offset, header.program_count * sizeof(ProgramHeader));
  if (header.section_count) extend(header.section_offset, header.section_count * sizeof(SectionHeader));
  for (const ProgramHeader& program : read_program_headers(file, header))
    extend(program.offset, program.file_size);
  for (const SectionHeader& section : read_section_headers(file, header))
    if (section.type != section_without_bytes) extend(section.offset, section.size);
  return end;
}

}  // namespace hipemu::elf
