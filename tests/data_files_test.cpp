// Files of data sets: IDX, fixed-size records, CSV; plain and compressed.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "io/csv_format.h"
#include "io/deflate.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

using test::expect_error;
using test::TemporaryFolder;

const std::filesystem::path shared = HEARTH_SHARED_DIR "/data";
const std::string corpus = HEARTH_TEST_DIR "/fuzz/corpus/";

// ---- IDX

TEST(Idx, Values) {
  EXPECT_EQ(load_idx(corpus + "idx/good_f32.idx").to_vector<float>(), (std::vector<float>{1.5f, -2.f}));
  const auto u8 = load_idx(corpus + "idx/good_u8.idx");
  EXPECT_EQ(u8.shape(), (Shape{2, 3}));
  EXPECT_EQ(u8.dtype(), DType::u8);
}

TEST(Idx, MessagesNameFileAndRule) {
  expect_error<FormatError>([&] { load_idx(corpus + "idx/bad_data_cut_short.idx"); },
                            {"bad_data_cut_short.idx", "u8 of shape (2, 3) has 6 bytes, but 5 follow"});
  expect_error<FileError>([&] { load_idx(corpus + "idx/absent"); }, {"absent", "No such file"});
}

#ifdef HEARTH_HAVE_ZLIB
TEST(Idx, Compressed) {
  EXPECT_EQ(load_idx(corpus + "idx/good_gz_i16.idx").to_vector<int>(), (std::vector<int>{1, -2, 3}));
  EXPECT_EQ(load_idx(corpus + "idx/good_gz_two_members.idx").shape(), (Shape{2, 3}));
  expect_error<FormatError>([&] { load_idx(corpus + "idx/bad_gz_crc.idx"); }, {"[gzip]", "damaged"});
  expect_error<FormatError>([&] { load_idx(corpus + "idx/bad_gz_claims_terabytes.idx"); }, {"expand"});
}

TEST(Idx, Mnist) {
  const auto folder = shared / "mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no folder " << folder;
  const auto images = load_idx(folder / "t10k-images-idx3-ubyte.gz");
  const auto labels = load_idx(folder / "t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(images.shape(), (Shape{10000, 28, 28}));
  ASSERT_EQ(labels.shape(), Shape{10000});
  const auto values = labels.to_vector<int>();
  EXPECT_EQ(std::vector<int>(values.begin(), values.begin() + 10),
            (std::vector<int>{7, 2, 1, 0, 4, 1, 4, 9, 5, 9}));
  std::vector<int> counts(10);
  for (const int value : values) ++counts.at(static_cast<std::size_t>(value));
  EXPECT_EQ(counts, (std::vector<int>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}));
  EXPECT_EQ(load_idx(folder / "train-images-idx3-ubyte.gz").shape(), (Shape{60000, 28, 28}));
}
#else
TEST(Idx, WithoutZlibCompressionIsRefused) {
  expect_error<FileError>([&] { load_idx(corpus + "idx/good_gz.idx"); }, {"good_gz.idx", "without zlib"});
}
#endif

// ---- records

