// A training step of a transformer of GPT-2's smallest size, in bf16, and what replaying a plan costs the
// host. bench/compare_torch_gpu.py runs the same model in PyTorch beside this.
#include <fmt/format.h>

#include "gpu_bench.h"

namespace hearth::bench {
namespace {

void print_profile(Device device, const std::function<void()>& step) {
  Config changed = config();
  changed.enable_profiling = true;
  set_config(changed);
  clear_profile();
  step();
  synchronize(device);
  changed.enable_profiling = false;
  set_config(changed);
  for (const auto& [kind, entry] : profile_summary())
    fmt::print("    {:<20} {:>5} steps {:>9.2f} ms\n", kind, entry.count, entry.total * 1e3);
}

}  // namespace

void gpu_replay(Report& report, const GpuOptions& options) {
  set_default_device(options.device);
  const Config before = config();
  Config unfused = before;
  unfused.enable_operator_fusion = false;  // so that there are steps enough
  set_config(unfused);
  constexpr int steps = 100;
  Compiled chain = compile([](const std::vector<Tensor>& in) {
    Tensor x = in[0];
    for (int i = 0; i < steps; ++i) x = x + in[1];
    return std::vector<Tensor>{x};
  });
  const Tensor x = randn({256}).eval(), y = randn({256}).eval();
  std::vector<double> times;
  for (int i = 0; i < (options.quick ? 5 : 200); ++i) {
    const auto start = Clock::now();
    const auto result = chain({x, y});
    times.push_back(seconds_since(start));
    synchronize(options.device);
  }
  std::sort(times.begin(), times.end());
  set_config(before);
  report.add({"replay", fmt::format("replay of a plan of {} launches, time of the host", steps),
              times[times.size() / 2] * 1e6, "us", -1, "", 15, true});
  set_default_device(Device{});
}

void gpu_training(Report& report, const GpuOptions& options) {
  set_default_device(options.device);
  manual_seed(1);
  const models::GptOptions size =
      options.quick
          ? models::GptOptions{.vocabulary = 64, .context = 32, .layers = 1, .heads = 2, .features = 32}
          : models::GptOptions{
                .vocabulary = 50304, .context = 1024, .layers = 12, .heads = 12, .features = 768};
  const std::int64_t batch = options.quick ? 2 : 8;
  models::Gpt model(size);
  std::int64_t parameters = 0;
  for (const auto& parameter : model.parameters()) parameters += element_count(parameter.shape());
  optim::AdamW optimizer(model.parameters(), {});
  Compiled step = compile([&](const std::vector<Tensor>& in) {
    const Autocast precision(DType::bf16);
    const Tensor loss = model.loss(in[0], in[1]);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{loss};
  });
  const Tensor tokens = randint(0, size.vocabulary, {batch, size.context}).eval();
  const Tensor targets = randint(0, size.vocabulary, {batch, size.context}).eval();
  const double seconds = device_medians(options.device, {[&] { step({tokens, targets}); }}, options.quick)[0];
  const std::string name = fmt::format("transformer of {:.0f} M, {} x {} tokens, bf16",
                                       static_cast<double>(parameters) * 1e-6, batch, size.context);
  report.add({"training", name + ", step", seconds * 1e3, "ms", -1, "", -1});
  report.add({"training", name + ", speed", static_cast<double>(batch * size.context) / seconds * 1e-3,
              "k tokens/s", -1, "", -1});
  report.add({"training", name + ", peak memory",
              static_cast<double>(memory_stats(options.device).peak) * 1e-9, "GB", -1, "", -1});
  if (options.profile) {
    fmt::print("{}", step.explain());
    print_profile(options.device, [&] { step({tokens, targets}); });
  }
  set_default_device(Device{});
}

}  // namespace hearth::bench
