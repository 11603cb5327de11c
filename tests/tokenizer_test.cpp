// Tokenizers: the vectors that llama.cpp publishes with real vocabularies, ids that the reference packages
// compute, and what must hold for any text. Bad files are in the corpus (fuzz_corpus_test); here are those
// whose message matters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/tokenizer.h"
#include "io/tokenizer/pre_tokeniser.h"
#include "io/tokenizer/known_pre_tokenisers.h"
#include "io/tokenizer/utf8.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

using nlohmann::json;

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
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no vocabularies in " << shared;
  for (const std::string name : {"gpt-2", "phi-3", "deepseek-coder", "deepseek-llm", "falcon", "mpt"}) {
    SCOPED_TRACE(name);
    expect_vectors(Tokenizer::load(shared + "tokenizers/vectors/ggml-vocab-" + name + ".gguf"), name);
  }
}

TEST(TokenizerVectors, Qwen2) {
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
  const Golden golden;
  EXPECT_EQ(golden.file["local"].size(), 9u);
  for (const auto& [name, expected] : golden.file["local"].items()) {
    SCOPED_TRACE(name);
    expect_golden(Tokenizer::load(HEARTH_GOLDEN_DIR "/tokenizers/" + name), golden, expected);
  }
}

TEST(TokenizerGolden, RealVocabularies) {
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

}  // namespace
}  // namespace hearth
