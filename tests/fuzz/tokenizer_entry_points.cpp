// The readers of tokenizers, and encoding, driven over bytes in memory.
#include <array>

#include "base/file.h"
#include "entry_points.h"
#include "hearth/error.h"
#include "hearth/tokenizer.h"
#include "io/tokenizer/pipeline.h"
#include "io/tokenizer/readers.h"
#include "io/tokenizer/utf8.h"

namespace hearth::fuzz {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

Tokenizer make(tokenizer::Definition definition) {
  return Tokenizer(std::make_shared<const tokenizer::Pipeline>(std::move(definition)));
}

// What holds for any tokenizer and any text.
std::vector<TokenId> check_encoding(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  for (const bool special : {false, true}) {
    ids = tokenizer.encode(text, {.add_special = special, .parse_special = special});
    require(ids == tokenizer.encode(text, {.add_special = special, .parse_special = special}),
            "encoding differs");
    for (const auto id : ids) require(id >= 0 && id < tokenizer.size(), "an id out of range");
    const auto decoded = tokenizer.decode(ids);
    require(tokenizer::is_utf8(decoded), "decoded text is not UTF-8");
    StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const auto id : ids) {
      const auto part = stream.push(id);
      require(tokenizer::is_utf8(part), "part of a character was emitted");
      streamed += part;
    }
    require(streamed + stream.finish() == decoded, "decoding token by token differs");
  }
  return ids;
}

void check_tokenizer(const Tokenizer& tokenizer) {
  for (TokenId id = 0; id < std::min(tokenizer.size(), 1000); ++id) {
    const auto text = tokenizer.text(id);
    require(text.empty() || tokenizer.find(text) == id, "a token is not found by its text");
    check_encoding(tokenizer, text);
  }
  check_encoding(tokenizer, "Hello <s>  w\u00f6rld\n\n 123 \U0001f999\xff ab<|endoftext|>");
}

}  // namespace

void tokenizer_json(io::Bytes file) {
  check_tokenizer(make(tokenizer::read_tokenizer_json(io::as_text(file), "file")));
}

void tokenizer_model(io::Bytes file) {
  check_tokenizer(make(tokenizer::read_sentencepiece(io::as_text(file), "file")));
}

void ranks(io::Bytes file) {
  const auto options = tokenizer::known_ranks("cl100k_base").value();
  check_tokenizer(make(tokenizer::read_ranks(io::as_text(file), {options.pattern, {}}, "file")));
}

void encode(io::Bytes file) {
  static const auto tokenizers = [] {
    std::vector<Tokenizer> made;
    const std::string folder = HEARTH_GOLDEN_DIR "/tokenizers/";
    for (const auto* name :
         {"byte_level_steps", "llama_3", "metaspace_first", "splits", "unigram", "word_piece"})
      made.push_back(make(tokenizer::read_tokenizer_json(read_text_file(folder + name + ".json"), name)));
    for (const auto* name : {"sp_bpe", "sp_unigram", "sp_unigram_bytes"})
      made.push_back(make(tokenizer::read_sentencepiece(read_text_file(folder + name + ".model"), name)));
    return made;
  }();
  const auto text = io::as_text(file);
  for (std::size_t i = 0; i < tokenizers.size(); ++i) {
    check_encoding(tokenizers[i], text);
    const bool of_bytes = i < 2;
    if (of_bytes)
      require(tokenizers[i].decode(tokenizers[i].encode(
                  text, {.add_special = false, .parse_special = false})) == tokenizer::repaired(text),
              "encoding and decoding changes the text");
  }
}

}  // namespace hearth::fuzz
