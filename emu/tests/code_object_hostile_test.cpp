// Damaged and malicious code objects: the reader refuses them or makes something sound of them, and never
// crashes. Worth most in a build with sanitizers.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "code_object/code_object.h"
#include "code_object/elf.h"
#include "code_object/metadata.h"
#include "inputs.h"

namespace hipemu {
namespace {

using test::File;

// Parses and loads; checks what the rest of the program relies on. True when the file was accepted.
bool survives(std::span<const std::byte> file) {
  const std::string error = test::error_of([&] {
    const LoadedCode code(parse_code_object(file), {});
    for (const Kernel& kernel : code.kernels()) {
      const auto* entry = reinterpret_cast<const std::byte*>(kernel.entry);
      EXPECT_GE(entry, code.code().data());
      EXPECT_LE(entry + 4, code.code().data() + code.code().size());
      EXPECT_LE(kernel.explicit_argument_bytes(), kernel.descriptor.kernarg_size);
    }
    for (const GlobalVariable& variable : code.variables()) {
      const auto* data = reinterpret_cast<const std::byte*>(variable.address);
      EXPECT_GE(data, code.image().data());
      EXPECT_LE(data + variable.size, code.image().data() + code.image().size());
    }
  });
  test::error_of([&] { image_size(file.data(), file.size()); });
  return error.empty();
}

void expect_refused(const File& file, std::string_view reason) {
  const std::string error = test::error_of([&] { parse_code_object(file); });
  EXPECT_NE(error.find(reason), std::string::npos) << "got: " << error << "\nwanted: " << reason;
}

// Where the n-th program header of a type lies in the file.
std::size_t program_header(const File& file, uint32_t type, int n = 0) {
  const auto header = elf::read_header(file);
  const auto programs = elf::read_program_headers(file, header);
  for (std::size_t i = 0; i < programs.size(); ++i)
    if (programs[i].type == type && n-- == 0) return header.program_offset + i * sizeof(elf::ProgramHeader);
  throw std::runtime_error("no such program header");
}

// Where the value of a tag of the dynamic section lies in the file.
std::size_t dynamic_value(const File& file, int64_t tag) {
  const std::size_t at = program_header(file, elf::segment_dynamic);
  const auto program = test::value_at<elf::ProgramHeader>(file, at);
  for (uint64_t offset = program.offset; offset < program.offset + program.file_size; offset += 16)
    if (test::value_at<int64_t>(file, offset) == tag) return offset + 8;
  throw std::runtime_error("no such tag");
}

constexpr std::size_t offset_field = 8, address_field = 16, file_size_field = 32, memory_size_field = 40,
                      alignment_field = 48;

TEST(Hostile, TruncatedAtEveryLength) {
  const File file = test::seed("axpy_gfx1100.co");
  ASSERT_TRUE(survives(file));
  const auto header = elf::read_header(file);
  for (std::size_t length = 0; length < file.size(); ++length) {
    // A copy of its own, so that a sanitizer sees a read past its end.
    const File cut(file.begin(), file.begin() + std::ptrdiff_t(length));
    const bool accepted = survives(cut);
    // Only what nobody needs for loading may be missing.
    EXPECT_FALSE(accepted && length < header.section_offset / 2) << length;
  }
}

TEST(Hostile, EveryBitFlipped) {
  for (const char* name : {"axpy_gfx1100.co", "axpy_gfx90a.co"}) {
    File file = test::seed(name);
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      file[bit / 8] ^= std::byte(1 << (bit % 8));
      survives(file);
      file[bit / 8] ^= std::byte(1 << (bit % 8));
    }
  }
}

TEST(Hostile, EveryWordOfTheHeadersExtreme) {
  const File file = test::seed("axpy_gfx1100.co");
  const auto header = elf::read_header(file);
  const std::size_t end = header.program_offset + header.program_count * sizeof(elf::ProgramHeader);
  const auto program = test::value_at<elf::ProgramHeader>(file, program_header(file, elf::segment_dynamic));
  const auto strike = [&](std::size_t begin, std::size_t stop) {
    for (std::size_t at = begin; at + 8 <= stop; at += 2)
      for (const uint64_t value : {uint64_t(0), uint64_t(1), UINT64_MAX, UINT64_MAX / 2, uint64_t(1) << 63,
                                   uint64_t(file.size()), uint64_t(1) << 32, UINT64_MAX - 0xfff}) {
        survives(test::patched(file, at, value));
        survives(test::patched(file, at, uint32_t(value)));
        survives(test::patched(file, at, uint16_t(value)));
      }
  };
  strike(0, end);
  strike(program.offset, program.offset + program.file_size);
}

TEST(Hostile, WrongKindsOfFile) {
  const File file = test::seed("axpy_gfx1100.co");
  expect_refused(test::patched(file, 0, uint8_t(0)), "not an ELF file");
  expect_refused(test::patched(file, 4, uint8_t(1)), "not a 64-bit");
  expect_refused(test::patched(file, 5, uint8_t(2)), "little-endian");
  expect_refused(test::patched(file, 7, uint8_t(0)), "OS ABI 0");
  expect_refused(test::patched(file, 8, uint8_t(1)), "code object version 3");
  expect_refused(test::patched(file, 8, uint8_t(5)), "code object version 7");
  expect_refused(test::patched(file, 16, uint16_t(1)), "relocatable");
  expect_refused(test::patched(file, 18, uint16_t(62)), "machine 62");
  expect_refused(test::patched(file, 48, uint32_t(0x36)), "the ELF flags say gfx1030");
  expect_refused(test::patched(file, 48, uint32_t(0x341)), "xnack+");
  // A processor we have no number for is taken from the metadata.
  EXPECT_EQ(parse_code_object(test::patched(file, 48, uint32_t(0xfe))).target, "gfx1100");
}

TEST(Hostile, Segments) {
  const File file = test::seed("axpy_gfx1100.co");
  const std::size_t first = program_header(file, elf::segment_load, 0);
  const std::size_t second = program_header(file, elf::segment_load, 1);
  expect_refused(
      test::patched(file, second + address_field, test::value_at<uint64_t>(file, first + address_field)),
      "segments overlap");
  expect_refused(test::patched(file, second + memory_size_field, uint64_t(1) << 16), "segments overlap");
  expect_refused(test::patched(file, second + address_field, UINT64_MAX - 8), "does not fit in 64 bits");
  expect_refused(test::patched(file, second + address_field, uint64_t(1) << 40), "more than the");
  expect_refused(test::patched(file, second + offset_field, UINT64_MAX - 8), "outside");
  expect_refused(test::patched(file, second + offset_field, uint64_t(file.size())), "outside");
  expect_refused(test::patched(file, second + file_size_field, UINT64_MAX),
                 "more bytes in the file than in memory");
  expect_refused(test::patched(file, second + alignment_field, uint64_t(0x1001)), "aligned");
  expect_refused(test::patched(file, second + alignment_field, uint64_t(1) << 40), "aligned");
  // Not executable: the entry is not in machine code.
  expect_refused(test::patched(file, second + 4, uint32_t(4)), "not in machine code");
}

TEST(Hostile, SymbolsAndRelocations) {
  const File file = test::seed("axpy_gfx1100.co");
  expect_refused(test::patched(file, dynamic_value(file, elf::tag_symbol_table), UINT64_MAX - 7),
                 "in no segment");
  expect_refused(test::patched(file, dynamic_value(file, elf::tag_string_bytes), UINT64_MAX),
                 "in no segment");
  expect_refused(test::patched(file, dynamic_value(file, elf::tag_string_bytes), uint64_t(1)),
                 "string table");
  expect_refused(test::patched(file, dynamic_value(file, elf::tag_symbol_bytes), uint64_t(16)), "24 bytes");
  expect_refused(test::patched(file, dynamic_value(file, elf::tag_rela_bytes), uint64_t(1) << 40),
                 "in no segment");
  expect_refused(test::patched(file, dynamic_value(file, elf::tag_rela_entry_bytes), uint64_t(8)),
                 "24 bytes");
  const auto hash = test::value_at<uint64_t>(file, dynamic_value(file, elf::tag_hash));
  expect_refused(test::patched(file, hash + 4, UINT32_MAX), "symbol table");
  expect_refused(test::patched(file, hash + 4, uint32_t(1)), "no descriptor axpy.kd");
  // The first segment lies at address 0 of both file and memory, so these are file offsets too.
  const auto rela = test::value_at<uint64_t>(file, dynamic_value(file, elf::tag_rela));
  expect_refused(test::patched(file, rela, uint64_t(0x7fffffff)), "a relocation at 0x7fffffff");
  expect_refused(test::patched(file, rela + 8, uint64_t(99)), "relocation type 99");
  expect_refused(test::patched(file, rela + 8, uint64_t(9) << 32 | 3), "names symbol 9");
}

TEST(Hostile, EveryRelocationTypeThatIsSupported) {
  const File file = test::seed("axpy_gfx1100.co");
  const auto rela = test::value_at<uint64_t>(file, dynamic_value(file, elf::tag_rela));
  const CodeObject original = parse_code_object(file);
  const uint64_t place = original.relocations.at(0).address;
  // Symbol 1, whichever it is, plus 16.
  const auto symbols = test::value_at<uint64_t>(file, dynamic_value(file, elf::tag_symbol_table));
  const auto symbol = test::value_at<elf::Symbol>(file, symbols + sizeof(elf::Symbol));
  const auto written = [&](uint32_t type, int bytes) {
    File changed = test::patched(file, rela + 8, uint64_t(1) << 32 | type);
    changed = test::patched(changed, rela + 16, int64_t(16));
    const LoadedCode code(parse_code_object(changed), {});
    const uint64_t bias =
        reinterpret_cast<uint64_t>(code.image().data()) - code.virtual_address(code.image().data());
    uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(bias + place), std::size_t(bytes));
    return std::pair(value, bias);
  };
  const auto low = [](uint64_t value) { return value & 0xffffffff; };
  const auto [abs64, bias64] = written(3, 8);
  EXPECT_EQ(abs64, bias64 + symbol.value + 16);
  const auto [rel64, bias5] = written(5, 8);
  EXPECT_EQ(rel64, symbol.value + 16 - place);
  const auto [abs32_lo, bias1] = written(1, 4);
  EXPECT_EQ(abs32_lo, low(bias1 + symbol.value + 16));
  const auto [abs32_hi, bias2] = written(2, 4);
  EXPECT_EQ(abs32_hi, (bias2 + symbol.value + 16) >> 32);
  for (const uint32_t type : {4u, 10u}) EXPECT_EQ(written(type, 4).first, low(symbol.value + 16 - place));
  EXPECT_EQ(written(11, 4).first, (symbol.value + 16 - place) >> 32);
  const auto [abs32, bias6] = written(6, 4);
  EXPECT_EQ(abs32, low(bias6 + symbol.value + 16));
}

