// Decodes every instruction of code objects and lists those that the emulator does not know, one line per
// mnemonic: how often, and the first one's text.
#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "code_object/code_object.h"
#include "exec/decode.h"
#include "isa/disassembler.h"

namespace {

using namespace hipemu;

std::vector<std::byte> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path));
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

struct Unknown {
  int count = 0;
  std::string first;
};
struct Result {
  std::map<std::string, Unknown> unknown;
  std::map<std::string, int> known;
};

void decode_file(const char* path, Result& result) {
  const CodeObject object = parse_code_object(read_file(path));
  const Chip* chip = find_chip(object.processor());
  if (chip == nullptr) throw std::runtime_error(fmt::format("{}: unknown chip {}", path, object.target));
  const int wave_size =
      object.kernels.empty() ? chip->wave_size : static_cast<int>(object.kernels[0].wavefront_size);
  Disassembler disassembler(*chip, wave_size);
  for (const Segment& segment : object.segments) {
    if (!segment.executable) continue;
    const std::span<const std::byte> code = segment.bytes;
    for (std::size_t offset = 0; offset < code.size();) {
      const auto line = disassembler.decode(code.subspan(offset), segment.address + offset);
      if (line.size == 0) {  // padding between functions
        offset += 4;
        continue;
      }
      std::string mnemonic = line.text.substr(0, line.text.find_first_of(" \t"));
      try {
        const Instruction instruction = parse_instruction(line.text);
        mnemonic = instruction.mnemonic;
        decode(instruction, *chip, wave_size);
        ++result.known[mnemonic];
      } catch (const std::exception& problem) {
        Unknown& unknown = result.unknown[std::string(chip->processor) + " " + mnemonic];
        if (unknown.count++ == 0) unknown.first = fmt::format("{} ({})", line.text, problem.what());
      }
      offset += line.size;
    }
  }
}

}  // namespace

int main(int count, char** arguments) try {
  Result result;
  for (int i = 1; i < count; ++i) decode_file(arguments[i], result);
  for (const auto& [name, unknown] : result.unknown)
    fmt::print("{} x {}: {}\n", unknown.count, name, unknown.first);
  fmt::print("{} mnemonics known, {} not\n", result.known.size(), result.unknown.size());
  return result.unknown.empty() ? 0 : 1;
} catch (const std::exception& problem) {
  fmt::print("{}\n", problem.what());
  return 2;
}
