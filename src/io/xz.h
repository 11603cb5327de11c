// Files compressed by xz, through liblzma. Without liblzma in the build, unxz throws FileError saying so.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace hearth::io {

bool is_xz(Bytes file);

// All of an xz file. Throws FormatError, naming `source`, for damaged or truncated data, and, against files
// made to exhaust memory, for more than 1 GiB and 100 times the size of the file.
std::vector<std::byte> unxz(Bytes file, std::string_view source);

}  // namespace hearth::io
