// ELF, as far as it is needed: AMD puts the figures into a note in MessagePack, NVIDIA into section headers
// and a table of attributes.
#include "gpu/code_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hearth/error.h"

namespace hearth::gpu {
namespace {

[[noreturn]] void damaged(const char* what) {
  throw ValueError(fmt::format("[code object] {}: not the code of a GPU, or damaged", what));
}

// Bytes with checked access.
class Bytes {
 public:
  explicit Bytes(std::span<const char> bytes) : bytes_(bytes) {}

  Bytes part(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) damaged("a part lies outside");
    return Bytes(bytes_.subspan(offset, size));
  }
  template <class T>
  T at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, part(offset, sizeof value).bytes_.data(), sizeof value);
    return value;
  }
  std::string text(std::uint64_t offset) const {
    const Bytes rest = part(offset, bytes_.size() - std::min<std::uint64_t>(offset, bytes_.size()));
    const auto end = std::find(rest.bytes_.begin(), rest.bytes_.end(), '\0');
    if (end == rest.bytes_.end()) damaged("a name without end");
    return {rest.bytes_.begin(), end};
  }
  std::uint64_t size() const { return bytes_.size(); }
  std::string_view view() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::span<const char> bytes_;
};

// The AMD part of a bundle, where the compiler made one; otherwise the bytes themselves.
Bytes unbundled(Bytes file) {
  constexpr std::string_view magic = "__CLANG_OFFLOAD_BUNDLE__";
  if (!file.view().starts_with(magic)) return file;
  const auto count = file.at<std::uint64_t>(magic.size());
  std::uint64_t place = magic.size() + 8;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto offset = file.at<std::uint64_t>(place), size = file.at<std::uint64_t>(place + 8),
               name = file.at<std::uint64_t>(place + 16);
    if (file.part(place + 24, name).view().find("amdgcn") != std::string_view::npos)
      return file.part(offset, size);
    place += 24 + name;
  }
  damaged("a bundle without AMD code");
}

class Elf {
 public:
  explicit Elf(Bytes file) : file_(file) {
    if (file.size() < sizeof(Elf64_Ehdr) || file.view().substr(0, 4) != ELFMAG ||
        file.view()[4] != ELFCLASS64 || file.view()[5] != ELFDATA2LSB)
      damaged("no 64-bit ELF");
    header_ = file.at<Elf64_Ehdr>(0);
    if (header_.e_shnum == 0) return;
    for (unsigned i = 0; i < header_.e_shnum; ++i)
      sections_.push_back(file.at<Elf64_Shdr>(table_place(header_.e_shoff, i, header_.e_shentsize)));
    if (header_.e_shstrndx >= sections_.size()) damaged("no names of sections");
    const Bytes names = contents(sections_[header_.e_shstrndx]);
    for (const Elf64_Shdr& section : sections_) names_.push_back(names.text(section.sh_name));
  }

  const Elf64_Ehdr& header() const { return header_; }
  std::size_t section_count() const { return sections_.size(); }
  const Elf64_Shdr& section(std::size_t index) const { return sections_[index]; }
  const std::string& name(std::size_t index) const { return names_[index]; }
  Bytes contents(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS) return Bytes({});
    return file_.part(section.sh_offset, section.sh_size);
  }
  std::optional<std::size_t> find(std::string_view name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return found == names_.end() ? std::nullopt : std::optional<std::size_t>(found - names_.begin());
  }
  std::vector<Bytes> note_segments() const {
    std::vector<Bytes> notes;
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      const auto segment = file_.at<Elf64_Phdr>(table_place(header_.e_phoff, i, header_.e_phentsize));
      if (segment.p_type == PT_NOTE) notes.push_back(file_.part(segment.p_offset, segment.p_filesz));
    }
    return notes;
  }

 private:
  // Where entry `index` of a table begins, or a place outside when that overflows.
  std::uint64_t table_place(std::uint64_t start, unsigned index, unsigned size) const {
    return start > file_.size() ? start : start + std::uint64_t{index} * size;
  }

  Bytes file_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::string> names_;
};

// ---- AMD

nlohmann::json amd_metadata(const Elf& elf) {
  constexpr std::uint32_t type_metadata = 32;  // NT_AMDGPU_METADATA
  const auto padded = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
  for (const Bytes& notes : elf.note_segments())
    for (std::uint64_t place = 0; place + 12 <= notes.size();) {
      const std::uint64_t name_size = notes.at<std::uint32_t>(place),
                          size = notes.at<std::uint32_t>(place + 4);
      const auto type = notes.at<std::uint32_t>(place + 8);
      const Bytes contents = notes.part(place + 12 + padded(name_size), size);
      if (type == type_metadata && notes.part(place + 12, name_size).view().starts_with("AMDGPU")) {
        auto metadata = nlohmann::json::from_msgpack(contents.view(), true, false);
        if (!metadata.is_object()) damaged("metadata that cannot be read");
        return metadata;
      }
      place += 12 + padded(name_size) + padded(size);
    }
  damaged("no metadata");
}

