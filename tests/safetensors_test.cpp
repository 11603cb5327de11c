// safetensors files: round trips, files of the reference implementation, real models. Hostile files are in
// the corpus (fuzz_corpus_test); here are those whose message matters.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/file.h"
#include "expect_error.h"
#include "golden_pattern.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "hearth/ops.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

using test::expect_error;
using test::expect_golden;
using test::golden_tensor;
using test::TemporaryFolder;

const std::string golden = HEARTH_GOLDEN_DIR "/io/";
constexpr const char* strange_name = "na\u00efve/\u0438\u043c\u044f \"quoted\"\n";

TensorMap golden_tensors() {
  TensorMap tensors;
  for (const auto dtype : test::all_dtypes)
    tensors.emplace(std::string(dtype_name(dtype)), golden_tensor(dtype, {3, 5, 2}));
  tensors.emplace("scalar", golden_tensor(DType::f32, {}));
  tensors.emplace("empty", golden_tensor(DType::f32, {0, 4}));
  tensors.emplace("layers.0.weight", golden_tensor(DType::f32, {4, 3}));
  tensors.emplace(strange_name, golden_tensor(DType::i16, {2}));
  return tensors;
}

void expect_golden_file(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  EXPECT_EQ(file.names().size(), 14u);
  EXPECT_TRUE(std::is_sorted(file.names().begin(), file.names().end()));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  for (const auto dtype : test::all_dtypes) expect_golden(file.tensor(dtype_name(dtype)), dtype, {3, 5, 2});
  expect_golden(file.tensor("scalar"), DType::f32, {});
  expect_golden(file.tensor("empty"), DType::f32, {0, 4});
  expect_golden(file.tensor("layers.0.weight"), DType::f32, {4, 3});
  expect_golden(file.tensor(strange_name), DType::i16, {2});
  EXPECT_EQ(file.shape("layers.0.weight"), (Shape{4, 3}));
  EXPECT_EQ(file.dtype("bf16"), DType::bf16);
  EXPECT_TRUE(file.contains("f32"));
  EXPECT_FALSE(file.contains("f3"));
}

TEST(Safetensors, ReadsTheReferenceImplementationsFile) { expect_golden_file(golden + "all.safetensors"); }

TEST(Safetensors, RoundTrip) {
  TemporaryFolder folder;
  save_safetensors(folder / "f", golden_tensors(), {{"format", "pt"}});
  expect_golden_file(folder / "f");
  EXPECT_EQ(load_safetensors(folder / "f").size(), 14u);
}

TEST(Safetensors, WritesTheReferenceImplementationsBytes) {
  TemporaryFolder folder;
  save_safetensors(folder / "f", golden_tensors(), {{"format", "pt"}});
  EXPECT_EQ(read_file(folder / "f"), read_file(golden + "all.safetensors"));
}

TEST(Safetensors, EmptyMap) {
  TemporaryFolder folder;
  save_safetensors(folder / "f", {});
  EXPECT_TRUE(load_safetensors(folder / "f").empty());
}

TEST(Safetensors, MetadataKeepsAnyText) {
  TemporaryFolder folder;
  const Metadata metadata{{"", "empty key"}, {"quote\"", "back\\slash\n\t\x01"}, {"\u00fc", "\U0001f525"}};
  save_safetensors(folder / "f", {}, metadata);
  EXPECT_EQ(SafetensorsFile(folder / "f").metadata(), metadata);
}

TEST(Safetensors, SavesWhatIsNotComputedYetAndNotDense) {
  TemporaryFolder folder;
  const auto base = golden_tensor(DType::f32, {4, 3});
  save_safetensors(folder / "f", {{"sum", base + base}, {"transposed", base.t()}});
  const SafetensorsFile file(folder / "f");
  EXPECT_EQ(file.tensor("sum").to_vector<float>(), (base * 2).to_vector<float>());
  EXPECT_EQ(file.shape("transposed"), (Shape{3, 4}));
  EXPECT_EQ(file.tensor("transposed").to_vector<float>(), base.t().to_vector<float>());
}

