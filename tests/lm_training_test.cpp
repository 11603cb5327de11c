// Training of language models: texts, tokens, and whole runs of a tiny model.
#include "lm/training.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/io.h"
#include "hearth/llm.h"
#include "hearth/ops.h"
#include "hearth/random.h"
#include "io/tokenizer/bpe_training.h"
#include "io/tokenizer/json_writer.h"
#include "lm/model_export.h"
#include "lm/token_cache.h"
#include "lm/token_windows.h"
#include "temporary_folder.h"
#include "test_devices.h"
#include "tokenizer_libraries.h"
#include "train/curve_plot.h"

extern char** environ;  // NOLINT: POSIX names it

namespace hearth::lm {
namespace {

using test::expect_error;
using test::TemporaryFolder;

// Sentences that follow from their first words, so that a model that learns anything soon learns them.
std::string story(int number) {
  const char* const names[] = {"Lily", "Tom", "Anna", "Ben"};
  const char* const things[] = {"a red ball", "an old boat", "a small dog", "the last apple"};
  const std::string name = names[number % 4], thing = things[number / 4 % 4];
  std::string text = "Once upon a time " + name + " found " + thing + ".\n";
  for (int i = 0; i < 2 + number % 3; ++i) text += name + " was happy to have " + thing + " and went home.\n";
  return text + "The end of story " + std::to_string(number) + ".\n";
}

std::string stories(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += story(i) + std::string(end_of_text) + "\n";
  return text;
}

TrainingOptions tiny(const TemporaryFolder& folder) {
  TrainingOptions options;
  options.sources = {{folder.put("stories.txt", stories(200)), 1}};
  options.folder = folder / "run";
  options.held_out = 0.1;
  options.model = {.vocabulary = 320,
                   .context = 32,
                   .layers = 2,
                   .width = 32,
                   .heads = 4,
                   .groups = 2,
                   .feed_forward = 64};
  options.batch = 8;
  options.tokens = 40 * 8 * 32;
  options.learning_rate = 1e-2;
  options.evaluations = 4;
  options.read_loss_steps = 5;
  options.sample_tokens = 5;
  options.progress.enabled = false;
  return options;
}

std::string contents(const std::filesystem::path& path) { return read_text_file(path); }

// ---- texts

TEST(Corpus, DocumentsAreCutAndHeldOut) {
  const TemporaryFolder folder;
  const auto path = folder.put("stories.txt", stories(100));
  const Corpus corpus({{path, 1}}, 0.1), again({{path, 1}}, 0.1);
  const SourceText& source = corpus.sources()[0];
  EXPECT_EQ(source.training.size() + source.validation.size(), 100u);
  EXPECT_GE(source.validation.size(), 8u);
  EXPECT_LE(source.validation.size(), 14u);
  EXPECT_EQ(source.validation, again.sources()[0].validation);
  for (const auto document : source.training) {
    EXPECT_TRUE(document.starts_with("Once") && document.ends_with("."));
    EXPECT_EQ(std::ranges::find(source.validation, document), source.validation.end());
  }
  EXPECT_TRUE(Corpus({{path, 1}}, 0).sources()[0].validation.empty());
}

// The same stories in two files, with other line ends: none of those held out may be trained on.
TEST(Corpus, WhatIsHeldOutIsTrainedOnNowhere) {
  const TemporaryFolder folder;
  std::string crlf;
  for (const char c : stories(60)) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  const Corpus corpus({{folder.put("a.txt", stories(100)), 1}, {folder.put("b.txt", crlf), 1}}, 0.2);
  const auto number = [](std::string_view text) { return text.substr(text.rfind(' ')); };
  for (const auto& source : corpus.sources())
    for (const auto held : source.validation)
      for (const auto& other : corpus.sources())
        for (const auto document : other.training) EXPECT_NE(number(document), number(held));
}

TEST(Corpus, OneDocumentLosesItsEnd) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  const Corpus corpus({{folder.put("lines.txt", text), 1}}, 0.1);
  const SourceText& source = corpus.sources()[0];
  ASSERT_EQ(source.training.size(), 1u);
  ASSERT_EQ(source.validation.size(), 1u);
  EXPECT_TRUE(source.training[0].starts_with("line 0\n"));
  EXPECT_TRUE(source.validation[0].starts_with("line 9") && source.validation[0].ends_with("line 999"));
  EXPECT_EQ(Corpus({{folder.put("one.txt", "one line"), 1}}, 0.1).sources()[0].training[0], "one line");
}

TEST(Corpus, BadFilesAreRefused) {
  const TemporaryFolder folder;
  const auto made = [&](std::string_view text) {
    return [path = folder.put("bad.txt", text)] { Corpus corpus({{path, 1}}, 0.1); };
  };
  expect_error<FileError>([&] { Corpus corpus({{folder / "absent.txt", 1}}, 0.1); }, {"absent.txt"});
  expect_error<ValueError>(made(""), {"bad.txt", "no text"});
  expect_error<ValueError>(made(" \n\n<|endoftext|>\n"), {"bad.txt", "no text"});
  expect_error<ValueError>(made(std::string_view("ELF\0\1\2", 6)), {"bad.txt", "zero bytes"});
  expect_error<ValueError>(made("caf\xe9"), {"bad.txt", "not UTF-8"});
#ifdef HEARTH_HAVE_LZMA
  using Refusal = FormatError;
#else
  using Refusal = FileError;
#endif
  expect_error<Refusal>(made(std::string_view("\xfd"
                                              "7zXZ\0\0\4",
                                              8)),
                        {"bad.txt"});
  expect_error<ValueError>([] { Corpus corpus({}, 0.1); }, {"no text to train on"});
}

#ifdef HEARTH_HAVE_LZMA
TEST(Corpus, ReadsCompressedFiles) {
  const Corpus corpus({{HEARTH_TEST_DIR "/fuzz/corpus/xz/good_text.xz", 1}}, 0);
  EXPECT_TRUE(corpus.sources()[0].training[0].starts_with("Once upon a time there was a stream. Once"));
  EXPECT_EQ(corpus.training_bytes(), 37u * 20 - 1);
}
#endif

TEST(Corpus, SourcesHaveWeights) {
  EXPECT_EQ(parse_text_source("a/b.txt").path, "a/b.txt");
  EXPECT_EQ(parse_text_source("a/b.txt").weight, 1);
  EXPECT_EQ(parse_text_source("a:b.txt:2.5").path, "a:b.txt");
  EXPECT_EQ(parse_text_source("a:b.txt:2.5").weight, 2.5);
  EXPECT_EQ(parse_text_source("C:file").path, "C:file");
  for (const char* bad : {"", ":2", "a.txt:0", "a.txt:-1", "a.txt:inf"})
    EXPECT_THROW(parse_text_source(bad), ValueError) << bad;
}

// ---- tokens

TrainedTokenizer learnt_tokenizer(const Corpus& corpus) {
  tokenizer::PieceCounts counts;
  for (const auto& source : corpus.sources()) counts.add(source.training);
  return read_tokenizer(to_tokenizer_json(train_bpe(counts, {.vocabulary = 320})), "learnt");
}

TEST(TokenCache, IsWhatTheTextsWere) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  const std::vector<TextSource> sources{{folder.put("stories.txt", stories(50)), 3}};
  const Corpus corpus(sources, 0.1);
  const TrainedTokenizer tokenizer = learnt_tokenizer(corpus);
  const CorpusTokens tokens = tokenise(corpus, tokenizer.tokenizer);
  const auto ids = tokens.sources[0].training.data<std::int16_t>();
  const std::vector<TokenId> all(ids.begin(), ids.end());
  std::string text;
  for (const auto document : corpus.sources()[0].training) text += std::string(document) + "<|endoftext|>";
  EXPECT_EQ(tokenizer.tokenizer.decode(all), text);

