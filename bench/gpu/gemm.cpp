// Matrix products: by our own kernels, and by whatever the tuner found fastest.
#include <fmt/format.h>

#include "gpu_bench.h"

namespace hearth::bench {

void gpu_gemm(Report& report, const GpuOptions& options) {
  const Device device = options.device;
  set_default_device(device);
  struct Case {
    std::int64_t m, n, k;
    DType dtype;
    bool transposed;  // the right operand lies as (n, k): both along k, as in a linear layer
  };
  std::vector<Case> cases;
  for (const std::int64_t size :
       options.quick ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{4096, 8192})
    for (const bool transposed : {false, true}) cases.push_back({size, size, size, DType::bf16, transposed});
  if (!options.quick) {
    cases.push_back({4096, 4096, 4096, DType::f16, true});
    cases.push_back({4096, 4096, 4096, DType::f32, false});
    cases.push_back({8192, 1024, 4096, DType::bf16, true});
    cases.push_back({1, 4096, 4096, DType::bf16, true});
  }
  const Config before = config();
  Config plain = before, tuning = before;
  plain.vendor_blas_enabled = false;
  tuning.tuning_file = "off";
  tuning.enable_tuning = true;
  for (const Case& c : cases) {
    const Tensor a = randn({c.m, c.k}).to(c.dtype).eval();
    const Tensor b = (c.transposed ? randn({c.n, c.k}) : randn({c.k, c.n})).to(c.dtype).eval();
    const auto planned = [&](const Config& with) {
      set_config(with);
      auto product = compile([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{matmul(in[0], c.transposed ? in[1].transpose(0, 1) : in[1])};
      });
      product({a, b});
      return product;
    };
    auto own = planned(plain), tuned = planned(tuning);
    const auto times = device_medians(device, {[&] { own({a, b}); }, [&] { tuned({a, b}); }}, options.quick);
    const double operations =
        2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
    const std::string name = fmt::format("{} x {} x {}, {}{}", c.m, c.n, c.k, dtype_name(c.dtype),
                                         c.transposed ? ", b transposed" : "");
    report.add({"gemm", name, operations / times[0] * 1e-12, "TFLOP/s", -1, "", -1});
    report.add({"gemm", name + ", tuned", operations / times[1] * 1e-12, "TFLOP/s", -1, "", -1});
  }
  set_config(before);
  set_default_device(Device{});
}

}  // namespace hearth::bench
