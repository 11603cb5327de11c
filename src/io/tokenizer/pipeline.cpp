// A tokenizer made of its definition.
#include "io/tokenizer/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"
#include "io/tokenizer/end_names.h"
#include "io/tokenizer/utf8.h"
#include "io/tokenizer/word_cache.h"

namespace hearth::tokenizer {

// What one call of encode() works with.
struct Pipeline::Session {
  Workspace workspace;
  WordCache cache;
  Pieces pieces;
  std::vector<Fragment> fragments, normalised_fragments;
};

namespace {

constexpr std::size_t longest_text = std::size_t{1} << 30;
constexpr std::size_t long_text = std::size_t{16} << 20;  // after which memory is given back

using Texts = std::vector<std::pair<std::string, TokenId>>;

bool is_searched_for(const Token& token) {
  return token.kind == TokenKind::control || token.kind == TokenKind::user_defined ||
         token.kind == TokenKind::unknown;
}

// What to look for in text as it is, or in normalised text.
Texts texts_to_find(const Vocabulary& vocabulary, bool in_normalised) {
  Texts texts;
  for (TokenId id = 0; id < vocabulary.size(); ++id)
    if (is_searched_for(vocabulary[id]) && vocabulary[id].in_normalised_text == in_normalised)
      texts.emplace_back(vocabulary[id].text_to_find(), id);
  return texts;
}

// Whether a text without special tokens is one piece for a model of characters.
bool encodes_whole_texts(const Definition& definition) {
  const auto* bpe = std::get_if<BpeModel>(&definition.model);
  const bool of_characters = std::holds_alternative<UnigramModel>(definition.model) ||
                             (bpe && bpe->options.symbols == BpeSymbols::characters);
  return of_characters && std::ranges::none_of(definition.pre_tokeniser, [](const PreTokeniserStep& step) {
           return std::holds_alternative<SplitStep>(step);
         });
}

std::unique_ptr<Model> make_model(const Definition& definition, const Vocabulary& vocabulary) {
  if (const auto* bpe = std::get_if<BpeModel>(&definition.model))
    return make_bpe(*bpe, vocabulary, definition.special);
  if (const auto* unigram = std::get_if<UnigramModel>(&definition.model))
    return make_unigram(*unigram, vocabulary, definition.special);
  return make_word_piece(std::get<WordPieceModel>(definition.model), vocabulary, definition.special,
                         definition.source);
}

void check_ids(const Definition& definition) {
  const auto check = [&](std::optional<TokenId> id, const char* what) {
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= definition.tokens.size()))
      throw FormatError(fmt::format("[tokenizer] '{}': the {} token is {}, and there are {} tokens",
                                    definition.source, what, *id, definition.tokens.size()));
  };
  const auto& special = definition.special;
  check(special.bos, "begin");
  check(special.eos, "end");
  check(special.unknown, "unknown");
  check(special.padding, "padding");
  check(special.separator, "separator");
  check(special.mask, "mask");
  check(special.end_of_turn, "end-of-turn");
  check(special.end_of_message, "end-of-message");
  for (const auto id : definition.prefix) check(id, "first");
  for (const auto id : definition.suffix) check(id, "last");
}

// What the files name as the end, and what is one by its name.
std::vector<TokenId> find_end_tokens(const SpecialTokens& special, const Vocabulary& vocabulary) {
  std::vector<TokenId> ends;
  for (const auto& id : {special.eos, special.end_of_turn, special.end_of_message})
    if (id) ends.push_back(*id);
  const auto add = [&](std::string_view name) {
    if (const auto id = vocabulary.find(name); id && is_searched_for(vocabulary[*id])) ends.push_back(*id);
  };
  for (const auto name : end_names) add(name);
  // Where messages end with it and turns with <|return|> or <|call|>, it is no end.
  if (!vocabulary.find("<|return|>") || !vocabulary.find("<|call|>")) add("<|end|>");
  return ends;
}

}  // namespace

