// The safetensors format: what the header of a file says, checked; and the header for tensors to be written.
//
// A file is: the header's length (8 bytes, little-endian), the header (a JSON object, padded with spaces),
// the data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hearth/dtype.h"
#include "hearth/shape.h"
#include "io/array.h"
#include "io/bytes.h"

namespace hearth::io {

struct SafetensorsEntry {
  std::string name;
  std::string_view dtype_name;  // as in the file: "F32"
  std::optional<DType> dtype;   // none: a dtype of the format that Hearth does not have
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // of its bytes, from the beginning of the file
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by name
  std::map<std::string, std::string> metadata;

  // Null when there is no such tensor.
  const SafetensorsEntry* find(std::string_view name) const;
};

// Reads and checks the header of a whole file. `source` names the file in messages. Throws FormatError unless
// - the header's length is at most 100 MB and within the file, and the header begins with '{';
// - it is a JSON object in UTF-8 in which no key occurs twice;
// - each entry but __metadata__ (strings to strings) has a dtype of the format, a shape of non-negative
// integers and
//   data_offsets, and end - begin is the number of bytes of such a tensor;
// - the tensors cover the data without overlap or holes, to the end of the file.
SafetensorsHeader parse_safetensors(Bytes file, std::string_view source);

// The entry's dtype. Throws DTypeError for one that Hearth does not have.
DType require_dtype(const SafetensorsEntry& entry, std::string_view source);

// The tensor of one entry; it refers to the bytes of `file`, which `owner` keeps alive. Throws as
// require_dtype, and FormatError for a BOOL that is neither 0 nor 1.
Array safetensors_array(Bytes file, const SafetensorsEntry& entry, std::shared_ptr<const void> owner,
                        std::string_view source);

struct SafetensorsArray {
  std::string_view name;
  DType dtype;
  Shape shape;
};

// The beginning of a file, up to the data, for `arrays` stored one after the other. Throws ValueError for a
// name that is "__metadata__", occurs twice or is not UTF-8.
std::string safetensors_header(const std::vector<SafetensorsArray>& arrays,
                               const std::map<std::string, std::string>& metadata);

// Whether `a` is stored before `b`. Wide elements come first, so that all are aligned; names decide the rest.
// This is the order in which the reference implementation writes.
bool safetensors_order(const SafetensorsArray& a, const SafetensorsArray& b);

}  // namespace hearth::io
