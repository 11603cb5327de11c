// Tokenizers: the vectors that llama.cpp publishes with real vocabularies, ids that the reference packages
// compute, and what must hold for any text. Bad files are in the corpus (fuzz_corpus_test); here are those
// whose message matters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/tokenizer.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/pre_tokeniser.h"
#include "io/tokenizer/readers.h"
#include "io/tokenizer/utf8.h"
#include "temporary_folder.h"
#include "tokenizer_libraries.h"

namespace hearth {
namespace {

using nlohmann::json;
using test::expect_error;
using test::TemporaryFolder;

const std::string shared = HEARTH_SHARED_DIR "/";
constexpr EncodeOptions plain{.add_special = false, .parse_special = false};

using Ids = std::vector<TokenId>;

// ---- vectors

struct Vector {
  std::string text;
  Ids ids;
};

std::vector<Vector> read_vectors(const std::string& name) {
  const std::string texts = read_text_file(shared + "tokenizers/vectors/ggml-vocab-" + name + ".gguf.inp");
  std::istringstream ids(read_text_file(shared + "tokenizers/vectors/ggml-vocab-" + name + ".gguf.out"));
  constexpr std::string_view separator = "\n__ggml_vocab_test__\n";
  std::vector<Vector> vectors;
  for (std::size_t begin = 0; begin < texts.size();) {
    const auto end = std::min(texts.find(separator, begin), texts.size());
    Vector vector{texts.substr(begin, end - begin), {}};
    std::string line;
    std::getline(ids, line);
    std::istringstream numbers(line);
    for (TokenId id; numbers >> id;) vector.ids.push_back(id);
    vectors.push_back(std::move(vector));
    begin = end + separator.size();
  }
  return vectors;
}

void expect_vectors(const Tokenizer& tokenizer, const std::string& name) {
  const auto vectors = read_vectors(name);
  EXPECT_GT(vectors.size(), 40u);
  for (const auto& [text, ids] : vectors) {
    EXPECT_EQ(tokenizer.encode(text, plain), ids) << name << ": " << text;
    EXPECT_EQ(tokenizer.decode(ids), text) << name;
  }
}

TEST(TokenizerVectors, Gguf) {
  SKIP_WITHOUT_TOKENIZERS();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no vocabularies in " << shared;
  for (const std::string name : {"gpt-2", "phi-3", "deepseek-coder", "deepseek-llm", "falcon", "mpt"}) {
    SCOPED_TRACE(name);
    expect_vectors(Tokenizer::load(shared + "tokenizers/vectors/ggml-vocab-" + name + ".gguf"), name);
  }
}

TEST(TokenizerVectors, Qwen2) {
  SKIP_WITHOUT_TOKENIZERS();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no vocabularies in " << shared;
  expect_vectors(Tokenizer::load(shared + "tokenizers/qwen2.5"), "qwen2");
}

// ---- against the reference packages

struct Golden {
  json file = json::parse(read_text_file(HEARTH_GOLDEN_DIR "/tokenizers/golden.json"));
  std::vector<std::string> texts;