  const std::string fingerprint = corpus_fingerprint(sources, tokenizer.json, 0.1);
  save_tokens(folder / "tokens", tokens, fingerprint);
  const auto loaded = load_tokens(folder / "tokens", sources, fingerprint);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->sources[0].training.to_bytes(), tokens.sources[0].training.to_bytes());
  EXPECT_EQ(loaded->sources[0].weight, 3);
  EXPECT_EQ(loaded->vocabulary, 320);
  EXPECT_FALSE(load_tokens(folder / "absent", sources, fingerprint));
  // Other texts, another tokenizer, another share held out.
  EXPECT_FALSE(load_tokens(folder / "tokens", sources, corpus_fingerprint(sources, tokenizer.json, 0.2)));
  EXPECT_FALSE(load_tokens(folder / "tokens", sources, corpus_fingerprint(sources, "{}", 0.1)));
  folder.put("stories.txt", stories(51));
  EXPECT_NE(corpus_fingerprint(sources, tokenizer.json, 0.1), fingerprint);
}

TEST(TokenCache, FilesOfTheSameNameAreTold) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  for (const char* language : {"en", "de"}) std::filesystem::create_directory(folder / language);
  const std::vector<TextSource> sources{{folder.put("en/train.txt", stories(50)), 1},
                                        {folder.put("de/train.txt", stories(40)), 1},
                                        {folder.put("other.txt", stories(30)), 1}};
  const Corpus corpus(sources, 0);
  const TrainedTokenizer tokenizer = learnt_tokenizer(corpus);
  const CorpusTokens tokens = tokenise(corpus, tokenizer.tokenizer);
  save_tokens(folder / "tokens", tokens, "fingerprint");
  for (const CorpusTokens& named : {tokens, *load_tokens(folder / "tokens", sources, "fingerprint")}) {
    EXPECT_EQ(named.sources[0].name, (folder / "en/train.txt").string());
    EXPECT_EQ(named.sources[1].name, (folder / "de/train.txt").string());
    EXPECT_EQ(named.sources[2].name, "other.txt");
  }
}

