// Learns a byte-level BPE vocabulary from text.
//
// The result is that of Hugging Face's trainer for the same text: among the pairs of neighbours within a
// piece the most frequent becomes a token, of equally frequent ones that with the lower ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/tokenizer/definition.h"

namespace hearth::tokenizer {

// A text in parts of about a megabyte that give the same pieces one by one. They end between a line and a
// letter, where every known pre-tokeniser cuts.
std::vector<std::string_view> cut_into_parts(std::string_view text);

// How often each piece occurs that the pre-tokeniser cuts texts into. Adding is done by all threads together;
// the sum does not depend on how.
class PieceCounts {
 public:
  // `pre`: a name of known_pre_tokenisers.h. Throws ValueError for one that is not known.
  explicit PieceCounts(std::string pre = "llama-bpe");
  // Texts are UTF-8. `progress` gets the bytes done since it was called last, from several threads.
  void add(const std::vector<std::string_view>& texts, const std::function<void(std::size_t)>& progress = {});

  const std::string& pre() const { return pre_; }
  const std::unordered_map<std::string, std::int64_t>& counts() const { return counts_; }

 private:
  std::string pre_;
  std::unordered_map<std::string, std::int64_t> counts_;
};

struct BpeTrainingOptions {
  std::size_t vocabulary = 8192;  // special tokens and 256 bytes included
  std::vector<std::string> special{
      "<|endoftext|>"};          // get the first ids; the first of them begins and ends texts
  std::int64_t least_count = 2;  // a pair that occurs less often is not merged
};

// Throws ValueError if the text has too few different pairs for that vocabulary.
Definition train_bpe(const PieceCounts& pieces, const BpeTrainingOptions& options);

}  // namespace hearth::tokenizer
