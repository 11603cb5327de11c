// Timing, and results as text, JSON and Markdown.
#include "bench.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace hearth::bench {

void Report::add(Row row) {
  fmt::print("{:<10} {:<44} {:>10.4g} {:<8}", row.group, row.name, row.value, row.unit);
  if (row.ratio >= 0) fmt::print("  {:6.2f} x {}", row.ratio, row.yardstick);
  if (row.target >= 0) fmt::print("  (target {}{:.4g})", row.at_most ? "<= " : ">= ", row.target);
  fmt::print("\n");
  std::fflush(stdout);
  rows_.push_back(std::move(row));
}

std::vector<double> medians(const std::vector<std::function<void()>>& candidates, double seconds_each) {
  std::vector<std::vector<double>> samples(candidates.size());
  for (const auto& candidate : candidates) candidate();
  const auto start = Clock::now();
  const double budget = seconds_each * static_cast<double>(candidates.size());
  while (seconds_since(start) < budget || samples[0].size() < 5) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const auto before = Clock::now();
      candidates[i]();
      samples[i].push_back(seconds_since(before));
    }
  }
  std::vector<double> result;
  for (auto& times : samples) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    result.push_back(times[times.size() / 2]);
  }
  return result;
}

std::vector<double> medians_apart(const std::vector<std::function<void()>>& candidates, double seconds_each) {
  constexpr int rounds = 5;
  std::vector<std::vector<double>> samples(candidates.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      samples[i].push_back(medians({candidates[i]}, seconds_each / rounds)[0]);
    }
  std::vector<double> result;
  for (auto& times : samples) {
    std::sort(times.begin(), times.end());
    result.push_back(times[rounds / 2]);
  }
  return result;
}

namespace {

nlohmann::json to_json(const Report& report, Device device) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : report.rows()) {
    nlohmann::json entry = {
        {"group", row.group}, {"name", row.name}, {"value", row.value}, {"unit", row.unit}};
    if (row.ratio >= 0) entry["ratio"] = row.ratio, entry["yardstick"] = row.yardstick;
    if (row.target >= 0) entry["target"] = row.target, entry["target_is_upper_bound"] = row.at_most;
    rows.push_back(entry);
  }
  const auto info = device_info(device);
  return {{"device", info.name},
          {"architecture", info.architecture},
          {"compute_units", info.compute_units},
          {"rows", rows}};
}

std::string to_markdown(const Report& report, Device device, const std::string& command) {
  const auto info = device_info(device);
  std::string text =
      fmt::format("Measured on {} ({}), {} {}, by `{}`.\n\n", info.name, info.architecture,
                  info.compute_units, device.kind == DeviceKind::cpu ? "threads" : "compute units", command);
  text += "| what | value | ratio | target |\n|---|---|---|---|\n";
  for (const auto& row : report.rows()) {
    const std::string ratio = row.ratio >= 0 ? fmt::format("{:.2f} x {}", row.ratio, row.yardstick) : "";
    const std::string target =
        row.target >= 0 ? fmt::format("{} {:.4g}", row.at_most ? "at most" : "at least", row.target) : "";
    text += fmt::format("| {} | {:.4g} {} | {} | {} |\n", row.name, row.value, row.unit, ratio, target);
  }
  return text;
}

}  // namespace

void Report::write(const std::string& json, const std::string& markdown, Device device,
                   const std::string& command) const {
  if (!json.empty()) std::ofstream(json) << to_json(*this, device).dump(2) << "\n";
  if (!markdown.empty()) std::ofstream(markdown) << to_markdown(*this, device, command);
}

}  // namespace hearth::bench
