// parse_code_object(): from the bytes of an ELF file to segments, kernels, variables and relocations.
#include "code_object/code_object.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "code_object/bytes.h"
#include "code_object/elf.h"
#include "code_object/metadata.h"
#include "code_object/relocation.h"
#include "code_object/target.h"

namespace hipemu {
namespace {

constexpr uint64_t max_image_bytes = uint64_t(1) << 30;
constexpr std::size_t max_segments = 64;           // linkers write four
constexpr std::size_t max_name_bytes = 64u << 20;  // symbols may share one long name: bounds the copies
constexpr uint64_t max_alignment = uint64_t(1) << 21;

[[noreturn]] void fail(const std::string& message) { throw CodeObjectError("[code object] " + message); }

// The file as its program headers lay it out in memory.
class Parser {
 public:
  explicit Parser(Bytes file) : file_(file), header_(elf::read_header(file)) {
    check_header();
    programs_ = elf::read_program_headers(file_, header_);
  }

  CodeObject parse() {
    object_.abi_version = header_.abi_version + 2;
    read_segments();
    Metadata metadata = parse_metadata(find_metadata_note());
    object_.target = check_target(metadata.target).text();
    read_dynamic();
    read_symbols();
    read_kernels(std::move(metadata.kernels));
    read_variables();
    read_relocations(elf::tag_rela, elf::tag_rela_bytes);
    read_relocations(elf::tag_plt_relocations, elf::tag_plt_relocation_bytes);
    return std::move(object_);
  }

  std::string target() {
    if (const auto target = target_of_flags(header_.flags)) return target->text();
    return check_target(parse_metadata(find_metadata_note()).target).text();
  }

 private:
  struct NamedSymbol {
    std::string_view name;
    elf::Symbol symbol;
  };

  void check_header() const {
    if (header_.machine != elf::machine_amdgpu)
      fail(fmt::format("the ELF file is for machine {}, not for an AMD GPU (224)", header_.machine));
    if (header_.os_abi != elf::os_abi_amdgpu_hsa)
      fail(fmt::format("OS ABI {} is not that of HIP programs (64)", header_.os_abi));
    if (header_.abi_version < 2 || header_.abi_version > 4)
      fail(fmt::format("code object version {} (ABI version {}); versions 4, 5 and 6 can be loaded",
                       header_.abi_version + 2, header_.abi_version));
    if (header_.type != elf::type_shared_object)
      fail("a relocatable object: link it first (clang does unless told -c or -fgpu-rdc)");
  }

  void read_segments() {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const elf::ProgramHeader& program : programs_) {
      if (program.type != elf::segment_load || program.memory_size == 0) continue;
      if (object_.segments.size() == max_segments) fail(fmt::format("more than {} segments", max_segments));
      if (program.file_size > program.memory_size)
        fail("a segment has more bytes in the file than in memory");
      const uint64_t end = checked_sum(program.address, program.memory_size, "end of a segment");
      if (program.alignment > max_alignment || (program.alignment & (program.alignment - 1)))
        fail(fmt::format("a segment is aligned to {:#x} bytes", program.alignment));
      const Bytes bytes = slice(file_, program.offset, program.file_size, "segment");
      for (const auto& [other_begin, other_end] : ranges)
        if (program.address < other_end && other_begin < end)
          fail(fmt::format("segments overlap at {:#x}", std::max(program.address, other_begin)));
      ranges.emplace_back(program.address, end);
      lowest_ = std::min(lowest_, program.address);
      highest_ = std::max(highest_, end);
      // Before anything is copied: the segments do not overlap, so together they have no more than this.
      if (highest_ - lowest_ > max_image_bytes)
        fail(fmt::format("{} bytes of memory are more than the {} allowed", highest_ - lowest_,
                         max_image_bytes));
      Segment segment;
      segment.address = program.address;
      segment.memory_size = program.memory_size;
      segment.alignment = std::max<uint64_t>(program.alignment, 1);
      segment.executable = program.flags & elf::segment_executable;
      segment.writable = program.flags & elf::segment_writable;
      segment.bytes.assign(bytes.begin(), bytes.end());
      object_.segments.push_back(std::move(segment));
    }
    if (object_.segments.empty()) fail("nothing to load (no segments)");
  }

