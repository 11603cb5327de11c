// From files to the definition of a tokenizer. All throw FormatError with the file and what is wrong,
// FileError for a file that cannot be read.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

// ---- of bytes in memory; `source` names them in messages

// tokenizer.json of Hugging Face's tokenizers.
Definition read_tokenizer_json(std::string_view text, std::string_view source);
// SentencePiece's tokenizer.model.
Definition read_sentencepiece(std::string_view bytes, std::string_view source);
// tiktoken's ranks: on each line a byte string in base64, and its number.
struct RankOptions {
  std::string pattern;
  std::map<std::string, TokenId> special;
};
Definition read_ranks(std::string_view text, const RankOptions& options, std::string_view source);
// Those of the encodings that OpenAI has published, by name; nothing for other names.
std::optional<RankOptions> known_ranks(std::string_view name);
bool looks_like_ranks(std::string_view text);
// vocab.json and merges.txt of a byte-level vocabulary. The pre-tokeniser and special tokens are not in them.
Definition read_vocab_and_merges(std::string_view vocab, std::string_view merges, std::string_view source);

// The special tokens that tokenizer_config.json names, and, for files that do not have them, its added
// tokens.
void apply_config(std::string_view text, std::string_view source, bool with_added_tokens,
                  Definition& definition);

// ---- of files

Definition read_gguf(const GgufFile& file);
Definition read_folder(const std::filesystem::path& path);
// For a model that has so many tokens: without those that were added behind them, for what the model has no
// part for. Gemma 3 comes with a token that stands for an image, also where the model reads text only. Where
// more than such tokens would be lost, all are left.
Definition read_folder(const std::filesystem::path& path, std::size_t model_tokens);

}  // namespace hearth::tokenizer
