// Parsing, checking and writing .npy headers; putting elements in order; arrays from .npz archives.
#include "io/npy_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "hearth/error.h"
#include "io/zip.h"

namespace hearth::io {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct NumpyDType {
  std::string_view code;  // without the byte order
  DType dtype;
};
constexpr std::array<NumpyDType, dtype_count> numpy_dtypes = {{{"b1", DType::bool_},
                                                               {"u1", DType::u8},
                                                               {"i1", DType::i8},
                                                               {"i2", DType::i16},
                                                               {"i4", DType::i32},
                                                               {"i8", DType::i64},
                                                               {"f2", DType::f16},
                                                               {"V2", DType::bf16},
                                                               {"f4", DType::f32},
                                                               {"f8", DType::f64}}};

[[noreturn]] void fail(std::string_view source, const std::string& rule) {
  throw FormatError(fmt::format("[npy] '{}': {}", source, rule));
}

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class DictionaryParser {
 public:
  DictionaryParser(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const auto key = string();
      expect(':');
      if (key == "descr" && !std::exchange(descr, true))
        parse_dtype(header);
      else if (key == "fortran_order" && !std::exchange(order, true))
        header.fortran_order = boolean();
      else if (key == "shape" && !std::exchange(shape, true))
        header.shape = tuple();
      else
        fail(fmt::format("unexpected or repeated key {} in the header", show(key)));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) malformed("the end");
    if (!descr || !order || !shape) fail("the header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void skip_space() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n\f").find(text_[position_]) != std::string_view::npos)
      ++position_;
  }

  bool accept(char c) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  bool accept(std::string_view word) {
    skip_space();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }

  void expect(char c) {
    if (!accept(c)) malformed(fmt::format("'{}'", c));
  }

  std::string_view string() {
    skip_space();
    const char quote = position_ < text_.size() ? text_[position_] : ' ';
    if (quote != '\'' && quote != '"') malformed("a string");
    const auto begin = position_ + 1;
    const auto end = text_.find_first_of(quote == '\'' ? "'\\" : "\"\\", begin);
    if (end == text_.npos || text_[end] == '\\') malformed("a plain string");
    position_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  bool boolean() {
    if (accept("True")) return true;
    if (accept("False")) return false;
    malformed("True or False");
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t size = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error == std::errc::result_out_of_range) fail("a size in the shape does not fit in 63 bits");
      if (error != std::errc{}) malformed("an integer");
      if (size < 0) fail(fmt::format("the shape has the negative size {}", size));
      if (shape.size() == max_dims)
        fail(fmt::format("more than {} axes, which Hearth does not take", max_dims));
      position_ += static_cast<std::size_t>(end - begin);
      accept('L');  // written by Python 2
      shape.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  void parse_dtype(NpyHeader& header) {
    skip_space();
    if (position_ < text_.size() && text_[position_] == '[')
      fail("an array of records (structured dtype), which Hearth does not have");
    const auto descr = string();
    if (descr.find('O') != descr.npos)
      fail("an array of Python objects; these are pickles, which Hearth does not read");
    const char order = descr.empty() ? ' ' : descr[0];
    const auto code = descr.substr(std::min<std::size_t>(1, descr.size()));
    const auto found = std::find_if(numpy_dtypes.begin(), numpy_dtypes.end(),
                                    [&](const NumpyDType& row) { return row.code == code; });
    if (found == numpy_dtypes.end() || std::string_view("<>|=").find(order) == std::string_view::npos)
      fail(fmt::format("unsupported dtype {}; supported: b1 u1 i1 i2 i4 i8 f2 f4 f8, and V2 as bf16",
                       show(descr)));
    header.dtype = found->dtype;
    header.big_endian = order == '>';
  }

  [[noreturn]] void malformed(const std::string& expected) const {
    fail(fmt::format("malformed header: expected {} at {}", expected, show(text_.substr(position_, 20))));
  }
  [[noreturn]] void fail(const std::string& rule) const { io::fail(source_, rule); }

  std::string_view text_, source_;
  std::size_t position_ = 0;
};

bool is_plain(const NpyHeader& header) {
  const bool one_way = std::count_if(header.shape.begin(), header.shape.end(),
                                     [](std::int64_t size) { return size != 1; }) <= 1;
  return (!header.fortran_order || one_way || header.data_bytes == 0) &&
         (!header.big_endian || dtype_size(header.dtype) == 1);
}

// Copies a column-major array into row-major order.
void copy_fortran(Bytes data, const Shape& shape, std::size_t element_bytes, std::span<std::byte> out) {
  std::vector<std::size_t> strides(shape.size());  // in bytes of `data`
  std::size_t stride = element_bytes;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= static_cast<std::size_t>(shape[axis]);
  }
  Shape index(shape.size());
  std::size_t from = 0;
  for (std::size_t to = 0; to < out.size(); to += element_bytes) {
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(from), element_bytes,
                out.begin() + static_cast<std::ptrdiff_t>(to));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < shape[axis]) break;
      from -= strides[axis] * static_cast<std::size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
}

void check_bools(const Array& array, std::string_view source) {
  if (array.dtype != DType::bool_) return;
  if (const auto bad = find_bad_bool(array.bytes))
    fail(source, fmt::format("element {} of a bool array is {}; 0 or 1 is allowed", *bad,
                             std::to_integer<int>(array.bytes[*bad])));
}

