// A tokenizer as the metadata of a GGUF file.
#pragma once

#include "hearth/gguf.h"
#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

// The keys "tokenizer.ggml.*" from which read_gguf() makes a tokenizer that gives the same tokens. There are
// `size` of them: ids that have no token get one that is never used, "[PAD7]". `architecture` is that of the
// file, by whose name readers know some of it. Throws FormatError for what GGUF cannot say.
GgufMetadata to_gguf(const Definition& definition, std::size_t size, std::string_view architecture);

}  // namespace hearth::tokenizer
