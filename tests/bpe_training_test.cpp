// Tokenizers learnt from text, against those that Hugging Face's trainer learns from it.
#include "io/tokenizer/bpe_training.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/tokenizer.h"
#include "io/tokenizer/gguf_writer.h"
#include "io/tokenizer/json_writer.h"
#include "io/tokenizer/pipeline.h"
#include "io/tokenizer/readers.h"

namespace hearth::tokenizer {
namespace {

using test::expect_error;

struct Golden {
  nlohmann::json json;
  std::vector<std::string> documents;
  Golden() : json(nlohmann::json::parse(std::ifstream(HEARTH_GOLDEN_DIR "/bpe_training.json"))) {
    documents = json["documents"].get<std::vector<std::string>>();
  }
  PieceCounts counts() const {
    PieceCounts counts;
    counts.add({documents.begin(), documents.end()});
    return counts;
  }
};

Tokenizer tokenizer_of(const Definition& definition) {
  return Tokenizer(std::make_shared<const Pipeline>(definition));
}

TEST(BpeTraining, LearnsWhatHuggingFaceLearns) {
  const Golden golden;
  const PieceCounts counts = golden.counts();
  for (const auto& run : golden.json["runs"]) {
    const Definition definition = train_bpe(counts, {.vocabulary = run["size"].get<std::size_t>()});
    const auto tokens = run["tokens"].get<std::vector<std::string>>();
    ASSERT_EQ(definition.tokens.size(), tokens.size());
    for (std::size_t id = 0; id < tokens.size(); ++id)
      EXPECT_EQ(definition.tokens[id].text, tokens[id]) << id;
    const auto& merges = *std::get<BpeModel>(definition.model).merges;
    ASSERT_EQ(merges.size(), run["merges"].size());
    for (std::size_t i = 0; i < merges.size(); ++i) {
      EXPECT_EQ(tokens[static_cast<std::size_t>(merges[i].left)], run["merges"][i][0].get<std::string>())
          << i;
      EXPECT_EQ(tokens[static_cast<std::size_t>(merges[i].right)], run["merges"][i][1].get<std::string>())
          << i;
    }
    for (const auto& sample : run["samples"])
      EXPECT_EQ(tokenizer_of(definition).encode(sample["text"].get<std::string>(), {.add_special = false}),
                sample["ids"].get<std::vector<TokenId>>());
  }
}

TEST(BpeTraining, FilesOfBothKindsGiveTheSameTokenizer) {
  const Golden golden;
  const Definition definition = train_bpe(golden.counts(), {.vocabulary = 600});
  const Tokenizer learnt = tokenizer_of(definition);
  const Tokenizer from_json =
      tokenizer_of(read_tokenizer_json(to_tokenizer_json(definition), "tokenizer.json"));
  const GgufMetadata gguf = to_gguf(definition, 600, "llama").metadata;
  EXPECT_EQ(std::get<std::string>(gguf.at("tokenizer.ggml.pre")), "llama-bpe");
  for (const std::string& text : golden.documents) {
    const auto ids = learnt.encode(text);
    EXPECT_EQ(ids.front(), 0);  // what texts begin with
    EXPECT_EQ(from_json.encode(text), ids);
    EXPECT_EQ(learnt.decode(ids, {.skip_special = true}), text);
    EXPECT_EQ(from_json.decode(ids, {.skip_special = true}), text);
  }
}

// More than a megabyte, with few places where it may be cut.
TEST(BpeTraining, LongTextsInPartsGiveTheSamePieces) {
  const Golden golden;
  std::string text;
  for (int i = 0; text.size() < (3u << 20); ++i)
    text += golden.documents[static_cast<std::size_t>(i) % 60] + "\n";
  EXPECT_GT(cut_into_parts(text).size(), 1u);
  const Tokenizer tokenizer = tokenizer_of(train_bpe(golden.counts(), {.vocabulary = 600}));
  std::vector<TokenId> in_parts;
  for (const auto part : cut_into_parts(text)) {
    const auto ids = tokenizer.encode(part, {.add_special = false});
    in_parts.insert(in_parts.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(in_parts, tokenizer.encode(text, {.add_special = false}));
  EXPECT_EQ(cut_into_parts(std::string(3u << 20, 'x')).size(), 1u);  // nowhere to cut
  EXPECT_TRUE(cut_into_parts("").empty());
}

TEST(BpeTraining, RefusesWhatCannotBeLearnt) {
  PieceCounts counts;
  counts.add({"one two one two"});
  expect_error<ValueError>([&] { train_bpe(counts, {.vocabulary = 4096}); }, {"4096", "needs more text"});
  expect_error<ValueError>([&] { train_bpe(counts, {.vocabulary = 256}); }, {"256", "no room"});
  expect_error<ValueError>([&] { counts.add({"\xff\xfe"}); }, {"not UTF-8"});
  expect_error<ValueError>([] { PieceCounts unknown("nonesuch"); }, {"nonesuch"});
}

}  // namespace
}  // namespace hearth::tokenizer