  Golden() {
    for (const auto& text : file["texts"]) texts.push_back(text);
    for (const auto& hex : file["bad_utf8"]) texts.push_back(from_hex(hex));
  }
  static std::string from_hex(const std::string& hex) {
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
  }
};

void expect_golden(const Tokenizer& tokenizer, const Golden& golden, const json& expected) {
  const auto expect = [&](const char* mode, const EncodeOptions& options) {
    if (!expected.contains(mode)) return;
    ASSERT_EQ(expected[mode].size(), golden.texts.size());
    for (std::size_t i = 0; i < golden.texts.size(); ++i)
      if (!expected[mode][i].is_null()) {
        EXPECT_EQ(tokenizer.encode(golden.texts[i], options), expected[mode][i].get<Ids>())
            << mode << " " << i << ": " << golden.texts[i];
      }
  };
  expect("plain", {.add_special = false, .parse_special = false});
  expect("parsed", {.add_special = false, .parse_special = true});
  expect("around", {.add_special = true, .parse_special = true});
  if (!expected.contains("decoded")) return;
  for (std::size_t i = 0; i < golden.texts.size(); ++i)
    if (const auto& text = expected["decoded"][i]; !text.is_null()) {
      EXPECT_EQ(tokenizer.decode(expected["plain"][i].get<Ids>()), text.get<std::string>()) << i;
    }
}

TEST(TokenizerGolden, SmallTokenizers) {
  SKIP_WITHOUT_TOKENIZERS();
  const Golden golden;
  EXPECT_EQ(golden.file["local"].size(), 9u);
  for (const auto& [name, expected] : golden.file["local"].items()) {
    SCOPED_TRACE(name);
    expect_golden(Tokenizer::load(HEARTH_GOLDEN_DIR "/tokenizers/" + name), golden, expected);
  }
}

TEST(TokenizerGolden, SentencePieceNeedsNoLibrary) {
  const Golden golden;
  for (const std::string name : {"sp_bpe.model", "sp_unigram.model", "sp_unigram_bytes.model"}) {
    SCOPED_TRACE(name);
    expect_golden(Tokenizer::load(HEARTH_GOLDEN_DIR "/tokenizers/" + name), golden,
                  golden.file["local"][name]);
  }
}

TEST(TokenizerGolden, MissingLibrariesAreNamed) {
  if (test::has_tokenizers) GTEST_SKIP() << "this build has PCRE2 and utf8proc";
#ifndef HEARTH_HAVE_PCRE2
  expect_error<Error>([] { Tokenizer::load(HEARTH_GOLDEN_DIR "/tokenizers/llama_3.json"); },
                      {"llama_3.json", "needs PCRE2", "libpcre2-dev"});
#endif
#ifndef HEARTH_HAVE_UTF8PROC
  expect_error<Error>([] { Tokenizer::load(HEARTH_GOLDEN_DIR "/tokenizers/unigram.json"); },
                      {"unigram.json", "needs utf8proc", "libutf8proc-dev"});
#endif
}

TEST(TokenizerGolden, RealVocabularies) {
  SKIP_WITHOUT_TOKENIZERS();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no vocabularies in " << shared;
  const Golden golden;
  EXPECT_EQ(golden.file["shared"].size(), 8u);
  for (const auto& [name, expected] : golden.file["shared"].items()) {
    SCOPED_TRACE(name);
    expect_golden(Tokenizer::load(shared + name), golden, expected);
  }
}

std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

TEST(TokenizerGolden, PreTokenisersByName) {
  SKIP_WITHOUT_TOKENIZERS();
  const Golden golden;
  for (const auto& [name, expected] : golden.file["pieces"].items()) {
    SCOPED_TRACE(name);
    const auto known = tokenizer::find_pre_tokeniser(name);
    ASSERT_TRUE(known);
    std::vector<tokenizer::PreTokeniserStep> steps;
    for (const auto& pattern : known->patterns) steps.emplace_back(tokenizer::SplitStep{pattern});
    const tokenizer::PreTokeniser pre_tokeniser(steps, "test");
    for (std::size_t i = 0; i < golden.texts.size(); ++i) {
      const auto text = tokenizer::repaired(golden.texts[i]);
      tokenizer::Pieces pieces;
      pieces.begin(text);
      pre_tokeniser.cut(pieces, true);
      std::vector<std::int64_t> lengths;
      for (std::size_t piece = 0; piece < pieces.spans.size(); ++piece)
        lengths.push_back(count_characters(pieces[piece]));
      EXPECT_EQ(lengths, expected[i].get<std::vector<std::int64_t>>()) << i << ": " << text;
    }
  }
}

// A definition as metadata of a GGUF file, as far as it can say it.
Tokenizer through_gguf(const tokenizer::Definition& definition, GgufMetadata metadata) {
  TemporaryFolder folder;
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  for (const auto& token : definition.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    kinds.push_back(static_cast<std::int32_t>(token.kind) + 1);  // in the same order
  }
  metadata["tokenizer.ggml.tokens"] = GgufArray{texts};
  metadata["tokenizer.ggml.scores"] = GgufArray{scores};
  metadata["tokenizer.ggml.token_type"] = GgufArray{kinds};
  GgufWriter(folder / "f.gguf", metadata, {}).commit();
  return Tokenizer::load(folder / "f.gguf");
}

TEST(TokenizerGolden, OtherModelsInGguf) {
  SKIP_WITHOUT_TOKENIZERS();
  const Golden golden;
  // But for texts with something that GGUF files cannot say.
  const auto expect_plain = [&](const Tokenizer& tokenizer, const std::string& name,
                                std::initializer_list<std::string_view> without) {
    SCOPED_TRACE(name);
    const auto& expected = golden.file["local"][name]["plain"];
    for (std::size_t i = 0; i < golden.texts.size(); ++i) {
      const auto& text = golden.texts[i];
      if (expected[i].is_null() ||
          std::ranges::any_of(without, [&](std::string_view part) { return text.find(part) != text.npos; }))
        continue;
      EXPECT_EQ(tokenizer.encode(text, plain), expected[i].get<Ids>()) << i << ": " << text;
    }
  };
  const auto model = [&](const std::string& name) {
    return tokenizer::read_sentencepiece(read_text_file(HEARTH_GOLDEN_DIR "/tokenizers/" + name), name);
  };
  const auto unigram = model("sp_unigram.model");
  std::vector<std::uint8_t> map;
  for (const char byte : std::get<tokenizer::CharacterMapStep>(unigram.normaliser.at(0)).table)
    map.push_back(static_cast<std::uint8_t>(byte));
  const auto t5 = through_gguf(unigram, {{"tokenizer.ggml.model", "t5"},
                                         {"tokenizer.ggml.add_space_prefix", true},
                                         {"tokenizer.ggml.remove_extra_whitespaces", true},
                                         {"tokenizer.ggml.unknown_token_id", std::uint32_t{0}},
                                         {"tokenizer.ggml.eos_token_id", std::uint32_t{2}},
                                         {"tokenizer.ggml.precompiled_charsmap", GgufArray{map}}});
  expect_plain(t5, "sp_unigram.model", {"<sep>", "[INST]"});  // behind them a text begins anew
  EXPECT_TRUE(t5.adds_eos());

  expect_plain(through_gguf(model("sp_bpe.model"), {{"tokenizer.ggml.model", "llama"},
                                                    {"tokenizer.ggml.add_space_prefix", false},
                                                    {"tokenizer.ggml.remove_extra_whitespaces", true}}),
               "sp_bpe.model", {"<sep>", "\u2581"});

  auto word_piece = tokenizer::read_tokenizer_json(
      read_text_file(HEARTH_GOLDEN_DIR "/tokenizers/word_piece.json"), "word_piece.json");
  for (auto& token : word_piece.tokens)
    if (token.kind == tokenizer::TokenKind::normal)
      token.text = token.text.starts_with("##") ? token.text.substr(2) : "\u2581" + token.text;
  const auto bert = through_gguf(word_piece, {{"tokenizer.ggml.model", "bert"},
                                              {"tokenizer.ggml.unknown_token_id", std::uint32_t{1}},
                                              {"tokenizer.ggml.cls_token_id", std::uint32_t{2}},
                                              {"tokenizer.ggml.seperator_token_id", std::uint32_t{3}}});
  expect_plain(bert, "word_piece.json",
               {"\u2581", "aaaaaaaaaaaaaaaaaaaaa"});  // a mark, a word that is too long
  EXPECT_EQ(bert.encode("a").front(), 2);
  EXPECT_EQ(bert.encode("a").back(), 3);
  EXPECT_EQ(bert.decode(bert.encode("To be, or not", plain)), "to be , or not");
}

// A token that must not be used falls apart, into characters that need not be tokens.
TEST(TokenizerGolden, UnusedTokensFallApart) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts{"<unk>", "<s>",          "</s>",         "\u2581",
                                       "a",     "\u00e9\u00e8", "a\u00e9\u00e8"};
  const std::vector<std::int32_t> kinds{2, 3, 3, 1, 1, 5, 5};
  GgufWriter(folder / "f.gguf",
             {{"general.architecture", "llama"},
              {"tokenizer.ggml.model", "llama"},
              {"tokenizer.ggml.add_space_prefix", false},
              {"tokenizer.ggml.tokens", GgufArray{texts}},
              {"tokenizer.ggml.scores", GgufArray{std::vector<float>(7, 0.0f)}},
              {"tokenizer.ggml.token_type", GgufArray{kinds}}},
             {})
      .commit();
  const Tokenizer tokenizer = Tokenizer::load(folder / "f.gguf");
  EXPECT_EQ(tokenizer.encode("\u00e9\u00e8", plain), (Ids{0}));
  EXPECT_EQ(tokenizer.encode("a\u00e9\u00e8a", plain), (Ids{4, 0, 4}));
}

// ---- what must hold for any text

const std::string local = HEARTH_GOLDEN_DIR "/tokenizers/";

TEST(Tokenizer, StreamsOnlyWholeCharacters) {
  SKIP_WITHOUT_TOKENIZERS();
  const Golden golden;
  for (const auto& [name, expected] : golden.file["local"].items()) {
    const auto tokenizer = Tokenizer::load(local + name);
    for (const auto& text : golden.texts) {
      const auto ids = tokenizer.encode(text);
      for (const bool skip_special : {false, true}) {
        StreamDecoder stream(tokenizer, {skip_special});
        std::string streamed;
        for (const auto id : ids) {
          const auto part = stream.push(id);
          EXPECT_TRUE(tokenizer::is_utf8(part)) << name << ": " << text;
          streamed += part;
        }
        EXPECT_EQ(streamed + stream.finish(), tokenizer.decode(ids, {skip_special})) << name << ": " << text;
      }
    }
  }
}

TEST(Tokenizer, StreamHoldsBackWhatIsIncomplete) {
  const auto tokenizer = Tokenizer::load(local + "metaspace_first.json");
  const auto byte = [&](int value) { return tokenizer.find(fmt::format("<0x{:02X}>", value)).value(); };
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(byte(0xf0)), "");
  EXPECT_EQ(stream.push(byte(0x9f)), "");
  EXPECT_EQ(stream.push(byte(0xa6)), "");
  EXPECT_EQ(stream.push(byte(0x99)), "\U0001f999");
  EXPECT_EQ(stream.push(byte(0xe2)), "");
  EXPECT_EQ(stream.push(byte(0x41)), "\ufffdA");  // it cannot become a character any more
  EXPECT_EQ(stream.push(byte(0xff)), "\ufffd");
  EXPECT_EQ(stream.push(byte(0xe2)), "");
  EXPECT_EQ(stream.push(byte(0x82)), "");
  EXPECT_EQ(stream.finish(), "\ufffd");
  EXPECT_EQ(stream.finish(), "");
  // A new text: its first space goes.
  const auto a = tokenizer.find("\u2581a").value();
  EXPECT_EQ(stream.push(a), "a");
  EXPECT_EQ(stream.push(a), " a");
}

