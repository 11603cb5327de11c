// A tokenizer made of its definition: all steps of encoding, one after the other, and decoding.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/decoded_texts.h"
#include "io/tokenizer/definition.h"
#include "io/tokenizer/model.h"
#include "io/tokenizer/normaliser.h"
#include "io/tokenizer/pre_tokeniser.h"
#include "io/tokenizer/seams.h"
#include "io/tokenizer/token_search.h"
#include "io/tokenizer/vocabulary.h"

namespace hearth::tokenizer {

class Pipeline {
 public:
  // Throws FormatError for what does not fit together, Error for what this build cannot do.
  explicit Pipeline(Definition definition);
  ~Pipeline();

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Throws IndexError for an id that is not in the vocabulary.
  const Token& token(TokenId id) const;
  std::string_view decoded(TokenId id) const { return decoded_[id]; }
  bool strips_first_space() const { return strip_first_space_; }
  bool ends_generation(TokenId id) const;
  const SpecialTokens& special() const { return special_; }
  const std::vector<TokenId>& prefix() const { return prefix_; }
  const std::vector<TokenId>& suffix() const { return suffix_; }

 private:
  struct Session;
  void encode_fragment(std::string_view text, bool at_start, const EncodeOptions& options, Session& session,
                       std::vector<TokenId>& tokens) const;
  void encode_piece(std::string_view piece, Session& session, std::vector<TokenId>& tokens) const;
  void encode_pieces(std::string_view text, bool at_start, Session& session,
                     std::vector<TokenId>& tokens) const;
  std::unique_ptr<Session> take_session() const;
  void give_back(std::unique_ptr<Session> session) const;

  Vocabulary vocabulary_;
  Normaliser normaliser_;
  TokenSearch in_text_, in_normalised_;
  PreTokeniser pre_tokeniser_;
  std::unique_ptr<Model> model_;
  std::optional<Seams> seams_;  // where pieces would be whole texts
  DecodedTexts decoded_;
  bool strip_first_space_;
  std::vector<TokenId> prefix_, suffix_;
  SpecialTokens special_;
  std::vector<TokenId> end_tokens_;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Session>> idle_;  // at most one for each thread that was ever encoding
};

}  // namespace hearth::tokenizer
