// A tokenizer as the metadata of a GGUF file.
#pragma once

#include "hearth/gguf.h"
#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

// The keys "tokenizer.ggml.*" from which read_gguf() makes a tokenizer that gives the same tokens. There are
// `size` of them: ids that have no token get one that is never used, "[PAD7]". Throws FormatError for what
// GGUF cannot say.
GgufMetadata to_gguf(const Definition& definition, std::size_t size);

}  // namespace hearth::tokenizer
