// Attention, forward and backward. Names and counting of operations are those of compare_torch_gpu.py.
#include <fmt/format.h>

#include "gpu_bench.h"

namespace hearth::bench {

void gpu_attention(Report& report, const GpuOptions& options) {
  const Device device = options.device;
  set_default_device(device);
  struct Size {
    std::int64_t batch, heads, length;
  };
  const std::vector<Size> sizes =
      options.quick ? std::vector<Size>{{1, 2, 300}} : std::vector<Size>{{4, 16, 4096}, {1, 16, 16384}};
  for (const Size& size : sizes)
    for (const std::int64_t features : {64, 128})
      for (const bool causal : {false, true}) {
        const Shape shape{size.batch, size.heads, size.length, features};
        const auto random = [&] { return randn(shape).to(DType::bf16).eval(); };
        const Tensor q = random().requires_grad_(), k = random().requires_grad_(),
                     v = random().requires_grad_();
        const Tensor dy = random();
        const AttentionOptions attention_options{.causal = causal};
        const Tensor y = attention(q, k, v, attention_options).eval();
        const auto times = device_medians(device,
                                          {[&] { attention(q, k, v, attention_options).eval(); },
                                           [&] {
                                             eval(gradients(y, {q, k, v}, dy));
                                           }},
                                          options.quick);
        const double forward =
            4.0 * static_cast<double>(element_count(shape) * size.length) * (causal ? 0.5 : 1) * 1e-12;
        const std::string name = fmt::format("attention {} x {} x {} x {}{}", size.batch, size.heads,
                                             size.length, features, causal ? ", causal" : "");
        report.add({"attention", name + ", forward", forward / times[0], "TFLOP/s", -1, "", -1});
        report.add({"attention", name + ", backward", 2.5 * forward / times[1], "TFLOP/s", -1, "", -1});
      }
  set_default_device(Device{});
}

}  // namespace hearth::bench
