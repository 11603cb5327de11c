// Where text can be cut without any effect.
#include "io/tokenizer/seams.h"

#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {

Seams::Seams(const Vocabulary& vocabulary) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary[id].text;
    char32_t left = 0;
    for (std::size_t i = 0; i < text.size();) {
      const auto step = read_utf8(text, i);
      if (i > 0) neighbours_.insert(pair(left, step.character));
      if (step.size == text.size()) known_.insert(step.character);
      left = step.character;
      i += step.size;
    }
  }
  const auto character = [](std::size_t i) {
    return i == 0x80 ? char32_t{0x2581} : static_cast<char32_t>(i);
  };
  for (std::size_t left = 1; left < commons; ++left)
    for (std::size_t right = 1; right < commons; ++right)
      common_seams_[left * commons + right] = is_seam_of_others(character(left), character(right));
}

// Two characters that are both unknown may become one unknown token.
bool Seams::is_seam_of_others(char32_t left, char32_t right) const {
  return !neighbours_.contains(pair(left, right)) && (known_.contains(left) || known_.contains(right));
}

bool Seams::is_seam(char32_t left, char32_t right) const {
  const auto a = common(left), b = common(right);
  return a && b ? common_seams_[a * commons + b] : is_seam_of_others(left, right);
}

std::size_t Seams::find(std::string_view text) const {
  char32_t left = read_valid_utf8(text, 0);
  for (std::size_t i = utf8_size(text[0]); i < text.size(); i += utf8_size(text[i])) {
    const auto right = read_valid_utf8(text, i);
    if (is_seam(left, right)) return i;
    left = right;
  }
  return text.size();
}

}  // namespace hearth::tokenizer
