// The code objects in a file: a code object itself, a bundle, or a program with bundles inside.
#pragma once

#include <string>
#include <vector>

#include "code_object/bundle.h"

namespace hipemu::tool {

// A whole file in memory. Throws ToolError.
std::vector<std::byte> read_file(const std::string& path);

// Every bundle of the file, in its order. They point into `file`. Throws CodeObjectError or ToolError.
std::vector<Bundle> bundles_in(Bytes file, const std::string& path);

}  // namespace hipemu::tool