TEST(TokenCache, DamageIsFound) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  const std::vector<TextSource> sources{{folder.put("stories.txt", stories(50)), 1}};
  const Corpus corpus(sources, 0.1);
  CorpusTokens tokens = tokenise(corpus, learnt_tokenizer(corpus).tokenizer);
  save_tokens(folder / "tokens", tokens, "mark");
  std::string bytes = contents(folder / "tokens");
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  folder.put("tokens", bytes);
  expect_error<FormatError>([&] { load_tokens(folder / "tokens", sources, "mark"); }, {"tokens", "checksum"});
  folder.put("tokens", bytes.substr(0, bytes.size() / 2));
  expect_error<FormatError>([&] { load_tokens(folder / "tokens", sources, "mark"); }, {"tokens"});
  tokens.vocabulary = 100;
  save_tokens(folder / "tokens", tokens, "mark");
  expect_error<FormatError>([&] { load_tokens(folder / "tokens", sources, "mark"); }, {"vocabulary of 100"});
}

CorpusTokens counted_tokens(std::vector<std::pair<std::int64_t, double>> sources) {
  CorpusTokens tokens{{}, 30000};
  for (const auto& [count, weight] : sources) {
    std::vector<std::int16_t> ids;
    for (std::int64_t i = 0; i < count; ++i)
      ids.push_back(static_cast<std::int16_t>(i + 1000 * std::ssize(tokens.sources)));
    tokens.sources.push_back({"source", weight, tensor(ids), tensor(ids)});
  }
  return tokens;
}

