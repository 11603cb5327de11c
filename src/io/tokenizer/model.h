// From a piece of text to tokens.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "io/tokenizer/symbol_merging.h"
#include "io/tokenizer/vocabulary.h"

namespace hearth::tokenizer {

// The memory that encoding works in, kept from piece to piece. For one thread at a time.
struct Workspace {
  SymbolMerging merging;
  struct Step {  // of the best way to a position of the text
    double score;
    std::uint32_t begin;
    TokenId token;
  };
  std::vector<Step> path;
  std::vector<std::uint32_t> ends;  // of the tokens of the best way
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of a piece, which is valid UTF-8.
  virtual void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& tokens) const = 0;
};

// `vocabulary` must outlive the model.
std::unique_ptr<Model> make_bpe(const BpeModel& definition, const Vocabulary& vocabulary,
                                const SpecialTokens& special);
std::unique_ptr<Model> make_unigram(const UnigramModel& definition, const Vocabulary& vocabulary,
                                    const SpecialTokens& special);
// Throws FormatError without an unknown token.
std::unique_ptr<Model> make_word_piece(const WordPieceModel& definition, const Vocabulary& vocabulary,
                                       const SpecialTokens& special, std::string_view source);

}  // namespace hearth::tokenizer
