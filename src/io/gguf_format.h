// The GGUF format: what the header of a file says, checked; and the header for tensors to be written.
//
// A file is: "GGUF", version (u32), numbers of tensors and of metadata entries (u64); the entries: key, type
// (u32), value; for each tensor: name, number of axes (u32), sizes (u64, innermost first), type (u32), offset
// (u64) in the data; padding; the data. Strings are a length (u64) and bytes, arrays an element type (u32), a
// length (u64) and elements. Offsets and the data's beginning are multiples of general.alignment, else of 32.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/gguf.h"
#include "io/array.h"
#include "io/bytes.h"

namespace hearth::io {

struct GgufEntry {
  std::string name;
  std::uint32_t type = 0;             // as in the file
  std::optional<DType> dtype;         // none: a type that Hearth does not have
  Shape shape;                        // row-major
  std::uint64_t begin = 0;            // of its bytes, from the beginning of the file
  std::optional<std::uint64_t> size;  // in bytes; none: a type of which nothing is known
};

struct GgufHeader {
  std::uint32_t version = 3;
  GgufMetadata metadata;
  std::vector<GgufEntry> entries;  // in the order of the file
};

// Reads and checks the header of a whole file. `source` names the file in messages. Throws FormatError unless
// - the version is 2 or 3 and the file is little-endian;
// - all counts and lengths are such that what they count can be in the file; arrays are nested at most 8
// deep;
// - types of values are known, bools are 0 or 1, keys are at most 65535 bytes long, and no key occurs twice;
// - general.alignment, where it is given, is a u32 power of two;
// - tensors have different names, at most max_dims axes, sizes whose product fits in 63 bits, whole blocks
//   along the innermost axis, and offsets that are aligned;
// - their bytes are within the file and do not overlap.
GgufHeader parse_gguf(Bytes file, std::string_view source);

// "Q4_K", or "type 77" for one that is not known.
std::string gguf_type_name(std::uint32_t type);

// "an array of u32", "a string"
std::string gguf_kind(const GgufValue& value);

// The entry's dtype. Throws DTypeError for a type that Hearth does not have.
DType require_dtype(const GgufEntry& entry, std::string_view source);
// Its bytes in `file`. Throws DTypeError for a type of which nothing is known.
Bytes gguf_bytes(Bytes file, const GgufEntry& entry, std::string_view source);

// A value as T, as GgufFile::get does it; nothing when it is no T.
template <typename T>
std::optional<T> gguf_as(const GgufValue& value);

// What a file begins with, and where the tensors that follow have their bytes.
struct GgufLayout {
  std::string header;  // up to the data, padding included
  struct Span {
    std::uint64_t begin, size;  // from the beginning of the file
  };
  std::vector<Span> tensors;
  std::uint64_t size = 0;  // of the file: the last tensor is padded, as by the reference implementation
};
GgufLayout lay_out_gguf(const GgufMetadata& metadata, const std::vector<GgufTensorSpec>& tensors);

}  // namespace hearth::io