Pipeline::Pipeline(Definition definition)
    : vocabulary_((check_ids(definition), std::move(definition.tokens)), definition.source),
      normaliser_(definition.normaliser, definition.source),
      in_text_(vocabulary_, texts_to_find(vocabulary_, false)),
      in_normalised_(vocabulary_, texts_to_find(vocabulary_, true)),
      pre_tokeniser_(definition.pre_tokeniser, definition.source),
      model_(make_model(definition, vocabulary_)),
      decoded_(vocabulary_, definition.decoder),
      strip_first_space_(definition.strip_first_space),
      prefix_(definition.prefix),
      suffix_(definition.suffix),
      special_(definition.special),
      end_tokens_(find_end_tokens(definition.special, vocabulary_)) {
  if (encodes_whole_texts(definition)) seams_.emplace(vocabulary_);
}

Pipeline::~Pipeline() = default;

const Token& Pipeline::token(TokenId id) const {
  if (id < 0 || id >= vocabulary_.size())
    throw IndexError(
        fmt::format("[tokenizer] token {} is not in a vocabulary of {}", id, vocabulary_.size()));
  return vocabulary_[id];
}

bool Pipeline::ends_generation(TokenId id) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), id) != end_tokens_.end();
}

std::unique_ptr<Pipeline::Session> Pipeline::take_session() const {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Session>();
  auto session = std::move(idle_.back());
  idle_.pop_back();
  return session;
}

void Pipeline::give_back(std::unique_ptr<Session> session) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(session));
}

std::vector<TokenId> Pipeline::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > longest_text)
    throw ValueError(
        fmt::format("[tokenizer] a text of {} bytes; at most {} are allowed", text.size(), longest_text));
  std::string repaired_text;
  if (!is_utf8(text)) text = repaired_text = repaired(text);

  std::vector<TokenId> tokens;
  if (options.add_special) tokens = prefix_;
  auto session = take_session();
  session->fragments.clear();
  in_text_.cut(text, options.parse_special, session->fragments);
  for (const auto& fragment : session->fragments) {
    if (fragment.token >= 0)
      tokens.push_back(fragment.token);
    else
      encode_fragment(fragment.text, fragment.text.data() == text.data(), options, *session, tokens);
  }
  if (text.size() < long_text) give_back(std::move(session));
  if (options.add_special) tokens.insert(tokens.end(), suffix_.begin(), suffix_.end());
  return tokens;
}

void Pipeline::encode_fragment(std::string_view text, bool at_start, const EncodeOptions& options,
                               Session& session, std::vector<TokenId>& tokens) const {
  std::string normalised_text;
  if (!normaliser_.changes_nothing()) text = normalised_text = normaliser_.apply(text, at_start);
  auto& fragments = session.normalised_fragments;
  fragments.clear();
  in_normalised_.cut(text, options.parse_special, fragments);
  for (const auto& fragment : fragments) {
    if (fragment.token >= 0)
      tokens.push_back(fragment.token);
    else
      encode_pieces(fragment.text, at_start && fragment.text.data() == text.data(), session, tokens);
  }
}

void Pipeline::encode_pieces(std::string_view text, bool at_start, Session& session,
                             std::vector<TokenId>& tokens) const {
  auto& pieces = session.pieces;
  pieces.begin(text);
  pre_tokeniser_.cut(pieces, at_start);
  for (std::size_t i = 0; i < pieces.spans.size(); ++i) {
    auto piece = pieces[i];
    for (std::size_t seam; seams_ && (seam = seams_->find(piece)) < piece.size(); piece.remove_prefix(seam))
      encode_piece(piece.substr(0, seam), session, tokens);
    encode_piece(piece, session, tokens);
  }
}

void Pipeline::encode_piece(std::string_view piece, Session& session, std::vector<TokenId>& tokens) const {
  if (const auto* known = session.cache.find(piece)) {
    tokens.insert(tokens.end(), known->begin(), known->end());
    return;
  }
  const auto before = tokens.size();
  model_->encode(piece, session.workspace, tokens);
  session.cache.add(piece, std::span(tokens).subspan(before));
}

}  // namespace hearth::tokenizer
