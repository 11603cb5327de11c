// Files of records of one size, each a few label bytes followed by an item: CIFAR's binary files.
#pragma once

#include <memory>
#include <string_view>

#include "io/array.h"
#include "io/bytes.h"

namespace hearth::io {

struct RecordArrays {
  Array labels;  // u8, (records, label_bytes)
  Array items;   // u8, (records, item_shape...)
};

// Takes the records apart. Throws FormatError, naming `source`, unless the file is a whole number of records;
// ValueError for a record of no bytes or a shape too large to count.
RecordArrays parse_records(Bytes file, std::size_t label_bytes, const Shape& item_shape,
                           std::string_view source);

}  // namespace hearth::io
