// What each token adds to a decoded text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/vocabulary.h"

namespace hearth::tokenizer {

class DecodedTexts {
 public:
  DecodedTexts(const Vocabulary& vocabulary, const std::vector<DecoderStep>& steps);
  std::string_view operator[](TokenId id) const { return texts_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<std::string> texts_;
};

}  // namespace hearth::tokenizer
