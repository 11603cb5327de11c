// `hearth inspect`: what is in a model file.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "hearth/error.h"
#include "hearth/gguf.h"
#include "hearth/io.h"
#include "io/bytes.h"
#include "io/parse_json.h"

namespace hearth::cli {
namespace {

struct InspectOptions {
  std::string path, tensors;
  bool json = false;
};

struct StoredTensor {
  std::string name, type;
  Shape shape;
  std::optional<std::uint64_t> bytes;  // none: of a type of which nothing is known
};

struct Contents {
  std::string format;
  std::vector<std::pair<std::string, nlohmann::json>> metadata;
  std::vector<StoredTensor> tensors;
};

template <typename T>
nlohmann::json to_json(const T& value) {
  if constexpr (std::is_same_v<T, float>) {
    // 1e-05, not 9.999999747378752e-06.
    return std::isfinite(value) ? nlohmann::json::parse(fmt::format("{}", value)) : nlohmann::json();
  } else if constexpr (std::is_same_v<T, GgufArray>) {
    nlohmann::json list = nlohmann::json::array();
    std::visit(
        [&](const auto& values) {
          for (const auto& element : values) list.push_back(to_json(element));
        },
        value.values);
    return list;
  } else {
    return value;
  }
}

Contents read_gguf(const std::filesystem::path& path) {
  const GgufFile file(path);
  Contents contents{fmt::format("GGUF version {}", file.version()), {}, {}};
  for (const auto& [key, value] : file.metadata())
    contents.metadata.emplace_back(
        key, std::visit([](const auto& alternative) { return to_json(alternative); }, value));
  for (const auto& name : file.names()) {
    StoredTensor tensor{name, file.type_name(name), file.shape(name), {}};
    try {
      tensor.bytes = file.bytes(name).size();
    } catch (const DTypeError&) {
    }
    contents.tensors.push_back(std::move(tensor));
  }
  return contents;
}

void add_safetensors(const std::filesystem::path& path, Contents& contents) {
  const SafetensorsFile file(path);
  for (const auto& [key, value] : file.metadata()) contents.metadata.emplace_back(key, value);
  for (const auto& name : file.names())
    contents.tensors.push_back({name, file.type_name(name), file.shape(name), file.bytes(name)});
}

// The members of config.json, "outer.inner" for those of an object in it, stand for the metadata.
void add_members(const nlohmann::json& object, const std::string& prefix, Contents& contents) {
  for (const auto& [key, value] : object.items())
    if (value.is_object())
      add_members(value, prefix + key + ".", contents);
    else
      contents.metadata.emplace_back(prefix + key, value);
}

Contents read_folder(const std::filesystem::path& path) {
  Contents contents;
  if (const auto config = path / "config.json"; std::filesystem::exists(config)) {
    const auto members = io::parse_json(read_text_file(config), config.string());
    if (!members.is_object()) throw FormatError(fmt::format("{}: not a JSON object", config.string()));
    add_members(members, "", contents);
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  if (files.empty()) throw FileError(fmt::format("{}: no safetensors file in this folder", path.string()));
  std::sort(files.begin(), files.end());
  for (const auto& file : files) add_safetensors(file, contents);
  contents.format =
      fmt::format("folder with {} safetensors file{}", files.size(), files.size() > 1 ? "s" : "");
  return contents;
}

Contents read(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return read_folder(path);
  const MappedFile file(path);
  const auto text = io::as_text(file.bytes());
  if (text.starts_with("GGUF")) return read_gguf(path);
  // The length of the header, then the header.
  if (text.size() < 9 || text[8] != '{')
    throw FormatError(fmt::format("{}: neither a GGUF file nor safetensors", path.string()));
  Contents contents{"safetensors", {}, {}};
  add_safetensors(path, contents);
  return contents;
}

bool matches(const std::string& name, const std::string& pattern) {
  if (pattern.empty() || name.find(pattern) != name.npos) return true;
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// A value on one line, shortened.
std::string line_of(const nlohmann::json& value) {
  constexpr std::size_t longest_text = 60, longest_list = 6;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() <= longest_text) return in_quotes(text);
    return fmt::format("{}... ({} bytes)", in_quotes(text.substr(0, longest_text)), text.size());
  }
  if (!value.is_array()) return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::vector<std::string> items;
  for (std::size_t i = 0; i < std::min(value.size(), longest_list); ++i) items.push_back(line_of(value[i]));
  if (value.size() <= longest_list) return fmt::format("[{}]", fmt::join(items, ", "));
  return fmt::format("[{}, ...] ({} values)", fmt::join(items, ", "), value.size());
}

struct Sum {
  std::int64_t tensors = 0, elements = 0;
  std::uint64_t bytes = 0;