TEST(Hostile, KernelDescriptors) {
  const File file = test::seed("axpy_gfx1100.co");
  const CodeObject object = parse_code_object(file);
  // The descriptor is found by its entry field: the only 64-byte object in the first segment.
  const auto symbols = test::value_at<uint64_t>(file, dynamic_value(file, elf::tag_symbol_table));
  uint64_t descriptor = 0;
  for (int i = 1; !descriptor; ++i) {
    const auto symbol = test::value_at<elf::Symbol>(file, symbols + i * sizeof(elf::Symbol));
    if (symbol.size == 64 && symbol.type() == elf::symbol_object) descriptor = symbol.value;
  }
  expect_refused(test::patched(file, descriptor + 16, int64_t(0)), "not in machine code");
  expect_refused(test::patched(file, descriptor + 16, INT64_MAX), "not in machine code");
  expect_refused(test::patched(file, descriptor + 16, INT64_MIN), "not in machine code");
  expect_refused(test::patched(file, descriptor + 16, test::value_at<int64_t>(file, descriptor + 16) + 4),
                 "not a multiple of 256");
  expect_refused(test::patched(file, descriptor + 8, UINT32_MAX), "bytes of arguments");
  expect_refused(test::patched(file, descriptor + 56, uint16_t(0)), "waves of 32");
}

