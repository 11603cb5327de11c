// Tensors and metadata from and to GGUF files, which may come in parts.
#include "hearth/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/file.h"
#include "hearth/error.h"
#include "io/gguf_format.h"
#include "io/host_tensor.h"

namespace hearth {
namespace {

constexpr const char* part_key = "split.no";
constexpr const char* part_count_key = "split.count";
constexpr const char* tensor_count_key = "split.tensors.count";
constexpr std::int64_t most_parts = 99999;  // five digits

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& rule) {
  throw FormatError(fmt::format("[gguf] '{}': {}", path.string(), rule));
}

template <typename T>
std::optional<T> value_of(const GgufMetadata& metadata, std::string_view key,
                          const std::filesystem::path& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  if (auto value = io::gguf_as<T>(found->second)) return value;
  fail(path, fmt::format("the value of {} is {}, which is not what it must be", io::show(key),
                         io::gguf_kind(found->second)));
}

struct Part {
  std::filesystem::path path;
  io::FileContents file;
};

// The names of all parts, from that of the first: "name-00001-of-00003.gguf".
std::vector<std::filesystem::path> part_paths(const std::filesystem::path& first, std::int64_t count) {
  const auto ending = [&](std::int64_t number) { return fmt::format("-{:05}-of-{:05}.gguf", number, count); };
  const auto name = first.filename().string();
  if (!name.ends_with(ending(1)))
    fail(first,
         fmt::format("the first of {} parts, so its name must end in \"{}\" for the others to be found",
                     count, ending(1)));
  const auto stem = name.substr(0, name.size() - ending(1).size());
  std::vector<std::filesystem::path> paths;
  std::vector<std::string> missing;
  for (std::int64_t number = 1; number <= count; ++number) {
    paths.push_back(first.parent_path() / (stem + ending(number)));
    if (!std::filesystem::exists(paths.back())) missing.push_back(paths.back().filename().string());
  }
  if (missing.empty()) return paths;
  const auto some = std::span(missing).first(std::min<std::size_t>(missing.size(), 5));
  throw FileError(fmt::format("[gguf] '{}': of its {} parts {} are missing: {}{}", first.string(), count,
                              missing.size(), fmt::join(some, ", "),
                              some.size() < missing.size() ? ", ..." : ""));
}

}  // namespace

struct GgufFile::State {
  std::vector<Part> parts;
  std::uint32_t version = 0;
  GgufMetadata metadata;
  struct Entry {
    io::GgufEntry entry;
    std::size_t part = 0;
  };
  std::vector<Entry> entries;
  std::vector<std::string> names;
  std::unordered_map<std::string_view, std::size_t> positions;  // of names

  const std::filesystem::path& path() const { return parts.front().path; }
  std::string source(const Entry& entry) const { return parts[entry.part].path.string(); }

  // Opens one part and takes over its tensors. Returns its metadata.
  GgufMetadata add(const std::filesystem::path& part_path) {
    parts.push_back({part_path, io::map_file(part_path)});
    auto header = io::parse_gguf(parts.back().file.bytes, part_path.string());
    version = header.version;
    for (auto& entry : header.entries) entries.push_back({std::move(entry), parts.size() - 1});
    return std::move(header.metadata);
  }

  void add_other_parts() {
    const auto count = value_of<std::int64_t>(metadata, part_count_key, path()).value_or(1);
    if (count <= 1) return;
    if (count > most_parts) fail(path(), fmt::format("{} parts; at most {} can be named", count, most_parts));
    const auto number = value_of<std::int64_t>(metadata, part_key, path()).value_or(0);
    if (number != 0)
      fail(path(), fmt::format("part {} of {}; open the first, which names the others", number + 1, count));
    const auto paths = part_paths(path(), count);
    for (std::size_t i = 1; i < paths.size(); ++i) {
      const auto other = add(paths[i]);
      if (value_of<std::int64_t>(other, part_key, paths[i]) != static_cast<std::int64_t>(i) ||
          value_of<std::int64_t>(other, part_count_key, paths[i]) != count)
        fail(paths[i], fmt::format("its name says part {} of {}, its metadata does not", i + 1, count));
    }
    const auto expected = value_of<std::int64_t>(metadata, tensor_count_key, path());
    if (expected && *expected != static_cast<std::int64_t>(entries.size()))
      fail(path(), fmt::format("all parts should have {} tensors, they have {}", *expected, entries.size()));
  }

  void index() {
    for (const auto& [entry, part] : entries) {
      if (!positions.emplace(entry.name, names.size()).second)
        fail(parts[part].path, fmt::format("tensor {} is in another part too", io::show(entry.name)));
      names.push_back(entry.name);
    }
  }

  const Entry& entry(std::string_view name) const {
    const auto found = positions.find(name);
    if (found == positions.end())
      throw ValueError(fmt::format("[gguf] '{}' has no tensor {}", path().string(), io::show(name)));
    return entries[found->second];
  }

  io::Bytes bytes(const Entry& entry) const {
    return io::gguf_bytes(parts[entry.part].file.bytes, entry.entry, source(entry));
  }
};

GgufFile::GgufFile(const std::filesystem::path& path) {
  auto state = std::make_shared<State>();
  state->metadata = state->add(path);
  state->add_other_parts();
  state->index();
  state_ = std::move(state);
}