TEST(TokenWindows, TargetsAreTheNextTokensAndWeightsCount) {
  const auto windows = random_windows(counted_tokens({{800, 1}, {100, 8}}), 10, 4000);
  EXPECT_EQ(windows->size(), 4000);
  std::vector<data::Draw> draws;
  for (std::int64_t i = 0; i < 4000; ++i) draws.emplace_back(i, data::combine_streams(7, std::uint64_t(i)));
  const auto batch = windows->get_batch(draws);
  const auto inputs = batch[0].data<std::int64_t>(), targets = batch[1].data<std::int64_t>();
  std::int64_t of_second = 0, first = 1000, last = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) ASSERT_EQ(targets[i], inputs[i] + 1);
  for (std::size_t i = 0; i < inputs.size(); i += 10) {
    of_second += inputs[i] >= 1000;
    if (inputs[i] < 1000) first = std::min(first, inputs[i]), last = std::max(last, inputs[i]);
  }
  EXPECT_NEAR(static_cast<double>(of_second) / 4000, 0.5, 0.03);
  EXPECT_LT(first, 5);
  EXPECT_EQ(last, 789);  // its last target is the last token
  // One by one they are the same.
  EXPECT_EQ(windows->get(draws[17])[0].to_bytes(), batch[0].slice({{17, 18}}).contiguous().to_bytes());
  expect_error<ValueError>([] { random_windows(counted_tokens({{10, 1}}), 10, 5); }, {"10 tokens"});
}

TEST(TokenWindows, ValidationGoesThroughAllOnce) {
  const auto windows = validation_windows(counted_tokens({{101, 1}, {5, 1}, {35, 1}}), 10);
  ASSERT_EQ(windows->size(), 10 + 3);
  const auto batch = windows->get_batch(std::vector<data::Draw>{{9}, {10}});
  EXPECT_EQ(batch[0].data<std::int64_t>()[0], 90);
  EXPECT_EQ(batch[1].data<std::int64_t>()[9], 100);
  EXPECT_EQ(batch[0].data<std::int64_t>()[10], 2000);
  EXPECT_EQ(validation_windows(counted_tokens({{5, 1}}), 10), nullptr);
}

// ---- runs

TEST(LanguageModelTraining, LearnsAndExports) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  TrainingOptions options = tiny(folder);
  options.tokens *= 5;
  const TrainingResult result = train_language_model(options);
  EXPECT_EQ(result.run.ending, train::Ending::finished);
  EXPECT_EQ(result.run.steps, 200);
  // The texts have some 0.3 nats per token; a model that only knows how often tokens occur is above 3.5.
  ASSERT_TRUE(result.validation_loss);
  EXPECT_LT(*result.validation_loss, 0.8);
  EXPECT_TRUE(result.source_losses.empty());
  for (const char* file : {"log.csv", "curve.svg", "samples.txt", "run.json", "tokenizer.json"})
    EXPECT_TRUE(std::filesystem::exists(options.folder / file)) << file;
  const CsvTable log(options.folder / "log.csv", {.empty_is_nan = true});
  EXPECT_EQ(log.rows(), 40u);
  EXPECT_EQ(log.text(39, 0), "200");

  // What was exported tells a story in the engine, from both kinds of files.
  for (const auto& path : {result.model, result.gguf}) {
    const llm::Model model = llm::Model::load(path, {.device = Device{}, .cache_dtype = DType::f32});
    llm::Session session(model);
    const auto text = session.generate(model.tokenizer().encode("Once upon a time Tom found"),
                                       {.most_tokens = 40, .sampling = {.temperature = 0}});
    EXPECT_NE(text.text.find(" was happy to have "), std::string::npos) << text.text;
  }
}

