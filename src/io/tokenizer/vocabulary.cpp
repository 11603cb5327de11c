// Tokens by id and by text.
#include "io/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <cmath>

#include "hearth/error.h"
#include "io/bytes.h"

namespace hearth::tokenizer {

Vocabulary::Vocabulary(std::vector<Token> tokens, std::string_view source)
    : tokens_(std::move(tokens)), ids_(tokens_.size()) {
  bool any = false;
  for (TokenId id = 0; id < size(); ++id) {
    const auto& text = (*this)[id].text;
    if (text.empty()) continue;
    any = true;
    if (std::isnan((*this)[id].score))
      throw FormatError(
          fmt::format("[tokenizer] '{}': the score of {} is not a number", source, io::show(text)));
    if (const auto other = ids_.add(text, id))
      throw FormatError(fmt::format("[tokenizer] '{}': the tokens {} and {} are both {}", source, *other, id,
                                    io::show(text)));
  }
  if (!any) throw FormatError(fmt::format("[tokenizer] '{}': the vocabulary is empty", source));
}

}  // namespace hearth::tokenizer
