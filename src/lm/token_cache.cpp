// Tokens of a corpus: made, saved, loaded.
#include "lm/token_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/file.h"
#include "base/thread_pool.h"
#include "data/host_array.h"
#include "hearth/device.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "io/host_tensor.h"
#include "io/tokenizer/bpe_training.h"

namespace hearth::lm {
namespace {

constexpr const char *fingerprint_key = "fingerprint", *checksum_key = "checksum",
                     *vocabulary_key = "vocabulary";
constexpr int format_version = 1;

// A piece of a document that can be encoded by itself.
struct Part {
  std::string_view text;
  bool ends_document;
};

std::vector<Part> parts_of(const std::vector<std::string_view>& documents) {
  std::vector<Part> parts;
  for (const auto document : documents) {
    for (const auto text : tokenizer::cut_into_parts(document)) parts.push_back({text, false});
    parts.back().ends_document = true;
  }
  return parts;
}

template <typename T>
Tensor joined(const std::vector<std::vector<TokenId>>& pieces) {
  const DeviceScope host{Device{}};
  std::vector<T> all;
  all.reserve(std::accumulate(pieces.begin(), pieces.end(), std::size_t{0},
                              [](std::size_t sum, const auto& piece) { return sum + piece.size(); }));
  for (const auto& piece : pieces)
    for (const TokenId token : piece) all.push_back(static_cast<T>(token));
  return tensor(all);
}

Tensor encode(const std::vector<std::string_view>& documents, const Tokenizer& tokenizer,
              const std::function<void(std::size_t)>& progress) {
  const TokenId end = tokenizer.special().eos.value();
  const auto parts = parts_of(documents);
  std::vector<std::vector<TokenId>> pieces(parts.size());
  parallel_for(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t from, std::int64_t to) {
    for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) {
      pieces[i] = tokenizer.encode(parts[i].text, {.add_special = false});
      if (parts[i].ends_document) pieces[i].push_back(end);
      progress(parts[i].text.size());
    }
  });
  return tokenizer.size() <= 1 << 15 ? joined<std::int16_t>(pieces) : joined<std::int32_t>(pieces);
}

// Of all tokens, in order.
Hash128 checksum(const CorpusTokens& tokens) {
  Hasher hasher;
  for (const auto& source : tokens.sources)
    for (const Tensor& part : {source.training, source.validation}) {
      const Hash128 hash = hash_bytes(io::as_text(data::host_bytes(part)));
      hasher.add(hash.low);
      hasher.add(hash.high);
    }
  return hasher.finish();
}

// The names of the files; with their folders where several are called the same.
std::vector<std::string> names_of(const std::vector<TextSource>& sources) {
  std::vector<std::string> names;
  for (const TextSource& source : sources) {
    const auto same = [&](const TextSource& other) {
      return other.path.filename() == source.path.filename();
    };
    const bool alone = std::ranges::count_if(sources, same) == 1;
    names.push_back((alone ? source.path.filename() : source.path).string());
  }
  return names;
}

std::string name_of(std::size_t source, const char* part) { return fmt::format("{}.{}", source, part); }

void check_tokens(const Tensor& part, std::int64_t vocabulary, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& what) {
    throw FormatError(fmt::format("{}: {}", path.string(), what));
  };
  if (part.ndim() != 1 || (part.dtype() != DType::i16 && part.dtype() != DType::i32))
    refuse("its tokens are not a list of i16 or i32");
  data::with_element_type(part.dtype(), [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>)
      for (const T token : part.data<T>())
        if (static_cast<std::int64_t>(token) < 0 || static_cast<std::int64_t>(token) >= vocabulary)
          refuse(fmt::format("token {} of a vocabulary of {}", token, vocabulary));
  });
}

std::int64_t count(const CorpusTokens& tokens, Tensor SourceTokens::*part) {
  std::int64_t sum = 0;
  for (const auto& source : tokens.sources) sum += (source.*part).numel();
  return sum;
}

}  // namespace

std::int64_t CorpusTokens::training_tokens() const { return count(*this, &SourceTokens::training); }
std::int64_t CorpusTokens::validation_tokens() const { return count(*this, &SourceTokens::validation); }

std::string corpus_fingerprint(const std::vector<TextSource>& sources, std::string_view tokenizer_json,
                               double held_out) {
  Hasher hasher;
  const auto add = [&](const Hash128& hash) {
    hasher.add(hash.low);
    hasher.add(hash.high);
  };
  hasher.add(format_version);
  hasher.add(held_out);
  add(hash_bytes(tokenizer_json));
  for (const auto& source : sources) add(hash_bytes(io::as_text(MappedFile(source.path).bytes())));
  return to_string(hasher.finish());
}

CorpusTokens tokenise(const Corpus& corpus, const Tokenizer& tokenizer,
                      const std::function<void(double)>& progress) {
  if (!tokenizer.special().eos)
    throw ValueError("[tokenise] the tokenizer has no end-of-text token to put between documents");
  std::size_t total = 0;
  for (const auto& source : corpus.sources())
    for (const auto* part : {&source.training, &source.validation})
      for (const auto document : *part) total += document.size();
  std::atomic<std::size_t> done = 0;
  const auto advance = [&](std::size_t bytes) {
    const std::size_t now = done += bytes;
    if (progress) progress(static_cast<double>(now) / static_cast<double>(total));
  };
  CorpusTokens tokens{{}, tokenizer.size()};
  std::vector<TextSource> files;
  for (const auto& source : corpus.sources()) files.push_back(source.source);
  const auto names = names_of(files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const SourceText& source = corpus.sources()[i];
    tokens.sources.push_back({names[i], files[i].weight, encode(source.training, tokenizer, advance),
                              encode(source.validation, tokenizer, advance)});
  }
  return tokens;
}

void save_tokens(const std::filesystem::path& path, const CorpusTokens& tokens,
                 const std::string& fingerprint) {
  TensorMap tensors;
  for (std::size_t i = 0; i < tokens.sources.size(); ++i) {
    tensors[name_of(i, "training")] = tokens.sources[i].training;
    tensors[name_of(i, "validation")] = tokens.sources[i].validation;
  }
  save_safetensors(path, tensors,
                   {{fingerprint_key, fingerprint},
                    {checksum_key, to_string(checksum(tokens))},
                    {vocabulary_key, std::to_string(tokens.vocabulary)}});
}

std::optional<CorpusTokens> load_tokens(const std::filesystem::path& path,
                                        const std::vector<TextSource>& sources,
                                        const std::string& fingerprint) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const SafetensorsFile file(path);
  const auto metadata = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (metadata(fingerprint_key) != fingerprint) return std::nullopt;
  const DeviceScope host{Device{}};  // batches are cut out of them there
  CorpusTokens tokens;
  tokens.vocabulary = std::atoll(metadata(vocabulary_key).c_str());
  const auto names = names_of(sources);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (const char* part : {"training", "validation"})
      if (!file.contains(name_of(i, part)))
        throw FormatError(fmt::format("{}: no tokens called {}", path.string(), name_of(i, part)));
    tokens.sources.push_back({names[i], sources[i].weight, file.tensor(name_of(i, "training")),
                              file.tensor(name_of(i, "validation"))});
    for (const Tensor& part : {tokens.sources.back().training, tokens.sources.back().validation})
      check_tokens(part, tokens.vocabulary, path);
  }
  if (metadata(checksum_key) != to_string(checksum(tokens)))
    throw FormatError(
        fmt::format("{}: damaged: its checksum is another; delete it to make it anew", path.string()));
  return tokens;
}

}  // namespace hearth::lm
