// Parsing, checking and writing GGUF headers.
#include "io/gguf_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "hearth/error.h"

namespace hearth::io {
namespace {

constexpr std::string_view magic = "GGUF";
constexpr std::uint64_t default_alignment = 32;
constexpr std::size_t longest_key = 65535;
constexpr std::size_t most_axes_written = 4;  // what other readers take
constexpr int deepest_nesting = 8;
constexpr const char* alignment_key = "general.alignment";

constexpr std::array<std::string_view, std::variant_size_v<GgufValue>> kinds = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

struct TensorType {
  std::uint32_t number;
  std::string_view name;
  std::int64_t elements;  // of a block
  std::uint64_t bytes;    // of a block
  std::optional<DType> dtype;
};

constexpr TensorType of_dtype(std::uint32_t number, std::string_view name, DType dtype) {
  return {number, name, block_elements(dtype), block_bytes(dtype), dtype};
}

constexpr std::array tensor_types = {
    of_dtype(0, "F32", DType::f32),         of_dtype(1, "F16", DType::f16),
    of_dtype(2, "Q4_0", DType::q4_0),       of_dtype(3, "Q4_1", DType::q4_1),
    of_dtype(6, "Q5_0", DType::q5_0),       of_dtype(7, "Q5_1", DType::q5_1),
    of_dtype(8, "Q8_0", DType::q8_0),       of_dtype(10, "Q2_K", DType::q2_k),
    of_dtype(11, "Q3_K", DType::q3_k),      of_dtype(12, "Q4_K", DType::q4_k),
    of_dtype(13, "Q5_K", DType::q5_k),      of_dtype(14, "Q6_K", DType::q6_k),
    TensorType{16, "IQ2_XXS", 256, 66, {}}, TensorType{17, "IQ2_XS", 256, 74, {}},
    TensorType{18, "IQ3_XXS", 256, 98, {}}, TensorType{19, "IQ1_S", 256, 50, {}},
    of_dtype(20, "IQ4_NL", DType::iq4_nl),  TensorType{21, "IQ3_S", 256, 110, {}},
    TensorType{22, "IQ2_S", 256, 82, {}},   of_dtype(23, "IQ4_XS", DType::iq4_xs),
    of_dtype(24, "I8", DType::i8),          of_dtype(25, "I16", DType::i16),
    of_dtype(26, "I32", DType::i32),        of_dtype(27, "I64", DType::i64),
    of_dtype(28, "F64", DType::f64),        TensorType{29, "IQ1_M", 256, 56, {}},
    of_dtype(30, "BF16", DType::bf16),      TensorType{34, "TQ1_0", 256, 54, {}},
    TensorType{35, "TQ2_0", 256, 66, {}},   of_dtype(39, "MXFP4", DType::mxfp4)};

const TensorType* find_type(std::uint32_t number) {
  const auto found = std::find_if(tensor_types.begin(), tensor_types.end(),
                                  [&](const TensorType& type) { return type.number == number; });
  return found == tensor_types.end() ? nullptr : &*found;
}

const TensorType* find_type(DType dtype) {
  const auto found = std::find_if(tensor_types.begin(), tensor_types.end(),
                                  [&](const TensorType& type) { return type.dtype == dtype; });
  return found == tensor_types.end() ? nullptr : &*found;
}

[[noreturn]] void fail(std::string_view source, const std::string& rule) {
  throw FormatError(fmt::format("[gguf] '{}': {}", source, rule));
}

bool is_power_of_two(std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// `alignment` is a power of two of 32 bits and `value` the size of something that exists.
std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// ---- reading

// The fewest bytes that a value of this kind has in a file.
template <typename T>
constexpr std::uint64_t fewest_bytes() {
  if constexpr (std::is_same_v<T, std::string>)
    return 8;
  else if constexpr (std::is_same_v<T, GgufArray>)
    return 12;
  else
    return sizeof(T);
}

// Reads the header from front to back.
class Cursor {
 public:
  Cursor(Bytes file, std::string_view source) : file_(file), source_(source) {}

  std::size_t position() const { return position_; }

  // What is being read, for messages: "the value of \"general.name\"".
  void begin(std::string subject) { subject_ = std::move(subject); }
  [[noreturn]] void fail(const std::string& rule) const {
    io::fail(source_, subject_.empty() ? rule : fmt::format("{}: {}", subject_, rule));
  }

  Bytes take(std::uint64_t size) {
    if (size > file_.size() - position_)
      fail(fmt::format("{} bytes from byte {} on, and the file has {}", size, position_, file_.size()));
    const auto taken = file_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  // A number of things of which each has at least so many bytes, all of them still to come.
  std::uint64_t count(std::uint64_t fewest, const char* things) {
    const auto count = number<std::uint64_t>();
    require_count(count, fewest, things);
    return count;
  }
  void require_count(std::uint64_t count, std::uint64_t fewest, const char* things) const {
    if (count > (file_.size() - position_) / fewest)
      fail(fmt::format("{} {} cannot be in the {} bytes that are left", count, things,
                       file_.size() - position_));
  }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(as_text(take(number<std::uint64_t>()))); }

  GgufValue value() {
    GgufValue result;
    dispatch<0>(number<std::uint32_t>(), [&]<typename T>() { result = element<T>(0); });
    return result;
  }

 private:
  // Calls `then` with the C++ type of a type number.
  template <std::size_t index, typename F>
  void dispatch(std::uint32_t kind, F&& then) {
    if constexpr (index < kinds.size()) {
      if (kind != index) return dispatch<index + 1>(kind, then);
      then.template operator()<std::variant_alternative_t<index, GgufValue>>();
    } else {
      fail(fmt::format("unknown type {}; 0 to {} are allowed", kind, kinds.size() - 1));
    }
  }

  template <typename T>
  T element(int depth) {
    if constexpr (std::is_same_v<T, std::string>) {
      return text();
    } else if constexpr (std::is_same_v<T, GgufArray>) {
      return array(depth + 1);
    } else if constexpr (std::is_same_v<T, bool>) {
      const auto byte = number<std::uint8_t>();
      if (byte > 1) fail(fmt::format("a bool is {}; 0 or 1 is allowed", byte));
      return byte == 1;
    } else {
      return number<T>();
    }
  }

  GgufArray array(int depth) {
    if (depth > deepest_nesting) fail(fmt::format("arrays nested more than {} deep", deepest_nesting));
    GgufArray result;
    dispatch<0>(number<std::uint32_t>(), [&]<typename T>() {
      auto& values = result.values.emplace<std::vector<T>>();
      const auto size = count(fewest_bytes<T>(), "elements");
      values.reserve(size);
      for (std::uint64_t i = 0; i < size; ++i) values.push_back(element<T>(depth));
    });
    return result;
  }

  Bytes file_;
  std::string_view source_;
  std::size_t position_ = 0;
  std::string subject_;
};

void read_metadata(Cursor& cursor, std::uint64_t count, GgufMetadata& metadata) {
  for (std::uint64_t i = 0; i < count; ++i) {
    cursor.begin(fmt::format("metadata key {}", i));
    auto key = cursor.text();
    if (key.size() > longest_key)
      cursor.fail(fmt::format("{} bytes; at most {} are allowed", key.size(), longest_key));
    cursor.begin("metadata " + show(key));
    auto value = cursor.value();
    if (!metadata.emplace(std::move(key), std::move(value)).second) cursor.fail("the key occurs twice");
  }
}

std::uint64_t read_alignment(const GgufMetadata& metadata, std::string_view source) {
  const auto found = metadata.find(alignment_key);
  if (found == metadata.end()) return default_alignment;
  const auto* alignment = std::get_if<std::uint32_t>(&found->second);
  if (!alignment)
    fail(source, fmt::format("{} is {}; it must be u32", alignment_key, gguf_kind(found->second)));
  if (!is_power_of_two(*alignment))
    fail(source, fmt::format("{} is {}; it must be a power of two", alignment_key, *alignment));
  return *alignment;
}

// The bytes of a tensor of whole blocks.
std::uint64_t checked_size(const Cursor& cursor, const Shape& shape, const TensorType& type) {
  const auto innermost = shape.empty() ? 1 : shape.back();
  if (innermost % type.elements != 0)
    cursor.fail(fmt::format("{} comes in blocks of {}, the innermost size of {} is not a multiple", type.name,
                            type.elements, to_string(shape)));
  // Blocks are counted whole, so that elements and bytes both fit.
  if (const auto bytes = array_bytes(shape, type.bytes))
    return *bytes / static_cast<std::uint64_t>(type.elements);
  cursor.fail(fmt::format("shape {} has more bytes than 63 bits can count", to_string(shape)));
}

GgufEntry read_entry(Cursor& cursor, std::uint64_t index, std::uint64_t alignment) {
  cursor.begin(fmt::format("tensor {}", index));
  GgufEntry entry;
  entry.name = cursor.text();
  cursor.begin("tensor " + show(entry.name));
  const auto axes = cursor.number<std::uint32_t>();
  if (axes > max_dims) cursor.fail(fmt::format("{} axes; at most {} are allowed", axes, max_dims));
  entry.shape.resize(axes);
  for (std::size_t axis = axes; axis-- > 0;) {
    const auto size = cursor.number<std::uint64_t>();
    if (size > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
      cursor.fail(fmt::format("the size {} does not fit in 63 bits", size));
    entry.shape[axis] = static_cast<std::int64_t>(size);
  }
  if (!array_bytes(entry.shape, 1))
    cursor.fail(fmt::format("shape {} has more elements than 63 bits can count", to_string(entry.shape)));
  entry.type = cursor.number<std::uint32_t>();
  if (const auto* type = find_type(entry.type)) {
    entry.dtype = type->dtype;
    entry.size = checked_size(cursor, entry.shape, *type);
  }
  entry.begin = cursor.number<std::uint64_t>();
  if (entry.begin % alignment != 0)
    cursor.fail(fmt::format("its offset {} is not a multiple of the alignment, {}", entry.begin, alignment));
  return entry;
}

// From offsets in the data to positions in the file; none may be outside it or overlap.
void place(std::vector<GgufEntry>& entries, std::uint64_t data_begin, std::uint64_t file_size,
           std::string_view source) {
  const std::uint64_t data_size = file_size > data_begin ? file_size - data_begin : 0;
  std::vector<GgufEntry*> by_offset;
  for (auto& entry : entries) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(), [](const GgufEntry* a, const GgufEntry* b) {
    return std::pair(a->begin, a->size) < std::pair(b->begin, b->size);
  });
  std::uint64_t position = 0;
  for (auto* entry : by_offset) {
    const auto size = entry->size.value_or(0);
    if (entry->begin > data_size || size > data_size - entry->begin)
      fail(source,
           fmt::format("tensor {}: {} bytes from {} on are outside the {} bytes of data; the file is cut "
                       "short or damaged",
                       show(entry->name), size, entry->begin, data_size));
    if (size != 0 && entry->begin < position)
      fail(source, fmt::format("tensor {}: its data, at {}, overlaps another tensor's, which ends at {}",
                               show(entry->name), entry->begin, position));
    position = std::max(position, entry->begin + size);
    entry->begin += data_begin;
  }
}

void check_names(const std::vector<GgufEntry>& entries, std::string_view source) {
  std::set<std::string_view> names;
  for (const auto& entry : entries)
    if (!names.insert(entry.name).second)
      fail(source, fmt::format("tensor {} occurs twice", show(entry.name)));
}

std::uint32_t read_version(Cursor& cursor) {
  const auto version = cursor.number<std::uint32_t>();
  if (version >= 1u << 16) cursor.fail("a big-endian file, which Hearth does not read");
  if (version != 2 && version != 3)
    cursor.fail(fmt::format("version {} of the format; 2 and 3 can be read", version));
  return version;
}

}  // namespace

GgufHeader parse_gguf(Bytes file, std::string_view source) {
  if (!as_text(file).starts_with(magic)) fail(source, "not a GGUF file: it does not begin with \"GGUF\"");
  Cursor cursor(file, source);
  cursor.take(magic.size());
  GgufHeader header;
  header.version = read_version(cursor);
  const auto tensors = cursor.count(24, "tensors");
  const auto keys = cursor.count(13, "metadata entries");
  read_metadata(cursor, keys, header.metadata);
  const auto alignment = read_alignment(header.metadata, source);

  cursor.begin({});
  cursor.require_count(tensors, 24, "tensors");
  for (std::uint64_t i = 0; i < tensors; ++i) header.entries.push_back(read_entry(cursor, i, alignment));
  check_names(header.entries, source);
  place(header.entries, round_up(cursor.position(), alignment), file.size(), source);
  return header;
}

std::string gguf_type_name(std::uint32_t number) {
  const auto* type = find_type(number);
  return type ? std::string(type->name) : fmt::format("type {}", number);
}

std::string gguf_kind(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value))
    return fmt::format("an array of {}", kinds[array->values.index()]);
  return std::string(kinds[value.index()]);
}

