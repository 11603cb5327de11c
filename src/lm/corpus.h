// The texts that a language model is trained on: files cut into documents, some of them held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace hearth::lm {

inline constexpr std::string_view end_of_text = "<|endoftext|>";  // stands between documents

struct TextSource {
  std::filesystem::path path;
  double weight = 1;  // how often it is read, in times of what its size would give it
};

// "books.txt.xz", "stories.txt:4" (read four times as often). Throws ValueError.
TextSource parse_text_source(const std::string& text);

struct SourceText {
  TextSource source;
  std::vector<std::string_view> training, validation;  // documents
};

// The texts of all sources, in memory. Documents that are held out are whole ones, chosen by their contents:
// the same ones in every run. A text that is held out is not trained on in any source. A file without
// separators is one document, the end of which is held out.
class Corpus {
 public:
  // Files may be compressed by gzip or xz. `held_out`: the share of each source, in [0, 0.5]. Throws
  // FileError; ValueError for a file that is empty, not UTF-8, or binary.
  Corpus(const std::vector<TextSource>& sources, double held_out);

  const std::vector<SourceText>& sources() const { return sources_; }
  std::size_t training_bytes() const;

 private:
  std::vector<std::shared_ptr<const void>> contents_;
  std::vector<SourceText> sources_;
};

Hash128 hash_bytes(std::string_view bytes);
std::string to_string(const Hash128& hash);  // 32 hexadecimal digits

}  // namespace hearth::lm