TEST(Records, TakesRecordsApart) {
  TemporaryFolder folder;
  folder.put("f", std::string("\x01"
                              "abcd"
                              "\x02"
                              "efgh"));
  const auto records = load_records(folder / "f", 1, {2, 2});
  EXPECT_EQ(records.labels.shape(), (Shape{2, 1}));
  EXPECT_EQ(records.labels.to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(records.items.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(records.items.to_vector<int>(), (std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}));
  EXPECT_EQ(load_records(folder / "f", 0, {5}).items.shape(), (Shape{2, 5}));
  expect_error<FormatError>([&] { load_records(folder / "f", 1, {2}); },
                            {"10 bytes are not a whole number of records of 3"});
  EXPECT_THROW(load_records(folder / "f", 0, {0}), ValueError);
  EXPECT_THROW(load_records(folder / "f", -1, {2}), ValueError);
  EXPECT_THROW(load_records(folder / "f", 1, {-2}), ValueError);
  EXPECT_THROW(load_records(folder / "f", 1, {1l << 40, 1l << 40}), ValueError);
}

TEST(Records, Cifar10) {
  const auto path = shared / "cifar10-4000/data_batch_1_first4000.bin";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no file " << path;
  const auto records = load_records(path, 1, {3, 32, 32});
  EXPECT_EQ(records.items.shape(), (Shape{4000, 3, 32, 32}));
  const auto labels = records.labels.to_vector<int>();
  EXPECT_EQ(std::vector<int>(labels.begin(), labels.begin() + 5), (std::vector<int>{6, 9, 9, 4, 1}));
  const auto pixels = records.items.to_vector<int>();
  EXPECT_EQ(std::vector<int>(pixels.begin(), pixels.begin() + 3), (std::vector<int>{59, 43, 50}));
}

// ---- CSV

class CsvTest : public testing::Test {
 protected:
  CsvTable table(std::string_view text, const CsvOptions& options = {}) const {
    folder.put("t.csv", text);
    return CsvTable(folder / "t.csv", options);
  }
  TemporaryFolder folder;
};

TEST_F(CsvTest, NumbersAndTexts) {
  const auto t = table("name,x,y\r\nfirst, 1 ,-2.5\n\n\"second, \"\"quoted\"\"\n\",+3e2,nan");
  EXPECT_EQ(t.rows(), 2u);
  EXPECT_EQ(t.columns(), 3u);
  EXPECT_EQ(t.names(), (std::vector<std::string>{"name", "x", "y"}));
  EXPECT_EQ(t.texts(0), (std::vector<std::string>{"first", "second, \"quoted\"\n"}));
  EXPECT_EQ(t.text(0, 1), " 1 ");
  const auto numbers = t.numbers({t.column("y"), t.column("x")});
  EXPECT_EQ(numbers.shape(), (Shape{2, 2}));
  EXPECT_EQ(numbers.dtype(), DType::f32);
  const auto values = numbers.to_vector<float>();
  EXPECT_EQ(values[0], -2.5f);
  EXPECT_EQ(values[1], 1.f);
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_EQ(values[3], 300.f);
}

TEST_F(CsvTest, AllDTypes) {
  const auto t = table("0\n1\n", {.header = false});
  for (const auto dtype : {DType::bool_, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16,
                           DType::bf16, DType::f32, DType::f64}) {
    const auto numbers = t.numbers({}, dtype);
    EXPECT_EQ(numbers.dtype(), dtype);
    EXPECT_EQ(numbers.to_vector<double>(), (std::vector<double>{0, 1}));
  }
}

TEST_F(CsvTest, ExactValues) {
  const auto t = table("0.1,9007199254740993\n1e-45,-9223372036854775808\n3.4028235e38,9223372036854775807\n",
                       {.header = false});
  EXPECT_EQ(t.numbers({0}, DType::f32).to_vector<float>(), (std::vector<float>{0.1f, 1e-45f, 3.4028235e38f}));
  EXPECT_EQ(t.numbers({0}, DType::f64).to_vector<double>(), (std::vector<double>{0.1, 1e-45, 3.4028235e38}));
  EXPECT_EQ(t.numbers({1}, DType::i64).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{9007199254740993, INT64_MIN, INT64_MAX}));
}

TEST_F(CsvTest, OutOfRange) {
  const auto small = table("1e-60\n-1e-400\n", {.header = false});
  EXPECT_EQ(small.numbers({}, DType::f32).to_vector<float>(), (std::vector<float>{0.f, -0.f}));
  EXPECT_EQ(small.numbers({}, DType::f64).to_vector<double>(), (std::vector<double>{1e-60, -0.}));
  EXPECT_THROW(table("1e39\n", {.header = false}).numbers({}, DType::f32), FormatError);
  EXPECT_THROW(table("1e400\n", {.header = false}).numbers({}, DType::f64), FormatError);
  EXPECT_THROW(table("1e5\n", {.header = false}).numbers({}, DType::f16), FormatError);
  for (const DType dtype : {DType::f16, DType::f32, DType::u8}) {
    EXPECT_EQ(table("+5\n", {.header = false}).numbers({}, dtype).to(DType::f32).item<float>(), 5);
    EXPECT_THROW(table("++5\n", {.header = false}).numbers({}, dtype), FormatError);
  }
  EXPECT_TRUE(std::isinf(table("inf\n", {.header = false}).numbers().item<float>()));
}

