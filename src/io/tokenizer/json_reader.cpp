// tokenizer.json of Hugging Face's tokenizers.
#include <fmt/format.h>

#include <algorithm>

#include "io/bytes.h"
#include "io/tokenizer/json_document.h"
#include "io/tokenizer/json_steps.h"
#include "io/tokenizer/normaliser.h"
#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/readers.h"

namespace hearth::tokenizer {
namespace {

using nlohmann::json;

class JsonReader {
 public:
  JsonReader(JsonDocument document, std::string_view source) : document_(std::move(document)) {
    definition_.source = source;
  }

  Definition read() {
    const JsonFields root(document_.tree, "the file", definition_.source);
    const auto model = root.object("model");
    if (!model) fail("no model");
    const auto type = model->text("type").value_or(document_.merges.empty() ? "WordPiece" : "BPE");
    read_vocabulary();
    read_added_tokens(root);
    definition_.normaliser = read_normaliser(root.object("normalizer"));
    search_normalised_texts();
    auto pre_tokeniser = read_pre_tokeniser(root.object("pre_tokenizer"));
    definition_.pre_tokeniser = std::move(pre_tokeniser.steps);
    drop_cuts_at_spaces();
    if (type == "BPE")
      read_bpe(*model, pre_tokeniser.byte_level);
    else if (type == "Unigram")
      read_unigram(*model);
    else if (type == "WordPiece")
      read_word_piece(*model);
    else
      fail(fmt::format("unknown model {}; BPE, Unigram and WordPiece are known", io::show(type)));
    read_post_processor(root.object("post_processor"), definition_);
    read_decoder(root.object("decoder"), definition_);
    return std::move(definition_);
  }

 private:
  [[noreturn]] void fail(const std::string& rule) const { tokenizer::fail(definition_.source, rule); }

  void read_vocabulary() {
    const auto count = document_.ids.size();
    for (auto& [text, id] : document_.ids) {
      auto& token = token_at(definition_, id, count);
      if (text.empty()) continue;
      if (!token.text.empty())
        fail(fmt::format("the tokens {} and {} both have the id {}", io::show(token.text), io::show(text),
                         id));
      token.text = std::move(text);
    }
    for (auto& [text, score] : document_.scores) {
      definition_.tokens.push_back({std::move(text), static_cast<float>(score)});
    }
  }

  void read_added_tokens(const JsonFields& root) {
    const auto added = root.list("added_tokens");
    const auto count = definition_.tokens.size() + added.size();
    for (const auto& fields : added) {
      const auto text = fields.text("content").value_or("");
      const auto id = fields.integer("id");
      if (text.empty() || !id) fail("an added token without content or id");
      auto& token = token_at(definition_, *id, count);
      if (!token.text.empty() && token.text != text)
        fail(
            fmt::format("the added token {} has the id {} of {}", io::show(text), *id, io::show(token.text)));
      token.text = text;
      token.kind = fields.flag("special", false) ? TokenKind::control : TokenKind::user_defined;
      token.strip_left = fields.flag("lstrip", false);
      token.strip_right = fields.flag("rstrip", false);
      token.single_word = fields.flag("single_word", false);
      token.in_normalised_text = fields.flag("normalized", token.kind == TokenKind::user_defined);
    }
  }

  // What is looked for in normalised text is normalised itself.
  void search_normalised_texts() {
    const Normaliser normaliser(definition_.normaliser, definition_.source);
    for (auto& token : definition_.tokens)
      if (token.in_normalised_text) token.searched = normaliser.apply(token.text, true);
  }

  // Gemma's text is cut at spaces when all of them have become marks: into one piece, as without.
  void drop_cuts_at_spaces() {
    const auto& normaliser = definition_.normaliser;
    const auto* last = normaliser.empty() ? nullptr : std::get_if<ReplaceStep>(&normaliser.back());
    if (!last || last->is_pattern || last->what != " " || last->by.find(' ') != last->by.npos) return;
    auto& steps = definition_.pre_tokeniser;
    const auto finds_something = [](const PreTokeniserStep& step) {
      const auto* split = std::get_if<SplitStep>(&step);
      return !split || split->is_pattern || split->what != " " || split->invert;
    };
    steps.erase(steps.begin(), std::ranges::find_if(steps, finds_something));
  }

  void use_unknown(const std::optional<std::string>& text) {
    if (!text || text->empty()) return;
    definition_.special.unknown = find_token(definition_, *text);
    if (!definition_.special.unknown)
      fail(fmt::format("the unknown token {} is not in the vocabulary", io::show(*text)));
  }

  void read_bpe(const JsonFields& model, bool byte_level) {
    for (const auto* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!model.text(name).value_or("").empty()) fail(fmt::format("model.{} is not supported", name));
    use_unknown(model.text("unk_token"));
    std::vector<std::pair<std::string_view, std::string_view>> merges(document_.merges.begin(),
                                                                      document_.merges.end());
    const BpeOptions options{.symbols = byte_level ? BpeSymbols::bytes_as_characters : BpeSymbols::characters,
                             .byte_fallback = model.flag("byte_fallback", false),
                             .fuse_unknown = model.flag("fuse_unk", false),
                             .whole_pieces_first = model.flag("ignore_merges", false)};
    definition_.model = BpeModel{options, resolve_merges(definition_, merges)};
  }

  void read_unigram(const JsonFields& model) {
    if (const auto id = model.integer("unk_id")) {
      if (*id < 0 || *id >= static_cast<std::int64_t>(definition_.tokens.size()))
        fail(fmt::format("model.unk_id is {}, and there are {} tokens", *id, definition_.tokens.size()));
      definition_.special.unknown = static_cast<TokenId>(*id);
      definition_.tokens[static_cast<std::size_t>(*id)].kind = TokenKind::unknown;
    }
    definition_.model = UnigramModel{model.flag("byte_fallback", false)};
  }

  void read_word_piece(const JsonFields& model) {
    use_unknown(model.text("unk_token").value_or("[UNK]"));
    definition_.model = WordPieceModel{.continuation = model.text("continuing_subword_prefix").value_or("##"),
                                       .longest_word = static_cast<std::size_t>(std::clamp<std::int64_t>(
                                           model.integer("max_input_chars_per_word").value_or(100), 0, 200))};
  }

  JsonDocument document_;
  Definition definition_;
};

}  // namespace

Definition read_tokenizer_json(std::string_view text, std::string_view source) {
  return JsonReader(parse_tokenizer_json(text, source), source).read();
}

}  // namespace hearth::tokenizer