TEST(Tokenizer, RepairsUtf8) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"a\u00e9\u20ac\U0001f999", "a\u00e9\u20ac\U0001f999"},
      {"\x80", "\ufffd"},
      {"\xe2\x82", "\ufffd"},
      {"\xe2\x82x", "\ufffdx"},
      {"\xf0\x9f\xa6\xf0\x9f\xa6\x99", "\ufffd\U0001f999"},
      {"\xc0\xaf", "\ufffd\ufffd"},
      {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
      {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
      {"\xf5", "\ufffd"},
      {"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},
      {"ASCII of more than eight bytes \xff", "ASCII of more than eight bytes \ufffd"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(tokenizer::repaired(bytes), text);
    EXPECT_EQ(tokenizer::is_utf8(bytes), bytes == text);
  }
}

// Merging takes n log n steps, the rest of the way n.
TEST(Tokenizer, LongLinesTakeNoLonger) {
  SKIP_WITHOUT_TOKENIZERS();
  const std::string line(1 << 20, 'a');
  std::string marks;  // combining marks in the wrong order
  for (int i = 0; i < 100000; ++i) marks += "\u0301\u0323";
  for (const std::string name :
       {"llama_3.json", "byte_level_steps.json", "metaspace_first.json", "splits.json", "unigram.json",
        "word_piece.json", "sp_bpe.model", "sp_unigram.model"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::load(local + name);
    for (const auto& text :
         {line, std::string(1 << 20, ' '), std::string(1 << 20, '\n'), std::string(1 << 20, '3'), marks}) {
      const auto ids = tokenizer.encode(text, plain);
      EXPECT_LE(ids.size(), text.size() + 1);
      if (name == "llama_3.json") {
        EXPECT_EQ(tokenizer.decode(ids), text);
      }
    }
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  SKIP_WITHOUT_TOKENIZERS();
  const auto tokenizer = Tokenizer::load(local + "llama_3.json");
  const Golden golden;
  std::vector<Ids> expected;
  for (const auto& text : golden.texts) expected.push_back(tokenizer.encode(text));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        for (std::size_t i = 0; i < golden.texts.size(); ++i)
          wrong += tokenizer.encode(golden.texts[i]) != expected[i];
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- special tokens

TEST(Tokenizer, SpecialTokensOfGguf) {
  SKIP_WITHOUT_TOKENIZERS();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no vocabularies in " << shared;
  const auto phi = Tokenizer::load(shared + "tokenizers/vectors/ggml-vocab-phi-3.gguf");
  EXPECT_EQ(phi.size(), 32064);
  EXPECT_EQ(phi.special().bos, 1);
  EXPECT_EQ(phi.special().eos, 32000);
  EXPECT_EQ(phi.special().unknown, 0);
  EXPECT_TRUE(phi.adds_bos());
  EXPECT_FALSE(phi.adds_eos());
  EXPECT_EQ(phi.encode("Hello"), (Ids{1, 15043}));
  EXPECT_EQ(phi.decode(phi.encode("Hello"), {.skip_special = true}), "Hello");
  const auto end = phi.find("<|end|>").value(), user = phi.find("<|user|>").value();
  EXPECT_TRUE(phi.is_special(end));
  EXPECT_TRUE(phi.ends_generation(end));
  EXPECT_TRUE(phi.ends_generation(32000));
  EXPECT_FALSE(phi.ends_generation(user));
  EXPECT_FALSE(phi.is_special(15043));
  // Tokens of Phi-3 take the white space behind them.
  const EncodeOptions parse{.add_special = false, .parse_special = true};
  EXPECT_EQ(phi.encode("<|user|>\n  Hello<|end|>\n", parse), (Ids{user, 15043, end}));
  EXPECT_GT(phi.encode("<|user|>", plain).size(), 1u);
  EXPECT_EQ(phi.text(15043), "\u2581Hello");
  EXPECT_EQ(phi.bytes(15043), " Hello");
  EXPECT_EQ(phi.bytes(13), "\n");

  const auto gpt2 = Tokenizer::load(shared + "tokenizers/vectors/ggml-vocab-gpt-2.gguf");
  EXPECT_FALSE(gpt2.adds_bos());
  EXPECT_EQ(gpt2.text(262), "\u0120the");
  EXPECT_EQ(gpt2.bytes(262), " the");
  EXPECT_EQ(gpt2.encode("a<|endoftext|>", parse), (Ids{64, 50256}));
  EXPECT_TRUE(gpt2.ends_generation(50256));

  const auto stories = Tokenizer::load(shared + "models/stories260K/stories260K.gguf");
  EXPECT_EQ(stories.special().padding, std::nullopt);  // 0xffffffff in the file
  EXPECT_TRUE(stories.adds_bos());
}

TEST(Tokenizer, SpecialTokensOfFolders) {
  SKIP_WITHOUT_TOKENIZERS();
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no vocabularies in " << shared;
  const auto qwen = Tokenizer::load(shared + "tokenizers/qwen2.5");
  EXPECT_EQ(qwen.special().eos, 151645);
  EXPECT_EQ(qwen.special().padding, 151643);
  EXPECT_EQ(qwen.special().bos, std::nullopt);
  EXPECT_TRUE(qwen.ends_generation(151645));
  EXPECT_TRUE(qwen.ends_generation(151643));
  EXPECT_EQ(qwen.encode("<|im_start|>user\nHi<|im_end|>", {.add_special = true, .parse_special = true}),
            (Ids{151644, 872, 198, 13048, 151645}));
  const auto phi = Tokenizer::load(shared + "tokenizers/phi-3-mini");
  EXPECT_EQ(phi.special().bos, 1);
  EXPECT_FALSE(phi.adds_bos());  // as its tokenizer.json has it
  const auto stories = Tokenizer::load(shared + "models/tinystories-656K/f32");
  EXPECT_TRUE(stories.adds_bos());
  const auto mistral =
      Tokenizer::load(shared + "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3");
  EXPECT_EQ(mistral.encode("[INST] Hi[/INST]", {.add_special = true, .parse_special = true}),
            (Ids{1, 3, 29473, 16127, 4}));
  EXPECT_GT(mistral.encode("<s>", plain).size(), 1u);  // text of a user is never a control token
  const auto ranks = Tokenizer::load(shared + "tokenizers/tiktoken/cl100k_base.tiktoken");
  EXPECT_EQ(ranks.find("<|endofprompt|>"), 100276);
  EXPECT_EQ(ranks.size(), 100277);
  EXPECT_EQ(ranks.text(100270), "");  // a hole
}

TEST(Tokenizer, ModelWithConfiguration) {
  TemporaryFolder folder;
  std::filesystem::copy_file(local + "sp_unigram_bytes.model", folder / "tokenizer.model");
  folder.put("tokenizer_config.json",
             R"({"add_bos_token": false, "add_eos_token": true, "eos_token": {"content": "<|end|>"},
    "added_tokens_decoder": {"560": {"content": "<|end|>", "special": true}, "561": {"content": "<x>", "rstrip": true}}})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.special().eos, 560);
  EXPECT_TRUE(tokenizer.adds_eos());
  EXPECT_FALSE(tokenizer.adds_bos());
  const auto ids = tokenizer.encode("a<x>  a");
  EXPECT_EQ(ids, (Ids{ids[0], 561, ids[0], 560}));
}

// What transformers stops at, whatever it is called: else a model would talk on.
TEST(Tokenizer, GenerationConfigurationSaysWhereTextsEnd) {
  TemporaryFolder folder;
  std::filesystem::copy_file(local + "sp_unigram_bytes.model", folder / "tokenizer.model");
  folder.put("tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "added_tokens_decoder":
    {"560": {"content": "<|turn|>", "special": true}, "561": {"content": "<x>", "special": true}}})");
  const auto ends = [&](TokenId id) { return Tokenizer::load(folder.path()).ends_generation(id); };
  const auto eos = Tokenizer::load(folder.path()).special().eos;
  ASSERT_TRUE(eos);
  EXPECT_FALSE(ends(560));
  folder.put("config.json", R"({"eos_token_id": 560})");
  EXPECT_TRUE(ends(560));
  EXPECT_TRUE(ends(*eos));
  folder.put("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_TRUE(ends(560));
  // It comes first. An ordinary token is no end, nor one that there is not.
  folder.put("generation_config.json", R"({"eos_token_id": [2, 561, 100, 99999, -1, "a"]})");
  EXPECT_TRUE(ends(561));
  EXPECT_FALSE(ends(560));
  EXPECT_FALSE(ends(100));
  EXPECT_EQ(Tokenizer::load(folder.path()).special().eos, eos);
}

TEST(Tokenizer, IdsAreChecked) {
  SKIP_WITHOUT_TOKENIZERS();
  const auto tokenizer = Tokenizer::load(local + "llama_3.json");
  for (const TokenId id : {-1, 501, 2147483647}) {
    expect_error<IndexError>([&] { tokenizer.text(id); }, {"vocabulary of 501"});
    expect_error<IndexError>([&] { tokenizer.bytes(id); }, {fmt::format("token {}", id)});
    expect_error<IndexError>([&] { tokenizer.decode(Ids{0, id}); }, {"[tokenizer]"});
    expect_error<IndexError>([&] { tokenizer.is_special(id); }, {"[tokenizer]"});
  }
  EXPECT_FALSE(tokenizer.ends_generation(-1));
  EXPECT_EQ(tokenizer.find("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.find(""), std::nullopt);
}

// ---- messages

TEST(Tokenizer, MessagesNameFileAndRule) {
  TemporaryFolder folder;
  const auto refused = [&](const std::string& contents, std::initializer_list<std::string_view> parts) {
    const auto path = folder.put("bad.json", contents);
    expect_error<FormatError>([&] { Tokenizer::load(path); }, {"[tokenizer] '", "bad.json"});
    expect_error<FormatError>([&] { Tokenizer::load(path); }, parts);
  };
  const auto model = [](const std::string& fields) {
    return R"({"model": {"type": "BPE", )" + fields + "}}";
  };
  refused("{", {"not JSON in UTF-8, at byte"});
  refused(R"({"version": "1.0"})", {"no model"});
  refused(model(R"("merges": [])"), {"vocabulary is empty"});
  refused(model(R"("vocab": {"a": 0, "b": 0})"), {"\"a\" and \"b\" both have the id 0"});
  refused(model(R"("vocab": {"a": 0, "a": 1})"), {"the tokens 0 and 1 are both \"a\""});
  refused(model(R"("vocab": {"a": 70000})"), {"a token has the id 70000, and there are 1 tokens"});
  refused(model(R"("vocab": {"a": 0}, "merges": ["a b"])"),
          {"merge 0 of \"a\" and \"b\": \"b\" is no token"});
  refused(model(R"("vocab": {"a": 0}, "merges": ["a a"])"), {"\"aa\" is no token"});
  refused(model(R"("vocab": {"a": 0}, "merges": ["a"])"), {"merge 0 is \"a\""});
  refused(model(R"("vocab": {"a": 0}, "unk_token": "u")"), {"unknown token \"u\" is not in the vocabulary"});
  refused(R"({"model": {"type": "X", "vocab": {"a": 0}}})", {"unknown model \"X\""});
  refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "normalizer": {"type": "X"}})",
          {"normalizer is of the type \"X\", which is not supported"});
  refused(
      R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [{"id": 0, "content": "b"}]})",
      {"the added token \"b\" has the id 0 of \"a\""});
  refused("\n\x0fgarbage", {"SentencePiece"});
  refused("YQ== 0\nYg== 1\n", {"from_tiktoken"});

  expect_error<FileError>([&] { Tokenizer::load(folder / "absent"); }, {"absent"});
  expect_error<FileError>([&] { Tokenizer::from_folder(folder.path()); }, {"has no tokenizer.json"});
  expect_error<ValueError>([&] { Tokenizer::from_tiktoken(folder / "bad.json", "x100k"); }, {"\"x100k\""});
}

