// .npy and .npz files: round trips and files of NumPy. Hostile files are in the corpus (fuzz_corpus_test).
#include <gtest/gtest.h>

#include "base/file.h"
#include "expect_error.h"
#include "golden_pattern.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "io/npy_format.h"
#include "io/zip.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

using test::expect_error;
using test::expect_golden;
using test::golden_tensor;
using test::TemporaryFolder;

const std::string golden = HEARTH_GOLDEN_DIR "/io/";
const Shape golden_shape = {3, 5, 2};

TEST(Npy, ReadsNumPysFiles) {
  for (const auto dtype : test::all_dtypes) {
    SCOPED_TRACE(dtype_name(dtype));
    expect_golden(load_npy(golden + std::string(dtype_name(dtype)) + ".npy"), dtype, golden_shape);
  }
  expect_golden(load_npy(golden + "scalar.npy"), DType::f32, {});
  expect_golden(load_npy(golden + "empty.npy"), DType::f32, {0, 4});
  expect_golden(load_npy(golden + "vector.npy"), DType::f32, {7});
  expect_golden(load_npy(golden + "version2.npy"), DType::f32, golden_shape);
  expect_golden(load_npy(golden + "version3.npy"), DType::f32, golden_shape);
}

TEST(Npy, OrdersOfBytesAndAxes) {
  expect_golden(load_npy(golden + "fortran_f32.npy"), DType::f32, golden_shape);
  expect_golden(load_npy(golden + "fortran_big_endian_i32.npy"), DType::i32, golden_shape);
  expect_golden(load_npy(golden + "big_endian_f64.npy"), DType::f64, golden_shape);
  expect_golden(load_npy(golden + "big_endian_f16.npy"), DType::f16, golden_shape);
}

TEST(Npy, WritesNumPysBytes) {
  TemporaryFolder folder;
  for (const auto dtype : test::all_dtypes) {
    SCOPED_TRACE(dtype_name(dtype));
    save_npy(folder / "f.npy", golden_tensor(dtype, golden_shape));
    EXPECT_EQ(read_file(folder / "f.npy"), read_file(golden + std::string(dtype_name(dtype)) + ".npy"));
    expect_golden(load_npy(folder / "f.npy"), dtype, golden_shape);
  }
  save_npy(folder / "f.npy", golden_tensor(DType::f32, {}));
  EXPECT_EQ(read_file(folder / "f.npy"), read_file(golden + "scalar.npy"));
  save_npy(folder / "f.npy", golden_tensor(DType::f32, {7}));
  EXPECT_EQ(read_file(folder / "f.npy"), read_file(golden + "vector.npy"));
  save_npy(folder / "f.npy", golden_tensor(DType::f32, {0, 4}));
  EXPECT_EQ(read_file(folder / "f.npy"), read_file(golden + "empty.npy"));
}

TEST(Npy, SavesWhatIsNotDense) {
  TemporaryFolder folder;
  const auto x = golden_tensor(DType::i32, {4, 6});
  save_npy(folder / "f.npy", x.t().slice({{1, 5, 2}}));
  EXPECT_EQ(load_npy(folder / "f.npy").to_vector<int>(), x.t().slice({{1, 5, 2}}).to_vector<int>());
}

TEST(Npy, MessagesNameFileAndRule) {
  TemporaryFolder folder;
  folder.put("bad.npy", "not an array");
  expect_error<FormatError>([&] { load_npy(folder / "bad.npy"); }, {"bad.npy", "not a .npy file"});
  expect_error<FormatError>([&] { load_npy(HEARTH_TEST_DIR "/fuzz/corpus/npy/bad_dtype_object.npy"); },
                            {"bad_dtype_object.npy", "pickles"});
  expect_error<ValueError>([&] { save_npy(folder / "u.npy", Tensor()); }, {"undefined"});
}

TEST(Npz, ReadsNumPysStoredFile) {
  const auto tensors = load_npz(golden + "stored.npz");
  EXPECT_EQ(tensors.size(), 10u);
  for (const auto dtype : test::all_dtypes)
    expect_golden(tensors.at(std::string(dtype_name(dtype))), dtype, golden_shape);
}

TEST(Npz, StoredRoundTrip) {
  TemporaryFolder folder;
  TensorMap tensors;
  for (const auto dtype : test::all_dtypes)
    tensors.emplace(std::string(dtype_name(dtype)), golden_tensor(dtype, golden_shape));
  tensors.emplace("n\u00e4me/x", golden_tensor(DType::f32, {}));
  tensors.emplace("empty", golden_tensor(DType::f32, {0}));
  save_npz(folder / "f.npz", tensors);
  const auto first = read_file(folder / "f.npz");
  const auto loaded = load_npz(folder / "f.npz");
  EXPECT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) expect_golden(loaded.at(name), tensor.dtype(), tensor.shape());
  save_npz(folder / "f.npz", tensors);
  EXPECT_EQ(read_file(folder / "f.npz"), first);  // no times inside
  save_npz(folder / "f.npz", {});
  EXPECT_TRUE(load_npz(folder / "f.npz").empty());
}