const std::filesystem::path& GgufFile::path() const { return state_->path(); }
std::uint32_t GgufFile::version() const { return state_->version; }
const GgufMetadata& GgufFile::metadata() const { return state_->metadata; }
const std::vector<std::string>& GgufFile::names() const { return state_->names; }
bool GgufFile::contains(std::string_view name) const { return state_->positions.contains(name); }
const Shape& GgufFile::shape(std::string_view name) const { return state_->entry(name).entry.shape; }
std::string GgufFile::type_name(std::string_view name) const {
  return io::gguf_type_name(state_->entry(name).entry.type);
}

DType GgufFile::dtype(std::string_view name) const {
  const auto& found = state_->entry(name);
  return io::require_dtype(found.entry, state_->source(found));
}

std::span<const std::byte> GgufFile::bytes(std::string_view name) const {
  return state_->bytes(state_->entry(name));
}

Tensor GgufFile::tensor(std::string_view name) const {
  const auto& found = state_->entry(name);
  return io::to_tensor({io::require_dtype(found.entry, state_->source(found)), found.entry.shape,
                        state_->bytes(found), state_->parts[found.part].file.owner});
}

void GgufFile::forget(std::string_view name) const { forget_mapped(bytes(name)); }

template <typename T>
std::optional<T> GgufFile::get(std::string_view key) const {
  return value_of<T>(state_->metadata, key, path());
}

template <typename T>
T GgufFile::require(std::string_view key) const {
  if (auto value = get<T>(key)) return std::move(*value);
  fail(path(), fmt::format("no metadata {}", io::show(key)));
}

template std::optional<std::int64_t> GgufFile::get(std::string_view) const;
template std::optional<double> GgufFile::get(std::string_view) const;
template std::optional<bool> GgufFile::get(std::string_view) const;
template std::optional<std::string> GgufFile::get(std::string_view) const;
template std::optional<std::vector<std::int64_t>> GgufFile::get(std::string_view) const;
template std::optional<std::vector<double>> GgufFile::get(std::string_view) const;
template std::optional<std::vector<bool>> GgufFile::get(std::string_view) const;
template std::optional<std::vector<std::string>> GgufFile::get(std::string_view) const;
template std::int64_t GgufFile::require(std::string_view) const;
template double GgufFile::require(std::string_view) const;
template bool GgufFile::require(std::string_view) const;
template std::string GgufFile::require(std::string_view) const;
template std::vector<std::int64_t> GgufFile::require(std::string_view) const;
template std::vector<double> GgufFile::require(std::string_view) const;
template std::vector<bool> GgufFile::require(std::string_view) const;
template std::vector<std::string> GgufFile::require(std::string_view) const;

// ---- writing

struct GgufWriter::State {
  AtomicFile file;
  std::vector<GgufTensorSpec> tensors;
  io::GgufLayout layout;
  std::size_t next = 0;       // the tensor being written
  std::uint64_t written = 0;  // of its bytes

  const GgufTensorSpec& expected() const {
    if (next == tensors.size()) throw ValueError("[gguf] all declared tensors have been written");
    return tensors[next];
  }
  std::uint64_t remaining() const { return layout.tensors[next].size - written; }

  // The padding after the current tensor, and tensors without elements.
  void finish_tensors() {
    while (next < tensors.size() && remaining() == 0) {
      ++next;
      written = 0;
      const auto end = next < tensors.size() ? layout.tensors[next].begin : layout.size;
      file.write(std::string(end - file.size(), '\0'));
    }
  }
};

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                       const std::vector<GgufTensorSpec>& tensors) {
  auto layout = io::lay_out_gguf(metadata, tensors);
  state_.reset(new State{AtomicFile(path), tensors, std::move(layout)});
  state_->file.write(state_->layout.header);
  state_->finish_tensors();
}

GgufWriter::~GgufWriter() = default;

void GgufWriter::write(const Tensor& tensor) {
  const auto& expected = state_->expected();
  if (!tensor.defined() || state_->written != 0 || tensor.dtype() != expected.dtype ||
      tensor.shape() != expected.shape)
    throw ValueError(fmt::format(
        "[gguf] the next to be written is {} {} {}, got {}", io::show(expected.name),
        dtype_name(expected.dtype), to_string(expected.shape),
        !tensor.defined() ? "an undefined tensor"
        : state_->written ? "a tensor after some bytes of it"
                          : fmt::format("{} {}", dtype_name(tensor.dtype()), to_string(tensor.shape()))));
  write(tensor.to_bytes());
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto& expected = state_->expected();
  if (bytes.size() > state_->remaining())
    throw ValueError(fmt::format("[gguf] {} has {} bytes left to be written, got {}", io::show(expected.name),
                                 state_->remaining(), bytes.size()));
  state_->file.write(bytes);
  state_->written += bytes.size();
  state_->finish_tensors();
}

void GgufWriter::commit() {
  if (state_->next < state_->tensors.size())
    throw ValueError(fmt::format("[gguf] {} of {} tensors are written; next is {}", state_->next,
                                 state_->tensors.size(), io::show(state_->tensors[state_->next].name)));
  state_->file.commit();
}

}  // namespace hearth