TEST(Tokenizer, MessagesOfGguf) {
  SKIP_WITHOUT_TOKENIZERS();
  TemporaryFolder folder;
  const GgufArray tokens{std::vector<std::string>{"a", "b", "ab"}};
  const GgufMetadata good = {{"tokenizer.ggml.model", "gpt2"},
                             {"tokenizer.ggml.pre", "gpt-2"},
                             {"tokenizer.ggml.tokens", tokens},
                             {"tokenizer.ggml.merges", GgufArray{std::vector<std::string>{"a b"}}}};
  const auto load = [&](const GgufMetadata& metadata) {
    GgufWriter(folder / "f.gguf", metadata, {}).commit();
    return Tokenizer::load(folder / "f.gguf");
  };
  EXPECT_EQ(load(good).encode("abba"), (Ids{2, 1, 0}));
  const auto refused = [&](const char* key, std::optional<GgufValue> value,
                           std::initializer_list<std::string_view> parts) {
    auto metadata = good;
    metadata.erase(std::string("tokenizer.ggml.") + key);
    if (value) metadata.emplace(std::string("tokenizer.ggml.") + key, *value);
    expect_error<FormatError>([&] { load(metadata); }, {"f.gguf"});
    expect_error<FormatError>([&] { load(metadata); }, parts);
  };
  using Texts = std::vector<std::string>;
  refused("model", {}, {"no metadata \"tokenizer.ggml.model\""});
  refused("model", "rwkv", {"unknown tokenizer model \"rwkv\""});
  refused("pre", "martian", {"unknown pre-tokeniser \"martian\""});
  refused("tokens", {}, {"no metadata \"tokenizer.ggml.tokens\""});
  refused("tokens", GgufArray{Texts{"a", "b", "ab", "a"}}, {"the tokens 0 and 3 are both \"a\""});
  refused("merges", {}, {"no metadata \"tokenizer.ggml.merges\""});
  refused("merges", GgufArray{Texts{"b a"}}, {"\"ba\" is no token"});
  refused("scores", GgufArray{std::vector<float>{1, 2}}, {"3 tokens have 2 scores"});
  refused("token_type", GgufArray{std::vector<std::int32_t>{1}}, {"3 tokens have 1 types"});
  refused("bos_token_id", std::uint32_t{3}, {"tokenizer.ggml.bos_token_id is 3, and there are 3 tokens"});
  refused("add_bos_token", true, {"add_bos_token is true, but there is no such token"});
}

}  // namespace
}  // namespace hearth
