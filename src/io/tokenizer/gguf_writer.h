// A tokenizer as the metadata of a GGUF file.
#pragma once

#include "hearth/gguf.h"
#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

struct GgufTokenizer {
  GgufMetadata metadata;          // the keys "tokenizer.ggml.*"
  std::vector<std::string> lost;  // for which GGUF has no words: few texts have other tokens without
};

// From it read_gguf() makes a tokenizer that gives the same tokens, but for what is lost. There are `size` of
// them: ids that have no token get one that is never used, "[PAD7]". `architecture` is that of the file, by
// whose name readers know some of it. Throws FormatError for what GGUF cannot say and all texts depend on.
GgufTokenizer to_gguf(const Definition& definition, std::size_t size, std::string_view architecture);

}  // namespace hearth::tokenizer