CodeObject read_amd(const Elf& elf) {
  const nlohmann::json metadata = amd_metadata(elf);
  CodeObject object;
  try {
    // "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
    const std::string target = metadata.value("amdhsa.target", "");
    object.architecture = target.substr(target.rfind("--") == std::string::npos ? 0 : target.rfind("--") + 2);
    object.architecture = object.architecture.substr(0, object.architecture.find(':'));
    for (const auto& kernel : metadata.at("amdhsa.kernels")) {
      KernelResources resources;
      resources.name = kernel.at(".name").get<std::string>();
      resources.vector_registers = kernel.at(".vgpr_count").get<int>();
      resources.accumulation_registers = kernel.value(".agpr_count", 0);
      resources.scalar_registers = kernel.at(".sgpr_count").get<int>();
      resources.vector_spills = kernel.value(".vgpr_spill_count", 0);
      resources.scalar_spills = kernel.value(".sgpr_spill_count", 0);
      resources.shared_bytes = kernel.at(".group_segment_fixed_size").get<std::uint32_t>();
      resources.scratch_bytes = kernel.at(".private_segment_fixed_size").get<std::uint32_t>();
      object.kernels.push_back(resources);
    }
  } catch (const nlohmann::json::exception&) {
    damaged("metadata of another form");
  }
  return object;
}

// ---- NVIDIA

// Attributes of the section .nv.info that hold a symbol and a number, by symbol.
std::map<std::uint32_t, std::uint32_t> attribute_values(const Elf& elf, std::uint8_t wanted) {
  std::map<std::uint32_t, std::uint32_t> values;
  const auto index = elf.find(".nv.info");
  if (!index) return values;
  constexpr std::uint8_t sized = 4;  // other forms have their value in the two bytes that follow, or none
  const Bytes table = elf.contents(elf.section(*index));
  for (std::uint64_t place = 0; place + 4 <= table.size();) {
    const auto form = table.at<std::uint8_t>(place), attribute = table.at<std::uint8_t>(place + 1);
    const std::uint64_t size = form == sized ? table.at<std::uint16_t>(place + 2) : 0;
    if (form == sized && attribute == wanted && size == 8)
      values[table.at<std::uint32_t>(place + 4)] = table.at<std::uint32_t>(place + 8);
    place += 4 + size;
  }
  return values;
}

// The symbol of each kernel's name.
std::map<std::string, std::uint32_t> symbols(const Elf& elf) {
  std::map<std::string, std::uint32_t> found;
  for (std::size_t s = 0; s < elf.section_count(); ++s) {
    const Elf64_Shdr& section = elf.section(s);
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= elf.section_count()) continue;
    const Bytes names = elf.contents(elf.section(section.sh_link));
    const Bytes table = elf.contents(section);
    for (std::uint32_t i = 0; i < table.size() / sizeof(Elf64_Sym); ++i)
      found[names.text(table.at<Elf64_Sym>(i * sizeof(Elf64_Sym)).st_name)] = i;
  }
  return found;
}

CodeObject read_nvidia(const Elf& elf) {
  constexpr std::uint8_t attribute_registers = 0x2f, attribute_frame = 0x11;
  const auto registers = attribute_values(elf, attribute_registers);
  const auto frames = attribute_values(elf, attribute_frame);
  const auto symbol_of = symbols(elf);
  CodeObject object;
  // Newer cubins (ABI version 8) have the architecture one byte higher.
  const std::uint32_t flags = elf.header().e_flags;
  object.architecture =
      fmt::format("sm_{}", (elf.header().e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 : flags) & 0xff);
  // From sm_90 on, the size of shared memory includes what the system takes.
  const std::uint32_t reserved = elf.find(".nv.shared.reserved.0") ? 1024 : 0;
  constexpr std::string_view prefix = ".text.";
  for (std::size_t s = 0; s < elf.section_count(); ++s) {
    if (!elf.name(s).starts_with(prefix)) continue;
    KernelResources resources;
    resources.name = elf.name(s).substr(prefix.size());
    resources.vector_registers = static_cast<int>(elf.section(s).sh_info >> 24);
    if (const auto symbol = symbol_of.find(resources.name); symbol != symbol_of.end()) {
      if (const auto found = registers.find(symbol->second); found != registers.end())
        resources.vector_registers = static_cast<int>(found->second & 0xffff);
      if (const auto found = frames.find(symbol->second); found != frames.end())
        resources.scratch_bytes = found->second;
    }
    if (const auto shared = elf.find(".nv.shared." + resources.name)) {
      const auto size = static_cast<std::uint32_t>(elf.section(*shared).sh_size);
      resources.shared_bytes = size - std::min(size, reserved);
    }
    object.kernels.push_back(resources);
  }
  return object;
}

}  // namespace

CodeObject read_code_object(std::span<const char> bytes) {
  const Elf elf(unbundled(Bytes(bytes)));
  constexpr int machine_amd = 224, machine_nvidia = 190;
  if (elf.header().e_machine == machine_amd) return read_amd(elf);
  if (elf.header().e_machine == machine_nvidia) return read_nvidia(elf);
  damaged("an ELF for another machine");
}

}  // namespace hearth::gpu