// Loaded tensors are the mapped file; saving over it must not disturb them.
TEST(Safetensors, SavesOverTheFileItReads) {
  TemporaryFolder folder;
  save_safetensors(folder / "f", {{"x", golden_tensor(DType::f32, {1000})}});
  auto tensors = load_safetensors(folder / "f");
  for (int round = 0; round < 3; ++round) {
    tensors.at("x") = tensors.at("x") + 1;
    save_safetensors(folder / "f", tensors);
    EXPECT_EQ(load_safetensors(folder / "f").at("x").to_vector<float>(), tensors.at("x").to_vector<float>());
  }
}

TEST(Safetensors, TensorsOutliveTheFile) {
  TemporaryFolder folder;
  save_safetensors(folder / "f", {{"x", golden_tensor(DType::f64, {100})}});
  auto file = std::make_unique<SafetensorsFile>(folder / "f");
  const auto x = file->tensor("x");
  file.reset();
  std::filesystem::remove(folder / "f");
  expect_golden(x, DType::f64, {100});
}

// The header of this file leaves the f32 tensor at an odd address.
TEST(Safetensors, UnalignedTensorsAreCopied) {
  TemporaryFolder folder;
  const std::string header =
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  std::string text;
  io::append_little(text, std::uint64_t{header.size()});
  text += header + "\x07";
  for (const float value : {1.5f, -2.f}) io::append_little(text, std::bit_cast<std::uint32_t>(value));
  folder.put("f", text);
  const SafetensorsFile file(folder / "f");
  EXPECT_EQ(file.tensor("b").to_vector<int>(), std::vector<int>{7});
  EXPECT_EQ(file.tensor("f").to_vector<float>(), (std::vector<float>{1.5f, -2.f}));
}

TEST(Safetensors, UnsupportedDTypeMattersOnlyWhenAskedFor) {
  const SafetensorsFile file(golden + "u16.safetensors");
  expect_golden(file.tensor("odd"), DType::u8, {3});
  EXPECT_EQ(file.shape("u16"), Shape{3});
  expect_error<DTypeError>([&] { file.tensor("u16"); },
                           {"u16.safetensors", "\"u16\"", "unsupported dtype U16"});
  expect_error<DTypeError>([&] { file.dtype("u16"); }, {"unsupported dtype U16"});
  expect_error<DTypeError>([&] { load_safetensors(golden + "u16.safetensors"); }, {"U16"});
}

