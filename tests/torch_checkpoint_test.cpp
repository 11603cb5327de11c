// Reading PyTorch's checkpoints: golden/io/checkpoint.pt is made by golden/make_torch_golden.py.
#include <gtest/gtest.h>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "io/pickle_format.h"
#include "io/zip.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

using namespace std::string_literals;
using test::expect_error;

TEST(TorchCheckpoint, TensorsOfEveryKind) {
  const TensorMap tensors = load_torch(HEARTH_GOLDEN_DIR "/io/checkpoint.pt");
  EXPECT_EQ(tensors.size(), 13u);
  const auto values = [&](const char* name) { return tensors.at(name).to_vector<double>(); };
  using Values = std::vector<double>;
  EXPECT_EQ(tensors.at("weight").shape(), (Shape{2, 3}));
  EXPECT_EQ(values("weight"), (Values{0, 0.25, 0.5, 0.75, 1, 1.25}));
  EXPECT_EQ(values("parameter"), (Values{1.5, -2}));
  EXPECT_EQ(tensors.at("transposed").shape(), (Shape{6, 4}));
  EXPECT_EQ(values("transposed")[1], 6);
  EXPECT_EQ(values("column"), (Values{2, 8, 14, 20}));
  EXPECT_EQ(tensors.at("bf16").dtype(), DType::bf16);
  EXPECT_EQ(values("bf16"), (Values{1, -0.5, 3.140625}));
  EXPECT_EQ(tensors.at("f16").dtype(), DType::f16);
  EXPECT_EQ(values("f64"), (Values{2.5}));
  EXPECT_EQ(tensors.at("f64").shape(), Shape{});
  EXPECT_EQ(tensors.at("i64").to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{std::int64_t{1} << 40, -7}));
  EXPECT_EQ(values("i32"), (Values{-3}));
  EXPECT_EQ(tensors.at("bool").dtype(), DType::bool_);
  EXPECT_EQ(tensors.at("empty").shape(), (Shape{0, 5}));
  EXPECT_EQ(values("nested.tensor"), (Values{9}));
}

// A checkpoint whose pickle is `program`, with 16 bytes of storage "0".
std::vector<std::byte> checkpoint(const std::string& program) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "file.pt";
  {
    AtomicFile file(path);
    io::ZipWriter archive(file, false);
    archive.add("file/data.pkl", {std::as_bytes(std::span(program))});
    const std::string storage(16, '\1');
    archive.add("file/data/0", {std::as_bytes(std::span(storage))});
    archive.finish();
    file.commit();
  }
  return read_file(path);
}

std::string text(const std::string& value) {
  return std::string("\x8c") + static_cast<char>(value.size()) + value;
}

// {"x": tensor of 4 elements}, with parts that a test changes.
std::string tensor_program(const std::string& offset, const std::string& sizes, const std::string& strides,
                           const std::string& count = "K\4", const std::string& key = "0") {
  return "\x80\2}" + text("x") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
         "ctorch\nFloatStorage\n" + text(key) + text("cpu") + count + "tQ" + offset + sizes + strides +
         "\x89}tRs.";
}

TEST(TorchCheckpoint, NothingOfAFileIsRun) {
  const auto refused = [](const std::string& program, const char* reason) {
    const auto file = checkpoint(program);
    expect_error<FormatError>([&] { io::parse_torch_checkpoint(file, "file"); }, {reason});
  };
  refused("\x80\2cos\nsystem\n" + text("true") + "\x85R.", "it names \"os system\"");
  refused("\x80\4" + text("builtins") + text("eval") + "\x93" + text("1") + "\x85R.",
          "it names \"builtins eval\"");
  refused("\x80\2(S'true'\nios\nsystem\n.", "instruction 0x53");
  refused("\x80\2}ctorch._utils\n_rebuild_tensor_v2\n}\x85R.", "needs its storage");
}

TEST(TorchCheckpoint, RefusesDamage) {
  const auto good = checkpoint(tensor_program("K\0"s, "K\4\x85", "K\1\x85"));
  EXPECT_EQ(io::parse_torch_checkpoint(good, "file").at("x").bytes.size(), 16u);
  const auto refused = [](const std::string& program, const char* reason) {
    const auto file = checkpoint(program);
    expect_error<FormatError>([&] { io::parse_torch_checkpoint(file, "file"); }, {reason});
  };
  refused(tensor_program("K\1", "K\4\x85", "K\1\x85"), "beyond its storage");
  refused(tensor_program("K\0"s, "K\4\x85", "J\xff\xff\xff\xff\x85"), "negative");
  refused(tensor_program("K\0"s, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85",
                         "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"),
          "beyond its storage");
  refused(tensor_program("K\0"s, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85", "K\0\x85"s),
          "larger than its storage");
  refused(tensor_program("K\0"s, "K\4\x85", ")"), "differ in number");
  refused(tensor_program("K\0"s, "K\5\x85", "K\1\x85", "K\5"), "too short");
  refused(tensor_program("K\0"s, "K\4\x85", "K\1\x85", "K\4", "7"), "no member");
  refused("\x80\2K\1.", "not a dictionary");
  refused("\x80\2.", "nothing is left");
  refused("\x80\2}", "ends in the middle");
  refused("\x80\2t.", "no mark");
  refused("\x80\2h\1.", "recalls");
  // A dictionary that holds itself.
  refused("\x80\2}q\1" + text("a") + "h\1s.", "nested too deeply");
  const std::vector<std::byte> no_zip(100);
  expect_error<FormatError>([&] { io::parse_torch_checkpoint(no_zip, "file"); }, {"not a zip archive"});
}

// Files cut off anywhere, and with any byte changed, are read or refused.
TEST(TorchCheckpoint, CutAndChanged) {
  const auto whole = read_file(HEARTH_GOLDEN_DIR "/io/checkpoint.pt");
  int refused = 0;
  const auto attempt = [&](const std::vector<std::byte>& bytes) {
    try {
      io::parse_torch_checkpoint(bytes, "file");
    } catch (const Error&) {
      ++refused;
    }
  };
  for (std::size_t size = 0; size < whole.size(); size += 97)
    attempt(std::vector<std::byte>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
  EXPECT_GT(refused, 10);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto changed = whole;
    changed[i] ^= std::byte{0x5a};
    attempt(changed);
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace hearth
