// `hearth doctor`: whether the GPUs work, and if not, why and what would help.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/table.h"
#include "gpu/doctor.h"
#include "hearth/device.h"
#include "hearth/error.h"

namespace hearth::cli {
namespace {

using gpu::Finding;
using gpu::Verdict;

constexpr unsigned trial_seconds = 120;

struct DoctorOptions {
  bool json = false;
  std::string device = "auto";
  std::string trial;  // a device, or "peers rocm": run it here and print the outcome, for our parent
};

// A driver may crash or hang: each trial runs in a process of its own.
int run_trial(const std::string& name) {
  alarm(trial_seconds);
  nlohmann::json outcome;
  if (name == "peers rocm" || name == "peers cuda") {
    outcome = nlohmann::json::array();
    for (const auto& trial : gpu::try_peers(name == "peers rocm" ? DeviceKind::rocm : DeviceKind::cuda))
      outcome.push_back({{"from", trial.from.index},
                         {"to", trial.to.index},
                         {"direct", trial.direct},
                         {"problem", trial.problem}});
  } else {
    const gpu::Trial trial = gpu::try_device(device_from_name(name));
    outcome = {{"problem", trial.problem},
               {"compile_ms", trial.compile_ms},
               {"to_device", trial.to_device},
               {"to_host", trial.to_host},
               {"on_device", trial.on_device}};
  }
  fmt::print("{}\n", outcome.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
  return success;
}

// The outcome of a trial, or what ended its process.
struct TrialOutcome {
  nlohmann::json value;
  std::string problem;
};

TrialOutcome trial_in_child(const std::string& name) {
  const std::string command = fmt::format("exec /proc/{}/exe doctor --trial '{}'", getpid(), name);
  FILE* child = popen(command.c_str(), "re");
  if (child == nullptr) return {{}, fmt::format("a process could not be started: {}", std::strerror(errno))};
  std::string text;
  char part[4096];
  for (std::size_t size; (size = fread(part, 1, sizeof part, child)) > 0;) text.append(part, size);
  const int status = pclose(child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return {{}, fmt::format("nothing came back within {} seconds: the driver hangs", trial_seconds)};
  if (WIFSIGNALED(status))
    return {{}, fmt::format("the driver's libraries ended the process: {}", strsignal(WTERMSIG(status)))};
  text.erase(text.find_last_not_of('\n') + 1);
  text.erase(0, text.rfind('\n') + 1);  // libraries may have printed before
  TrialOutcome outcome{nlohmann::json::parse(text, nullptr, false), {}};
  if (outcome.value.is_discarded()) outcome.problem = "the trial ended without an outcome";
  return outcome;
}

gpu::Trial device_trial(Device device) {
  const TrialOutcome outcome = trial_in_child(to_string(device));
  gpu::Trial trial;
  trial.problem = outcome.problem;
  if (!trial.problem.empty()) return trial;
  trial.problem = outcome.value.value("problem", "");
  trial.compile_ms = outcome.value.value("compile_ms", 0.0);
  trial.to_device = outcome.value.value("to_device", 0.0);
  trial.to_host = outcome.value.value("to_host", 0.0);
  trial.on_device = outcome.value.value("on_device", 0.0);
  return trial;
}

void add_peer_findings(DeviceKind kind, std::vector<Finding>& findings) {
  const TrialOutcome outcome = trial_in_child(kind == DeviceKind::rocm ? "peers rocm" : "peers cuda");
  if (!outcome.problem.empty()) {
    findings.push_back({"copies between GPUs", Verdict::warning, outcome.problem,
                        "add iommu=pt to the kernel's command line; Hearth copies through the host"});
    return;
  }
  for (const auto& pair : outcome.value)
    findings.push_back(gpu::examine(gpu::PeerTrial{{kind, pair.value("from", std::uint8_t{0})},
                                                   {kind, pair.value("to", std::uint8_t{0})},
                                                   pair.value("direct", false),
                                                   pair.value("problem", "")}));
}

void print(const std::vector<Finding>& findings, const std::string& conclusion) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  for (const Finding& finding : findings) {
    fmt::print("{:<14}  {:<{}}  {}\n", gpu::name_of(finding.verdict), finding.subject, width, finding.found);
    if (!finding.fix.empty()) fmt::print("{:<14}  {:<{}}  -> {}\n", "", "", width, finding.fix);
  }
  fmt::print("\n{}\n", conclusion);
}

void print_json(const std::vector<Finding>& findings, bool healthy, const std::string& device) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings)
    list.push_back({{"subject", finding.subject},
                    {"verdict", gpu::name_of(finding.verdict)},
                    {"found", finding.found},
                    {"fix", finding.fix.empty() ? nlohmann::json() : nlohmann::json(finding.fix)}});
  const nlohmann::json report{{"healthy", healthy}, {"device", device}, {"findings", list}};
  fmt::print("{}\n", json_text(report));
}

int examine_machine(const DoctorOptions& options) {
  const gpu::Circumstances machine = gpu::circumstances();
  std::vector<Finding> findings = gpu::examine(machine);
  Device chosen;
  std::string name = options.device;
  try {
    chosen = device_from_name(options.device);
    name = to_string(chosen);
  } catch (const DeviceUnavailable& error) {
    findings.push_back({options.device, Verdict::problem, error.what(), "hearth devices lists the names"});
  }
  bool works = options.device == "cpu";
  for (const DeviceInfo& gpu : machine.gpus) {
    const gpu::Trial trial = device_trial(gpu.device);
    works = works || (gpu.device == chosen && trial.problem.empty());
    for (const Finding& finding : gpu::examine(gpu, trial, gpu.device == chosen)) findings.push_back(finding);
  }
  if (works) gpu::excuse_problems(findings);
  for (const DeviceKind kind : {DeviceKind::rocm, DeviceKind::cuda})
    if (std::count_if(machine.gpus.begin(), machine.gpus.end(),
                      [&](const DeviceInfo& gpu) { return gpu.device.kind == kind; }) > 1)
      add_peer_findings(kind, findings);

  const bool healthy = gpu::healthy(findings);
  if (options.json)
    print_json(findings, healthy, name);
  else
    print(findings, healthy ? fmt::format("Healthy: {} can be used.", name)
                            : "Not healthy: see the lines marked \"problem\".");
  return healthy ? success : failure;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("doctor", "Examine the GPUs, their drivers and permissions");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_flag("--json", options->json, "Print a JSON object");
  command->add_option("--device", options->device, "The device that must work")->capture_default_str();
  command->add_option("--trial", options->trial)->group("");  // for ourselves
  command->footer(
      "Exit status: 0 when the device works; with auto, which is a GPU that is not integrated or else the "
      "CPU, "
      "also on a machine without any GPU. 1 when the device does not work, or a GPU is there and none works. "
      "Lines say ok, warning, problem or not applicable; an arrow shows what would help.");
  command->callback([options, &action] {
    action = [options] {
      return options->trial.empty() ? examine_machine(*options) : run_trial(options->trial);
    };
  });
}

}  // namespace hearth::cli
