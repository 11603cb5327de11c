// Operations whose speed is that of memory, against a copy by the simplest kernel that moves 16 bytes at a
// time.
#include "gpu_bench.h"

namespace hearth::bench {
namespace {

constexpr const char* copy_source = R"(
struct alignas(16) Vector { float x[4]; };
extern "C" __global__ void copy(Vector* to, const Vector* from, unsigned long long count) {
  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  for (; i < count; i += gridDim.x * (unsigned long long)blockDim.x) to[i] = from[i];
})";

struct Case {
  std::string name;
  double bytes;  // read once plus written once
  std::function<Tensor()> build;
};

}  // namespace

void gpu_memory(Report& report, const GpuOptions& options) {
  const Device device = options.device;
  set_default_device(device);
  const std::int64_t rows = options.quick ? 64 : 8192, columns = options.quick ? 256 : 8192;
  const std::int64_t count = rows * columns;
  const double floats = static_cast<double>(count) * 4,
               halves = floats;  // as many bytes, twice as many elements

  const GpuKernel copy = compile_kernel(copy_source, "copy", device);
  const Tensor x = randn({rows, columns}).eval(), y = randn({rows, columns}).eval();
  const Tensor target = zeros({rows, columns}).eval();
  const auto vectors = static_cast<unsigned long long>(count) / 4;
  const auto blocks = static_cast<unsigned>(device_info(device).compute_units) * 16;
  const auto copy_once = [&] { copy.launch({.blocks = {blocks}, .threads = {256}}, target, x, vectors); };

  const Tensor xh = randn({2 * rows, columns}).to(DType::bf16).eval();
  const Tensor yh = randn({2 * rows, columns}).to(DType::bf16).eval();
  const Tensor weight = randn({columns}).eval(), bias = randn({columns}).eval();
  const Tensor weight_h = weight.to(DType::bf16).eval(), bias_h = bias.to(DType::bf16).eval();
  const std::vector<Case> cases = {
      {"fused chain of six, f32", 3 * floats, [&] { return maximum(abs((x * 0.5 + y) * x) - 0.25, 0.0); }},
      {"fused chain of six, bf16", 3 * halves,
       [&] { return maximum(abs((xh * 0.5 + yh) * xh) - 0.25, 0.0); }},
      {"a row added and relu, bf16", 2 * halves, [&] { return relu(xh + bias_h); }},
      {"gelu, bf16", 2 * halves, [&] { return gelu(xh); }},
      {"transpose copy, f32", 2 * floats, [&] { return x.transpose(0, 1) + 0.0; }},
      {"sum of all, f32", floats, [&] { return sum(x); }},
      {"sum over the last axis, f32", floats, [&] { return sum(x, {-1}); }},
      {"sum over the first axis, f32", floats, [&] { return sum(x, {0}); }},
      {"max over the last axis, bf16", halves, [&] { return max(xh, {-1}); }},
      {"sum over the first axis, bf16", halves, [&] { return sum(xh, {0}); }},
      {"softmax, f32", 2 * floats, [&] { return softmax(x, -1); }},
      {"softmax, bf16", 2 * halves, [&] { return softmax(xh, -1); }},
      {"layer_norm, f32", 2 * floats, [&] { return layer_norm(x, {columns}, weight, bias); }},
      {"layer_norm, bf16", 2 * halves, [&] { return layer_norm(xh, {columns}, weight_h, bias_h); }},
      {"rms_norm, bf16", 2 * halves, [&] { return rms_norm(xh, weight_h); }},
  };
  bool first = true;
  for (const Case& c : cases) {
    try {
      c.build().eval();
    } catch (const Error& error) {
      std::printf("%s: %s\n", c.name.c_str(), error.what());
      continue;
    }
    const auto times = device_medians(device, {copy_once, [&] { c.build().eval(); }}, options.quick);
    const double copied = 2 * floats / times[0];
    if (first) report.add({"memory", "copy", copied * 1e-9, "GB/s", -1, "", -1});
    first = false;
    report.add(
        {"memory", c.name, c.bytes / times[1] * 1e-9, "GB/s", c.bytes / times[1] / copied, "copy", 0.85});
  }
  set_default_device(Device{});
}

}  // namespace hearth::bench
