// Finds code objects in files.
#include "tool/images.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "code_object/elf.h"
#include "tool/commands.h"

namespace hipemu::tool {
namespace {

// A program linked from several files has their bundles one after the other, with zeros between them.
std::vector<Bundle> bundles_of_section(Bytes section) {
  std::vector<Bundle> bundles;
  while (true) {
    while (!section.empty() && section.front() == std::byte{0}) section = section.subspan(1);
    if (section.empty()) return bundles;
    const std::size_t size = image_size(section.data(), section.size());
    bundles.emplace_back(section.first(size));
    section = section.subspan(size);
  }
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? std::streamoff(stream.tellg()) : -1;
  // Opening a directory succeeds, and its size is the largest number there is.
  if (size < 0 || size == std::numeric_limits<std::streamoff>::max())
    throw ToolError(fmt::format("cannot read {}: {}", path, errno ? std::strerror(errno) : "not a file"));
  std::vector<std::byte> bytes(std::size_t(size), std::byte{});
  stream.seekg(0);
  if (!stream.read(reinterpret_cast<char*>(bytes.data()), size))
    throw ToolError(fmt::format("cannot read {}", path));
  return bytes;
}

std::vector<Bundle> bundles_in(Bytes file, const std::string& path) {
  if (elf::is_elf(file) && elf::read_header(file).machine != elf::machine_amdgpu) {
    const auto section = elf::find_section(file, ".hip_fatbin");
    if (!section)
      throw ToolError(fmt::format("{} is a program without GPU code (no section .hip_fatbin)", path));
    return bundles_of_section(*section);
  }
  std::vector<Bundle> bundles;
  bundles.emplace_back(file);
  return bundles;
}

}  // namespace hipemu::tool