#ifdef HEARTH_HAVE_ZLIB
TEST(Npz, ReadsNumPysCompressedFile) {
  const auto tensors = load_npz(golden + "deflated.npz");
  EXPECT_EQ(tensors.size(), 11u);
  for (const auto dtype : test::all_dtypes)
    expect_golden(tensors.at(std::string(dtype_name(dtype))), dtype, golden_shape);
  expect_golden(tensors.at("fortran"), DType::i64, golden_shape);
}

TEST(Npz, CompressedRoundTrip) {
  TemporaryFolder folder;
  TensorMap tensors;
  for (const auto dtype : test::all_dtypes)
    tensors.emplace(std::string(dtype_name(dtype)), golden_tensor(dtype, {70'001}));
  save_npz(folder / "f.npz", tensors, true);
  EXPECT_LT(std::filesystem::file_size(folder / "f.npz"), 200'000u);
  const auto loaded = load_npz(folder / "f.npz");
  for (const auto& [name, tensor] : tensors) expect_golden(loaded.at(name), tensor.dtype(), tensor.shape());
}

// Each byte of a compressed archive is flipped: CRC or structure must tell, or the change is in a field that
// nobody reads (times, attributes) or that only names things.
TEST(Npz, DamageIsSeen) {
  const auto file = read_file(HEARTH_TEST_DIR "/fuzz/corpus/npz/good_deflated.npz");
  const auto before = io::parse_npz(file, nullptr, "file");
  for (std::size_t i = 0; i < file.size(); ++i) {
    auto damaged = file;
    damaged[i] ^= std::byte{0xff};
    try {
      for (const auto& [name, array] : io::parse_npz(damaged, nullptr, "file")) {
        if (!before.contains(name)) continue;
        const auto& expected = before.at(name);
        EXPECT_EQ(std::vector(array.bytes.begin(), array.bytes.end()),
                  std::vector(expected.bytes.begin(), expected.bytes.end()))
            << "byte " << i;
      }
    } catch (const FormatError&) {  // seen
    }
  }
}
#else
TEST(Npz, WithoutZlibCompressionIsRefused) {
  TemporaryFolder folder;
  expect_error<FileError>([&] { load_npz(golden + "deflated.npz"); }, {"without zlib"});
  expect_error<FileError>(
      [&] {
        save_npz(folder / "f", {{"x", golden_tensor(DType::f32, {2})}}, true);
      },
      {"without zlib"});
  EXPECT_TRUE(folder.files().empty());
}
#endif

TEST(Npz, MessagesNameFileMemberAndRule) {
  const std::string corpus = HEARTH_TEST_DIR "/fuzz/corpus/npz/";
  expect_error<FormatError>([&] { load_npz(corpus + "bad_crc_stored.npz"); },
                            {"bad_crc_stored.npz", "\"a.npy\"", "wrong CRC"});
  expect_error<FormatError>([&] { load_npz(corpus + "bad_member_not_npy.npz"); },
                            {"\"a.npy\"", "not a .npy file"});
  expect_error<FormatError>([&] { load_npz(corpus + "bad_encrypted.npz"); }, {"\"a.npy\" is encrypted"});
  expect_error<FormatError>([&] { load_npz(corpus + "bad_bomb.npz"); }, {"cannot expand"});
}

// More members than 16 bits count make a zip64 archive.
TEST(Zip, MoreMembersThan16BitsCount) {
  TemporaryFolder folder;
  constexpr int count = 70'000;
  {
    AtomicFile file(folder / "many");
    io::ZipWriter writer(file, false);
    for (int i = 0; i < count; ++i) writer.add(std::to_string(i), {});
    writer.finish();
    file.commit();
  }
  const auto file = read_file(folder / "many");
  const auto entries = io::read_zip_directory(file, "many");
  ASSERT_EQ(entries.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(entries.back().name, std::to_string(count - 1));
}

TEST(Zip, LongNameIsRefused) {
  TemporaryFolder folder;
  AtomicFile file(folder / "f");
  io::ZipWriter writer(file, false);
  EXPECT_THROW(writer.add(std::string(70'000, 'n'), {}), ValueError);
}

}  // namespace
}  // namespace hearth
