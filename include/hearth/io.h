// Files with tensors and data sets in them.
//
// Every byte of a file is checked before it is used. FileError: a file cannot be opened, read or written.
// FormatError: its contents break the format's rules; the message names the file, the place and the rule.
// Files that claim to be larger than they can be are refused before memory is taken for them.
//
// Saving replaces a file in one step: on any failure, a full disk or a killed process included, the old file
// is still there, whole. Loaded tensors are in host memory; where the format allows, they are the file
// itself, mapped, and cost no memory or time until they are used. A file must not be changed in place while
// tensors loaded from it are in use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/tensor.h"

namespace hearth {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

// ---- safetensors

// A safetensors file, opened and checked; its tensors are made when asked for. May be used from several
// threads at once. Tensors stay valid when it is gone.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<std::string>& names() const;  // sorted
  bool contains(std::string_view name) const;
  // Of one tensor. Throw ValueError when there is none of that name; dtype() and tensor() throw DTypeError
  // for a dtype that Hearth does not have, such as U16. type_name() is the format's ("BF16").
  DType dtype(std::string_view name) const;
  std::string type_name(std::string_view name) const;
  const Shape& shape(std::string_view name) const;
  std::uint64_t bytes(std::string_view name) const;
  Tensor tensor(std::string_view name) const;

  const Metadata& metadata() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// All tensors of a file.
TensorMap load_safetensors(const std::filesystem::path& path);

// The same tensors give the same bytes. One tensor at a time is brought to host memory. Throws ValueError for
// an undefined tensor, the name "__metadata__", or a text that is not UTF-8.
void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                      const Metadata& metadata = {});

// ---- PyTorch

// The tensors of a dictionary written by torch.save (PyTorch 1.6 or later), as dense copies; those of
// dictionaries within it are named "outer.inner". Such a file is a program for Python; here nothing of it is
// run, and one that asks for more than tensors and dictionaries is refused.
TensorMap load_torch(const std::filesystem::path& path);

// ---- NumPy

// One array; either byte order, C or Fortran order. bf16 is stored as raw two-byte elements ('V2'), as NumPy
// itself stores the bfloat16 of ml_dtypes.
Tensor load_npy(const std::filesystem::path& path);
void save_npy(const std::filesystem::path& path, const Tensor& tensor);

// A zip archive of arrays, as of numpy.savez and numpy.savez_compressed. Compression needs zlib.
TensorMap load_npz(const std::filesystem::path& path);
void save_npz(const std::filesystem::path& path, const TensorMap& tensors, bool compress = false);

// ---- data sets. Files compressed with gzip or xz are recognised by their contents (this needs zlib
// or liblzma).

// The array in an IDX file, as of MNIST.
Tensor load_idx(const std::filesystem::path& path);

// Records of one size: label bytes, then an item of bytes. CIFAR-10: load_records(path, 1, {3, 32, 32});
// CIFAR-100: load_records(path, 2, {3, 32, 32}).
struct Records {
  Tensor labels;  // u8, (records, label_bytes)
  Tensor items;   // u8, (records, item_shape...)
};
Records load_records(const std::filesystem::path& path, std::int64_t label_bytes, const Shape& item_shape);

struct CsvOptions {
  char separator = ',';
  bool header = true;  // the first line holds the names of the columns
  bool empty_is_nan =
      false;  // else an empty cell where a number is asked for is an error; only floating dtypes
};

// A table of text cells, as in RFC 4180: cells may be quoted, all rows have as many cells as the first. Lines
// end in LF or CRLF; empty ones are skipped. Values are converted when asked for; a cell that is not what it
// should be is a FormatError with its line.
class CsvTable {
 public:
  explicit CsvTable(const std::filesystem::path& path, const CsvOptions& options = {});

  std::size_t rows() const;  // the header is none
  std::size_t columns() const;
  const std::vector<std::string>& names() const;  // "0", "1", ... without a header
  // The position of a column. Throws ValueError when there is none of that name.
  std::size_t column(std::string_view name) const;

  // One cell, one column. Throw IndexError.
  std::string text(std::size_t row, std::size_t column) const;
  std::vector<std::string> texts(std::size_t column) const;
  // Columns as a tensor (rows, columns); {} means all.
  Tensor numbers(const std::vector<std::size_t>& columns = {}, DType dtype = DType::f32) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace hearth