// Two texts, the second of them read more often; a run that is stopped keeps its log.
TEST(LanguageModelTraining, SeveralTextsHaveLossesOfTheirOwn) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  TrainingOptions options = tiny(folder);
  std::string lines;
  for (int i = 0; i < 600; ++i) lines += "Line " + std::to_string(i * 7) + " of the list\n";
  options.sources.push_back({folder.put("list, of lines.txt", lines), 2});
  options.minutes = 1e-9;
  train_language_model(options);
  options.minutes = 0;
  options.resume = true;
  const TrainingResult result = train_language_model(options);
  ASSERT_EQ(result.source_losses.size(), 2u);
  EXPECT_EQ(result.source_losses[1].first, "list, of lines.txt");
  const double first = result.source_losses[0].second, second = result.source_losses[1].second;
  EXPECT_GT(*result.validation_loss, std::min(first, second));
  EXPECT_LT(*result.validation_loss, std::max(first, second));
  const CsvTable log(options.folder / "log.csv", {.empty_is_nan = true});
  ASSERT_EQ(log.columns(), 8u);
  EXPECT_EQ(log.rows(), 8u);
  EXPECT_EQ(log.names()[7], "validation_loss list  of lines.txt");
  EXPECT_NEAR(std::stod(log.text(7, 7)), second, 1e-5);
}

TEST(LanguageModelTraining, TheEngineComputesWhatWasTrained) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  const Corpus corpus(tiny(folder).sources, 0.1);
  const TrainedTokenizer tokenizer = learnt_tokenizer(corpus);
  manual_seed(4);
  models::Llama model({.vocabulary = 320,
                       .context = 32,
                       .layers = 2,
                       .width = 64,
                       .heads = 4,
                       .groups = 2,
                       .feed_forward = 96});
  for (const auto& [name, parameter] : model.named_parameters())  // far from what it begins with
    Tensor(parameter).assign(parameter.detach() * 3.0 + randn(parameter.shape()) * 0.05);
  hearth::eval(model.parameters());
  const std::vector<TokenId> ids = tokenizer.tokenizer.encode("Once upon a time Lily found a small dog.");
  const NoGrad no_grad;
  const Tensor expected =
      model.forward(tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), {1, std::ssize(ids)})).eval();
  const auto scores = expected.data<float>();
  export_folder(model, tokenizer, folder / "model");
  const llm::LoadOptions load{.device = Device{}, .cache_dtype = DType::f32};
  for (const llm::Model& engine :
       {engine_model(model, tokenizer, load), llm::Model::load(folder / "model", load)}) {
    const auto rows = llm::Session(engine).feed_all(ids);
    ASSERT_EQ(rows.size(), ids.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t j = 0; j < 320; ++j)
        ASSERT_NEAR(rows[i][j], scores[i * 320 + j], 2e-4) << i << ' ' << j;
  }
}

// A run that is stopped again and again ends as if it had not been.
class LanguageModelTrainingOn : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override { set_default_device(GetParam()); }
  void TearDown() override { set_default_device(Device{}); }
  // Small enough for an emulated device.
  static TrainingOptions with_dropout(const TemporaryFolder& folder) {
    TrainingOptions options = tiny(folder);
    options.model.dropout = 0.1;
    options.model.layers = 1;
    options.batch = 2;
    options.tokens = 20 * 2 * 32;
    options.evaluations = 1;
    return options;
  }
};

TEST_P(LanguageModelTrainingOn, ResumedRunsAreTheSameBitForBit) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder whole, parts;
  const TrainingResult expected = train_language_model(with_dropout(whole));
  TrainingOptions stopped = with_dropout(parts);
  stopped.minutes = 1e-9;  // stops when losses are read for the first time
  TrainingResult result;
  for (stopped.resume = false; result.run.steps < 15; stopped.resume = true) {
    result = train_language_model(stopped);
    EXPECT_EQ(result.run.ending, train::Ending::stopped);
    EXPECT_TRUE(std::filesystem::exists(result.gguf));  // a run out of time is evaluated and exported, too
  }
  stopped.minutes = 0;
  result = train_language_model(stopped);
  EXPECT_EQ(result.run.resumed_from, 15);
  EXPECT_EQ(contents(result.model / "model.safetensors"), contents(expected.model / "model.safetensors"));
  EXPECT_EQ(result.validation_loss, expected.validation_loss);
  EXPECT_EQ(contents(train::list_checkpoints(parts / "run/checkpoints").back()),
            contents(train::list_checkpoints(whole / "run/checkpoints").back()));

  // One that is not the same is not resumed.
  stopped.learning_rate = 1;
  stopped.batch = 4;
  expect_error<ValueError>([&] { train_language_model(stopped); },
                           {"another", "learning_rate was 0.01, is 1", "batch was 2, is 4"});
  stopped.resume = false;
  expect_error<ValueError>([&] { train_language_model(stopped); }, {"checkpoints of an earlier run"});
}

