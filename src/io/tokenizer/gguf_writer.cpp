// Tokenizers to the metadata of GGUF files.
#include "io/tokenizer/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/bytes.h"
#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/byte_tokens.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/model.h"
#include "io/tokenizer/normaliser.h"
#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/utf8.h"

namespace hearth::tokenizer {
namespace {

// The reverse of what the reader of GGUF files does.
std::int32_t number_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::unknown:
      return 2;
    case TokenKind::control:
      return 3;
    case TokenKind::user_defined:
      return 4;
    case TokenKind::unused:
      return 5;
    case TokenKind::byte:
      return 6;
    case TokenKind::normal:
      break;
  }
  return 1;
}

class GgufTokenizerWriter {
 public:
  GgufTokenizerWriter(const Definition& definition, std::size_t size, std::string_view architecture)
      : definition_(definition), size_(size), architecture_(architecture) {}

  GgufTokenizer write() {
    if (definition_.tokens.size() > size_)
      fail(definition_.source,
           fmt::format("{} tokens, and the model has {}", definition_.tokens.size(), size_));
    const auto* bpe = std::get_if<BpeModel>(&definition_.model);
    if (!bpe || bpe->options.symbols == BpeSymbols::bytes)
      fail(definition_.source, "only byte-level and SentencePiece's BPE can be written to GGUF files");
    scores_.assign(size_, 0);
    const bool byte_level = bpe->options.symbols == BpeSymbols::bytes_as_characters;
    if (byte_level)
      write_byte_level(*bpe);
    else
      write_sentencepiece(*bpe);
    write_tokens(!byte_level);
    write_special(!byte_level);
    return std::move(result_);
  }

 private:
  void set(std::string_view name, GgufValue value) {
    result_.metadata.insert_or_assign(fmt::format("tokenizer.ggml.{}", name), std::move(value));
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(definition_.source, fmt::format("{} cannot be written to a GGUF file", what));
  }

  void write_byte_level(const BpeModel& bpe) {
    KnownPreTokeniser pre;
    pre.whole_pieces_first = bpe.options.whole_pieces_first;
    for (const auto& step : definition_.normaliser) {
      const auto* form = std::get_if<NormalFormStep>(&step);
      if (!form || form->form != NormalForm::nfc) refuse("its normaliser");
      pre.nfc = true;
    }
    for (const auto& step : definition_.pre_tokeniser) {
      const auto* split = std::get_if<SplitStep>(&step);
      if (!split || !split->is_pattern || !cuts_around_matches(*split)) refuse("its pre-tokeniser");
      pre.patterns.push_back(split->what);
    }
    auto name = pre_tokeniser_name(pre);
    // No name says it of GPT-OSS's, where it makes no difference.
    if (!name && std::exchange(pre.whole_pieces_first, false)) {
      name = pre_tokeniser_name(pre);
      if (const std::size_t count = name ? tokens_without_merges(bpe) : 0; count > 0)
        result_.lost.push_back(fmt::format("that {} tokens stay whole which no merges make", count));
    }
    if (!name) refuse("its pre-tokeniser, which has no name there,");
    set("model", std::string("gpt2"));
    set("pre", std::string(*name));
    write_merges(*bpe.merges);
  }

  // Whether all stays, the matches of the pattern and what is between them. Phi-4 leaves out what is between
  // the matches of a pattern that matches everything.
  static bool cuts_around_matches(const SplitStep& split) {
    if (split.behaviour == SplitBehaviour::isolated) return !split.invert;
    const auto patterns = {gpt2_pattern(), cl100k_pattern(), o200k_pattern()};
    return split.behaviour == SplitBehaviour::removed && split.invert &&
           std::ranges::find(patterns, split.what) != patterns.end();
  }

