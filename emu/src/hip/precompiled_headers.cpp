// One precompiled header per set of options, made at the second use.
#include "hip/precompiled_headers.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "hip/compiler.h"

namespace hipemu::hip {
namespace {

struct Entry {
  int uses = 0;
  std::string path;  // empty: not made, or could not be
};

struct Store {
  std::mutex mutex;
  std::map<std::vector<std::string>, Entry> entries;
};

Store& store() {
  static Store& instance = *new Store;
  return instance;
}

std::string make(const std::string& name, std::vector<std::string> arguments,
                 const std::vector<std::string>& headers) {
  const TemporaryFolder& folder = process_folder();
  std::string text;
  for (const std::string& header : headers) text += fmt::format("#include <{}>\n", header);
  folder.write(name + ".h", text);
  arguments.insert(arguments.end(), {"-fsyntax-only", "-Xclang", "-emit-pch", "-Xclang", "-o", "-Xclang",
                                     name + ".pch", name + ".h"});
  if (!run_compiler(folder.path(), arguments).success) return "";
  return (folder.path() / (name + ".pch")).string();
}

}  // namespace

std::optional<std::vector<std::string>> precompiled_headers(const std::vector<std::string>& options,
                                                            const std::vector<std::string>& headers) {
  Store& all = store();
  const std::lock_guard lock(all.mutex);
  Entry& entry = all.entries[options];
  if (++entry.uses == 2) entry.path = make(fmt::format("headers{}", all.entries.size()), options, headers);
  if (entry.path.empty()) return std::nullopt;
  return std::vector<std::string>{"-Xclang", "-include-pch", "-Xclang", entry.path};
}

}  // namespace hipemu::hip
