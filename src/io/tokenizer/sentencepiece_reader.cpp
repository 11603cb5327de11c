// SentencePiece's tokenizer.model: a message of protocol buffers, of which a few fields are read.
#include <fmt/format.h>

#include <cstring>

#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/readers.h"

namespace hearth::tokenizer {
namespace {

// One message: fields of a number and a type, one after the other.
class Message {
 public:
  Message(std::string_view bytes, std::string_view source) : rest_(bytes), source_(source) {}

  // Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const auto tag = varint();
    number_ = tag >> 3;
    switch (tag & 7) {
      case 0:
        integer_ = varint();
        break;
      case 1:
        bytes_ = take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5:
        bytes_ = take(4);
        break;
      default:
        tokenizer::fail(source_,
                        fmt::format("no SentencePiece model: a field of the unknown type {}", tag & 7));
    }
    type_ = tag & 7;
    return true;
  }

  std::uint64_t number() const { return number_; }
  std::int32_t integer() const { return expect(0), static_cast<std::int32_t>(integer_); }
  bool flag() const { return expect(0), integer_ != 0; }
  std::string_view bytes() const { return expect(2), bytes_; }
  float real() const {
    expect(5);
    float value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

 private:
  void expect(std::uint64_t type) const {
    if (type_ != type)
      tokenizer::fail(source_, fmt::format("no SentencePiece model: field {} has type {}", number_, type_));
  }
  [[noreturn]] void cut_short() const { tokenizer::fail(source_, "the SentencePiece model is cut short"); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) cut_short();
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    tokenizer::fail(source_, "no SentencePiece model: a number of more than 64 bits");
  }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) cut_short();
    const auto taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_, source_;
  std::uint64_t number_ = 0, type_ = 0, integer_ = 0;
  std::string_view bytes_;
};

enum ModelType { unigram = 1, bpe = 2 };

struct Contents {
  std::vector<Token> pieces;
  int model_type = unigram;
  bool byte_fallback = false, whitespace_as_suffix = false, escapes_spaces = true;
  std::int32_t unknown = 0, bos = 1, eos = 2, padding = -1;
  SentencePieceText text{.remove_extra_spaces = true};
};

Token read_piece(std::string_view bytes, std::string_view source) {
  constexpr TokenKind kinds[] = {TokenKind::normal,       TokenKind::unknown, TokenKind::control,
                                 TokenKind::user_defined, TokenKind::unused,  TokenKind::byte};
  Token token;
  for (Message field(bytes, source); field.next();) {
    if (field.number() == 1) token.text = field.bytes();
    if (field.number() == 2) token.score = field.real();
    if (field.number() == 3) {
      const auto kind = field.integer();
      if (kind < 1 || kind > 6) fail(source, fmt::format("a piece of the unknown type {}", kind));
      token.kind = kinds[kind - 1];
    }
  }
  // Pieces are written as normalised text is.
  token.in_normalised_text = token.kind == TokenKind::user_defined;
  return token;
}

void read_trainer(std::string_view bytes, std::string_view source, Contents& contents) {
  for (Message field(bytes, source); field.next();) switch (field.number()) {
      case 3:
        contents.model_type = field.integer();
        break;
      case 24:
        contents.whitespace_as_suffix = field.flag();
        break;
      case 35:
        contents.byte_fallback = field.flag();
        break;
      case 40:
        contents.unknown = field.integer();
        break;
      case 41:
        contents.bos = field.integer();
        break;
      case 42:
        contents.eos = field.integer();
        break;
      case 43:
        contents.padding = field.integer();
        break;
      default:
        break;
    }
}

void read_normaliser(std::string_view bytes, std::string_view source, Contents& contents) {
  for (Message field(bytes, source); field.next();) switch (field.number()) {
      case 2:
        contents.text.character_map = field.bytes();
        break;
      case 3:
        contents.text.add_prefix = field.flag();
        break;
      case 4:
        contents.text.remove_extra_spaces = field.flag();
        break;
      case 5:
        contents.escapes_spaces = field.flag();
        break;
      default:
        break;
    }
}

Contents read_contents(std::string_view bytes, std::string_view source) {
  Contents contents;
  for (Message field(bytes, source); field.next();) {
    if (field.number() == 1) contents.pieces.push_back(read_piece(field.bytes(), source));
    if (field.number() == 2) read_trainer(field.bytes(), source, contents);
    if (field.number() == 3) read_normaliser(field.bytes(), source, contents);
  }
  return contents;
}

}  // namespace

Definition read_sentencepiece(std::string_view bytes, std::string_view source) {
  auto contents = read_contents(bytes, source);
  if (contents.pieces.empty()) fail(source, "no SentencePiece model: it has no pieces");
  if (contents.whitespace_as_suffix) fail(source, "white space as a suffix is not supported");
  if (!contents.escapes_spaces) fail(source, "spaces that are not escaped are not supported");

  Definition definition;
  definition.source = source;
  definition.tokens = std::move(contents.pieces);
  if (contents.model_type == bpe)
    definition.model = BpeModel{{.byte_fallback = contents.byte_fallback, .fuse_unknown = true}};
  else if (contents.model_type == unigram)
    definition.model = UnigramModel{contents.byte_fallback};
  else
    fail(source, fmt::format("model type {}; 1 (unigram) and 2 (BPE) are supported", contents.model_type));
  use_sentencepiece_text(contents.text, definition);

  // The trainer's numbers; a model may have been changed since, so they count only where such tokens are.
  const auto special = [&](std::int32_t id, TokenKind kind) {
    const bool there = id >= 0 && static_cast<std::size_t>(id) < definition.tokens.size();
    return there && definition.tokens[static_cast<std::size_t>(id)].kind == kind ? std::optional(id)
                                                                                 : std::nullopt;
  };
  definition.special = {.bos = special(contents.bos, TokenKind::control),
                        .eos = special(contents.eos, TokenKind::control),
                        .unknown = special(contents.unknown, TokenKind::unknown),
                        .padding = special(contents.padding, TokenKind::control)};
  // The file does not say what goes around a text. Llama's and Mistral's begin, T5's end.
  if (definition.special.bos)
    definition.prefix = {*definition.special.bos};
  else if (definition.special.eos)
    definition.suffix = {*definition.special.eos};
  return definition;
}

}  // namespace hearth::tokenizer
