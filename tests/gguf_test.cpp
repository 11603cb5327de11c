// GGUF files: what the reference package reads and writes, round trips, parts. Hostile files are in the
// corpus (fuzz_corpus_test); here are those whose message matters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "expect_error.h"
#include "golden_pattern.h"
#include "hearth/error.h"
#include "hearth/gguf.h"
#include "hearth/quantise.h"
#include "io/bytes.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

using nlohmann::json;
using test::expect_error;
using test::expect_golden;
using test::golden_tensor;
using test::TemporaryFolder;

const std::string golden = HEARTH_GOLDEN_DIR "/io/";
const std::string shared = HEARTH_SHARED_DIR "/";

// ---- against the reference package

class Fnv {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const auto byte : bytes) state_ = (state_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text.c_str(), text.size() + 1))); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void add(T value) { add(std::as_bytes(std::span(&value, 1))); }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

constexpr const char* kinds[] = {"UINT8", "INT8",   "UINT16", "INT16",  "UINT32", "INT32",  "FLOAT32",
                                 "BOOL",  "STRING", "ARRAY",  "UINT64", "INT64",  "FLOAT64"};

void expect_value(const GgufValue& value, const json& expected) {
  const auto* array = std::get_if<GgufArray>(&value);
  if (!array) {
    EXPECT_EQ(kinds[value.index()], expected["type"].get<std::string>());
    std::visit(
        [&]<typename T>(const T& alternative) {
          if constexpr (!std::is_same_v<T, GgufArray>) {
            EXPECT_EQ(alternative, expected["value"].get<T>());
          }
        },
        value);
    return;
  }
  EXPECT_EQ(std::string("ARRAY ") + kinds[array->values.index()], expected["type"].get<std::string>());
  std::visit(
      [&](const auto& values) {
        using T = typename std::decay_t<decltype(values)>::value_type;
        if constexpr (!std::is_same_v<T, GgufArray>) {
          EXPECT_EQ(values.size(), expected["length"]);
          Fnv hash;
          for (const T& element : values) hash.add(element);
          EXPECT_EQ(hash.text(), expected["hash"].get<std::string>());
        }
      },
      array->values);
}

void expect_file(const std::string& path, const json& expected) {
  SCOPED_TRACE(path);
  const GgufFile file(path);
  EXPECT_EQ(file.version(), expected["version"]);
  EXPECT_EQ(file.metadata().size(), expected["metadata"].size());
  for (const auto& [key, value] : file.metadata()) {
    SCOPED_TRACE(key);
    expect_value(value, expected["metadata"].at(key));
  }
  ASSERT_EQ(file.names().size(), expected["tensors"].size());
  for (std::size_t i = 0; i < file.names().size(); ++i) {
    const auto& name = file.names()[i];
    const auto& tensor = expected["tensors"][i];
    EXPECT_EQ(name, tensor["name"].get<std::string>());
    EXPECT_EQ(file.type_name(name), tensor["type"].get<std::string>());
    EXPECT_EQ(json(std::vector(file.shape(name).begin(), file.shape(name).end())), tensor["shape"]);
    const auto bytes = file.bytes(name);
    EXPECT_EQ(bytes.size(), tensor["bytes"]);
    Fnv hash;
    hash.add(bytes.first(std::min<std::size_t>(bytes.size(), 4096)));
    EXPECT_EQ(hash.text(), tensor["hash"].get<std::string>());
  }
}

json golden_json() { return json::parse(read_text_file(HEARTH_GOLDEN_DIR "/gguf.json")); }

TEST(Gguf, ReadsRealFilesAsTheReferencePackageDoes) {
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no models in " << shared;
  const auto files = golden_json();
  EXPECT_EQ(files.size(), 8u);
  for (const auto& [name, expected] : files.items())
    if (name != "reference.gguf") expect_file(shared + name, expected);
}

TEST(Gguf, ReadsTheReferencePackagesFile) {
  expect_file(golden + "reference.gguf", golden_json()["reference.gguf"]);
  const GgufFile file(golden + "reference.gguf");
  for (const auto dtype : {DType::f64, DType::f32, DType::f16, DType::i8, DType::i16, DType::i32, DType::i64})
    expect_golden(file.tensor(dtype_name(dtype)), dtype, {3, 5, 2});
  expect_golden(file.tensor("bf16"), DType::bf16, {2, 3, 64});
  const auto exact = golden_tensor(DType::f32, {2, 3, 64}).to_vector<float>();
  for (const auto dtype : {DType::q4_0, DType::q5_1, DType::q8_0}) {
    const auto blocks = file.tensor(dtype_name(dtype));
    EXPECT_EQ(blocks.dtype(), dtype);
    EXPECT_EQ(blocks.shape(), (Shape{2, 3, 64}));
    const auto values = dequantise(blocks).to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], exact[i], 0.16f) << dtype_name(dtype);
  }
}

