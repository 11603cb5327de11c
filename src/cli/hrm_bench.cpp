// `hearth hrm bench`: how long a training step takes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/say.h"
#include "cli/hrm.h"
#include "cli/table.h"
#include "hearth/config.h"
#include "hearth/device.h"
#include "hearth/ops.h"
#include "hearth/profile.h"
#include "hearth/random.h"
#include "hrm/training_step.h"

namespace hearth::cli {
namespace {

struct BenchCommand {
  ModelChoice model{.name = "reference"};
  DeviceOptions device;
  std::int64_t batch = 768;
  int steps = 20;
  bool profile = false, json = false;
};

// Operations of the matrix products of one step: forwards, twice that for what gradients go through, and once
// more to learn the value of going on. The heads and the embedding are left out.
double step_operations(const hrm::Hrm& model, std::int64_t batch) {
  const hrm::HrmConfig& c = model.config();
  double weights = 0;
  for (const auto& [name, parameter] : model.named_parameters())
    if (name.starts_with("L_level.layers.0.")) weights += static_cast<double>(parameter.numel());
  const auto positions = static_cast<double>(c.position_count());
  double layer = 2 * weights;
  if (c.mixing == hrm::Mixing::attention) layer += 4 * positions * static_cast<double>(c.features);
  const auto h_layers = static_cast<double>(c.shared ? c.l_layers : c.h_layers);
  const auto l_layers = static_cast<double>(c.l_layers);
  const auto l_cycles = static_cast<double>(c.l_cycles);
  const double forward = static_cast<double>(c.h_cycles) * (l_cycles * l_layers + h_layers);
  const double with_gradient =
      h_layers + (c.gradient == hrm::GradientPath::last_cycle ? l_cycles : 1) * l_layers;
  const double passes = forward * (c.q_continue ? 2 : 1) + 2 * with_gradient;
  return static_cast<double>(batch) * positions * layer * passes;
}

int run_bench(const BenchCommand& command) {
  apply(command.device);
  const Device device = default_device();
  manual_seed(1);
  const auto model = std::make_shared<hrm::Hrm>(config_of(command.model));
  const hrm::HrmConfig& config = model->config();
  hrm::TrainingStep step(model, command.batch, {.ema_decay = config.q_continue ? 0 : 0.999});
  const Shape shape{command.batch, config.length};
  const hrm::Examples examples{randint(0, config.vocabulary, shape, DType::i32).eval(),
                               randint(0, config.vocabulary, shape, DType::i32).eval(),
                               zeros({command.batch}, DType::i32).contiguous().eval()};
  const auto timed = [&](int steps) {
    synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step.run(examples);
    synchronize(device);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
  };
  const double first = timed(1);
  timed(3);
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(timed(std::max(1, command.steps / 5)));
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double operations = step_operations(*model, command.batch);
  const PlanStats stats = last_plan_stats();
  if (command.json) {
    fmt::print("{}\n", json_text({{"model", command.model.name},
                                  {"parameters", model->parameter_count()},
                                  {"batch", command.batch},
                                  {"milliseconds", median * 1e3},
                                  {"fastest_milliseconds", seconds.front() * 1e3},
                                  {"first_step_seconds", first},
                                  {"tflop", operations * 1e-12},
                                  {"tflop_per_second", operations * 1e-12 / median},
                                  {"kernels", stats.steps},
                                  {"arena_bytes", stats.arena_bytes}}));
  } else {
    fmt::print(
        "{} parameters, batch {}: {:.2f} ms a step ({:.2f} the fastest), {:.2f} TFLOP, {:.1f} TFLOP/s\n",
        model->parameter_count(), command.batch, median * 1e3, seconds.front() * 1e3, operations * 1e-12,
        operations * 1e-12 / median);
    fmt::print("{} kernels, {:.2f} GB for intermediate values; the first step took {:.1f} s\n", stats.steps,
               static_cast<double>(stats.arena_bytes) * 1e-9, first);
  }
  if (command.profile) {
    Config changed = hearth::config();
    changed.enable_profiling = true;
    set_config(changed);
    clear_profile();
    step.run(examples);
    synchronize(device);
    say("{}", profile_table());
  }
  return success;
}

}  // namespace

void add_hrm_bench(CLI::App& hrm_command, Action& action) {
  CLI::App* command = hrm_command.add_subcommand("bench", "Time a training step");
  const auto options = std::make_shared<BenchCommand>();
  add_model_choice(*command, options->model);
  command->add_option("--batch", options->batch, "Sequences worked on at once")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Steps to time")
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N")
      ->capture_default_str();
  add_device_options(*command, options->device);
  command->add_flag("--profile", options->profile, "Show the time of each kind of kernel");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([options, &action] { action = [options] { return run_bench(*options); }; });
}

}  // namespace hearth::cli