  void add(const StoredTensor& tensor) {
    tensors += 1;
    elements += element_count(tensor.shape);
    bytes += tensor.bytes.value_or(0);
  }
};

void print_json(const std::string& path, const Contents& contents, const std::map<std::string, Sum>& sums,
                const Sum& all) {
  nlohmann::json metadata = nlohmann::json::object(), tensors = nlohmann::json::array(),
                 types = nlohmann::json::object();
  for (const auto& [key, value] : contents.metadata) metadata[key] = value;
  for (const auto& tensor : contents.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"type", tensor.type},
                       {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())},
                       {"bytes", tensor.bytes ? nlohmann::json(*tensor.bytes) : nlohmann::json()}});
  const auto figures = [](const Sum& sum) {
    return nlohmann::json{{"tensors", sum.tensors}, {"elements", sum.elements}, {"bytes", sum.bytes}};
  };
  for (const auto& [type, sum] : sums) types[type] = figures(sum);
  const nlohmann::json whole{{"path", path},         {"format", contents.format},
                             {"metadata", metadata}, {"tensors", tensors},
                             {"types", types},       {"total", figures(all)}};
  fmt::print("{}\n", json_text(whole));
}

void print_tables(const std::string& path, const Contents& contents, const std::map<std::string, Sum>& sums,
                  const Sum& all) {
  fmt::print("{}: {}\n", path, contents.format);
  Table metadata{{"metadata", "value"}};
  for (const auto& [key, value] : contents.metadata) metadata.push_back({escaped(key), line_of(value)});
  if (metadata.size() > 1) fmt::print("\n{}", plain(metadata));
  Table tensors{{"tensor", "type", "shape", "size"}};
  for (const auto& tensor : contents.tensors)
    tensors.push_back({escaped(tensor.name), escaped(tensor.type), to_string(tensor.shape),
                       tensor.bytes ? size_text(*tensor.bytes) : "unknown"});
  if (tensors.size() > 1) fmt::print("\n{}", plain(tensors));
  Table types{{"type", "tensors", "elements", "size", "bits each"}};
  const auto row = [&](const std::string& name, const Sum& sum) {
    const double bits =
        8 * static_cast<double>(sum.bytes) / static_cast<double>(std::max<std::int64_t>(sum.elements, 1));
    types.push_back({escaped(name), std::to_string(sum.tensors), std::to_string(sum.elements),
                     size_text(sum.bytes), fmt::format("{:.2f}", bits)});
  };
  for (const auto& [type, sum] : sums) row(type, sum);
  row("all", all);
  fmt::print("\n{}", plain(types));
}

int inspect(const InspectOptions& options) {
  Contents contents = read(options.path);
  std::erase_if(contents.tensors,
                [&](const StoredTensor& tensor) { return !matches(tensor.name, options.tensors); });
  if (contents.tensors.empty() && !options.tensors.empty())
    throw ValueError(fmt::format("{}: no tensor is named like \"{}\"", options.path, options.tensors));
  std::map<std::string, Sum> sums;
  Sum all;
  for (const auto& tensor : contents.tensors) {
    sums[tensor.type].add(tensor);
    all.add(tensor);
  }
  if (options.json)
    print_json(options.path, contents, sums, all);
  else
    print_tables(options.path, contents, sums, all);
  return success;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto options = std::make_shared<InspectOptions>();
  auto* command = app.add_subcommand("inspect", "Show the metadata and tensors of a model file");
  command->add_option("file", options->path, "A GGUF or safetensors file, or a folder with safetensors")
      ->required();
  command->add_option("--tensors", options->tensors,
                      "Only tensors whose name has this text in it; * and ? stand for any text");
  command->add_flag("--json", options->json, "Print all of it as JSON, lists in full");
  command->callback([options, &action] { action = [options] { return inspect(*options); }; });
}

}  // namespace hearth::cli
