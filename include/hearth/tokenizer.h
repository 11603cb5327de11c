// Tokenizers of language models: text to token ids and back.
//
// Byte-level BPE, SentencePiece BPE and unigram, WordPiece, tiktoken ranks; from GGUF files, Hugging Face
// folders, tokenizer.json, SentencePiece's tokenizer.model and tiktoken's rank files.
//
// Text is UTF-8. What is ill-formed is read as U+FFFD, one for each maximal subpart, as Python's
// decode(errors="replace") does it. Most vocabularies need PCRE2 (their pre-tokeniser is a pattern), some
// utf8proc (normal forms); loading one that this build cannot handle throws Error saying so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/gguf.h"

namespace hearth {

using TokenId = std::int32_t;

struct SpecialTokens {
  std::optional<TokenId> bos = {}, eos = {}, unknown = {}, padding = {}, separator = {}, mask = {};
  std::optional<TokenId> end_of_turn = {}, end_of_message = {};
};

struct EncodeOptions {
  bool add_special = true;  // puts around the text what the tokenizer says: begin, end
  bool parse_special =
      false;  // special tokens written in the text become those tokens. Not for text of others.
};

struct DecodeOptions {
  bool skip_special = false;
};

namespace tokenizer {
class Pipeline;
}

// Immutable and cheap to copy; may be used from several threads at once.
class Tokenizer {
 public:
  // A GGUF file, a folder, or a file as below, recognised by its contents. Throws FileError, or FormatError
  // with the file and what is wrong.
  static Tokenizer load(const std::filesystem::path& path);
  static Tokenizer from_gguf(const GgufFile& file);
  // tokenizer.json, else vocab.json and merges.txt, else tokenizer.model, with tokenizer_config.json for the
  // special tokens.
  static Tokenizer from_folder(const std::filesystem::path& path);
  // Ranks of byte strings. `pattern` cuts the text into pieces.
  static Tokenizer from_tiktoken(const std::filesystem::path& path, const std::string& pattern,
                                 const std::map<std::string, TokenId>& special);
  // The same for one whose name is known: cl100k_base, o200k_base, p50k_base, r50k_base.
  static Tokenizer from_tiktoken(const std::filesystem::path& path, std::string_view name);

  // Throws ValueError for more than 1 GiB.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Throw IndexError for an id that is not in [0, size()). Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // Ids are below this; not all of them need have a token.
  TokenId size() const;
  // A token as the vocabulary has it ("Ġthe", "▁the"), empty if there is none; and what it adds to a decoded
  // text
  // (" the"), which may be part of a character. Valid while a copy of this lives.
  std::string_view text(TokenId id) const;
  std::string_view bytes(TokenId id) const;
  // The token with that text in the vocabulary.
  std::optional<TokenId> find(std::string_view text) const;

  const SpecialTokens& special() const;
  // Whether a token means something else than text.
  bool is_special(TokenId id) const;
  // Whether a model says with it that it is done: eos, end of turn and the like.
  bool ends_generation(TokenId id) const;
  // What add_special puts first and last.
  bool adds_bos() const;
  bool adds_eos() const;

  explicit Tokenizer(std::shared_ptr<const tokenizer::Pipeline> pipeline);  // for the library itself

 private:
  friend class StreamDecoder;
  std::shared_ptr<const tokenizer::Pipeline> pipeline_;
};

// Decodes token by token. What it returns is always whole characters; all of it together is what decode()
// returns.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {});

  // The text that this token completes; may be empty.
  std::string push(TokenId id);
  // What is left of a character that never came to its end, as U+FFFD. The next push() begins a new text.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::string pending_;
  bool at_start_ = true;
};

}  // namespace hearth
