// Decodes the metadata note.
#include "code_object/metadata.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

namespace hipemu {
namespace {

using nlohmann::json;

// Real notes nest five levels deep. The JSON library reads recursively, so the depth decides about its stack.
constexpr int max_depth = 16;
constexpr std::size_t max_note_bytes = std::size_t(64) << 20;
constexpr uint32_t max_registers = 4096;  // chips have 512

[[noreturn]] void fail(const std::string& message) {
  throw CodeObjectError("[code object] metadata: " + message);
}

// A first pass that builds nothing: refuses what nests too deep or claims more elements than there are bytes.
struct ShapeCheck {
  std::size_t bytes;
  int depth = 0;

  bool enter(std::size_t elements) { return elements <= bytes && ++depth <= max_depth; }
  bool leave() { return --depth, true; }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(json::number_integer_t) { return true; }
  bool number_unsigned(json::number_unsigned_t) { return true; }
  bool number_float(json::number_float_t, const json::string_t&) { return true; }
  bool string(json::string_t&) { return true; }
  bool binary(json::binary_t&) { return true; }
  bool start_object(std::size_t elements) { return enter(elements); }
  bool key(json::string_t&) { return true; }
  bool end_object() { return leave(); }
  bool start_array(std::size_t elements) { return enter(elements); }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }
};

json decode(Bytes note) {
  if (note.size() > max_note_bytes) fail(fmt::format("{} bytes are too many", note.size()));
  const auto* begin = reinterpret_cast<const uint8_t*>(note.data());
  const auto* end = begin + note.size();
  ShapeCheck check{note.size()};
  if (!json::sax_parse(begin, end, &check, json::input_format_t::msgpack)) fail("not valid MessagePack");
  json document = json::from_msgpack(begin, end, /*strict=*/true, /*allow_exceptions=*/false);
  if (!document.is_object()) fail("not a map");
  return document;
}

const json* find(const json& map, const char* key) {
  const auto entry = map.find(key);
  return entry == map.end() ? nullptr : &*entry;
}

uint32_t number(const json& map, const char* key, uint32_t absent) {
  const json* value = find(map, key);
  if (!value) return absent;
  if (!value->is_number_unsigned() || value->get<uint64_t>() > UINT32_MAX)
    fail(fmt::format("{} is not a number of 32 bits", key));
  return value->get<uint32_t>();
}

std::string text(const json& map, const char* key) {
  const json* value = find(map, key);
  if (!value) return {};
  if (!value->is_string()) fail(fmt::format("{} is not a string", key));
  return value->get<std::string>();
}

bool truth(const json& map, const char* key) {
  const json* value = find(map, key);
  if (!value) return false;
  if (value->is_boolean()) return value->get<bool>();
  return number(map, key, 0) != 0;
}

const json& list(const json& map, const char* key) {
  static const json empty = json::array();
  const json* value = find(map, key);
  if (!value) return empty;
  if (!value->is_array()) fail(fmt::format("{} is not a list", key));
  for (const json& element : *value)
    if (!element.is_object()) fail(fmt::format("{} has an entry that is not a map", key));
  return *value;
}

KernelArgument decode_argument(const json& map, const Kernel& kernel) {
  KernelArgument argument;
  argument.name = text(map, ".name");
  argument.kind = text(map, ".value_kind");
  argument.offset = number(map, ".offset", UINT32_MAX);
  argument.size = number(map, ".size", UINT32_MAX);
  if (argument.kind.empty()) fail(fmt::format("an argument of kernel {} has no .value_kind", kernel.name));
  const uint32_t limit = kernel.descriptor.kernarg_size;
  if (argument.offset > limit || argument.size > limit - argument.offset)
    fail(fmt::format(
        "argument of kernel {} at offset {} with {} bytes is outside the argument block of {} bytes",
        kernel.name, argument.offset, argument.size, limit));
  return argument;
}

Kernel decode_kernel(const json& map) {
  Kernel kernel;
  kernel.name = text(map, ".name");
  if (kernel.name.empty()) fail("a kernel has no .name");
  kernel.symbol = text(map, ".symbol");
  if (kernel.symbol.empty()) kernel.symbol = kernel.name + ".kd";
  kernel.descriptor.group_segment_size = number(map, ".group_segment_fixed_size", 0);
  kernel.descriptor.private_segment_size = number(map, ".private_segment_fixed_size", 0);
  kernel.descriptor.kernarg_size = number(map, ".kernarg_segment_size", 0);
  if (kernel.descriptor.kernarg_size > max_kernarg_bytes)
    fail(fmt::format("kernel {} takes {} bytes of arguments", kernel.name, kernel.descriptor.kernarg_size));
  kernel.kernarg_align = number(map, ".kernarg_segment_align", 8);
  if (!std::has_single_bit(kernel.kernarg_align) || kernel.kernarg_align > 4096)
    fail(fmt::format("kernel {} wants its arguments aligned to {} bytes", kernel.name, kernel.kernarg_align));
  kernel.wavefront_size = number(map, ".wavefront_size", 0);
  const auto registers = [&](const char* key) {
    const uint32_t count = number(map, key, 0);
    if (count > max_registers) fail(fmt::format("kernel {}: {} is {}", kernel.name, key, count));
    return count;
  };
  kernel.sgpr_count = registers(".sgpr_count");
  kernel.vgpr_count = registers(".vgpr_count");
  kernel.agpr_count = registers(".agpr_count");
  kernel.sgpr_spills = number(map, ".sgpr_spill_count", 0);
  kernel.vgpr_spills = number(map, ".vgpr_spill_count", 0);
  kernel.max_flat_workgroup_size = number(map, ".max_flat_workgroup_size", 1024);
  kernel.uses_dynamic_stack = truth(map, ".uses_dynamic_stack");
  for (const json& argument : list(map, ".args"))
    kernel.arguments.push_back(decode_argument(argument, kernel));
  return kernel;
}

// "amdgcn-amd-amdhsa--gfx90a:xnack-" without its triple. The processor itself may hold dashes
// (gfx11-generic).
std::string target_of_triple(std::string_view triple) {
  for (int part = 0; part < 4; ++part) {
    const std::size_t dash = triple.find('-');
    if (dash == std::string_view::npos) fail("amdhsa.target is not a triple and a processor");
    triple.remove_prefix(dash + 1);
  }
  return std::string(triple);
}

}  // namespace

Metadata parse_metadata(Bytes note) {
  const json document = decode(note);
  Metadata metadata;
  if (const std::string triple = text(document, "amdhsa.target"); !triple.empty())
    metadata.target = target_of_triple(triple);
  std::unordered_set<std::string> names;
  for (const json& map : list(document, "amdhsa.kernels")) {
    metadata.kernels.push_back(decode_kernel(map));
    if (!names.insert(metadata.kernels.back().name).second)
      fail(fmt::format("two kernels are called {}", metadata.kernels.back().name));
  }
  return metadata;
}

}  // namespace hipemu
