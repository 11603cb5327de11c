// Parsing, checking and writing safetensors headers.
#include "io/safetensors_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "hearth/error.h"

namespace hearth::io {
namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // the reference implementation's limit
constexpr std::size_t deepest_nesting = 32;            // inside fields that nobody reads

struct FormatDType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;
};

// In the order of the reference implementation, which sorts by it.
constexpr std::array<FormatDType, 22> format_dtypes = {
    {{"BOOL", 8, DType::bool_}, {"F4", 4, {}},           {"F6_E2M3", 6, {}},        {"F6_E3M2", 6, {}},
     {"U8", 8, DType::u8},      {"I8", 8, DType::i8},    {"F8_E5M2", 8, {}},        {"F8_E4M3", 8, {}},
     {"F8_E8M0", 8, {}},        {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},    {"I16", 16, DType::i16},
     {"U16", 16, {}},           {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16}, {"I32", 32, DType::i32},
     {"U32", 32, {}},           {"F32", 32, DType::f32}, {"C64", 64, {}},           {"F64", 64, DType::f64},
     {"I64", 64, DType::i64},   {"U64", 64, {}}}};

const FormatDType* find_dtype(std::string_view name) {
  const auto found = std::find_if(format_dtypes.begin(), format_dtypes.end(),
                                  [&](const FormatDType& row) { return row.name == name; });
  return found == format_dtypes.end() ? nullptr : &*found;
}

const FormatDType& find_dtype(DType dtype) {
  return *std::find_if(format_dtypes.begin(), format_dtypes.end(),
                       [&](const FormatDType& row) { return row.dtype == dtype; });
}

[[noreturn]] void fail(std::string_view source, const std::string& rule) {
  throw FormatError(fmt::format("[safetensors] '{}': {}", source, rule));
}

// Takes the parser's events one by one: repeated keys are seen, and nothing is stored that is not needed.
// Fields of an entry that the format does not know are skipped, as the reference implementation does.
class HeaderEvents : public nlohmann::json_sax<json> {
 public:
  HeaderEvents(SafetensorsHeader& header, std::string_view source) : header_(header), source_(source) {}

  bool start_object(std::size_t) override {
    const Slot slot = expected();
    if (slot == Slot::entry) {
      dtype_ = nullptr;
      seen_ = {};
      offsets_.clear();
    } else if (slot != Slot::header && slot != Slot::metadata && slot != Slot::anything) {
      fail_value("an object");
    }
    open(slot);
    return true;
  }

