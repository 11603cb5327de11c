// Products with quantised weights and with weights in 16 bits, against a copy. Of a product with one row or a
// few, the time is that of reading the weights; several matrices take turns, so that none is in a cache when
// its turn comes. The sizes are those of Llama 3 8B.
#include <fmt/format.h>

#include "gpu_bench.h"

namespace hearth::bench {
namespace {

constexpr const char* copy_source = R"(
struct alignas(16) Vector { float x[4]; };
extern "C" __global__ void copy(Vector* to, const Vector* from, unsigned long long count) {
  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  for (; i < count; i += gridDim.x * (unsigned long long)blockDim.x) to[i] = from[i];
})";

// Blocks of random bytes with small scales: what they are does not matter to the time.
Tensor some_weights(const Shape& shape, DType format) {
  if (!is_quantised(format)) return randn(shape).to(format).eval();
  std::vector<std::byte> bytes(static_cast<std::size_t>(storage_bytes(format, element_count(shape))));
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 26);
  return from_blocks(bytes, shape, format);
}

}  // namespace

void gpu_quantised(Report& report, const GpuOptions& options) {
  const Device device = options.device;
  set_default_device(device);
  const std::int64_t elements = options.quick ? 1 << 14 : 256 << 20;
  const GpuKernel copy = compile_kernel(copy_source, "copy", device);
  const Tensor from = zeros({elements / 4}).eval(), to = zeros({elements / 4}).eval();
  const auto vectors = static_cast<unsigned long long>(elements) / 16;
  const auto blocks = static_cast<unsigned>(device_info(device).compute_units) * 16;
  const auto copy_once = [&] { copy.launch({.blocks = {blocks}, .threads = {256}}, to, from, vectors); };

  struct Size {
    std::int64_t columns, depth;
  };
  const std::vector<Size> sizes =
      options.quick ? std::vector<Size>{{64, 256}}
                    : std::vector<Size>{{4096, 4096}, {14336, 4096}, {4096, 14336}, {128256, 4096}};
  for (const DType format : {DType::bf16, DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k})
    for (const Size& size : sizes) {
      const double bytes = static_cast<double>(storage_bytes(format, size.columns * size.depth));
      const int matrices = options.quick ? 2 : static_cast<int>(3e8 / bytes) + 1;
      std::vector<Tensor> weights;
      for (int i = 0; i < matrices; ++i) weights.push_back(some_weights({size.columns, size.depth}, format));
      for (const std::int64_t rows : {1, 4, 8, 16, 64, 128, 512}) {
        Compiled multiply_all = compile([&](const std::vector<Tensor>& in) {
          std::vector<Tensor> results;
          for (const Tensor& weight : weights) results.push_back(quantised_matmul(in[0], weight));
          return results;
        });
        const Tensor x = randn({rows, size.depth}).eval();
        const auto times = device_medians(device, {copy_once, [&] { multiply_all({x}); }}, options.quick);
        const double copied = 2.0 * static_cast<double>(elements) / times[0];
        const double seconds = times[1] / matrices;
        const std::string name =
            fmt::format("{} x {} x {}, {}", rows, size.columns, size.depth, dtype_name(format));
        if (rows <= 8)
          report.add({"quantised", name, bytes / seconds * 1e-9, "GB/s", bytes / seconds / copied, "copy",
                      rows == 1 && is_quantised(format) ? 0.85 : -1});
        else
          report.add({"quantised", name,
                      2.0 * static_cast<double>(rows * size.columns * size.depth) / seconds * 1e-12,
                      "TFLOP/s", -1, "", -1});
      }
    }
  set_default_device(Device{});
}

}  // namespace hearth::bench
