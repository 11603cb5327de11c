// Tokenizers in the metadata of GGUF files.
#include <fmt/format.h>

#include "io/bytes.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/reader_support.h"
#include "io/tokenizer/readers.h"

namespace hearth::tokenizer {
namespace {

// Of token_type: 1 to 6.
TokenKind kind_of(std::int64_t number) {
  switch (number) {
    case 2:
      return TokenKind::unknown;
    case 3:
      return TokenKind::control;
    case 4:
      return TokenKind::user_defined;
    case 5:
      return TokenKind::unused;
    case 6:
      return TokenKind::byte;
    default:
      return TokenKind::normal;
  }
}

class GgufReader {
 public:
  explicit GgufReader(const GgufFile& file) : file_(file) { definition_.source = file.path().string(); }

  Definition read() {
    const auto model = require<std::string>("model");
    read_tokens();
    if (model == "gpt2")
      read_byte_level();
    else if (model == "llama")
      read_sentencepiece_model(BpeModel{{.byte_fallback = true, .fuse_unknown = true}},
                               {.bos = 1, .eos = 2, .unknown = 0});
    else if (model == "t5")
      read_sentencepiece_model(UnigramModel{}, {.eos = 1, .unknown = 2, .padding = 0});
    else if (model == "bert")
      read_bert();
    else
      fail(definition_.source,
           fmt::format("unknown tokenizer model {}; gpt2, llama, t5 and bert are known", io::show(model)));
    read_missing_attributes();
    return std::move(definition_);
  }

 private:
  static std::string key(std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); }
  template <typename T>
  std::optional<T> get(std::string_view name) const {
    return file_.get<T>(key(name));
  }
  template <typename T>
  T require(std::string_view name) const {
    return file_.require<T>(key(name));
  }

  void read_tokens() {
    auto texts = require<std::vector<std::string>>("tokens");
    const auto scores = get<std::vector<double>>("scores");
    const auto kinds = get<std::vector<std::int64_t>>("token_type");
    const auto check = [&](std::size_t size, const char* what) {
      if (size != texts.size())
        fail(definition_.source, fmt::format("{} tokens have {} {}", texts.size(), size, what));
    };
    if (scores) check(scores->size(), "scores");
    if (kinds) check(kinds->size(), "types");
    definition_.tokens.resize(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      auto& token = definition_.tokens[i];
      token.text = std::move(texts[i]);
      if (scores) token.score = static_cast<float>((*scores)[i]);
      if (kinds) token.kind = kind_of((*kinds)[i]);
    }
  }

  void read_special(const SpecialTokens& defaults) {
    const auto read = [&](std::string_view name, std::optional<TokenId> without) -> std::optional<TokenId> {
      const auto id = get<std::int64_t>(name);
      if (!id)
        return without && static_cast<std::size_t>(*without) < definition_.tokens.size() ? without
                                                                                         : std::nullopt;
      if (*id == 0xffffffff || *id == -1) return std::nullopt;
      if (*id < 0 || static_cast<std::size_t>(*id) >= definition_.tokens.size())
        fail(definition_.source,
             fmt::format("{} is {}, and there are {} tokens", key(name), *id, definition_.tokens.size()));
      return static_cast<TokenId>(*id);
    };
    definition_.special = {
        .bos = read("bos_token_id", defaults.bos),
        .eos = read("eos_token_id", defaults.eos),
        .unknown = read("unknown_token_id", defaults.unknown),
        .padding = read("padding_token_id", defaults.padding),
        .separator = read("seperator_token_id", defaults.separator),  // as it is spelled there
        .mask = read("mask_token_id", defaults.mask),
        .end_of_turn = read("eot_token_id", defaults.end_of_turn),
        .end_of_message = read("eom_token_id", defaults.end_of_message)};
  }