  // Of those that a piece can be, how many its parts do not merge into.
  std::size_t tokens_without_merges(const BpeModel& bpe) const {
    const Vocabulary vocabulary(definition_.tokens, definition_.source);
    BpeModel merging = bpe;
    merging.options.whole_pieces_first = false;
    const auto model = make_bpe(merging, vocabulary, definition_.special);
    Workspace workspace;
    std::size_t count = 0;
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      const auto piece = from_byte_characters(vocabulary[id].text);
      if (vocabulary[id].kind != TokenKind::normal || !piece || piece->empty() || !is_utf8(*piece)) continue;
      std::vector<TokenId> tokens;
      model->encode(*piece, workspace, tokens);
      count += tokens != std::vector{id};
    }
    return count;
  }

  static bool is_collapsing(const NormaliserStep& step) {
    return std::holds_alternative<CollapseSpacesStep>(step);
  }
  static bool is_collapsing(const PreTokeniserStep&) { return false; }

  // Text with " " as the mark and one more in front; GGUF leaves that to the name of the model.
  void write_sentencepiece(const BpeModel& bpe) {
    bool prefix = false, marks = false, collapses = false;
    const auto read = [&](const auto& steps) {
      for (const auto& step : steps) {
        const auto* prepend = std::get_if<PrependStep>(&step);
        const auto* replace = std::get_if<ReplaceStep>(&step);
        if (prepend && (prepend->only_at_start || prepend->only_if_missing))
          result_.lost.push_back("that not every part of a text gets a space before it");
        if (prepend && (prepend->text == space_mark || prepend->text == " "))
          prefix = true;
        else if (replace && replace->what == " " && replace->by == space_mark)
          marks = true;
        else if (is_collapsing(step))
          collapses = true;
        else
          refuse("what it does with a text");
      }
    };
    read(definition_.normaliser);
    read(definition_.pre_tokeniser);
    if (!marks) refuse("a vocabulary whose tokens are neither bytes nor SentencePiece's");
    set("model", std::string("llama"));
    set("pre", std::string("default"));
    set("add_space_prefix", prefix);
    if (collapses) set("remove_extra_whitespaces", true);
    if (bpe.merges)
      score_merges(*bpe.merges);
    else
      for (std::size_t i = 0; i < definition_.tokens.size(); ++i) scores_[i] = definition_.tokens[i].score;
  }

  // GGUF has no ranks here, only scores: of all neighbours that together are a token, those are merged whose
  // token has the highest. Which pair makes a token follows from that (see bpe.cpp), so that a score for each
  // token says as much as the ranks do, if merges with one result are neighbours among them. What no merge
  // makes comes last.
  void score_merges(const std::vector<Merge>& merges) {
    scores_.assign(size_, -static_cast<float>(merges.size()));
    const auto result = [&](std::size_t rank) { return static_cast<std::size_t>(merges[rank].result); };
    std::vector<std::size_t> last(size_);
    for (std::size_t rank = 0; rank < merges.size(); ++rank) last[result(rank)] = rank;
    for (std::size_t first = 0, end; first < merges.size(); first = end) {
      end = last[result(first)] + 1;
      for (std::size_t rank = first; rank < end; ++rank) {
        end = std::max(end, last[result(rank)] + 1);
        if (result(rank) != result(first) && !(may_be_equal(result(first)) && may_be_equal(result(rank))))
          refuse("an order of merges that no scores have");
        scores_[result(rank)] = -static_cast<float>(first);
      }
    }
  }

  // Tokens whose merges may come in any order among each other: those that a text is cut at before anything
  // is merged, and runs of spaces, of which the leftmost grows first in any case.
  bool may_be_equal(std::size_t id) const {
    const Token& token = definition_.tokens[id];
    std::string rest = token.text;
    replace_all(rest, space_mark, "");
    return token.kind == TokenKind::user_defined && (rest.empty() || rest.size() == token.text.size());
  }

  void write_merges(const std::vector<Merge>& merges) {
    std::vector<std::string> texts;
    texts.reserve(merges.size());
    const auto text = [&](TokenId id) -> const std::string& {
      return definition_.tokens[static_cast<std::size_t>(id)].text;
    };
    for (const auto& merge : merges) texts.push_back(text(merge.left) + ' ' + text(merge.right));
    set("merges", GgufArray{std::move(texts)});
  }

  // Only what is looked for in text does anything with what is beside it.
  void note_spaces_beside(const Token& token, bool sentencepiece) {
    if (token.kind != TokenKind::control && token.kind != TokenKind::user_defined) return;
    const bool strips_right = sentencepiece && gguf_strips_right(architecture_, token);
    if (token.single_word || token.strip_left || token.strip_right != strips_right)
      result_.lost.push_back(fmt::format("what token {} does with the text beside it", io::show(token.text)));
  }

  void write_tokens(bool with_scores) {
    std::vector<std::string> texts(size_);
    std::vector<std::int32_t> kinds(size_, number_of(TokenKind::unused));
    for (std::size_t i = 0; i < size_; ++i) {
      const Token* token = i < definition_.tokens.size() ? &definition_.tokens[i] : nullptr;
      if (!token || token->text.empty()) {
        texts[i] = fmt::format("[PAD{}]", i);
        continue;
      }
      note_spaces_beside(*token, with_scores);
      texts[i] = token->text;
      TokenKind kind = token->kind;
      if (definition_.special.unknown == static_cast<TokenId>(i)) kind = TokenKind::unknown;
      if (with_scores && kind == TokenKind::normal && byte_of_token_text(token->text)) kind = TokenKind::byte;
      kinds[i] = number_of(kind);
    }
    set("tokens", GgufArray{std::move(texts)});
    set("token_type", GgufArray{std::move(kinds)});
    if (with_scores) set("scores", GgufArray{std::move(scores_)});
  }

  // Where there are defaults, what is absent has to be said: no id is this large.
  void write_special(bool with_defaults) {
    const auto& special = definition_.special;
    const auto write = [&](std::string_view name, std::optional<TokenId> id) {
      if (id) set(name, static_cast<std::uint32_t>(*id));
    };
    const auto write_with_default = [&](std::string_view name, std::optional<TokenId> id) {
      write(name, id);
      if (!id && with_defaults) set(name, std::uint32_t{0xffffffff});
    };
    write_with_default("bos_token_id", special.bos);
    write_with_default("eos_token_id", special.eos);
    write_with_default("unknown_token_id", special.unknown);
    write("padding_token_id", special.padding);
    write("seperator_token_id", special.separator);  // as it is spelled there
    write("mask_token_id", special.mask);
    write("eot_token_id", special.end_of_turn);
    write("eom_token_id", special.end_of_message);
    const auto around = [&](std::string_view name, const std::vector<TokenId>& tokens,
                            std::optional<TokenId> id) {
      if (!tokens.empty() && tokens != std::vector{id.value_or(-1)}) refuse("what it puts around a text");
      set(name, !tokens.empty());
    };
    around("add_bos_token", definition_.prefix, special.bos);
    around("add_eos_token", definition_.suffix, special.eos);
  }

  const Definition& definition_;
  const std::size_t size_;
  const std::string_view architecture_;
  std::vector<float> scores_;
  GgufTokenizer result_;
};

}  // namespace

GgufTokenizer to_gguf(const Definition& definition, std::size_t size, std::string_view architecture) {
  return GgufTokenizerWriter(definition, size, architecture).write();
}

}  // namespace hearth::tokenizer
