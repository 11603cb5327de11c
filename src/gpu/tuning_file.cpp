// Measurements as JSON.
#include "gpu/tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using Json = nlohmann::json;
constexpr int format = 1;

Json to_json(const TuningEntry& entry) {
  Json json = {{"seconds", entry.seconds}, {"kernels", entry.kernels}, {"exhaustive", entry.exhaustive}};
  if (!entry.verified.empty()) json["verified"] = entry.verified;
  if (!entry.refused.empty()) json["refused"] = entry.refused;
  return json;
}

TuningEntry entry_of(const Json& json) {
  TuningEntry entry;
  json.at("seconds").get_to(entry.seconds);
  json.at("kernels").get_to(entry.kernels);
  json.at("exhaustive").get_to(entry.exhaustive);
  if (json.contains("verified")) json["verified"].get_to(entry.verified);
  if (json.contains("refused")) json["refused"].get_to(entry.refused);
  return entry;
}

TuningRecord record_of(const Json& json) {
  TuningRecord record;
  for (const auto& [problem, entry] : json.at("entries").items())
    record.entries.emplace(problem, entry_of(entry));
  json.at("unfinished").get_to(record.unfinished);
  json.at("trusted").get_to(record.trusted);
  return record;
}

}  // namespace

std::vector<std::string> TuningEntry::ranking() const {
  std::vector<std::string> names;
  for (const auto& [name, time] : seconds) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return seconds.at(a) < seconds.at(b); });
  return names;
}

TuningRecord read_tuning_file(const std::filesystem::path& path, std::string& problem) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  try {
    const Json json = Json::parse(read_text_file(path));
    if (const int found = json.at("format").get<int>(); found != format) {
      problem = fmt::format("{} has format {}, this version reads {}", path.string(), found, format);
      return {};
    }
    return record_of(json);
  } catch (const Json::exception& wrong) {
    problem = fmt::format("{} is damaged: {}", path.string(), wrong.what());
  } catch (const FileError& unreadable) {
    problem = unreadable.what();
  }
  return {};
}

void write_tuning_file(const std::filesystem::path& path, const TuningRecord& record) {
  Json entries = Json::object();
  for (const auto& [problem, entry] : record.entries) entries[problem] = to_json(entry);
  const Json json = {{"format", format},
                     {"entries", std::move(entries)},
                     {"unfinished", record.unfinished},
                     {"trusted", record.trusted}};
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  write_atomically(path, json.dump(1) + "\n");
}

}  // namespace hearth::gpu