  // The segment whose memory holds [address, address + size), or null.
  const Segment* segment_of(uint64_t address, uint64_t size) const {
    for (const Segment& segment : object_.segments)
      if (address >= segment.address && size <= segment.memory_size &&
          address - segment.address <= segment.memory_size - size)
        return &segment;
    return nullptr;
  }

  // What the file has for these addresses. Nothing that is read at load time may lie in zero-filled memory.
  Bytes bytes_at(uint64_t address, uint64_t size, std::string_view what) const {
    const Segment* segment = segment_of(address, size);
    if (!segment) fail(fmt::format("{} at {:#x} ({} bytes) is in no segment", what, address, size));
    return slice(segment->bytes, address - segment->address, size, what);
  }

  Bytes find_metadata_note() const {
    for (const elf::ProgramHeader& program : programs_) {
      if (program.type != elf::segment_note) continue;
      Bytes notes = slice(file_, program.offset, program.file_size, "notes");
      const uint64_t alignment = program.alignment == 8 ? 8 : 4;
      const auto padded = [&](uint64_t size) { return (size + alignment - 1) & ~(alignment - 1); };
      while (notes.size() >= 12) {
        const auto name_size = read<uint32_t>(notes, 0, "note");
        const auto size = read<uint32_t>(notes, 4, "note");
        const auto type = read<uint32_t>(notes, 8, "note");
        const Bytes name = slice(notes, 12, name_size, "name of a note");
        const uint64_t start = padded(12 + uint64_t(name_size));
        const Bytes description = slice(notes, start, size, "note");
        constexpr uint32_t amdgpu_metadata = 32;
        if (type == amdgpu_metadata && name.size() == 7 && std::memcmp(name.data(), "AMDGPU", 7) == 0)
          return description;
        notes = notes.subspan(std::min<uint64_t>(notes.size(), padded(start + size)));
      }
    }
    fail("no AMDGPU metadata note");
  }

  // The target of the metadata, which must be the one of the ELF flags. A processor number that is not in our
  // table is no error: it is newer than the table, and the metadata has its name.
  TargetId check_target(std::string_view in_metadata) const {
    const std::optional<TargetId> flags = target_of_flags(header_.flags);
    if (in_metadata.empty() && !flags)
      fail(fmt::format("unknown processor: number {:#x} in the ELF flags", header_.flags & 0xff));
    const TargetId target = in_metadata.empty() ? *flags : parse_target_id(in_metadata);
    if (flags && *flags != target)
      fail(fmt::format("the metadata says {} but the ELF flags say {}", target.text(), flags->text()));
    if (is_generic(target.processor) && (header_.flags >> 24) == 0)
      fail(fmt::format("{} without a version in the ELF flags", target.processor));
    return target;
  }

  void read_dynamic() {
    for (const elf::ProgramHeader& program : programs_) {
      if (program.type != elf::segment_dynamic) continue;
      const Bytes table = slice(file_, program.offset, program.file_size, "dynamic section");
      for (uint64_t at = 0; at + sizeof(elf::DynamicEntry) <= table.size(); at += sizeof(elf::DynamicEntry)) {
        const auto entry = read<elf::DynamicEntry>(table, at, "dynamic section");
        if (entry.tag == elf::tag_end) break;
        if (entry.tag == elf::tag_rel) fail("relocations without addends are not used on AMD GPUs");
        dynamic_[entry.tag] = entry.value;
      }
    }
  }

  uint64_t dynamic(int64_t tag, uint64_t absent) const {
    const auto entry = dynamic_.find(tag);
    return entry == dynamic_.end() ? absent : entry->second;
  }

