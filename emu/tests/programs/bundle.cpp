// Puts code objects for several chips into one offload bundle: emu_bundle OUTPUT TARGET=FILE...
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

struct Entry {
  std::string target;
  std::string bytes;
};

void put(std::string& out, std::uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) out += static_cast<char>(number >> (8 * byte));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: emu_bundle OUTPUT TARGET=FILE...\n");
    return 2;
  }
  std::vector<Entry> entries = {{"host-x86_64-unknown-linux--", ""}};
  for (int i = 2; i < count; ++i) {
    const std::string argument = arguments[i];
    const std::size_t equals = argument.find('=');
    std::ifstream file(argument.substr(equals + 1), std::ios::binary);
    if (equals == std::string::npos || !file) {
      std::fprintf(stderr, "emu_bundle: cannot read '%s'\n", argument.c_str());
      return 1;
    }
    entries.push_back({argument.substr(0, equals), {std::istreambuf_iterator<char>(file), {}}});
  }
  // Magic, number of entries; of each its offset, size and name; then the bytes, on pages of their own.
  constexpr std::size_t page = 4096;
  std::string header = "__CLANG_OFFLOAD_BUNDLE__", body;
  put(header, entries.size());
  for (const Entry& entry : entries) {
    body.resize((body.size() + page - 1) / page * page);
    put(header, page + body.size());
    put(header, entry.bytes.size());
    put(header, entry.target.size());
    header += entry.target;
    body += entry.bytes;
  }
  header.resize(page);
  std::ofstream(arguments[1], std::ios::binary) << header << body;
  return 0;
}