DType require_dtype(const GgufEntry& entry, std::string_view source) {
  if (entry.dtype) return *entry.dtype;
  throw DTypeError(fmt::format("[gguf] '{}': tensor {}: unsupported type {}", source, show(entry.name),
                               gguf_type_name(entry.type)));
}

Bytes gguf_bytes(Bytes file, const GgufEntry& entry, std::string_view source) {
  if (!entry.size)
    throw DTypeError(
        fmt::format("[gguf] '{}': tensor {}: unknown type {}", source, show(entry.name), entry.type));
  if (*entry.size == 0) return {};  // it may begin behind the end
  return file.subspan(entry.begin, *entry.size);
}

// ---- values

namespace {

template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <typename To, typename From>
std::optional<To> convert(const From& value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (!std::is_arithmetic_v<To> || !std::is_arithmetic_v<From> || std::is_same_v<To, bool> ||
                       std::is_same_v<From, bool>) {
    return std::nullopt;
  } else if constexpr (std::is_integral_v<To>) {
    if constexpr (std::is_integral_v<From>)
      if (std::in_range<To>(value)) return static_cast<To>(value);
    return std::nullopt;
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

template <typename T>
std::optional<T> gguf_as(const GgufValue& value) {
  if constexpr (is_vector<T>) {
    const auto* array = std::get_if<GgufArray>(&value);
    if (!array) return std::nullopt;
    return std::visit(
        [](const auto& values) -> std::optional<T> {
          using From = typename std::decay_t<decltype(values)>::value_type;
          T result;
          result.reserve(values.size());
          for (const From& element : values) {
            auto converted = convert<typename T::value_type>(element);
            if (!converted) return std::nullopt;
            result.push_back(std::move(*converted));
          }
          return result;
        },
        array->values);
  } else {
    return std::visit([](const auto& alternative) { return convert<T>(alternative); }, value);
  }
}

template std::optional<std::int64_t> gguf_as(const GgufValue&);
template std::optional<double> gguf_as(const GgufValue&);
template std::optional<bool> gguf_as(const GgufValue&);
template std::optional<std::string> gguf_as(const GgufValue&);
template std::optional<std::vector<std::int64_t>> gguf_as(const GgufValue&);
template std::optional<std::vector<double>> gguf_as(const GgufValue&);
template std::optional<std::vector<bool>> gguf_as(const GgufValue&);
template std::optional<std::vector<std::string>> gguf_as(const GgufValue&);

// ---- writing

namespace {

template <typename T>
requires std::is_arithmetic_v<T>
void append(std::string& text, T value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); }

void append(std::string& text, const std::string& value) {
  append(text, std::uint64_t{value.size()});
  text += value;
}

void append(std::string& text, const GgufArray& array) {
  append(text, static_cast<std::uint32_t>(array.values.index()));
  std::visit(
      [&](const auto& values) {
        append(text, std::uint64_t{values.size()});
        for (const auto& value : values) append(text, value);
      },
      array.values);
}

std::uint64_t written_alignment(const GgufMetadata& metadata) {
  const auto found = metadata.find(alignment_key);
  if (found == metadata.end()) return default_alignment;
  const auto* alignment = std::get_if<std::uint32_t>(&found->second);
  if (!alignment || !is_power_of_two(*alignment))
    throw ValueError(fmt::format("[gguf] {} must be a u32 power of two", alignment_key));
  return *alignment;
}

const TensorType& type_of(const GgufTensorSpec& tensor) {
  const auto* type = find_type(tensor.dtype);
  if (!type)
    throw DTypeError(
        fmt::format("[gguf] tensor {}: the format has no {}", show(tensor.name), dtype_name(tensor.dtype)));
  if (tensor.shape.size() > most_axes_written)
    throw ShapeError(fmt::format("[gguf] tensor {}: {} axes; the format has at most {}", show(tensor.name),
                                 tensor.shape.size(), most_axes_written));
  check_shape(tensor.shape, tensor.dtype, "gguf");
  return *type;
}

}  // namespace

GgufLayout lay_out_gguf(const GgufMetadata& metadata, const std::vector<GgufTensorSpec>& tensors) {
  const auto alignment = written_alignment(metadata);
  GgufLayout layout;
  auto& text = layout.header;
  text = magic;
  append(text, std::uint32_t{3});
  append(text, std::uint64_t{tensors.size()});
  append(text, std::uint64_t{metadata.size()});
  for (const auto& [key, value] : metadata) {
    if (key.size() > longest_key)
      throw ValueError(fmt::format("[gguf] the key {} is longer than {} bytes", show(key), longest_key));
    append(text, key);
    append(text, static_cast<std::uint32_t>(value.index()));
    std::visit([&](const auto& alternative) { append(text, alternative); }, value);
  }

  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw ValueError(fmt::format("[gguf] two tensors are named {}", show(tensor.name)));
    const auto& type = type_of(tensor);
    append(text, tensor.name);
    append(text, static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::size_t axis = tensor.shape.size(); axis-- > 0;)
      append(text, static_cast<std::uint64_t>(tensor.shape[axis]));
    append(text, type.number);
    append(text, offset);
    const auto size = static_cast<std::uint64_t>(storage_bytes(tensor.dtype, element_count(tensor.shape)));
    layout.tensors.push_back({offset, size});
    offset = round_up(offset + size, alignment);
  }
  text.resize(round_up(text.size(), alignment), '\0');
  for (auto& span : layout.tensors) span.begin += text.size();
  layout.size = text.size() + offset;
  return layout;
}

}  // namespace hearth::io
