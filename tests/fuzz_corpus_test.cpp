// Every file of the fuzzing corpus, through the functions the fuzzers call.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "fuzz/entry_points.h"
#include "hearth/error.h"
#include "tokenizer_libraries.h"

namespace hearth {
namespace {

using Entry = void (*)(io::Bytes);

void run_folder(const char* format, Entry entry) {
  int good = 0, bad = 0;
  for (const auto& item :
       std::filesystem::directory_iterator(HEARTH_TEST_DIR "/fuzz/corpus/" + std::string(format))) {
    const auto name = item.path().filename().string();
    SCOPED_TRACE(name);
    // In memory of exactly this size, so that a sanitizer sees a read of one byte too many.
    const auto contents = read_file(item.path());
    const std::vector<std::byte> exact(contents.begin(), contents.end());
    bool refused = false;
    try {
      entry(exact);
    } catch (const Error& error) {
      refused = true;
      EXPECT_TRUE(std::string(error.what()).starts_with("[")) << error.what();
    }
    if (name.starts_with("good_")) {
      EXPECT_FALSE(refused);
      ++good;
    } else if (name.starts_with("bad_")) {
      EXPECT_TRUE(refused);
      ++bad;
    }
  }
  EXPECT_GT(good, 0);
  EXPECT_TRUE(bad > 0 || format == std::string("encode"));  // any text can be encoded
}

TEST(FuzzCorpus, Safetensors) { run_folder("safetensors", fuzz::safetensors); }
TEST(FuzzCorpus, Npy) { run_folder("npy", fuzz::npy); }
TEST(FuzzCorpus, Csv) { run_folder("csv", fuzz::csv); }
TEST(FuzzCorpus, Gguf) { run_folder("gguf", fuzz::gguf); }
TEST(FuzzCorpus, Torch) { run_folder("torch", fuzz::torch); }

TEST(FuzzCorpus, TokenizerJson) {
  SKIP_WITHOUT_TOKENIZERS();
  run_folder("tokenizer_json", fuzz::tokenizer_json);
}
TEST(FuzzCorpus, Ranks) {
  SKIP_WITHOUT_TOKENIZERS();
  run_folder("ranks", fuzz::ranks);
}
TEST(FuzzCorpus, Encode) {
  SKIP_WITHOUT_TOKENIZERS();
  run_folder("encode", fuzz::encode);
}
TEST(FuzzCorpus, TokenizerModel) { run_folder("tokenizer_model", fuzz::tokenizer_model); }
TEST(FuzzCorpus, ModelConfig) { run_folder("model_config", fuzz::model_config); }
TEST(FuzzCorpus, Grammar) { run_folder("grammar", fuzz::grammar); }
TEST(FuzzCorpus, JsonSchema) { run_folder("json_schema", fuzz::json_schema); }
TEST(FuzzCorpus, ChatTemplate) { run_folder("chat_template", fuzz::chat_template); }

#ifdef HEARTH_HAVE_ZLIB
TEST(FuzzCorpus, Npz) { run_folder("npz", fuzz::npz); }
TEST(FuzzCorpus, Idx) { run_folder("idx", fuzz::idx); }
#endif
#ifdef HEARTH_HAVE_LZMA
TEST(FuzzCorpus, Xz) { run_folder("xz", fuzz::xz); }
#endif

// A file cut off anywhere is refused, or read as a smaller whole (tables and grammars have no end mark), but
// never a crash.
TEST(FuzzCorpus, EveryPrefix) {
  const std::pair<const char*, Entry> formats[] = {{"safetensors", fuzz::safetensors},
                                                   {"npy", fuzz::npy},
                                                   {"csv", fuzz::csv},
                                                   {"gguf", fuzz::gguf},
                                                   {"tokenizer_json", fuzz::tokenizer_json},
                                                   {"npz", fuzz::npz},
                                                   {"idx", fuzz::idx},
                                                   {"model_config", fuzz::model_config},
                                                   {"grammar", fuzz::grammar},
                                                   {"json_schema", fuzz::json_schema}};
  for (const auto& [format, entry] : formats)
    for (const auto& item :
         std::filesystem::directory_iterator(HEARTH_TEST_DIR "/fuzz/corpus/" + std::string(format))) {
      const auto contents = read_file(item.path());
      if (contents.size() > 1500 || !item.path().filename().string().starts_with("good_")) continue;
      for (std::size_t size = 0; size < contents.size(); ++size) {
        const std::vector<std::byte> prefix(contents.begin(),
                                            contents.begin() + static_cast<std::ptrdiff_t>(size));
        try {
          entry(prefix);
          EXPECT_TRUE(std::string(format) == "csv" || std::string(format) == "grammar" ||
                      item.path().filename() == "good_gz_padded.idx")
              << item.path() << " cut to " << size;
        } catch (const Error&) {  // as it should be
        }
      }
    }
}

}  // namespace
}  // namespace hearth
