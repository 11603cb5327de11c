// Which line of the source an address of a code object comes from, as llvm-symbolizer tells it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "code_object/bytes.h"

namespace hipemu {

// Safe to use from several threads; each address is looked up once.
class SourceLines {
 public:
  // "file:line", or empty when the file has no debug information or there is no symbolizer.
  std::string find(Bytes file, uint64_t virtual_address);

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::string> known_;
};

}  // namespace hipemu
