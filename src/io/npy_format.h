// NumPy's .npy and .npz formats.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "hearth/dtype.h"
#include "hearth/shape.h"
#include "io/array.h"
#include "io/bytes.h"

namespace hearth::io {

struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool fortran_order = false;
  Shape shape;
  std::uint64_t data_begin = 0;  // from the beginning of the file
  std::uint64_t data_bytes = 0;
};

// The most bytes a header that is accepted can take, including what comes before it.
inline constexpr std::size_t npy_longest_header = 65536;

// Reads and checks the header of a file of `file_size` bytes, of which `beginning` holds the first ones: all,
// or at least npy_longest_header. Versions 1 to 3. Elements of two raw bytes ('V2') are bf16: that is how
// NumPy writes the bfloat16 of ml_dtypes. Throws FormatError, naming `source`, for a malformed header, a
// dtype Hearth does not have, or a file whose size is not what the header says.
NpyHeader parse_npy_header(Bytes beginning, std::uint64_t file_size, std::string_view source);

// The array in a .npy file. It refers to the file's bytes where these are in row-major order and in the
// machine's byte order; `owner` keeps them alive.
Array parse_npy(Bytes file, std::shared_ptr<const void> owner, std::string_view source);

// The arrays in a .npz file, by name without ".npy". Every CRC is checked. Memory is taken for what a
// member's own header states, after that has been found to agree with the archive's directory and with what
// the compressed bytes can expand to.
std::map<std::string, Array> parse_npz(Bytes file, std::shared_ptr<const void> owner,
                                       std::string_view source);

// The beginning of a .npy file (version 1), up to the data.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace hearth::io
