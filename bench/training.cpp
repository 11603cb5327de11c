// Training steps of three models. bench/compare_torch.py runs the same models in PyTorch beside this.
#include <fmt/format.h>

#include "bench.h"
#include "hearth/config.h"
#include "hearth/eval.h"
#include "hearth/models.h"
#include "hearth/ops.h"
#include "hearth/optim.h"
#include "hearth/profile.h"
#include "hearth/random.h"

namespace hearth::bench {
namespace {

// Time per kind of step, of some more steps.
void print_profile(const std::function<void()>& step) {
  Config changed = config();
  changed.enable_profiling = true;
  set_config(changed);
  clear_profile();
  constexpr int steps = 5;
  for (int i = 0; i < steps; ++i) step();
  changed.enable_profiling = false;
  set_config(changed);
  for (const auto& [kind, entry] : profile_summary())
    fmt::print("    {:<20} {:>5} steps {:>9.2f} ms\n", kind, entry.count / steps, entry.total / steps * 1e3);
}

void step_time(Report& report, const Options& options, const std::string& name, nn::Module& model,
               double seconds, const std::function<Tensor(const std::vector<Tensor>&)>& loss,
               const std::vector<Tensor>& batch) {
  optim::AdamW optimizer(model.parameters(), {});
  Compiled step = compile([&](const std::vector<Tensor>& a) {
    const Tensor value = loss(a);
    value.backward();
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{value};
  });
  const double time = median_of([&] { step(batch); }, seconds);
  report.add({"training", name + ", step", time * 1e3, "ms", -1, "", -1});
  const auto stats = last_plan_stats();
  // New values of parameters and state that cannot take the place of the old ones count as waste.
  const double kept = static_cast<double>(stats.output_bytes);
  const double used =
      static_cast<double>(stats.arena_bytes) + 2 * kept - static_cast<double>(stats.replaced_bytes);
  const double required = static_cast<double>(stats.required_bytes) + kept;
  if (options.profile) print_profile([&] { step(batch); });
  report.add(
      {"training", name + ", memory", used / 1e6, "MB", used / required, "what lifetimes require", -1});
}

}  // namespace

void training(Report& report, const Options& options) {
  const double seconds = options.quick ? 1.0 : 5.0;
  manual_seed(1);
  {
    models::Mlp model({784, 512, 512, 10});
    step_time(report, options, "MLP 784-512-512-10, batch 128", model, seconds,
              [&](const std::vector<Tensor>& a) { return cross_entropy(model(a[0]), a[1]); },
              {randn({128, 784}), randint(0, 10, {128})});
  }
  {
    models::CifarResNet model(20);
    step_time(report, options, "ResNet-20, batch 128", model, seconds,
              [&](const std::vector<Tensor>& a) { return cross_entropy(model(a[0]), a[1]); },
              {randn({128, 3, 32, 32}), randint(0, 10, {128})});
  }
  {
    models::Gpt model(
        {.vocabulary = 256, .context = 128, .layers = 4, .heads = 4, .features = 256, .dropout = 0});
    step_time(report, options, "transformer, 4 layers of 256, batch 16 x 128", model, seconds,
              [&](const std::vector<Tensor>& a) { return model.loss(a[0], a[1]); },
              {randint(0, 256, {16, 128}), randint(0, 256, {16, 128})});
  }
}

}  // namespace hearth::bench
