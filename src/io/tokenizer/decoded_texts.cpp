// What each token adds to a decoded text.
#include "io/tokenizer/decoded_texts.h"

#include <array>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/byte_tokens.h"
#include "io/tokenizer/normaliser.h"

namespace hearth::tokenizer {
namespace {

// Words are apart, punctuation and the ends of contractions are not.
std::string cleaned_up(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> rules = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [what, by] : rules) replace_all(text, what, by);
  return text;
}

struct Decode {
  const Token& token;
  std::string text;

  // Tokens that are looked for in the text are written as they stand there.
  bool stands_for_itself() const {
    return token.kind == TokenKind::control || token.kind == TokenKind::user_defined ||
           token.kind == TokenKind::unknown;
  }

  void operator()(const DecodeBytesStep&) {
    if (stands_for_itself()) return;
    if (auto bytes = from_byte_characters(text)) text = std::move(*bytes);
  }
  void operator()(const DecodeByteFallbackStep&) {
    if (stands_for_itself()) return;
    if (const auto byte = byte_of_token_text(text)) text = *byte;
  }
  void operator()(const ReplaceStep& step) {
    if (token.kind != TokenKind::control) replace_all(text, step.what, step.by);
  }
  void operator()(const DecodeWordPieceStep& step) {
    if (!step.continuation.empty() && text.starts_with(step.continuation))
      text.erase(0, step.continuation.size());
    else
      text.insert(0, " ");
    if (step.clean_up) text = cleaned_up(std::move(text));
  }
};

}  // namespace

DecodedTexts::DecodedTexts(const Vocabulary& vocabulary, const std::vector<DecoderStep>& steps) {
  texts_.reserve(static_cast<std::size_t>(vocabulary.size()));
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    Decode decode{vocabulary[id], vocabulary[id].text};
    if (!decode.text.empty())
      for (const auto& step : steps) std::visit(decode, step);
    texts_.push_back(std::move(decode.text));
  }
}

}  // namespace hearth::tokenizer