  bool key(string_t& name) override {
    switch (open_.back()) {
      case Slot::header:
        expected_ = name == "__metadata__" ? Slot::metadata : Slot::entry;
        if (expected_ == Slot::entry) {
          entry_ = {};
          entry_.name = name;
        } else if (std::exchange(seen_metadata_, true)) {
          fail("__metadata__ occurs twice");
        }
        break;
      case Slot::metadata:
        expected_ = Slot::metadata_value;
        key_ = name;
        break;
      case Slot::entry:
        expected_ = name == "dtype"          ? Slot::dtype
                    : name == "shape"        ? Slot::shape
                    : name == "data_offsets" ? Slot::offsets
                                             : Slot::anything;
        key_ = name;
        if (expected_ != Slot::anything && std::exchange(seen_[name], true))
          fail(fmt::format("{}: {} occurs twice", subject(), name));
        break;
      default:
        break;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    const Slot slot = expected();
    if (slot != Slot::shape && slot != Slot::offsets && slot != Slot::anything) fail_value("an array");
    open(slot);
    return true;
  }

  bool end_object() override {
    const Slot closed = open_.back();
    open_.pop_back();
    if (closed == Slot::entry) finish_entry();
    return true;
  }

  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool string(string_t& text) override {
    switch (expected()) {
      case Slot::metadata_value:
        if (!header_.metadata.emplace(key_, text).second)
          fail(fmt::format("__metadata__: the key {} occurs twice", show(key_)));
        break;
      case Slot::dtype:
        dtype_ = find_dtype(text);
        if (!dtype_) fail(fmt::format("{}: unknown dtype {}", subject(), show(text)));
        break;
      case Slot::anything:
        break;
      default:
        fail_value("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    switch (expected()) {
      case Slot::shape_size:
        if (value > std::uint64_t(std::numeric_limits<std::int64_t>::max()))
          fail(fmt::format("{}: the size {} does not fit in 63 bits", subject(), value));
        if (entry_.shape.size() == max_dims)
          fail(fmt::format("{}: more than {} axes, which Hearth does not take", subject(), max_dims));
        entry_.shape.push_back(static_cast<std::int64_t>(value));
        break;
      case Slot::offset:
        if (offsets_.size() == 2) fail(fmt::format("{}: more than two data_offsets", subject()));
        offsets_.push_back(value);
        break;
      case Slot::anything:
        break;
      default:
        fail_value("a number");
    }
    return true;
  }

  bool number_integer(number_integer_t value) override { return other(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override {
    return other("the number " + show(text));
  }
  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool binary(binary_t&) override { return other("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(fmt::format("the header is not JSON in UTF-8, at its byte {}", position));
  }

 private:
  // The places a value can have in the header.
  enum class Slot {
    header,
    metadata,
    metadata_value,
    entry,
    dtype,
    shape,
    shape_size,
    offsets,
    offset,
    anything
  };

  void open(Slot slot) {
    if (open_.size() == deepest_nesting) fail("the header is nested too deeply");
    open_.push_back(slot);
  }

  // The place of the value that comes next.
  Slot expected() const {
    if (open_.empty()) return Slot::header;
    switch (open_.back()) {
      case Slot::shape:
        return Slot::shape_size;
      case Slot::offsets:
        return Slot::offset;
      case Slot::anything:
        return Slot::anything;
      default:
        return expected_;
    }
  }

  bool other(const std::string& found) const {
    if (expected() != Slot::anything) fail_value(found);
    return true;
  }

  void finish_entry() {
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!seen_[field]) fail(fmt::format("{}: no {}", subject(), field));
    if (offsets_.size() != 2) fail(fmt::format("{}: data_offsets must be two numbers", subject()));
    if (offsets_[0] > offsets_[1])
      fail(fmt::format("{}: data_offsets {} and {} are not in order", subject(), offsets_[0], offsets_[1]));

    const auto elements = array_bytes(entry_.shape, 1);
    const auto bits = elements ? checked_product(*elements, dtype_->bits) : std::nullopt;
    if (!bits)
      fail(fmt::format("{}: shape {} has more bytes than 63 bits can count", subject(),
                       to_string(entry_.shape)));
    if (*bits % 8 != 0)
      fail(fmt::format("{}: {} of shape {} does not fill whole bytes", subject(), dtype_->name,
                       to_string(entry_.shape)));
    if (offsets_[1] - offsets_[0] != *bits / 8)
      fail(fmt::format("{}: {} of shape {} has {} bytes, but data_offsets span {}", subject(), dtype_->name,
                       to_string(entry_.shape), *bits / 8, offsets_[1] - offsets_[0]));
    entry_.dtype_name = dtype_->name;
    entry_.dtype = dtype_->dtype;
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header_.entries.push_back(std::move(entry_));
  }

  std::string subject() const { return "tensor " + show(entry_.name); }

  [[noreturn]] void fail_value(const std::string& found) const {
    switch (expected()) {
      case Slot::header:
        fail("the header must be an object; found " + found);
      case Slot::metadata:
        fail("__metadata__ must be an object; found " + found);
      case Slot::metadata_value:
        fail(fmt::format("__metadata__: {} must be a string; found {}", show(key_), found));
      case Slot::entry:
        fail(fmt::format("{} must be an object; found {}", subject(), found));
      case Slot::dtype:
        fail(fmt::format("{}: dtype must be a string; found {}", subject(), found));
      case Slot::shape:
      case Slot::shape_size:
        fail(fmt::format("{}: shape must be a list of non-negative integers; found {}", subject(), found));
      default:
        fail(fmt::format("{}: data_offsets must be two non-negative integers; found {}", subject(), found));
    }
  }

  [[noreturn]] void fail(const std::string& rule) const { hearth::io::fail(source_, rule); }

  SafetensorsHeader& header_;
  std::string_view source_;
  std::vector<Slot> open_;  // the objects and arrays around the current position
  Slot expected_ = Slot::header;
  std::string key_;
  bool seen_metadata_ = false;
  SafetensorsEntry entry_;
  const FormatDType* dtype_ = nullptr;
  std::map<std::string, bool, std::less<>> seen_;  // fields of the entry
  std::vector<std::uint64_t> offsets_;
};

// The tensors, in the order of their bytes, must follow each other from 0 to `size`.
void check_coverage(const std::vector<SafetensorsEntry>& entries, std::uint64_t size,
                    std::string_view source) {
  std::vector<const SafetensorsEntry*> by_offset;
  for (const auto& entry : entries) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t position = 0;
  for (const auto* entry : by_offset) {
    if (entry->end > size)
      fail(source, fmt::format("tensor {}: data_offsets {} to {} are outside the {} bytes of data",
                               show(entry->name), entry->begin, entry->end, size));
    if (entry->begin < position)
      fail(source, fmt::format("tensor {}: its data, at {}, overlaps another tensor's, which ends at {}",
                               show(entry->name), entry->begin, position));
    if (entry->begin > position)
      fail(source, fmt::format("tensor {}: a hole of {} bytes before its data", show(entry->name),
                               entry->begin - position));
    position = entry->end;
  }
  if (position != size)
    fail(source, fmt::format("{} bytes after the data of the last tensor", size - position));
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), name,
                       [](const SafetensorsEntry& entry, std::string_view n) { return entry.name < n; });
  return found != entries.end() && found->name == name ? &*found : nullptr;
}

SafetensorsHeader parse_safetensors(Bytes file, std::string_view source) {
  if (file.size() < 8) fail(source, fmt::format("{} bytes are too few for a header", file.size()));
  const auto length = load_little<std::uint64_t>(file, 0);
  if (length > longest_header)
    fail(source, fmt::format("a header of {} bytes; at most {} are allowed", length, longest_header));
  if (length > file.size() - 8)
    fail(source, fmt::format("a header of {} bytes in a file of {}", length, file.size()));
  const auto text = as_text(file.subspan(8, length));
  if (text.empty() || text.front() != '{') fail(source, "the header does not begin with '{'");
  // The JSON parser takes a NUL for the end of the text.
  if (const auto nul = text.find('\0'); nul != text.npos)
    fail(source, fmt::format("the header is not JSON in UTF-8, at its byte {}", nul + 1));

  SafetensorsHeader header;
  HeaderEvents events(header, source);
  json::sax_parse(text, &events);

  auto& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != entries.end()) fail(source, fmt::format("tensor {} occurs twice", show(twice->name)));
  const std::uint64_t data_begin = 8 + length;
  check_coverage(entries, file.size() - data_begin, source);
  for (auto& entry : entries) {
    entry.begin += data_begin;
    entry.end += data_begin;
  }
  return header;
}

DType require_dtype(const SafetensorsEntry& entry, std::string_view source) {
  if (entry.dtype) return *entry.dtype;
  throw DTypeError(fmt::format("[safetensors] '{}': tensor {}: unsupported dtype {}", source,
                               show(entry.name), entry.dtype_name));
}

Array safetensors_array(Bytes file, const SafetensorsEntry& entry, std::shared_ptr<const void> owner,
                        std::string_view source) {
  const auto dtype = require_dtype(entry, source);
  const auto bytes = file.subspan(entry.begin, entry.end - entry.begin);
  if (dtype == DType::bool_)
    if (const auto bad = find_bad_bool(bytes))
      fail(source, fmt::format("tensor {}: element {} of a BOOL tensor is {}; 0 or 1 is allowed",
                               show(entry.name), *bad, std::to_integer<int>(bytes[*bad])));
  return {dtype, entry.shape, bytes, std::move(owner)};
}

std::string safetensors_header(const std::vector<SafetensorsArray>& arrays,
                               const std::map<std::string, std::string>& metadata) {
  // Written piece by piece: an ordered JSON object takes quadratic time to fill.
  const auto json_string = [](std::string_view text) {
    try {
      return json(text).dump();
    } catch (const json::type_error&) {
      throw ValueError(fmt::format("[safetensors] {} is not UTF-8", show(text)));
    }
  };
  std::string text = "{";
  const auto separate = [&] { text += text.size() > 1 ? "," : ""; };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    const char* comma = "";
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", comma, json_string(key), json_string(value));
      comma = ",";
    }
    text += "}";
  }
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const auto& array : arrays) {
    if (array.name == "__metadata__")
      throw ValueError("[safetensors] a tensor cannot be named __metadata__: the format uses that name");
    if (!names.insert(array.name).second)
      throw ValueError(fmt::format("[safetensors] two tensors are named {}", show(array.name)));
    const auto end = offset + array_bytes(array.shape, dtype_size(array.dtype)).value();
    separate();
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_string(array.name),
                        find_dtype(array.dtype).name, fmt::join(array.shape, ","), offset, end);
    offset = end;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the data
  if (text.size() > longest_header)
    throw ValueError(fmt::format("[safetensors] a header of {} bytes; at most {} are allowed", text.size(),
                                 longest_header));
  std::string length;
  append_little(length, std::uint64_t{text.size()});
  return length + text;
}

bool safetensors_order(const SafetensorsArray& a, const SafetensorsArray& b) {
  const auto *dtype_a = &find_dtype(a.dtype), *dtype_b = &find_dtype(b.dtype);
  return dtype_a != dtype_b ? dtype_a > dtype_b : a.name < b.name;
}

}  // namespace hearth::io
