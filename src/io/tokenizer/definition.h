// What a tokenizer is, as data. The readers of the different files all end here, and Pipeline begins here.
//
// Encoding: tokens that are looked for in the text as they are cut it into fragments; each is normalised;
// tokens that are looked for in normalised text cut it again; the pre-tokeniser cuts what is left into
// pieces; the model turns each piece into tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hearth/tokenizer.h"
#include "io/tokenizer/unicode.h"

namespace hearth::tokenizer {

inline constexpr std::string_view space_mark = "\u2581";  // "▁", which stands for a space in vocabularies

enum class TokenKind : std::uint8_t {
  normal,
  unknown,
  control,       // special: looked for in text only if asked to
  user_defined,  // always looked for
  unused,
  byte  // "<0x0A>"
};

struct Token {
  std::string text = {};  // as in the file; empty: no token has this id
  float score = 0;
  TokenKind kind = TokenKind::normal;
  // Of those that are looked for in text.
  bool strip_left = false, strip_right = false;  // takes the white space beside it
  bool single_word = false;                      // not inside a word
  bool in_normalised_text = false;
  std::string searched = {};  // what is looked for, if that is not `text`

  const std::string& text_to_find() const { return searched.empty() ? text : searched; }
};

// ---- normaliser

struct PrependStep {
  std::string text;
  bool only_if_missing = false;
  bool only_at_start = false;  // of the whole text, not of each fragment
};
struct ReplaceStep {
  std::string what, by;
  bool is_pattern = false;
};
struct NormalFormStep {
  NormalForm form;
};
struct LowercaseStep {};
struct StripMarksStep {
  bool spacing_too = false;  // else only those that take no space of their own
};
struct StripStep {  // white space at the ends
  bool left = true, right = true;
};
struct CollapseSpacesStep {};  // none at the ends, one at a time elsewhere
struct CharacterMapStep {      // SentencePiece's table of replacements
  std::string table;
};
struct BertCleanStep {
  bool clean = true;  // control characters go, white space becomes spaces
  bool space_around_ideographs = true;
};
using NormaliserStep = std::variant<PrependStep, ReplaceStep, NormalFormStep, LowercaseStep, StripMarksStep,
                                    StripStep, CollapseSpacesStep, CharacterMapStep, BertCleanStep>;

// ---- pre-tokeniser

enum class SplitBehaviour { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct SplitStep {
  std::string what;
  bool is_pattern = true;
  SplitBehaviour behaviour = SplitBehaviour::isolated;
  bool invert = false;  // what is between the matches takes their place
};
// Writes pieces in the characters of byte_level.h, where further steps want them so.
struct MapBytesStep {};
using PreTokeniserStep = std::variant<SplitStep, PrependStep, ReplaceStep, MapBytesStep>;

// ---- model

struct Merge {
  TokenId left, right, result;
};

// What merging begins with, and how the vocabulary writes it.
enum class BpeSymbols {
  characters,
  bytes_as_characters,  // bytes, written in the characters of byte_level.h
  bytes
};

struct BpeOptions {
  BpeSymbols symbols = BpeSymbols::characters;
  bool byte_fallback = false;       // unknown characters become tokens of their bytes
  bool fuse_unknown = false;        // several in a row become one unknown token
  bool whole_pieces_first = false;  // a piece that is a token is not merged from parts
};

struct BpeModel {
  BpeOptions options = {};
  // By rank; none: merges follow from the tokens, of which those with higher scores are preferred.
  std::optional<std::vector<Merge>> merges = {};
};
struct UnigramModel {
  bool byte_fallback = false;
};
struct WordPieceModel {
  std::string continuation = "##";  // before what does not begin a word
  std::string beginning = {};       // before what does
  std::size_t longest_word = 100;   // characters
};

// ---- decoding: what becomes of each token's text, step by step

struct DecodeBytesStep {};         // characters of byte_level.h
struct DecodeByteFallbackStep {};  // "<0x0A>"
struct DecodeWordPieceStep {
  std::string continuation = "##";
  bool clean_up = true;  // no space before punctuation
};
using DecoderStep = std::variant<DecodeBytesStep, DecodeByteFallbackStep, DecodeWordPieceStep, ReplaceStep>;

struct Definition {
  std::string source;         // the file, for messages
  std::vector<Token> tokens;  // by id
  std::vector<NormaliserStep> normaliser;
  std::vector<PreTokeniserStep> pre_tokeniser;
  std::variant<BpeModel, UnigramModel, WordPieceModel> model;
  std::vector<DecoderStep> decoder;
  bool strip_first_space = false;       // of what is decoded
  std::vector<TokenId> prefix, suffix;  // what add_special puts around
  SpecialTokens special;
};

}  // namespace hearth::tokenizer
