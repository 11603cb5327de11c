// Compressed offload bundles (magic "CCOB"): clang's --offload-compress.
#pragma once

#include <memory>

#include "code_object/bytes.h"

namespace hipemu {

struct Buffer {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;

  Bytes bytes() const { return {data.get(), size}; }
};

bool is_compressed_bundle(Bytes image);

// The bundle inside. `image` may have more bytes behind it. Throws CodeObjectError.
Buffer decompress_bundle(Bytes image);

// Size of the compressed image, which version 1 does not say: then the compressed data is read to its end.
uint64_t compressed_bundle_size(Bytes image);

}  // namespace hipemu