TEST_F(CsvTest, ErrorsHaveTheLine) {
  const auto t = table("a,b\n1,2\n\"x\ny\",3\n4,\n5,300\n");
  expect_error<FormatError>([&] { t.numbers({0}); },
                            {"t.csv", "line 3", "\"a\"", "\"x\\x0ay\" is not a number", "f32"});
  expect_error<FormatError>([&] { t.numbers({1}); }, {"line 5", "\"b\"", "\"\" is not a number"});
  expect_error<FormatError>([&] { table("a\n1\n300\n").numbers({}, DType::u8); }, {"line 3", "300", "u8"});
  expect_error<FormatError>([&] { table("a\n1.5\n").numbers({}, DType::i32); }, {"line 2", "1.5"});
  expect_error<FormatError>([&] { table("a\n1x\n").numbers(); }, {"line 2"});
  expect_error<FormatError>([&] { table("a\n2\n").numbers({}, DType::bool_); }, {"line 2"});
  expect_error<FormatError>([&] { table("a,b\n1,2\n1,2,3\n"); }, {"line 3", "3 cells", "2"});
  expect_error<FormatError>([&] { table("a\nb\n\"c\n\n\n"); }, {"line 3", "does not end"});
  EXPECT_THROW(t.column("c"), ValueError);
  EXPECT_THROW(t.text(0, 2), IndexError);
  EXPECT_THROW(t.text(9, 0), IndexError);
  EXPECT_THROW(t.texts(2), IndexError);
  EXPECT_THROW(t.numbers({2}), IndexError);
}

TEST_F(CsvTest, Options) {
  EXPECT_EQ(table("1;2\n3;4", {.separator = ';', .header = false}).numbers().to_vector<int>(),
            (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(table("1;2", {.separator = ';', .header = false}).names(), (std::vector<std::string>{"0", "1"}));
  EXPECT_TRUE(std::isnan(table("a\n\"\"\n", {.empty_is_nan = true}).numbers().item<float>()));
  EXPECT_THROW(table("a\n\"\"\n", {.empty_is_nan = true}).numbers({}, DType::i32), FormatError);
  EXPECT_THROW(table("a", {.separator = '"'}), ValueError);
  EXPECT_EQ(table("").rows(), 0u);
  EXPECT_EQ(table("").columns(), 0u);
  EXPECT_EQ(table("a,b\n").numbers().shape(), (Shape{0, 2}));
  EXPECT_EQ(table("\xef\xbb\xbf"
                  "a\n1")
                .names(),
            std::vector<std::string>{"a"});
}

#ifdef HEARTH_HAVE_ZLIB
TEST(Gzip, DataSetsMayBeCompressed) {
  // "a,b\n1,2\n", compressed by gzip -n.
  const unsigned char compressed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
                                      0x4b, 0xd4, 0x49, 0xe2, 0x32, 0xd4, 0x31, 0xe2, 0x02, 0x00,
                                      0x7b, 0x07, 0x97, 0x0a, 0x08, 0x00, 0x00, 0x00};
  TemporaryFolder folder;
  folder.put("t.csv.gz", {reinterpret_cast<const char*>(compressed), sizeof compressed});
  EXPECT_EQ(CsvTable(folder / "t.csv.gz").numbers().to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(load_records(folder / "t.csv.gz", 1, {3}).items.shape(), (Shape{2, 3}));
}
#endif

TEST(Csv, Sudoku) {
  const auto path = shared / "sudoku/hard.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no file " << path;
  const CsvTable table(path);
  EXPECT_GT(table.rows(), 0u);
  EXPECT_GT(table.columns(), 1u);
}

}  // namespace
}  // namespace hearth
