// A corpus as tokens, in a file, so that it is cut into tokens once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hearth/tensor.h"
#include "hearth/tokenizer.h"
#include "lm/corpus.h"

namespace hearth::lm {

// The tokens of one source, documents one after the other, each followed by the end-of-text token. i16 where
// the vocabulary allows it, else i32; in host memory.
struct SourceTokens {
  std::string name;  // of the file; with its folder where another has the same
  double weight = 1;
  Tensor training, validation;
};

struct CorpusTokens {
  std::vector<SourceTokens> sources;
  std::int64_t vocabulary = 0;

  std::int64_t training_tokens() const;
  std::int64_t validation_tokens() const;
};

// What the tokens follow from: the bytes of the files, the tokenizer, and what is held out. Weights do not
// matter.
std::string corpus_fingerprint(const std::vector<TextSource>& sources, std::string_view tokenizer_json,
                               double held_out);

// By all threads together; `progress` gets the share done, from several threads.
CorpusTokens tokenise(const Corpus& corpus, const Tokenizer& tokenizer,
                      const std::function<void(double)>& progress = {});

// A safetensors file, put in place in one step.
void save_tokens(const std::filesystem::path& path, const CorpusTokens& tokens,
                 const std::string& fingerprint);
// Nothing if there is no such file, or one with another fingerprint. The weights are those of `sources`.
// Throws FormatError for a file that is damaged.
std::optional<CorpusTokens> load_tokens(const std::filesystem::path& path,
                                        const std::vector<TextSource>& sources,
                                        const std::string& fingerprint);

}  // namespace hearth::lm