INSTANTIATE_TEST_SUITE_P(Devices, LanguageModelTrainingOn, testing::ValuesIn(tested_devices()));

#ifdef HEARTH_COMMAND
pid_t start(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, HEARTH_COMMAND, nullptr, nullptr, pointers.data(), environ) != 0)
    throw std::runtime_error("cannot start " HEARTH_COMMAND);
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(LanguageModelTraining, TheCommandSaysWhatIsWrong) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  EXPECT_EQ(wait_for(start({HEARTH_COMMAND, "train", "lm", "-o", (folder / "run").string()})), 2);
  EXPECT_EQ(wait_for(start({HEARTH_COMMAND, "train", "lm", "--data", (folder / "absent.txt").string(), "-o",
                            (folder / "run").string()})),
            1);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));  // nothing is left behind
  const auto tokenizer = (folder / "tokenizer.json").string();
  const auto text = folder.put("stories.txt", stories(200)).string();
  EXPECT_EQ(wait_for(start({HEARTH_COMMAND, "train", "tokenizer", "--data", text, "--vocabulary", "90000",
                            "-o", tokenizer})),
            1);
  EXPECT_EQ(wait_for(start({HEARTH_COMMAND, "train", "tokenizer", "--data", text, "--vocabulary", "300", "-o",
                            tokenizer})),
            0);
  EXPECT_EQ(Tokenizer::load(tokenizer).size(), 300);
}

// Killed without warning at some moments, asked to stop at another.
TEST(LanguageModelTraining, KilledRunsLoseNothing) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  const auto path = folder.put("stories.txt", stories(200));
  const auto arguments = [&](const char* run) {
    return std::vector<std::string>{HEARTH_COMMAND,
                                    "train",
                                    "lm",
                                    "--device",
                                    "cpu",
                                    "--quiet",
                                    "--data",
                                    path.string(),
                                    "-o",
                                    (folder / run).string(),
                                    "--vocabulary",
                                    "320",
                                    "--context",
                                    "32",
                                    "--layers",
                                    "2",
                                    "--width",
                                    "32",
                                    "--heads",
                                    "4",
                                    "--groups",
                                    "2",
                                    "--feed-forward",
                                    "64",
                                    "--batch",
                                    "8",
                                    "--tokens",
                                    "30k",
                                    "--evaluations",
                                    "10",
                                    "--sample-tokens",
                                    "0",
                                    "--threads",
                                    "1"};
  };
  ASSERT_EQ(wait_for(start(arguments("whole"))), 0);
  auto killed = arguments("killed");
  killed.push_back("--resume");
  int kills = 0;
  for (const int signal : {SIGKILL, SIGINT, SIGKILL}) {
    const auto before = train::list_checkpoints(folder / "killed/checkpoints");
    const pid_t child = start(killed);
    for (int i = 0; i < 2000 && train::list_checkpoints(folder / "killed/checkpoints") == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    kill(child, signal);
    const int status = wait_for(child);
    kills += status == -SIGKILL || status == 130;
  }
  EXPECT_GE(kills, 1);  // a fast machine may be done before
  ASSERT_EQ(wait_for(start(killed)), 0);
  for (const char* file : {"model/model.safetensors", "model.gguf", "tokens.safetensors"})
    EXPECT_EQ(contents(folder / "killed" / file), contents(folder / "whole" / file)) << file;
}
#endif

