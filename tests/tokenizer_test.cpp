// Tokenizers: the vectors that llama.cpp publishes with real vocabularies, ids that the reference packages compute,
// and what must hold for any text. Bad files are in the corpus (fuzz_corpus_test); here are those whose message
// matters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/tokenizer.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

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

}  // namespace
}  // namespace hearth
