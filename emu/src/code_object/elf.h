// The parts of an ELF64 file that a loader needs. The structures are as they lie in the file (little-endian).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "code_object/bytes.h"

namespace hipemu::elf {

struct Header {
  uint8_t magic[4];
  uint8_t file_class, data, version, os_abi, abi_version, padding[7];
  uint16_t type, machine;
  uint32_t format_version;
  uint64_t entry, program_offset, section_offset;
  uint32_t flags;
  uint16_t header_size, program_entry_size, program_count, section_entry_size, section_count, names_index;
};
static_assert(sizeof(Header) == 64);

struct ProgramHeader {
  uint32_t type, flags;
  uint64_t offset, address, physical_address, file_size, memory_size, alignment;
};
static_assert(sizeof(ProgramHeader) == 56);

struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
};
static_assert(sizeof(SectionHeader) == 64);

struct Symbol {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;

  int type() const { return info & 15; }
  int binding() const { return info >> 4; }
};
static_assert(sizeof(Symbol) == 24);

struct Rela {
  uint64_t offset, info;
  int64_t addend;

  uint32_t type() const { return uint32_t(info); }
  uint32_t symbol() const { return uint32_t(info >> 32); }
};
static_assert(sizeof(Rela) == 24);

struct DynamicEntry {
  int64_t tag;
  uint64_t value;
};

// Values of the fields above, under their names in the ELF specification without the prefix.
inline constexpr uint16_t machine_amdgpu = 224;
inline constexpr uint8_t os_abi_amdgpu_hsa = 64;
inline constexpr uint16_t type_shared_object = 3;
inline constexpr uint32_t segment_load = 1, segment_dynamic = 2, segment_note = 4;
inline constexpr uint32_t segment_executable = 1, segment_writable = 2;
inline constexpr uint32_t section_without_bytes = 8, section_dynamic_symbols = 11;
inline constexpr int symbol_object = 1, binding_weak = 2;
inline constexpr uint16_t index_undefined = 0, index_absolute = 0xfff1;
inline constexpr int64_t tag_end = 0, tag_plt_relocation_bytes = 2, tag_hash = 4, tag_string_table = 5,
                         tag_symbol_table = 6, tag_rela = 7, tag_rela_bytes = 8, tag_rela_entry_bytes = 9,
                         tag_string_bytes = 10, tag_symbol_bytes = 11, tag_rel = 17, tag_plt_relocations = 23;

bool is_elf(Bytes file);

// All of these throw CodeObjectError when the file is not a 64-bit little-endian ELF file or too short.
Header read_header(Bytes file);
std::vector<ProgramHeader> read_program_headers(Bytes file, const Header& header);
std::vector<SectionHeader> read_section_headers(Bytes file, const Header& header);

// The bytes of a section, empty when there is no section of that name.
std::optional<Bytes> find_section(Bytes file, std::string_view name);

// Where the last thing ends that the headers mention.
uint64_t file_size(Bytes file);

}  // namespace hipemu::elf
