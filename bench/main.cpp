// hearth-bench: times Hearth against what the machine can do, in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench.h"
#include "hearth/config.h"
#include "hearth/device.h"

namespace hearth::bench {

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Times Hearth against what this machine can do, as ratios in one run."};
  std::string json, markdown;
  std::vector<std::string> groups;
  Options options;
  int threads = 0;
  app.add_option("--json", json, "write the results to this file");
  app.add_option("--markdown", markdown, "write a table to this file");
  app.add_option("--only", groups, "groups to run: memory, dense, quantised, plans, training, tokenizer")
      ->delimiter(',');
  app.add_option("--threads", threads, "CPU threads; 0 = one per core");
  app.add_flag("--profile", options.profile, "print where the time of training steps goes");
  app.add_flag("--quick", options.quick, "shorter runs");
  CLI11_PARSE(app, argc, argv);

  Config configured = config();
  configured.threads = threads;
  set_config(configured);
  const std::vector<std::pair<std::string, void (*)(Report&, const Options&)>> all = {
      {"memory", memory_bound}, {"dense", dense},       {"quantised", quantised},
      {"plans", plans},         {"training", training}, {"tokenizer", tokenizer}};
  for (const auto& group : groups)
    if (std::none_of(all.begin(), all.end(), [&](const auto& entry) { return entry.first == group; })) {
      fmt::print(stderr, "hearth-bench: error: unknown group \"{}\"\n", group);
      return 2;
    }
  Report report;
  for (const auto& [name, function] : all)
    if (groups.empty() || std::find(groups.begin(), groups.end(), name) != groups.end())
      function(report, options);
  report.write(json, markdown, Device{}, "make bench");
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(argc, argv); }