TEST(Safetensors, MessagesNameFileTensorAndRule) {
  TemporaryFolder folder;
  const auto load = [&](std::string_view header, std::string_view data) {
    std::string text;
    io::append_little(text, std::uint64_t{header.size()});
    folder.put("bad.safetensors", text + std::string(header) + std::string(data));
    load_safetensors(folder / "bad.safetensors");
  };
  expect_error<FormatError>(
      [&] { load(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678"); },
      {"bad.safetensors", "\"w\"", "F32 of shape (3,) has 12 bytes", "span 8"});
  expect_error<FormatError>(
      [&] { load(R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", "12345678"); },
      {"bad.safetensors", "\"w\"", "hole of 4 bytes"});
  expect_error<FormatError>(
      [&] { load(R"({"w":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x03"); },
      {"bad.safetensors", "\"w\"", "element 1", "is 3"});
  expect_error<FormatError>([&] { load("{\"" + std::string(5000, 'n') + "\":1}", ""); }, {"(5000 bytes)"});
  expect_error<FileError>([&] { load_safetensors(folder / "absent"); }, {"absent", "No such file"});
  expect_error<ValueError>([&] { SafetensorsFile(golden + "u16.safetensors").tensor("x"); },
                           {"no tensor \"x\""});
}

TEST(Safetensors, WhatCannotBeSaved) {
  TemporaryFolder folder;
  const auto x = golden_tensor(DType::f32, {2});
  save_safetensors(folder / "f", {{"x", x}});
  const auto before = read_file(folder / "f");
  const auto save = [&](const TensorMap& tensors, const Metadata& metadata = {}) {
    save_safetensors(folder / "f", tensors, metadata);
  };
  expect_error<ValueError>([&] { save({{"x", x}, {"u", Tensor()}}); }, {"\"u\"", "undefined"});
  expect_error<ValueError>([&] { save({{"__metadata__", x}}); }, {"__metadata__"});
  expect_error<ValueError>([&] { save({{"\xff", x}}); }, {"\\xff", "not UTF-8"});
  expect_error<ValueError>([&] { save({{"x", x}}, {{"k", "\xc3"}}); }, {"not UTF-8"});
  expect_error<FileError>([&] { save_safetensors(folder / "absent/f", {{"x", x}}); }, {"No such file"});
  EXPECT_EQ(read_file(folder / "f"), before);
  EXPECT_EQ(folder.files().size(), 1u);
}

TEST(Safetensors, ManyTensors) {
  TemporaryFolder folder;
  TensorMap tensors;
  const auto x = golden_tensor(DType::i32, {3});
  for (int i = 0; i < 20'000; ++i) tensors.emplace("layer." + std::to_string(i), x);
  save_safetensors(folder / "f", tensors);
  const SafetensorsFile file(folder / "f");
  EXPECT_EQ(file.names().size(), 20'000u);
  expect_golden(file.tensor("layer.19999"), DType::i32, {3});
}

// A process that saves all the time is killed at any moment: the file is one of those it saved, whole. The
// child is this program run anew, since a fork of a process with threads may not evaluate tensors.
constexpr const char* save_forever_path = "HEARTH_TEST_SAVE_FOREVER";

TEST(SafetensorsChild, DISABLED_SavesForever) {
  const char* path = std::getenv(save_forever_path);
  if (!path) GTEST_SKIP() << "this is the child of Safetensors.KilledWhileSaving";
  for (int round = 1;; ++round)
    save_safetensors(path, {{"a", full({100, 100}, round)}, {"b", full({10}, round)}},
                     {{"round", std::to_string(round)}});
}

TEST(Safetensors, KilledWhileSaving) {
  TemporaryFolder folder;
  const auto path = (folder / "f").string();
  save_safetensors(path, {{"a", full({100, 100}, 0)}, {"b", full({10}, 0)}}, {{"round", "0"}});
  int last = 0;
  for (int kill = 0; kill < 8; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv(save_forever_path, path.c_str(), 1);
      ::execl("/proc/self/exe", "safetensors_test", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
              "--gtest_filter=SafetensorsChild.*", static_cast<char*>(nullptr));
      ::_exit(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + 13 * kill));
    EXPECT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));  // it had not ended by itself
    const SafetensorsFile file(path);
    const float round = std::stof(file.metadata().at("round"));
    EXPECT_EQ(file.tensor("a").to_vector<float>(), std::vector<float>(10'000, round));
    EXPECT_EQ(file.tensor("b").to_vector<float>(), std::vector<float>(10, round));
    last = std::max(last, static_cast<int>(round));
  }
  EXPECT_GT(last, 0);  // a child had time to save
}

TEST(Safetensors, RealModels) {
  const std::filesystem::path models = HEARTH_SHARED_DIR "/models";
  if (!std::filesystem::exists(models)) GTEST_SKIP() << "no folder " << models;
  int files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(models)) {
    if (item.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(item.path());
    const SafetensorsFile file(item.path());
    std::uintmax_t bytes = 0;
    for (const auto& name : file.names()) bytes += file.tensor(name).nbytes();
    EXPECT_GT(bytes, std::filesystem::file_size(item.path()) / 2);
    TemporaryFolder folder;
    save_safetensors(folder / "copy", load_safetensors(item.path()), file.metadata());
    const SafetensorsFile copy(folder / "copy");
    EXPECT_EQ(copy.names(), file.names());
    for (const auto& name : file.names())
      ASSERT_EQ(copy.tensor(name).to_bytes(), file.tensor(name).to_bytes());
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace hearth