Bytes bytes_of(const std::vector<uint8_t>& data) { return std::as_bytes(std::span(data)); }

TEST(HostileMetadata, Bombs) {
  const auto refused = [](const std::vector<uint8_t>& data) {
    EXPECT_THROW(parse_metadata(bytes_of(data)), CodeObjectError);
  };
  refused({});
  refused({0xc0});
  refused({0x93, 1, 2, 3});
  refused(std::vector<uint8_t>(1 << 20, 0x91));                   // arrays in arrays in arrays
  refused(std::vector<uint8_t>(1 << 20, 0x81));                   // maps with maps for keys
  refused({0xdd, 0xff, 0xff, 0xff, 0xff});                        // an array of 4 G elements
  refused({0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 'x'});             // a map of 4 G entries
  refused({0xdb, 0xff, 0xff, 0xff, 0xff, 'x'});                   // a string of 4 GB
  refused({0x81, 0xa1, 'k', 0xc6, 0xff, 0xff, 0xff, 0xff, 'x'});  // bytes, 4 GB
  refused({0x80, 0x80});                                          // something behind it
  std::vector<uint8_t> nested{0x81, 0xa1, 'k'};
  nested.insert(nested.end(), 100000, 0x91);
  refused(nested);
}

TEST(HostileMetadata, WrongTypes) {
  using nlohmann::json;
  const json good = {{"amdhsa.target", "amdgcn-amd-amdhsa--gfx1100"},
                     {"amdhsa.kernels",
                      {{{".name", "k"},
                        {".symbol", "k.kd"},
                        {".kernarg_segment_size", 16},
                        {".args", {{{".offset", 0}, {".size", 8}, {".value_kind", "by_value"}}}}}}}};
  const auto attempt = [](const json& document) {
    const std::vector<uint8_t> data = json::to_msgpack(document);
    return test::error_of([&] { parse_metadata(bytes_of(data)); });
  };
  EXPECT_EQ(attempt(good), "");
  const auto changed = [&](const char* pointer, json value) {
    json document = good;
    document[json::json_pointer(pointer)] = std::move(value);
    return attempt(document);
  };
  const json values[] = {
      nullptr, true, -1, 1.5, "text", json::array(), json::object(), json::binary({1, 2}), uint64_t(1) << 40};
  const char* places[] = {"/amdhsa.target",
                          "/amdhsa.kernels",
                          "/amdhsa.kernels/0",
                          "/amdhsa.kernels/0/.name",
                          "/amdhsa.kernels/0/.symbol",
                          "/amdhsa.kernels/0/.kernarg_segment_size",
                          "/amdhsa.kernels/0/.kernarg_segment_align",
                          "/amdhsa.kernels/0/.vgpr_count",
                          "/amdhsa.kernels/0/.uses_dynamic_stack",
                          "/amdhsa.kernels/0/.args",
                          "/amdhsa.kernels/0/.args/0",
                          "/amdhsa.kernels/0/.args/0/.offset",
                          "/amdhsa.kernels/0/.args/0/.size",
                          "/amdhsa.kernels/0/.args/0/.value_kind"};
  for (const char* place : places)
    for (const json& value : values) changed(place, value);  // an error or not, but no crash

  EXPECT_NE(changed("/amdhsa.kernels/0/.args/0/.offset", 9).find("outside the argument block"),
            std::string::npos);
  EXPECT_NE(changed("/amdhsa.kernels/0/.args/0/.offset", UINT32_MAX).find("outside"), std::string::npos);
  EXPECT_NE(changed("/amdhsa.kernels/0/.kernarg_segment_size", UINT32_MAX).find("bytes of arguments"),
            std::string::npos);
  EXPECT_NE(changed("/amdhsa.kernels/0/.vgpr_count", UINT32_MAX).find(".vgpr_count"), std::string::npos);
  EXPECT_NE(changed("/amdhsa.kernels/1", good["amdhsa.kernels"][0]).find("two kernels"), std::string::npos);
  EXPECT_NE(changed("/amdhsa.target", "gfx1100").find("amdhsa.target"), std::string::npos);
}

}  // namespace
}  // namespace hipemu
