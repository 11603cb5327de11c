// Matrix products: our own kernels against the vendor's library, as the tuner measures them and as a user
// meets them.
#include <fmt/format.h>

#include "gpu/tuner.h"
#include "gpu_bench.h"

namespace hearth::bench {
namespace {

struct Case {
  std::int64_t m, n, k;
  DType dtype;
  bool transposed;  // the right operand lies as (n, k)
  bool epilogue;    // gelu(product + bias)
};

// The fastest of those whose names begin with "own", or of the others; 0 without any.
double fastest(const gpu::TuningEntry& entry, bool own, std::string& name) {
  for (const std::string& candidate : entry.ranking())
    if (candidate.starts_with("own") == own) {
      name = candidate;
      return entry.seconds.at(candidate);
    }
  return 0;
}

void measure(Report& report, const GpuOptions& options, const Case& c, const Config& plain) {
  const Tensor a = randn({c.m, c.k}).to(c.dtype).eval();
  const Tensor b = (c.transposed ? randn({c.n, c.k}) : randn({c.k, c.n})).to(c.dtype).eval();
  const Tensor bias = randn({c.n}).to(c.dtype).eval();
  const auto product = [&] {
    return compile([c](const std::vector<Tensor>& in) {
      const Tensor result = matmul(in[0], c.transposed ? in[1].transpose(0, 1) : in[1]);
      return std::vector<Tensor>{c.epilogue ? gelu(result + in[2]) : result};
    });
  };
  Config config = plain;
  config.vendor_blas_enabled = false;
  set_config(config);
  auto own = product();
  own({a, b, bias});  // plans now, with this configuration
  config = plain;
  config.enable_tuning = true;
  set_config(config);
  const auto before = gpu::tuner().entries();
  auto tuned = product();
  tuned({a, b, bias});

  const std::string name =
      fmt::format("{} x {} x {}, {}{}{}", c.m, c.n, c.k, dtype_name(c.dtype),
                  c.transposed ? ", b transposed" : "", c.epilogue ? ", + bias, gelu" : "");
  const double operations =
      2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
  const auto speed = [&](double seconds) { return operations / seconds * 1e-12; };
  for (const auto& [problem, entry] : gpu::tuner().entries()) {
    if (before.contains(problem)) continue;
    for (const auto& [candidate, reason] : entry.refused)
      fmt::print("{}: {} refused: {}\n", name, candidate, reason);
    std::string best_own, best_other;
    const double mine = fastest(entry, true, best_own), theirs = fastest(entry, false, best_other);
    if (mine > 0)
      report.add({"vendor", fmt::format("{}: {}", name, best_own), speed(mine), "TFLOP/s",
                  theirs > 0 ? theirs / mine : -1, best_other, -1});
    if (theirs > 0)
      report.add({"vendor", fmt::format("{}: {}", name, best_other), speed(theirs), "TFLOP/s", -1, "", -1});
  }
  const auto times = device_medians(options.device,
                                    {[&] {
                                       own({a, b, bias});
                                     },
                                     [&] {
                                       tuned({a, b, bias});
                                     }},
                                    options.quick);
  report.add({"vendor", name + ": as run, tuned", speed(times[1]), "TFLOP/s", times[0] / times[1],
              "our own kernels as run", -1});
}

}  // namespace

void gpu_vendor(Report& report, const GpuOptions& options) {
  set_default_device(options.device);
  const Config before = config();
  Config plain = before;
  plain.tuning_file = "off";
  std::vector<Case> cases;
  if (options.quick) {
    cases = {{136, 136, 136, DType::f32, false, false}, {136, 136, 136, DType::bf16, true, true}};
  } else {
    for (const std::int64_t size : {1024, 2048, 4096, 8192})
      for (const bool transposed : {false, true})
        cases.push_back({size, size, size, DType::bf16, transposed, false});
    cases.push_back({4096, 4096, 4096, DType::f16, true, false});
    cases.push_back({4096, 4096, 4096, DType::f32, false, false});
    cases.push_back({8192, 1024, 4096, DType::bf16, true, false});
    cases.push_back({8192, 4096, 1024, DType::bf16, true, true});
    cases.push_back({16, 4096, 4096, DType::bf16, true, false});
    cases.push_back({1, 4096, 4096, DType::bf16, true, false});
  }
  for (const Case& c : cases) measure(report, options, c, plain);
  set_config(before);
  set_default_device(Device{});
}

}  // namespace hearth::bench