  // The dynamic section gives no count of symbols: it is that of the hash table's chains, or of the section.
  uint64_t symbol_count() const {
    if (const uint64_t hash = dynamic(elf::tag_hash, 0))
      return read<uint32_t>(bytes_at(hash, 8, "symbol hash table"), 4, "symbol hash table");
    for (const elf::SectionHeader& section : elf::read_section_headers(file_, header_))
      if (section.type == elf::section_dynamic_symbols) return section.size / sizeof(elf::Symbol);
    return 0;
  }

  void read_symbols() {
    const uint64_t address = dynamic(elf::tag_symbol_table, 0);
    if (!address) return;
    if (dynamic(elf::tag_symbol_bytes, sizeof(elf::Symbol)) != sizeof(elf::Symbol))
      fail("symbols do not have 24 bytes");
    const uint64_t count = symbol_count();
    const Bytes table = bytes_at(address, count * sizeof(elf::Symbol), "symbol table");
    const Bytes strings =
        bytes_at(dynamic(elf::tag_string_table, 0), dynamic(elf::tag_string_bytes, 0), "symbol names");
    const std::string_view names(reinterpret_cast<const char*>(strings.data()), strings.size());
    symbols_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      const auto symbol = read<elf::Symbol>(table, i * sizeof(elf::Symbol), "symbol");
      if (symbol.name >= names.size()) {
        if (i == 0) {  // the null symbol
          symbols_.push_back({{}, symbol});
          continue;
        }
        fail(fmt::format("the name of symbol {} is outside the string table", i));
      }
      const std::size_t end = names.find('\0', symbol.name);
      if (end == std::string_view::npos) fail(fmt::format("the name of symbol {} does not end", i));
      symbols_.push_back({names.substr(symbol.name, end - symbol.name), symbol});
    }
  }

  void read_kernels(std::vector<Kernel> kernels) {
    std::unordered_map<std::string_view, const elf::Symbol*> objects;
    for (const NamedSymbol& entry : symbols_)
      if (entry.symbol.type() == elf::symbol_object && entry.symbol.section != elf::index_undefined)
        objects.emplace(entry.name, &entry.symbol);
    for (Kernel& kernel : kernels) {
      const auto entry = objects.find(kernel.symbol);
      if (entry == objects.end())
        fail(fmt::format("kernel {} has no descriptor {}", kernel.name, kernel.symbol));
      read_descriptor(kernel, entry->second->value);
      kernel_symbols_.emplace(entry->first);
      object_.kernels.push_back(std::move(kernel));
    }
  }

  void read_descriptor(Kernel& kernel, uint64_t address) const {
    const Bytes bytes = bytes_at(address, 64, "kernel descriptor");
    const auto word = [&](uint64_t offset) { return read<uint32_t>(bytes, offset, "kernel descriptor"); };
    KernelDescriptor descriptor;
    descriptor.group_segment_size = word(0);
    descriptor.private_segment_size = word(4);
    descriptor.kernarg_size = word(8);
    descriptor.rsrc3 = word(44);
    descriptor.rsrc1 = word(48);
    descriptor.rsrc2 = word(52);
    descriptor.properties = read<uint16_t>(bytes, 56, "kernel descriptor");
    descriptor.kernarg_preload = read<uint16_t>(bytes, 58, "kernel descriptor");
    // Assembly written by hand often leaves this field of the descriptor 0 and states the size in the
    // metadata.
    descriptor.kernarg_size = std::max(descriptor.kernarg_size, kernel.descriptor.kernarg_size);
    if (descriptor.kernarg_size > max_kernarg_bytes)
      fail(fmt::format("kernel {} takes {} bytes of arguments", kernel.name, descriptor.kernarg_size));
    kernel.descriptor = descriptor;

    const uint32_t wave = descriptor.wave32() ? 32 : 64;
    if (kernel.wavefront_size == 0) kernel.wavefront_size = wave;
    if (kernel.wavefront_size != wave)
      fail(fmt::format("kernel {}: the metadata says waves of {}, the descriptor {}", kernel.name,
                       kernel.wavefront_size, wave));

    // The offset is signed and relative to the descriptor: two's complement addition wraps as meant.
    kernel.entry = address + read<uint64_t>(bytes, 16, "kernel descriptor");
    const Segment* segment = segment_of(kernel.entry, 4);
    if (!segment || !segment->executable || kernel.entry - segment->address + 4 > segment->bytes.size())
      fail(fmt::format("the entry of kernel {} at {:#x} is not in machine code", kernel.name, kernel.entry));
    if (kernel.entry % 256)
      fail(
          fmt::format("the entry of kernel {} at {:#x} is not a multiple of 256", kernel.name, kernel.entry));
  }

