// A tokenizer as Hugging Face's tokenizer.json.
#pragma once

#include <string>

#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

// What read_tokenizer_json() makes the same tokenizer of, and transformers too. Throws ValueError for
// anything but byte-level BPE with patterns that cut the text.
std::string to_tokenizer_json(const Definition& definition);

// tokenizer_config.json beside it: the special tokens, and the longest text in tokens.
std::string to_tokenizer_config(const Definition& definition, std::int64_t context);

}  // namespace hearth::tokenizer
