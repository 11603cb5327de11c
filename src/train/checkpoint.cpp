// Writing, reading and finding checkpoints.
#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/io.h"
#include "hearth/train.h"
#include "io/parse_json.h"

namespace hearth::train {
namespace {

constexpr std::string_view prefix = "checkpoint-", ending = ".safetensors";
constexpr const char* counters_key = "hearth_training_state";
constexpr int format_version = 1;

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  nlohmann::json counters = checkpoint.counters;
  counters["version"] = format_version;
  save_safetensors(path, checkpoint.tensors, {{counters_key, counters.dump()}});
}

Checkpoint read_checkpoint(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const auto found = file.metadata().find(counters_key);
  if (found == file.metadata().end())
    throw FormatError(
        fmt::format("{}: not a training checkpoint: no \"{}\" in its metadata", path.string(), counters_key));
  Checkpoint checkpoint;
  checkpoint.counters = io::parse_json(found->second, path.string());
  if (!checkpoint.counters.is_object() || !checkpoint.counters.contains("version"))
    throw FormatError(
        fmt::format("{}: its \"{}\" is not a JSON object with a version", path.string(), counters_key));
  if (checkpoint.counters["version"] != format_version)
    throw FormatError(fmt::format("{}: checkpoint version {}; this build reads version {}", path.string(),
                                  checkpoint.counters["version"].dump(), format_version));
  for (const std::string& name : file.names()) checkpoint.tensors[name] = file.tensor(name);
  return checkpoint;
}

StateDict part_of(const StateDict& tensors, const std::string& part) {
  const std::string start = part + '.';
  StateDict result;
  for (auto it = tensors.lower_bound(start); it != tensors.end() && it->first.starts_with(start); ++it)
    result[it->first.substr(start.size())] = it->second;
  return result;
}

void add_part(StateDict& tensors, const std::string& part, const StateDict& added) {
  for (const auto& [name, value] : added) tensors[part + '.' + name] = value;
}

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:010}{}", prefix, step, ending);
}

std::optional<std::int64_t> step_of(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(prefix) || !name.ends_with(ending)) return std::nullopt;
  const char* first = name.data() + prefix.size();
  const char* last = name.data() + name.size() - ending.size();
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(first, last, step);
  if (first == last || end != last || error != std::errc() || step < 0) return std::nullopt;
  return step;
}

std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  if (!std::filesystem::is_directory(folder)) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() && step_of(entry.path())) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end(), [](const auto& a, const auto& b) { return step_of(a) < step_of(b); });
  return paths;
}

void remove_old_checkpoints(const std::filesystem::path& folder, int keep_last, std::int64_t best_step) {
  const auto paths = list_checkpoints(folder);
  const auto keep = static_cast<std::size_t>(std::max(keep_last, 1));
  for (std::size_t i = 0; i + keep < paths.size(); ++i) {
    std::error_code ignored;  // what cannot be removed only takes up room
    if (step_of(paths[i]) != best_step) std::filesystem::remove(paths[i], ignored);
  }
}

std::optional<std::filesystem::path> best_checkpoint(const std::filesystem::path& folder) {
  const auto paths = list_checkpoints(folder);
  for (auto newest = paths.rbegin(); newest != paths.rend(); ++newest) {
    try {
      const auto counters = read_checkpoint(*newest).counters;
      if (!counters.contains("best_step") || counters["best_value"].is_null()) return std::nullopt;
      auto best = checkpoint_path(folder, counters["best_step"].get<std::int64_t>());
      if (std::filesystem::exists(best)) return best;
      return std::nullopt;
    } catch (const FormatError&) {
      continue;  // damaged: the one before knows as well
    }
  }
  return std::nullopt;
}

void load_model(nn::Module& model, const std::filesystem::path& path, bool averaged) {
  const Checkpoint checkpoint = read_checkpoint(path);
  model.load_state_dict(part_of(checkpoint.tensors, "model"));
  const StateDict averages = part_of(checkpoint.tensors, "ema");
  if (!averaged || averages.empty()) return;
  optim::Ema ema(model.parameters(), 0.0);
  ema.load_state_dict(averages);
  ema.apply();
  hearth::eval(model.variables());
}

}  // namespace hearth::train