  void add_around(bool bos, bool eos, bool separator = false) {
    const auto add = [&](bool without, std::string_view name, std::optional<TokenId> id,
                         std::vector<TokenId>& to) {
      if (!get<bool>(name).value_or(without)) return;
      if (!id) fail(definition_.source, fmt::format("{} is true, but there is no such token", key(name)));
      to.push_back(*id);
    };
    add(bos, "add_bos_token", definition_.special.bos, definition_.prefix);
    add(separator, "add_sep_token", definition_.special.separator, definition_.suffix);
    add(eos, "add_eos_token", definition_.special.eos, definition_.suffix);
  }

  void read_byte_level() {
    read_special({});
    const auto name = get<std::string>("pre").value_or("default");
    const auto known = find_pre_tokeniser(name);
    if (!known)
      fail(definition_.source, fmt::format("unknown pre-tokeniser {} ({})", io::show(name), key("pre")));
    if (known->nfc) definition_.normaliser.emplace_back(NormalFormStep{NormalForm::nfc});
    if (get<bool>("add_space_prefix").value_or(false)) definition_.normaliser.emplace_back(PrependStep{" "});
    for (const auto& pattern : known->patterns) definition_.pre_tokeniser.emplace_back(SplitStep{pattern});

    const auto texts = require<std::vector<std::string>>("merges");
    std::vector<std::pair<std::string_view, std::string_view>> merges;
    merges.reserve(texts.size());
    for (const auto& text : texts) merges.push_back(split_merge(text, merges.size(), definition_.source));
    definition_.model = BpeModel{
        {.symbols = BpeSymbols::bytes_as_characters, .whole_pieces_first = known->whole_pieces_first},
        resolve_merges(definition_, merges)};
    definition_.decoder = {DecodeBytesStep{}};
    const bool bos = known->adds_bos && definition_.special.bos;
    add_around(bos, false, name == "roberta-bpe" || name == "jina-v1-en" || name == "jina-v2-code");
  }

  void read_sentencepiece_model(const std::variant<BpeModel, UnigramModel>& model,
                                const SpecialTokens& defaults) {
    const bool unigram = std::holds_alternative<UnigramModel>(model);
    read_special(defaults);
    if (get<bool>("treat_whitespace_as_suffix").value_or(false))
      fail(definition_.source, "white space as a suffix is not supported");
    SentencePieceText text{.add_prefix = get<bool>("add_space_prefix").value_or(!unigram),
                           .remove_extra_spaces = get<bool>("remove_extra_whitespaces").value_or(false)};
    if (const auto map = get<std::vector<std::int64_t>>("precompiled_charsmap"))
      for (const auto byte : *map) text.character_map += static_cast<char>(byte);
    use_sentencepiece_text(text, definition_);
    std::visit([&](const auto& alternative) { definition_.model = alternative; }, model);
    add_around(!unigram, unigram);
  }

  // The vocabulary marks what begins a word, not what goes on.
  void read_bert() {
    read_special({.bos = 101, .unknown = 100, .padding = 0, .separator = 102, .mask = 103});
    if (const auto id = get<std::int64_t>("cls_token_id");
        id && *id >= 0 && *id < std::int64_t(definition_.tokens.size()))
      definition_.special.bos = static_cast<TokenId>(*id);
    definition_.normaliser = {BertCleanStep{}, NormalFormStep{NormalForm::nfd}, StripMarksStep{},
                              LowercaseStep{}};
    definition_.pre_tokeniser = {SplitStep{R"(\s+)", true, SplitBehaviour::removed},
                                 SplitStep{R"([\p{P}!-/:-@\[-`{-~])"}};
    definition_.model = WordPieceModel{.continuation = "", .beginning = std::string(space_mark)};
    definition_.decoder = {ReplaceStep{std::string(space_mark), " "}};
    definition_.strip_first_space = true;
    add_around(true, false, true);
  }

  void read_missing_attributes() {
    if (require<std::string>("model") != "llama") return;
    const auto architecture = file_.get<std::string>("general.architecture").value_or("");
    for (auto& token : definition_.tokens) token.strip_right = gguf_strips_right(architecture, token);
  }

  const GgufFile& file_;
  Definition definition_;
};

}  // namespace

Definition read_gguf(const GgufFile& file) { return GgufReader(file).read(); }

}  // namespace hearth::tokenizer
