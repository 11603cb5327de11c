// Taking files of fixed-size records apart.
#include "io/records_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"

namespace hearth::io {

RecordArrays parse_records(Bytes file, std::size_t label_bytes, const Shape& item_shape,
                           std::string_view source) {
  const auto item_bytes = array_bytes(item_shape, 1);
  if (!item_bytes || item_shape.size() >= max_dims || label_bytes > (std::size_t{1} << 32) ||
      label_bytes + *item_bytes == 0)
    throw ValueError(fmt::format("[records] no records of {} label bytes and items {}", label_bytes,
                                 to_string(item_shape)));
  const auto record_bytes = label_bytes + *item_bytes;
  if (file.size() % record_bytes != 0)
    throw FormatError(fmt::format("[records] '{}': {} bytes are not a whole number of records of {} bytes",
                                  source, file.size(), record_bytes));
  const auto count = file.size() / record_bytes;
  std::vector<std::byte> labels(count * label_bytes), items(count * *item_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto record = file.subspan(i * record_bytes, record_bytes);
    std::copy_n(record.data(), label_bytes, labels.data() + i * label_bytes);
    std::copy_n(record.data() + label_bytes, *item_bytes, items.data() + i * *item_bytes);
  }
  const auto rows = static_cast<std::int64_t>(count);
  Shape items_shape = item_shape;
  items_shape.insert(0, rows);
  return {owned_array(DType::u8, {rows, static_cast<std::int64_t>(label_bytes)}, std::move(labels)),
          owned_array(DType::u8, items_shape, std::move(items))};
}

}  // namespace hearth::io
