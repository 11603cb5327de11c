// What the fuzzers call, and what the corpus test calls for every file of the corpus: one function per file
// format.
//
// Each reads the bytes as a file, touches all of the result, and returns. hearth::Error means the file was
// refused; any other exception, a crash or a report of a sanitizer is a bug.
#pragma once

#include "io/bytes.h"

namespace hearth::fuzz {

void safetensors(io::Bytes file);
void npy(io::Bytes file);
void npz(io::Bytes file);
void idx(io::Bytes file);
void xz(io::Bytes file);
void csv(io::Bytes file);
void gguf(io::Bytes file);
void torch(io::Bytes file);  // a checkpoint of PyTorch

// Tokenizers, and texts for them.
void tokenizer_json(io::Bytes file);
void tokenizer_model(io::Bytes file);
void ranks(io::Bytes file);
void encode(io::Bytes text);
void chat_template(io::Bytes file);  // rendered with a conversation

void model_config(io::Bytes file);  // config.json of a language model

// A grammar (GBNF), a schema of JSON: made into automata, and texts read by them.
void grammar(io::Bytes file);
void json_schema(io::Bytes file);

}  // namespace hearth::fuzz
