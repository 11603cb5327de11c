// hearth-gpu-bench: times a GPU against what it can do, in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "gpu_bench.h"

namespace hearth::bench {

std::vector<double> device_medians(Device device, const std::vector<std::function<void()>>& candidates,
                                   bool quick) {
  const double slice = quick ? 0 : 0.01;  // seconds of work between events: so that the host runs ahead
  const int rounds = quick ? 1 : 9;
  const auto seconds_of = [&](const std::function<void()>& queue, int calls) {
    const Event begin(device);
    for (int i = 0; i < calls; ++i) queue();
    return Event(device).seconds_since(begin) / calls;
  };
  std::vector<int> calls;
  for (const auto& candidate : candidates) {
    for (int i = 0; i < 3; ++i) seconds_of(candidate, 1);  // compiles, plans, records
    calls.push_back(std::max(quick ? 1 : 5, static_cast<int>(slice / seconds_of(candidate, quick ? 1 : 10))));
  }
  std::vector<std::vector<double>> samples(candidates.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i)
      samples[i].push_back(seconds_of(candidates[i], calls[i]));
  std::vector<double> result;
  for (auto& times : samples) {
    std::sort(times.begin(), times.end());
    result.push_back(times[times.size() / 2]);
  }
  return result;
}

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Times a GPU against what it can do, as ratios in one run."};
  std::string json, markdown, device = "gpu";
  std::vector<std::string> groups;
  GpuOptions options;
  app.add_option("--device", device, "the GPU: rocm:0, cuda:0, ...")->capture_default_str();
  app.add_option("--json", json, "write the results to this file");
  app.add_option("--markdown", markdown, "write a table to this file");
  app.add_option("--only", groups,
                 "groups to run: memory, gemm, vendor, attention, quantised, replay, training")
      ->delimiter(',');
  app.add_flag("--profile", options.profile, "print where the time of a training step goes");
  app.add_flag("--quick", options.quick, "small sizes: to see that it works, not how fast");
  CLI11_PARSE(app, argc, argv);

  const std::vector<std::pair<std::string, void (*)(Report&, const GpuOptions&)>> all = {
      {"memory", gpu_memory},       {"gemm", gpu_gemm},           {"vendor", gpu_vendor},
      {"attention", gpu_attention}, {"quantised", gpu_quantised}, {"replay", gpu_replay},
      {"training", gpu_training}};
  for (const auto& group : groups)
    if (std::none_of(all.begin(), all.end(), [&](const auto& entry) { return entry.first == group; })) {
      fmt::print(stderr, "hearth-gpu-bench: error: unknown group \"{}\"\n", group);
      return 2;
    }
  try {
    options.device = device_from_name(device);
    Report report;
    for (const auto& [name, function] : all)
      if (groups.empty() || std::find(groups.begin(), groups.end(), name) != groups.end())
        function(report, options);
    report.write(json, markdown, options.device, "build/bin/hearth-gpu-bench");
  } catch (const Error& error) {
    fmt::print(stderr, "hearth-gpu-bench: error: {}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(argc, argv); }