TEST(LanguageModelTraining, ALossThatIsNoNumberEndsTheRun) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  TrainingOptions options = tiny(folder);
  options.evaluations = 40;
  options.learning_rate = 1e38;
  options.warmup = 0.9;
  options.clip_norm = 0;
  try {
    train_language_model(options);
    FAIL() << "no exception";
  } catch (const train::NonFiniteLoss& error) {
    EXPECT_NE(std::string(error.what()).find("step " + std::to_string(error.step())), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("the last good checkpoint is"), std::string::npos);
    // All checkpoints are from before, and good.
    for (const auto& path : train::list_checkpoints(options.folder / "checkpoints")) {
      models::Llama model({.vocabulary = 320,
                           .context = 32,
                           .layers = 2,
                           .width = 32,
                           .heads = 4,
                           .groups = 2,
                           .feed_forward = 64});
      train::load_model(model, path);
      for (const Tensor& parameter : model.parameters())
        EXPECT_TRUE(all(isfinite(parameter)).item<bool>()) << path;
    }
  }
}

// Whoever forgets --resume, or gives something else with it, loses nothing.
TEST(LanguageModelTraining, ARunIsNotSpoiltByAnother) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  TrainingOptions options = tiny(folder);
  train_language_model(options);
  const auto state = [&] {
    return contents(options.folder / "tokenizer.json") + contents(options.folder / "tokens.safetensors") +
           contents(options.folder / "run.json");
  };
  const std::string before = state();

  TrainingOptions elsewhere = tiny(folder);
  elsewhere.folder = folder / "elsewhere";
  elsewhere.model.vocabulary = 300;
  elsewhere.prepare_only = true;
  train_language_model(elsewhere);
  TrainingOptions other = options;
  other.tokenizer = elsewhere.folder / "tokenizer.json";
  for (const bool prepare_only : {true, false}) {
    other.prepare_only = prepare_only;
    expect_error<ValueError>([&] { train_language_model(other); }, {"has checkpoints of an earlier run"});
    EXPECT_TRUE(state() == before);
  }
  other.resume = true;
  expect_error<ValueError>([&] { train_language_model(other); }, {"vocabulary was 320, is 300"});
  EXPECT_TRUE(state() == before);

  options.resume = true;
  EXPECT_EQ(train_language_model(options).run.steps, 40);
}

TEST(LanguageModelTraining, ATokenizerIsUsedAgainForTheSameTextAndSize) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  TrainingOptions options = tiny(folder);
  options.prepare_only = true;
  const auto prepared = [&] {
    train_language_model(options);
    return contents(options.folder / "tokenizer.json");
  };
  const std::string first = prepared();
  EXPECT_TRUE(prepared() == first);
  options.model.vocabulary = 300;
  EXPECT_FALSE(prepared() == first);
  EXPECT_EQ(Tokenizer::load(options.folder / "tokenizer.json").size(), 300);
  options.model.vocabulary = 320;
  EXPECT_TRUE(prepared() == first);
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i * 7919) + " xyzzy" + std::string(end_of_text) + "\n";
  options.sources = {{folder.put("numbers.txt", text), 1}};
  EXPECT_FALSE(prepared() == first);
}

// Asked to go on where nothing was begun, it begins.
TEST(LanguageModelTraining, OptionsMayBeMendedBeforeTheFirstCheckpoint) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  TrainingOptions options = tiny(folder);
  options.resume = true;
  options.model.heads = 5;
  expect_error<ValueError>([&] { train_language_model(options); }, {"5 heads"});
  options.model.heads = 4;
  EXPECT_EQ(train_language_model(options).run.steps, 40);
}

