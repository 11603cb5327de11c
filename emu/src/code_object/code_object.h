// AMD GPU code objects: ELF files with machine code, as clang writes them.
//
// parse_code_object() checks every byte it reads and throws CodeObjectError for anything it does not like;
// what it returns holds no pointer into the input. load() makes an image of it in memory, ready to execute.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hipemu {

struct CodeObjectError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One entry of a kernel's argument block. Hidden arguments have a kind that begins with "hidden_".
struct KernelArgument {
  std::string name;
  std::string kind;  // .value_kind of the metadata: by_value, global_buffer, dynamic_shared_pointer, hidden_*
  uint32_t offset = 0;
  uint32_t size = 0;

  bool hidden() const { return kind.starts_with("hidden_"); }
};

// The 64 bytes of `<name>.kd`, decoded.
struct KernelDescriptor {
  uint32_t group_segment_size = 0;    // LDS, fixed part, bytes
  uint32_t private_segment_size = 0;  // scratch per lane, bytes
  uint32_t kernarg_size = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint16_t properties = 0;
  uint16_t kernarg_preload = 0;

  uint32_t user_sgpr_count() const { return (rsrc2 >> 1) & 31; }
  bool workgroup_id_enabled(int axis) const { return (rsrc2 >> (7 + axis)) & 1; }
  bool private_segment_enabled() const { return rsrc2 & 1; }
  int work_item_id_dimensions() const { return std::min(3u, 1 + ((rsrc2 >> 11) & 3)); }
  bool wave32() const { return (properties >> 10) & 1; }
  bool uses_dynamic_stack() const { return (properties >> 11) & 1; }
};

struct Kernel {
  std::string name;    // as the host asks for it
  std::string symbol;  // "<name>.kd"
  KernelDescriptor descriptor;
  uint64_t entry = 0;  // virtual address in the ELF file; an address in memory once loaded
  std::vector<KernelArgument> arguments;
  uint32_t kernarg_align = 8;
  uint32_t wavefront_size = 0;
  uint32_t sgpr_count = 0, vgpr_count = 0, agpr_count = 0;
  uint32_t sgpr_spills = 0, vgpr_spills = 0;
  uint32_t max_flat_workgroup_size = 1024;
  bool uses_dynamic_stack = false;

  std::string readable_name() const;         // "saxpy(float, float const*)" for a mangled one
  uint32_t explicit_argument_bytes() const;  // end of the last argument that is not hidden
};

struct GlobalVariable {
  std::string name;
  uint64_t address = 0;  // as Kernel::entry
  uint64_t size = 0;
  bool constant = false;
};

struct Segment {
  uint64_t address = 0;  // virtual
  uint64_t memory_size = 0;
  uint64_t alignment = 1;
  bool executable = false, writable = false;
  std::vector<std::byte> bytes;  // file part; the rest up to memory_size is zero
};

struct Relocation {
  uint64_t address = 0;
  uint32_t type = 0;
  uint64_t value = 0;  // symbol value + addend, virtual
  uint32_t width = 8;
  bool absolute = false;  // the value does not move with the code (a weak symbol that nobody defined)
};

struct CodeObject {
  std::string target;   // "gfx942:sramecc+:xnack-"
  int abi_version = 0;  // 4, 5 or 6
  std::vector<Kernel> kernels;
  std::vector<GlobalVariable> variables;
  std::vector<Segment> segments;
  std::vector<Relocation> relocations;

  std::string_view processor() const { return std::string_view(target).substr(0, target.find(':')); }
};

CodeObject parse_code_object(std::span<const std::byte> bytes);

// The target of a code object, from its headers alone where possible. Throws CodeObjectError.
std::string code_object_target(std::span<const std::byte> bytes);

// What an image given to hipModuleLoadData or __hipRegisterFatBinary may be: a code object, a clang offload
// bundle (plain or compressed). Returns the code object in it that runs on `processor` (e.g. "gfx1100"; with
// features, as in Chip::target, only code that suits them) best, or throws CodeObjectError naming the targets
// that are there. `bytes` may be longer than the image (the size of what a host program passes is not known):
// see image_size().
std::vector<std::byte> select_code_object(std::span<const std::byte> bytes, std::string_view processor);

// The size that the headers of an image claim, for images whose length the caller does not know (module data
// passed by pointer). Reads no more than `limit` bytes. Throws CodeObjectError.
std::size_t image_size(const std::byte* image, std::size_t limit);

class SourceLines;

// A code object in memory: segments copied, relocations applied; entry and variable addresses are pointers.
class LoadedCode {
 public:
  // `file` is kept for source-line lookups.
  LoadedCode(CodeObject object, std::vector<std::byte> file);
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

  const std::string& target() const { return object_.target; }
  const Kernel* find_kernel(std::string_view name) const;
  const GlobalVariable* find_variable(std::string_view name) const;
  std::span<const Kernel> kernels() const { return object_.kernels; }
  std::span<const GlobalVariable> variables() const { return object_.variables; }

  // The machine code in memory.
  std::span<const std::byte> code() const { return code_; }
  std::span<std::byte> image() const { return image_; }
  uint64_t virtual_address(
      const void* in_image) const;  // what the disassembly of the file calls this address

  // Runs a program the first time, and remembers. Safe to call from several threads.
  // "path/kernel.hip:12", as the compiler was given it, when compiled with -g and a symbolizer is installed,
  // else empty.
  std::string source_line(const void* instruction) const;

 private:
  CodeObject object_;
  std::vector<std::byte> file_;
  std::span<std::byte> mapping_;  // with the pages around the image
  std::span<std::byte> image_;
  std::span<const std::byte> code_;
  uint64_t lowest_address_ = 0;
  std::unordered_map<std::string_view, const Kernel*> kernels_by_name_;
  std::unordered_map<std::string_view, const GlobalVariable*> variables_by_name_;
  std::unique_ptr<SourceLines> source_lines_;
};

}  // namespace hipemu
