// Matrix products.
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
  for (const Case& c : cases) {
    const Tensor a = randn({c.m, c.k}).to(c.dtype).eval();
    const Tensor b = (c.transposed ? randn({c.n, c.k}) : randn({c.k, c.n})).to(c.dtype).eval();
    const auto product = [&] { return matmul(a, c.transposed ? b.transpose(0, 1) : b); };
    const double seconds = device_medians(device, {[&] { product().eval(); }}, options.quick)[0];
    const double operations =
        2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
    report.add({"gemm",
                fmt::format("{} x {} x {}, {}{}", c.m, c.n, c.k, dtype_name(c.dtype),
                            c.transposed ? ", b transposed" : ""),
                operations / seconds * 1e-12, "TFLOP/s", -1, "", -1});
  }
  set_default_device(Device{});
}

}  // namespace hearth::bench