TEST(LanguageModelTraining, BadOptionsAreRefused) {
  SKIP_WITHOUT_TOKENIZERS();
  const TemporaryFolder folder;
  const auto with = [&](auto change) {
    return [&folder, change] {
      TrainingOptions options = tiny(folder);
      options.folder = folder / "bad";
      change(options);
      train_language_model(options);
    };
  };
  // What does not depend on the texts is said before anything is made of them.
  constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
  expect_error<ValueError>(with([](auto& o) { o.learning_rate = HUGE_VAL; }), {"learning_rate = inf"});
  expect_error<ValueError>(with([](auto& o) { o.weight_decay = no_number; }), {"weight_decay = nan"});
  expect_error<ValueError>(with([](auto& o) { o.beta2 = 1; }), {"beta2 = 1"});
  expect_error<ValueError>(with([](auto& o) { o.clip_norm = -1; }), {"clip_norm = -1"});
  expect_error<ValueError>(with([](auto& o) { o.model.dropout = no_number; }), {"dropout", "nan"});
  expect_error<ValueError>(with([](auto& o) { o.model.heads = 5; }), {"5 heads"});
  EXPECT_FALSE(std::filesystem::exists(folder / "bad"));
  expect_error<ValueError>(with([](auto& o) { o.model.vocabulary = 30000; }), {"30000", "needs more text"});
  expect_error<ValueError>(with([](auto& o) { o.model.vocabulary = 100; }), {"100", "no room"});
  expect_error<ValueError>(with([](auto& o) { o.tokens = 0; }), {"tokens = 0"});
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  expect_error<ValueError>(with([](auto& o) { o.tokens = most; }), {"tokens = 9.2"});
  expect_error<ValueError>(with([](auto& o) { o.batch = most / 32 + 1; }), {"batch * accumulate * context"});
  expect_error<ValueError>(with([](auto& o) { o.model.context = 0; }), {"context = 0"});
  expect_error<ValueError>(with([](auto& o) { o.folder.clear(); }), {"folder"});
  expect_error<ValueError>(with([](auto& o) { o.held_out = 0.9; }), {"held out"});
  expect_error<ValueError>(with([](auto& o) { o.model.context = 100000; }), {"sequences of 100000"});
  expect_error<FileError>(with([](auto& o) { o.tokenizer = "absent.json"; }), {"absent.json"});
  expect_error<FormatError>(with([&](auto& o) { o.tokenizer = folder.put("bad.json", "{}"); }), {"bad.json"});
}

// ---- plots

TEST(CurvePlot, DrawsWhatIsFinite) {
  train::Curve loss{"loss <1>", {}, false};
  for (int i = 0; i < 10000; ++i) loss.points.emplace_back(i, i == 5 ? NAN : 10.0 / (i + 1));
  const std::string svg =
      train::to_svg({"a & b", "steps", "loss", {loss, {"validation", {{0, 5}, {9999, 1}}, true}}});
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_NE(svg.find("loss &lt;1>"), svg.npos);
  EXPECT_NE(svg.find("a &amp; b"), svg.npos);
  EXPECT_LT(svg.size(), 30000u);
  EXPECT_EQ(train::to_svg({"empty", "x", "y", {}}).find("inf"), std::string::npos);
  EXPECT_EQ(train::to_svg({"one", "x", "y", {{"c", {{1, 2}}, true}}}).find("nan"), std::string::npos);
  for (const double value : {5.0, 1e20}) {  // values that differ by rounding alone
    const train::Curve flat{"c", {{1, value}, {2, std::nextafter(value, 2 * value)}}, false};
    const std::string drawn = train::to_svg({"flat", "x", "y", {flat}});
    EXPECT_EQ(drawn.find("nan"), drawn.npos);
    EXPECT_LT(drawn.size(), 5000u);
  }
}

}  // namespace
}  // namespace hearth::lm