// The array whose data, as in the file, is `data`; owned by `owner`.
Array make_array(const NpyHeader& header, Bytes data, std::shared_ptr<const void> owner,
                 std::string_view source) {
  Array array{header.dtype, header.shape, data, std::move(owner)};
  if (!is_plain(header)) {
    std::vector<std::byte> bytes(data.size());
    const auto element_bytes = dtype_size(header.dtype);
    if (header.fortran_order)
      copy_fortran(data, header.shape, element_bytes, bytes);
    else
      std::copy(data.begin(), data.end(), bytes.begin());
    if (header.big_endian) swap_byte_order(bytes, element_bytes);
    array = owned_array(header.dtype, header.shape, std::move(bytes));
  }
  check_bools(array, source);
  return array;
}

Array read_member(Bytes file, const ZipEntry& entry, const std::shared_ptr<const void>& owner,
                  const std::string& source) {
  if (!entry.deflated) {  // checked in place, used without a copy
    const auto member = file.subspan(entry.begin, entry.size);
    if (crc32(member) != entry.crc) fail(source, "damaged: wrong CRC");
    return parse_npy(member, owner, source);
  }
  std::vector<std::byte> beginning(std::min<std::uint64_t>(entry.size, npy_longest_header));
  ZipMemberReader reader(file, entry, source);
  reader.read(beginning);
  const auto header = parse_npy_header(beginning, entry.size, source);
  std::vector<std::byte> data(header.data_bytes);
  const auto already = std::min<std::uint64_t>(beginning.size() - header.data_begin, data.size());
  std::copy_n(beginning.begin() + static_cast<std::ptrdiff_t>(header.data_begin), already, data.begin());
  if (data.size() > already) reader.read(std::span(data).subspan(already));
  const auto array = owned_array(header.dtype, header.shape, std::move(data));
  return make_array(header, array.bytes, array.owner, source);
}

}  // namespace

NpyHeader parse_npy_header(Bytes beginning, std::uint64_t file_size, std::string_view source) {
  if (beginning.size() < 10 || !as_text(beginning).starts_with(magic)) fail(source, "not a .npy file");
  const int version = std::to_integer<int>(beginning[6]);
  if (version < 1 || version > 3)
    fail(source, fmt::format("version {} of the format; 1 to 3 are known", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t text_begin = 8 + length_bytes;
  if (beginning.size() < text_begin) fail(source, "the header is cut short");
  const std::uint64_t length =
      version == 1 ? load_little<std::uint16_t>(beginning, 8) : load_little<std::uint32_t>(beginning, 8);
  if (length > npy_longest_header - text_begin)
    fail(source, fmt::format("a header of {} bytes; at most {} are allowed", length,
                             npy_longest_header - text_begin));
  if (length > beginning.size() - text_begin) fail(source, "the header is cut short");

  auto header = DictionaryParser(as_text(beginning.subspan(text_begin, length)), source).parse();
  header.data_begin = text_begin + length;
  const auto bytes = array_bytes(header.shape, dtype_size(header.dtype));
  if (!bytes)
    fail(source, fmt::format("shape {} has more bytes than 63 bits can count", to_string(header.shape)));
  header.data_bytes = *bytes;
  if (file_size - header.data_begin != header.data_bytes)
    fail(source,
         fmt::format("{} of shape {} has {} bytes, but {} follow the header", dtype_name(header.dtype),
                     to_string(header.shape), header.data_bytes, file_size - header.data_begin));
  return header;
}

Array parse_npy(Bytes file, std::shared_ptr<const void> owner, std::string_view source) {
  const auto header = parse_npy_header(file, file.size(), source);
  return make_array(header, file.subspan(header.data_begin), std::move(owner), source);
}

std::map<std::string, Array> parse_npz(Bytes file, std::shared_ptr<const void> owner,
                                       std::string_view source) {
  constexpr std::string_view suffix = ".npy";
  std::map<std::string, Array> arrays;
  for (const auto& entry : read_zip_directory(file, source)) {
    if (!entry.name.ends_with(suffix))
      fail(source, fmt::format("member {} is not an array: its name does not end in .npy", show(entry.name)));
    const auto member_source = fmt::format("{}[{}]", source, show(entry.name));
    arrays.emplace(entry.name.substr(0, entry.name.size() - suffix.size()),
                   read_member(file, entry, owner, member_source));
  }
  return arrays;
}

std::string npy_header(DType dtype, const Shape& shape) {
  const auto row = std::find_if(numpy_dtypes.begin(), numpy_dtypes.end(),
                                [&](const NumpyDType& r) { return r.dtype == dtype; });
  const char order = dtype_size(dtype) == 1 ? '|' : '<';
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}", order,
                                 row->code, to_string(shape));
  // NumPy's own padding: the data begins at a multiple of 64.
  constexpr std::size_t before = 10, alignment = 64;
  text.append(alignment - 1 - (before + text.size()) % alignment, ' ');
  text += '\n';
  std::string header(magic);
  header += '\x01';
  header += '\x00';
  append_little(header, static_cast<std::uint16_t>(text.size()));
  return header + text;
}

}  // namespace hearth::io
