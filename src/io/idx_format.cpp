// Parsing and checking IDX files: two zero bytes, the dtype, the number of axes, their sizes, the elements;
// big-endian.
#include "io/idx_format.h"

#include <fmt/format.h>

#include <array>

#include "hearth/error.h"
#include "io/deflate.h"

namespace hearth::io {
namespace {

[[noreturn]] void fail(std::string_view source, const std::string& rule) {
  throw FormatError(fmt::format("[idx] '{}': {}", source, rule));
}

DType idx_dtype(std::byte code, std::string_view source) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0b:
      return DType::i16;
    case 0x0c:
      return DType::i32;
    case 0x0d:
      return DType::f32;
    case 0x0e:
      return DType::f64;
    default:
      fail(source, fmt::format("unknown element type 0x{:02x}", std::to_integer<int>(code)));
  }
}

struct IdxHeader {
  DType dtype = DType::u8;
  Shape shape;
  std::uint64_t data_begin = 0, data_bytes = 0;
};

// `beginning` holds the first bytes of the file, all of the header if there is one.
IdxHeader parse_header(Bytes beginning, std::string_view source) {
  if (beginning.size() < 4 || beginning[0] != std::byte{0} || beginning[1] != std::byte{0})
    fail(source, "not an IDX file");
  IdxHeader header;
  header.dtype = idx_dtype(beginning[2], source);
  const auto axes = std::to_integer<std::size_t>(beginning[3]);
  if (axes > max_dims) fail(source, fmt::format("{} axes; Hearth takes at most {}", axes, max_dims));
  header.data_begin = 4 + 4 * axes;
  if (beginning.size() < header.data_begin) fail(source, "the header is cut short");
  for (std::size_t axis = 0; axis < axes; ++axis)
    header.shape.push_back(load_big<std::uint32_t>(beginning, 4 + 4 * axis));
  const auto bytes = array_bytes(header.shape, dtype_size(header.dtype));
  if (!bytes)
    fail(source, fmt::format("shape {} has more bytes than 63 bits can count", to_string(header.shape)));
  header.data_bytes = *bytes;
  return header;
}

[[noreturn]] void wrong_size(const IdxHeader& header, std::string_view found, std::string_view source) {
  fail(source, fmt::format("{} of shape {} has {} bytes, but {} follow the header", dtype_name(header.dtype),
                           to_string(header.shape), header.data_bytes, found));
}

Array parse_compressed(Bytes file, std::string_view source) {
  Inflater inflater(file, Inflater::Format::gzip, source);
  std::array<std::byte, 4 + 4 * max_dims> beginning;
  std::size_t known = inflater.read(std::span(beginning).first(4));
  if (known == 4 && std::to_integer<std::size_t>(beginning[3]) <= max_dims)
    known += inflater.read(std::span(beginning).subspan(4, 4 * std::to_integer<std::size_t>(beginning[3])));
  const auto header = parse_header(Bytes(beginning).first(known), source);
  if (header.data_bytes / largest_expansion > file.size())
    fail(source,
         fmt::format("{} of shape {} has {} bytes, more than {} compressed ones can expand to",
                     dtype_name(header.dtype), to_string(header.shape), header.data_bytes, file.size()));
  std::vector<std::byte> data(header.data_bytes);
  if (const auto size = inflater.read(data); size != data.size())
    wrong_size(header, fmt::to_string(size), source);
  if (std::byte extra; inflater.read({&extra, 1}) != 0) wrong_size(header, "more", source);
  swap_byte_order(data, dtype_size(header.dtype));
  return owned_array(header.dtype, header.shape, std::move(data));
}

}  // namespace

Array parse_idx(Bytes file, std::shared_ptr<const void> owner, std::string_view source) {
  if (is_gzip(file)) return parse_compressed(file, source);
  const auto header = parse_header(file, source);
  const auto data = file.subspan(header.data_begin);
  if (data.size() != header.data_bytes) wrong_size(header, fmt::to_string(data.size()), source);
  if (dtype_size(header.dtype) == 1) return {header.dtype, header.shape, data, std::move(owner)};
  std::vector<std::byte> swapped(data.begin(), data.end());
  swap_byte_order(swapped, dtype_size(header.dtype));
  return owned_array(header.dtype, header.shape, std::move(swapped));
}

}  // namespace hearth::io
