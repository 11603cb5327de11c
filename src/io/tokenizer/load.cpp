// Tokenizers from files, by what is in them.
#include <fmt/format.h>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/tokenizer.h"
#include "io/bytes.h"
#include "io/tokenizer/pipeline.h"
#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/readers.h"

namespace hearth {
namespace {

Tokenizer make(tokenizer::Definition definition) {
  return Tokenizer(std::make_shared<const tokenizer::Pipeline>(std::move(definition)));
}

bool begins_object(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{';
}

}  // namespace

Tokenizer Tokenizer::from_gguf(const GgufFile& file) { return make(tokenizer::read_gguf(file)); }
Tokenizer Tokenizer::from_folder(const std::filesystem::path& path) {
  return make(tokenizer::read_folder(path));
}

Tokenizer Tokenizer::from_tiktoken(const std::filesystem::path& path, const std::string& pattern,
                                   const std::map<std::string, TokenId>& special) {
  return make(tokenizer::read_ranks(read_text_file(path), {pattern, special}, path.string()));
}

Tokenizer Tokenizer::from_tiktoken(const std::filesystem::path& path, std::string_view name) {
  const auto known = tokenizer::known_ranks(name);
  if (!known) throw ValueError(fmt::format("[tokenizer] no encoding named {} is known", io::show(name)));
  return from_tiktoken(path, known->pattern, known->special);
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return from_folder(path);
  const MappedFile file(path);
  const auto text = io::as_text(file.bytes());
  const auto source = path.string();
  if (text.starts_with("GGUF")) return from_gguf(GgufFile(path));
  if (begins_object(text)) {
    auto definition = tokenizer::read_tokenizer_json(text, source);
    const auto config = path.parent_path() / "tokenizer_config.json";
    if (std::filesystem::exists(config))
      tokenizer::apply_config(read_text_file(config), config.string(), false, definition);
    return make(std::move(definition));
  }
  if (!tokenizer::looks_like_ranks(text)) return make(tokenizer::read_sentencepiece(text, source));
  const auto known = tokenizer::known_ranks(path.stem().string());
  if (!known)
    tokenizer::fail(source,
                    "ranks of tiktoken, for which the pattern must be known: use Tokenizer::from_tiktoken");
  return make(tokenizer::read_ranks(text, *known, source));
}

}  // namespace hearth
