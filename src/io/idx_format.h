// IDX, the format of MNIST's files.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "io/array.h"
#include "io/bytes.h"

namespace hearth::io {

// The array in an IDX file, plain or gzip-compressed. It refers to the file's bytes, which `owner` keeps
// alive, where they can be used as they are. Memory is taken for what the header states, after that has been
// found possible for a file of this size. Throws FormatError, naming `source`.
Array parse_idx(Bytes file, std::shared_ptr<const void> owner, std::string_view source);

}  // namespace hearth::io
