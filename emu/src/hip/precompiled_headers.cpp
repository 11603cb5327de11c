// One precompiled header per set of options, made at the second use.
#include "hip/precompiled_headers.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
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
  std::unique_ptr<TemporaryFolder> folder;
};

Store& store() {
  static Store& instance = *new Store;
  return instance;
}

void remove_files() {
  const std::lock_guard lock(store().mutex);
  store().entries.clear();
  store().folder.reset();
}

std::string make(Store& all, std::vector<std::string> arguments, const std::vector<std::string>& headers) {
  if (!all.folder) {
    all.folder = std::make_unique<TemporaryFolder>();
    std::atexit(remove_files);
  }
  const std::string name = fmt::format("headers{}", all.entries.size());
  std::string text;
  for (const std::string& header : headers) text += fmt::format("#include <{}>\n", header);
  all.folder->write(name + ".h", text);
  arguments.insert(arguments.end(), {"-fsyntax-only", "-Xclang", "-emit-pch", "-Xclang", "-o", "-Xclang",
                                     name + ".pch", name + ".h"});
  if (!run_compiler(all.folder->path(), arguments).success) return "";
  return (all.folder->path() / (name + ".pch")).string();
}

}  // namespace

std::optional<std::vector<std::string>> precompiled_headers(const std::vector<std::string>& options,
                                                            const std::vector<std::string>& libraries,
                                                            const std::vector<std::string>& headers) {
  Store& all = store();
  const std::lock_guard lock(all.mutex);
  Entry& entry = all.entries[options];
  if (++entry.uses == 2) {
    std::vector<std::string> arguments = options;
    arguments.insert(arguments.end(), libraries.begin(), libraries.end());
    entry.path = make(all, std::move(arguments), headers);
  }
  if (entry.path.empty()) return std::nullopt;
  return std::vector<std::string>{"-Xclang", "-include-pch", "-Xclang", entry.path};
}

}  // namespace hipemu::hip
