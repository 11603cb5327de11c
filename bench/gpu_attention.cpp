// Attention on a GPU: TFLOP/s forward and backward, and a check of some rows against f64 on the host.
//
//   gpu_attention [device] [--quick]     e.g. gpu_attention cuda:0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "hearth/hearth.h"

namespace hearth {
namespace {

struct Case {
  std::int64_t batch, heads, length, features;
  bool causal;
  DType dtype;
};

using Rows = std::vector<double>;

Rows row_of(const Tensor& x, std::int64_t batch, std::int64_t head, std::int64_t first, std::int64_t count) {
  const Tensor part = narrow(narrow(narrow(x, 0, batch, 1), 1, head, 1), 2, first, count);
  return part.to(Device{}).to(DType::f64).to_vector<double>();
}

// The largest difference of some rows from what f64 gives.
double worst_error(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y) {
  double worst = 0;
  const auto d = static_cast<std::size_t>(c.features);
  for (const std::int64_t row : {std::int64_t{0}, c.length / 3, c.length / 2 + 77, c.length - 1}) {
    const std::int64_t batch = row % c.batch, head = row % c.heads;
    const std::int64_t keys = c.causal ? row + 1 : c.length;
    const Rows query = row_of(q, batch, head, row, 1), got = row_of(y, batch, head, row, 1);
    const Rows key = row_of(k, batch, head, 0, keys), value = row_of(v, batch, head, 0, keys);
    Rows scores(static_cast<std::size_t>(keys)), expected(d, 0.0);
    for (std::size_t s = 0; s < scores.size(); ++s) {
      for (std::size_t i = 0; i < d; ++i) scores[s] += query[i] * key[s * d + i];
      scores[s] /= std::sqrt(static_cast<double>(d));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - top);
    for (std::size_t s = 0; s < scores.size(); ++s)
      for (std::size_t i = 0; i < d; ++i) expected[i] += scores[s] / total * value[s * d + i];
    for (std::size_t i = 0; i < d; ++i) worst = std::max(worst, std::abs(expected[i] - got[i]));
  }
  return worst;
}

template <class F>
double milliseconds(Device device, int runs, const F& f) {
  f();
  f();
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) f();
  synchronize(device);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / runs;
}

void measure(const Case& c, Device device, int runs) {
  const auto random = [&] {
    return randn({c.batch, c.heads, c.length, c.features}).to(c.dtype).eval().to(device).eval();
  };
  const Tensor q = random().requires_grad_(), k = random().requires_grad_(), v = random().requires_grad_();
  const Tensor dy = random();
  const AttentionOptions options{.causal = c.causal};
  const double products = 2.0 * static_cast<double>(c.batch * c.heads * c.length * c.length * c.features);
  const double forward = products * 2 * (c.causal ? 0.5 : 1);
  const Tensor y = attention(q, k, v, options).eval();
  const double forward_ms = milliseconds(device, runs, [&] { attention(q, k, v, options).eval(); });
  std::string backward = "-";
  try {
    const double ms = milliseconds(device, runs, [&] { eval(gradients(y, {q, k, v}, dy)); });
    backward = fmt::format("{:.2f} ms {:.0f} TFLOP/s", ms, forward * 2.5 / ms * 1e-9);
  } catch (const Error& error) {
    backward = error.what();
  }
  fmt::print("B {} H {} T {} D {} {} {}: forward {:.2f} ms {:.0f} TFLOP/s, backward {}, error {:.1e}\n",
             c.batch, c.heads, c.length, c.features, dtype_name(c.dtype), c.causal ? "causal" : "full",
             forward_ms, forward / forward_ms * 1e-9, backward,
             worst_error(c, q.detach(), k.detach(), v.detach(), y.detach()));
}

int run(int count, char** arguments) {
  Device device;
  bool quick = false;
  for (const Device found : devices())
    if (found.kind != DeviceKind::cpu) device = found;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) quick = true;
    for (const Device found : devices())
      if (to_string(found) == arguments[i]) device = found;
  }
  if (device.kind == DeviceKind::cpu) {
    fmt::print("no GPU\n");
    return 1;
  }
  fmt::print("{} ({})\n", device_info(device).name, to_string(device));
  if (quick) {
    for (const std::int64_t features : {64, 128})
      for (const bool causal : {false, true}) measure({1, 2, 300, features, causal, DType::bf16}, device, 1);
    return 0;
  }
  for (const auto& [batch, length] : {std::pair<std::int64_t, std::int64_t>{4, 4096}, {1, 16384}})
    for (const std::int64_t features : {64, 128})
      for (const bool causal : {false, true})
        measure({batch, 16, length, features, causal, DType::bf16}, device, 20);
  return 0;
}

}  // namespace
}  // namespace hearth

int main(int count, char** arguments) { return hearth::run(count, arguments); }