TEST(Gguf, TypesHearthDoesNotHaveMatterOnlyWhenAskedFor) {
  const GgufFile file(golden + "reference.gguf");
  EXPECT_EQ(file.type_name("iq2_s"), "IQ2_S");
  EXPECT_EQ(file.bytes("iq2_s").size(), 164u);
  expect_error<DTypeError>([&] { file.tensor("iq2_s"); },
                           {"reference.gguf", "\"iq2_s\"", "unsupported type IQ2_S"});
  expect_error<DTypeError>([&] { file.dtype("iq2_s"); }, {"IQ2_S"});
}

TEST(Gguf, ValuesAreConverted) {
  const GgufFile file(golden + "reference.gguf");
  EXPECT_EQ(file.get<std::int64_t>("test.uint8"), 200);
  EXPECT_EQ(file.require<std::int64_t>("test.int64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(file.get<double>("test.int16"), -30000.0);
  EXPECT_EQ(file.get<double>("test.float32"), 0.5);
  EXPECT_EQ(file.get<bool>("test.bool"), true);
  EXPECT_EQ(file.get<std::string>("test.string"), "na\u00efve \U0001f525");
  EXPECT_EQ(file.get<std::vector<std::int64_t>>("test.integers"), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(file.get<std::vector<double>>("test.integers"), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(file.get<std::vector<double>>("test.floats"), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(file.get<std::vector<bool>>("test.bools"), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(file.get<std::vector<std::string>>("test.strings"),
            (std::vector<std::string>{"", "a", "\u00fc"}));
  const GgufArray first{std::vector<std::string>{"a", "b"}}, second{std::vector<std::string>{"c"}};
  EXPECT_EQ(std::get<GgufArray>(file.metadata().at("test.nested")),
            (GgufArray{std::vector<GgufArray>{first, second}}));

  EXPECT_EQ(file.get<std::int64_t>("absent"), std::nullopt);
  expect_error<FormatError>([&] { file.require<std::int64_t>("absent"); }, {"reference.gguf", "\"absent\""});
  for (const auto* key : {"test.uint64", "test.float32", "test.string", "test.bool", "test.integers"})
    expect_error<FormatError>([&] { file.get<std::int64_t>(key); }, {"reference.gguf", key});
  expect_error<FormatError>([&] { file.get<bool>("test.uint8"); }, {"u8"});
  expect_error<FormatError>([&] { file.get<std::string>("test.strings"); }, {"an array of string"});
  expect_error<FormatError>([&] { file.get<std::vector<std::string>>("test.string"); }, {"string"});
  expect_error<FormatError>([&] { file.get<std::vector<std::int64_t>>("test.floats"); }, {"array of f32"});
  expect_error<FormatError>([&] { file.get<std::vector<double>>("test.nested"); }, {"array of array"});
}

// ---- parts

TEST(Gguf, PartsAreOneFile) {
  const GgufFile whole(golden + "reference.gguf"), parts(golden + "split-00001-of-00003.gguf");
  EXPECT_EQ(parts.names(), whole.names());
  for (const auto& name : whole.names()) {
    EXPECT_EQ(parts.shape(name), whole.shape(name));
    EXPECT_TRUE(std::ranges::equal(parts.bytes(name), whole.bytes(name))) << name;
  }
  EXPECT_EQ(parts.get<std::string>("general.architecture"), "llama");
}

TEST(Gguf, PartsThatAreMissingAreNamed) {
  TemporaryFolder folder;
  const auto copy = [&](const char* from, const char* to) {
    std::filesystem::copy_file(golden + from, folder / to, std::filesystem::copy_options::overwrite_existing);
  };
  copy("split-00001-of-00003.gguf", "m-00001-of-00003.gguf");
  expect_error<FileError>(
      [&] { GgufFile(folder / "m-00001-of-00003.gguf"); },
      {"m-00001-of-00003.gguf", "2 are missing", "m-00002-of-00003.gguf, m-00003-of-00003.gguf"});
  copy("split-00002-of-00003.gguf", "m-00002-of-00003.gguf");
  copy("split-00002-of-00003.gguf", "m-00003-of-00003.gguf");
  expect_error<FormatError>([&] { GgufFile(folder / "m-00001-of-00003.gguf"); },
                            {"m-00003-of-00003.gguf", "its name says part 3 of 3"});
  expect_error<FormatError>([&] { GgufFile(folder / "m-00002-of-00003.gguf"); },
                            {"part 2 of 3; open the first"});
  copy("split-00001-of-00003.gguf", "m.gguf");
  expect_error<FormatError>([&] { GgufFile(folder / "m.gguf"); }, {"must end in \"-00001-of-00003.gguf\""});
}

TEST(Gguf, PartsMustFitTogether) {
  TemporaryFolder folder;
  const auto put = [&](int number, int tensors, const std::string& name) {
    GgufWriter writer(folder / fmt::format("m-{:05}-of-00002.gguf", number + 1),
                      {{"split.no", std::uint16_t(number)},
                       {"split.count", std::uint16_t(2)},
                       {"split.tensors.count", std::int32_t(tensors)}},
                      {{name, DType::i8, {1}}});
    writer.write(std::as_bytes(std::span("x", 1)));
    writer.commit();
  };
  put(0, 2, "a");
  put(1, 2, "b");
  EXPECT_EQ(GgufFile(folder / "m-00001-of-00002.gguf").names(), (std::vector<std::string>{"a", "b"}));
  put(0, 3, "a");
  expect_error<FormatError>([&] { GgufFile(folder / "m-00001-of-00002.gguf"); },
                            {"should have 3 tensors, they have 2"});
  put(0, 2, "b");
  expect_error<FormatError>([&] { GgufFile(folder / "m-00001-of-00002.gguf"); },
                            {"tensor \"b\" is in another part too"});
}

TEST(Gguf, ManyPartsAreNotSearchedFor) {
  TemporaryFolder folder;
  GgufWriter(folder / "f", {{"split.count", std::uint64_t{1} << 62}}, {}).commit();
  expect_error<FormatError>([&] { GgufFile(folder / "f"); }, {"parts; at most 99999"});
}

// ---- writing

GgufMetadata some_metadata() {
  const GgufArray inner{std::vector<std::int16_t>{-3, 4}};
  return {{"u8", std::uint8_t{255}},
          {"i8", std::int8_t{-128}},
          {"u16", std::uint16_t{65535}},
          {"i16", std::int16_t{-32768}},
          {"u32", std::uint32_t{4294967295u}},
          {"i32", std::int32_t{-5}},
          {"f32", 1.25f},
          {"bool", true},
          {"string", std::string("a\0b\xff", 4)},
          {"u64", std::uint64_t{1} << 63},
          {"i64", std::int64_t{-1}},
          {"f64", 0.1},
          {"bools", GgufArray{std::vector<bool>{true, false}}},
          {"strings", GgufArray{std::vector<std::string>{"x", ""}}},
          {"empty", GgufArray{std::vector<std::string>{}}},
          {"nested", GgufArray{std::vector<GgufArray>{inner, GgufArray{std::vector<GgufArray>{inner}}}}}};
}

TEST(Gguf, RoundTrip) {
  for (const std::uint32_t alignment : {0u, 1u, 8u, 4096u}) {
    TemporaryFolder folder;
    auto metadata = some_metadata();
    if (alignment) metadata["general.alignment"] = alignment;
    const std::vector<std::pair<std::string, Tensor>> tensors = {
        {"odd", golden_tensor(DType::i8, {7})},
        {"f32", golden_tensor(DType::f32, {2, 3})},
        {"scalar", golden_tensor(DType::f64, {})},
        {"none", golden_tensor(DType::f16, {0, 3})},
        {"q4_k", quantise(golden_tensor(DType::f32, {3, 256}), DType::q4_k)},
        {"bf16", golden_tensor(DType::bf16, {1, 2, 3, 4})},
        {"last", golden_tensor(DType::i16, {3})}};
    std::vector<GgufTensorSpec> specs;
    for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype(), tensor.shape()});
    GgufWriter writer(folder / "f", metadata, specs);
    for (const auto& [name, tensor] : tensors)
      if (tensor.numel() != 0) writer.write(tensor);
    writer.commit();

    const GgufFile file(folder / "f");
    EXPECT_EQ(file.version(), 3u);
    EXPECT_TRUE(file.metadata() == metadata);
    ASSERT_EQ(file.names().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(file.dtype(name), tensor.dtype());
      EXPECT_EQ(file.shape(name), tensor.shape());
      EXPECT_EQ(file.tensor(name).to_bytes(), tensor.to_bytes()) << name;
    }
  }
}

TEST(Gguf, WritesTheReferencePackagesBytes) {
  TemporaryFolder folder;
  const GgufFile reference(golden + "ordered.gguf");
  std::vector<GgufTensorSpec> specs;
  for (const auto& name : reference.names())
    specs.push_back({name, reference.dtype(name), reference.shape(name)});
  GgufWriter writer(folder / "f", reference.metadata(), specs);
  for (const auto& spec : specs) {
    const auto bytes = reference.bytes(spec.name);  // in two pieces
    writer.write(bytes.first(bytes.size() / 2));
    writer.write(bytes.subspan(bytes.size() / 2));
  }
  writer.commit();
  EXPECT_EQ(read_file(folder / "f"), read_file(golden + "ordered.gguf"));
}

TEST(Gguf, WritesNothingUntilCommitted) {
  TemporaryFolder folder;
  {
    GgufWriter writer(folder / "f", {}, {{"a", DType::i8, {2}}, {"b", DType::i8, {1}}});
    writer.write(std::as_bytes(std::span("x", 1)));
    expect_error<ValueError>([&] { writer.write(golden_tensor(DType::i8, {2})); },
                             {"\"a\"", "after some bytes"});
    expect_error<ValueError>([&] { writer.write(std::as_bytes(std::span("xy", 2))); },
                             {"\"a\" has 1 bytes left"});
    writer.write(std::as_bytes(std::span("y", 1)));
    expect_error<ValueError>([&] { writer.commit(); }, {"1 of 2 tensors", "\"b\""});
    expect_error<ValueError>([&] { writer.write(golden_tensor(DType::f32, {1})); },
                             {"\"b\" i8 (1,), got f32 (1,)"});
    expect_error<ValueError>([&] { writer.write(Tensor()); }, {"undefined"});
    EXPECT_FALSE(std::filesystem::exists(folder / "f"));
  }
  EXPECT_TRUE(folder.files().empty());
}

TEST(Gguf, WriterRefusesWhatTheFormatDoesNotHave) {
  TemporaryFolder folder;
  const auto write = [&](const GgufMetadata& metadata, const std::vector<GgufTensorSpec>& tensors) {
    GgufWriter(folder / "f", metadata, tensors);
  };
  expect_error<DTypeError>([&] { write({}, {{"a", DType::u8, {1}}}); }, {"\"a\"", "no u8"});
  expect_error<DTypeError>([&] { write({}, {{"a", DType::bool_, {1}}}); }, {"no bool"});
  expect_error<ShapeError>([&] { write({}, {{"a", DType::f32, {1, 1, 1, 1, 1}}}); }, {"5 axes"});
  expect_error<ShapeError>([&] { write({}, {{"a", DType::q8_0, {33}}}); }, {"blocks of 32"});
  expect_error<ValueError>(
      [&] {
        write({}, {{"a", DType::f32, {1}}, {"a", DType::f32, {1}}});
      },
      {"two tensors"});
  expect_error<ValueError>([&] { write({{"general.alignment", std::uint32_t{48}}}, {}); }, {"power of two"});
  expect_error<ValueError>([&] { write({{"general.alignment", std::uint64_t{32}}}, {}); }, {"u32"});
  expect_error<ValueError>([&] { write({{std::string(65536, 'k'), true}}, {}); }, {"longer than 65535"});
  EXPECT_TRUE(folder.files().empty());
}

TEST(Gguf, TensorsOutliveTheFile) {
  TemporaryFolder folder;
  std::filesystem::copy_file(golden + "reference.gguf", folder / "f");
  auto file = std::make_unique<GgufFile>(folder / "f");
  const auto x = file->tensor("f64");
  file.reset();
  std::filesystem::remove(folder / "f");
  expect_golden(x, DType::f64, {3, 5, 2});
}

TEST(Gguf, WhatIsForgottenIsReadAgain) {
  TemporaryFolder folder;
  const std::vector<float> numbers(100'000, 3.5f);
  {
    GgufWriter writer(folder / "f", {}, {{"x", DType::f32, {100'000}}, {"y", DType::f32, {1}}});
    writer.write(tensor<float>(numbers));
    writer.write(tensor<float>({7.0f}));
    writer.commit();
  }
  const GgufFile file(folder / "f");
  const Tensor x = file.tensor("x");
  EXPECT_EQ(x.to_vector<float>(), numbers);
  for (const char* name : {"x", "y"}) file.forget(name);
  EXPECT_EQ(x.to_vector<float>(), numbers);
  EXPECT_EQ(file.tensor("y").to_vector<float>(), std::vector<float>{7});
}

// ---- messages

// A file by hand: one metadata entry, one tensor.
struct Draft {
  std::uint32_t version = 3;
  std::uint64_t tensors = 1, keys = 1;
  std::string key = "k";
  std::uint32_t key_type = 4;
  std::string key_value = std::string("\7\0\0\0", 4);
  std::string name = "t";
  std::vector<std::uint64_t> sizes = {2};
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::string data = "01234567";

  std::string text() const {
    std::string out = "GGUF";
    io::append_little(out, version);
    io::append_little(out, tensors);
    io::append_little(out, keys);
    io::append_little(out, std::uint64_t{key.size()});
    out += key;
    io::append_little(out, key_type);
    out += key_value;
    io::append_little(out, std::uint64_t{name.size()});
    out += name;
    io::append_little(out, static_cast<std::uint32_t>(sizes.size()));
    for (const auto size : sizes) io::append_little(out, size);
    io::append_little(out, type);
    io::append_little(out, offset);
    out.resize((out.size() + 31) / 32 * 32);
    return out + data;
  }
};

TEST(Gguf, MessagesNameFileAndRule) {
  TemporaryFolder folder;
  const auto open = [&](const Draft& draft) { GgufFile(folder.put("bad.gguf", draft.text())); };
  open({});
  open({.version = 2});
  const auto refused = [&](const Draft& draft, std::initializer_list<std::string_view> parts) {
    expect_error<FormatError>([&] { open(draft); }, {"[gguf] '", "bad.gguf"});
    expect_error<FormatError>([&] { open(draft); }, parts);
  };
  const auto u64 = [](std::uint64_t value) {
    std::string text;
    io::append_little(text, value);
    return text;
  };
  refused({.version = 1}, {"version 1"});
  refused({.version = 4}, {"version 4"});
  refused({.version = 0x03000000}, {"big-endian"});
  refused({.tensors = 1u << 30}, {"1073741824 tensors cannot be in"});
  refused({.tensors = 2}, {"cut short"});
  refused({.keys = ~0ull}, {"metadata entries cannot be in"});
  refused({.key_type = 13}, {"metadata \"k\": unknown type 13"});
  refused({.key_type = 7}, {"metadata \"k\": a bool is 7"});
  refused({.key_type = 8, .key_value = u64(1u << 20)}, {"metadata \"k\": 1048576 bytes from byte"});
  refused({.key_type = 9, .key_value = std::string("\7\0\0\0", 4) + u64(1000)},
          {"1000 elements cannot be in"});
  refused({.key = "general.alignment"}, {"general.alignment is 7; it must be a power of two"});
  refused({.key = "general.alignment", .key_type = 10, .key_value = u64(32)}, {"general.alignment is u64"});
  refused({.key = std::string(65536, 'k')}, {"65536 bytes; at most 65535"});
  refused({.sizes = std::vector<std::uint64_t>(17, 1)}, {"tensor \"t\": 17 axes"});
  refused({.sizes = {~0ull}}, {"does not fit in 63 bits"});
  refused({.sizes = {1ull << 32, 1ull << 31}}, {"more elements than 63 bits"});
  refused({.sizes = {1ull << 31, 1ull << 30}}, {"more bytes than 63 bits"});
  refused({.sizes = {33}, .type = 8}, {"Q8_0 comes in blocks of 32", "(33,)"});
  refused({.sizes = {}, .type = 8}, {"blocks of 32"});
  refused({.offset = 8}, {"tensor \"t\": its offset 8 is not a multiple of the alignment, 32"});
  refused({.offset = 32}, {"tensor \"t\": 8 bytes from 32 on are outside the 8 bytes of data"});
  refused({.sizes = {3}}, {"cut short"});
  expect_error<FormatError>([&] { GgufFile(folder.put("bad.gguf", "GGML....")); }, {"not a GGUF file"});
  expect_error<FormatError>([&] { GgufFile(folder.put("bad.gguf", "")); }, {"not a GGUF file"});
  expect_error<FileError>([&] { GgufFile(folder / "absent.gguf"); }, {"absent.gguf"});

  folder.put("odd.gguf", Draft{.type = 77}.text());
  const GgufFile odd(folder / "odd.gguf");
  EXPECT_EQ(odd.type_name("t"), "type 77");
  expect_error<DTypeError>([&] { odd.tensor("t"); }, {"odd.gguf", "\"t\"", "type 77"});
  expect_error<DTypeError>([&] { odd.bytes("t"); }, {"unknown type 77"});
  expect_error<ValueError>([&] { odd.tensor("x"); }, {"no tensor \"x\""});
}

}  // namespace
}  // namespace hearth
