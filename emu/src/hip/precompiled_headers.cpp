// One precompiled header per set of options, and one per set of options and the program's own headers.
#include "hip/precompiled_headers.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "hip/compiler.h"

namespace hipemu::hip {
namespace {
namespace fs = std::filesystem;

// Uses after which a file has paid for itself. Parsing HIP's headers takes longer than what most kernels add
// to them; a program's own take a fifth of a compilation.
constexpr int uses_of_options = 2, uses_of_includes = 8;

struct Entry {
  int uses = 0;
  fs::path folder;  // empty: not made, or could not be
};

struct Store {
  std::mutex mutex;
  std::map<std::vector<std::string>, Entry> entries;
  int made = 0;
};

Store& store() {
  static Store& instance = *new Store;
  return instance;
}

// The folder with headers/ and the file, or an empty path.
fs::path make(const std::string& name, const Beginning& beginning) {
  const TemporaryFolder& folder = process_folder();
  for (const auto& [header, text] : beginning.headers) folder.write(name + "/headers/" + header, text);
  std::string text;
  for (const std::string& header : beginning.before) text += fmt::format("#include <{}>\n", header);
  folder.write(name + "/beginning.h", text.append(beginning.includes));
  std::vector<std::string> arguments = beginning.options;
  arguments.insert(arguments.end(), {"-fsyntax-only", "-Xclang", "-emit-pch", "-Xclang", "-o", "-Xclang",
                                     "beginning.pch", "beginning.h"});
  const fs::path path = folder.path() / name;
  return run_compiler(path, arguments).success ? path : fs::path();
}

// Counts a use, and makes the file when there were enough.
const Entry& use(Store& all, const Beginning& beginning, int enough) {
  std::vector<std::string> key = beginning.options;
  key.emplace_back(beginning.includes);
  for (const auto& [name, text] : beginning.headers) key.insert(key.end(), {name, text});
  Entry& entry = all.entries[key];
  if (++entry.uses == enough) entry.folder = make(fmt::format("headers{}", ++all.made), beginning);
  return entry;
}

}  // namespace

std::size_t length_of_includes(std::string_view source) {
  std::size_t length = 0;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t next = std::min(source.find('\n', at), source.size() - 1) + 1;
    const std::string_view line = source.substr(at, next - at);
    const bool continues = line.find('\\') != line.npos || line.find("/*") != line.npos;
    if (line.starts_with("#include ") && !continues)
      length = next;
    else if ((!line.starts_with("//") || continues) && line.find_first_not_of(" \t\r\n") != line.npos)
      break;
    at = next;
  }
  return length;
}

std::optional<Precompiled> precompiled_headers(const Beginning& beginning) {
  Store& all = store();
  const std::lock_guard lock(all.mutex);
  const auto arguments = [](const fs::path& folder) {
    return std::vector<std::string>{"-Xclang", "-include-pch", "-Xclang",
                                    (folder / "beginning.pch").string()};
  };
  if (!beginning.includes.empty())
    if (const fs::path& folder = use(all, beginning, uses_of_includes).folder; !folder.empty())
      return Precompiled{arguments(folder), folder / "headers"};
  if (beginning.before.empty()) return std::nullopt;
  const fs::path& folder = use(all, {beginning.options, beginning.before, {}, {}}, uses_of_options).folder;
  if (folder.empty()) return std::nullopt;
  return Precompiled{arguments(folder), {}};
}

}  // namespace hipemu::hip