  void read_variables() {
    std::size_t name_bytes = 0;
    for (const auto& [name, symbol] : symbols_) {
      const bool defined = symbol.section != elf::index_undefined && symbol.section != elf::index_absolute;
      if (symbol.type() != elf::symbol_object || !defined) continue;
      if (name.ends_with(".kd") || kernel_symbols_.count(name)) continue;
      const Segment* segment = segment_of(symbol.value, symbol.size);
      if (!segment) fail(fmt::format("variable {} at {:#x} is in no segment", name, symbol.value));
      name_bytes += name.size();
      if (name_bytes > max_name_bytes) fail("too many symbol names");
      object_.variables.push_back({std::string(name), symbol.value, symbol.size, !segment->writable});
    }
  }

  void read_relocations(int64_t table_tag, int64_t size_tag) {
    const uint64_t size = dynamic(size_tag, 0);
    if (size == 0) return;
    if (dynamic(elf::tag_rela_entry_bytes, sizeof(elf::Rela)) != sizeof(elf::Rela))
      fail("relocations do not have 24 bytes");
    const Bytes table = bytes_at(dynamic(table_tag, 0), size, "relocations");
    for (uint64_t at = 0; at + sizeof(elf::Rela) <= table.size(); at += sizeof(elf::Rela))
      read_relocation(read<elf::Rela>(table, at, "relocation"));
  }

  void read_relocation(const elf::Rela& entry) {
    if (entry.type() == relocation::none) return;
    Relocation result;
    result.address = entry.offset;
    result.type = entry.type();
    result.width = relocation::width(entry.type());
    if (result.width == 0) fail(fmt::format("relocation type {} is not supported", entry.type()));
    if (!segment_of(result.address, result.width))
      fail(fmt::format("a relocation at {:#x} is in no segment", result.address));
    result.value = uint64_t(entry.addend);
    if (entry.type() != relocation::relative64) {
      if (entry.symbol() >= symbols_.size())
        fail(fmt::format("a relocation names symbol {} of {}", entry.symbol(), symbols_.size()));
      const auto& [name, symbol] = symbols_[entry.symbol()];
      const bool undefined = symbol.section == elf::index_undefined;
      if (undefined && entry.symbol() != 0 && symbol.binding() != elf::binding_weak)
        fail(fmt::format("undefined symbol {}", name));
      result.absolute = undefined || symbol.section == elf::index_absolute;
      result.value += undefined ? 0 : symbol.value;
    }
    object_.relocations.push_back(result);
  }

  Bytes file_;
  elf::Header header_;
  std::vector<elf::ProgramHeader> programs_;
  CodeObject object_;
  uint64_t lowest_ = UINT64_MAX, highest_ = 0;
  std::unordered_map<int64_t, uint64_t> dynamic_;
  std::vector<NamedSymbol> symbols_;  // names point into the segments of object_
  std::unordered_set<std::string_view> kernel_symbols_;
};

}  // namespace

std::string Kernel::readable_name() const {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

uint32_t Kernel::explicit_argument_bytes() const {
  uint32_t end = 0;
  for (const KernelArgument& argument : arguments)
    if (!argument.hidden()) end = std::max(end, argument.offset + argument.size);
  return end;
}

CodeObject parse_code_object(std::span<const std::byte> bytes) { return Parser(bytes).parse(); }

std::string code_object_target(std::span<const std::byte> bytes) { return Parser(bytes).target(); }

}  // namespace hipemu
