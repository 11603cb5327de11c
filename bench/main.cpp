// hearth-bench: times Hearth against what the machine can do, in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench.h"
#include "hearth/config.h"
#include "hearth/device.h"

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

nlohmann::json to_json(const Report& report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : report.rows()) {
    nlohmann::json entry = {
        {"group", row.group}, {"name", row.name}, {"value", row.value}, {"unit", row.unit}};
    if (row.ratio >= 0) entry["ratio"] = row.ratio, entry["yardstick"] = row.yardstick;
    if (row.target >= 0) entry["target"] = row.target, entry["target_is_upper_bound"] = row.at_most;
    rows.push_back(entry);
  }
  const auto info = device_info(Device{});
  return {{"device", info.name},
          {"architecture", info.architecture},
          {"threads", info.compute_units},
          {"rows", rows}};
}

std::string to_markdown(const Report& report) {
  const auto info = device_info(Device{});
  std::string text = fmt::format("Measured on {} ({}), {} threads, by `make bench`.\n\n", info.name,
                                 info.architecture, info.compute_units);
  text += "| what | value | ratio | target |\n|---|---|---|---|\n";
  for (const auto& row : report.rows()) {
    const std::string ratio = row.ratio >= 0 ? fmt::format("{:.2f} x {}", row.ratio, row.yardstick) : "";
    const std::string target =
        row.target >= 0 ? fmt::format("{} {:.4g}", row.at_most ? "at most" : "at least", row.target) : "";
    text += fmt::format("| {} | {:.4g} {} | {} | {} |\n", row.name, row.value, row.unit, ratio, target);
  }
  return text;
}

int run(int argc, char** argv) {
  CLI::App app{"Times Hearth against what this machine can do, as ratios in one run."};
  std::string json, markdown;
  std::vector<std::string> groups;
  Options options;
  int threads = 0;
  app.add_option("--json", json, "write the results to this file");
  app.add_option("--markdown", markdown, "write a table to this file");
  app.add_option("--only", groups, "groups to run: memory, dense, plans, training")->delimiter(',');
  app.add_option("--threads", threads, "CPU threads; 0 = one per core");
  app.add_flag("--profile", options.profile, "print where the time of training steps goes");
  app.add_flag("--quick", options.quick, "shorter runs");
  CLI11_PARSE(app, argc, argv);

  Config configured = config();
  configured.threads = threads;
  set_config(configured);
  const std::vector<std::pair<std::string, void (*)(Report&, const Options&)>> all = {
      {"memory", memory_bound}, {"dense", dense}, {"plans", plans}, {"training", training}};
  for (const auto& group : groups)
    if (std::none_of(all.begin(), all.end(), [&](const auto& entry) { return entry.first == group; })) {
      fmt::print(stderr, "hearth-bench: error: unknown group \"{}\"\n", group);
      return 2;
    }
  Report report;
  for (const auto& [name, function] : all)
    if (groups.empty() || std::find(groups.begin(), groups.end(), name) != groups.end())
      function(report, options);
  if (!json.empty()) std::ofstream(json) << to_json(report).dump(2) << "\n";
  if (!markdown.empty()) std::ofstream(markdown) << to_markdown(report);
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(argc, argv); }
