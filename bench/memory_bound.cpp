// Operations whose speed is that of memory, against a plain copy.
#include <cstring>

#include "base/thread_pool.h"
#include "bench.h"
#include "by_hand.h"
#include "hearth/config.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth::bench {

double copy_bandwidth(std::size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const auto seconds = median_of([&] {
    parallel_for(static_cast<std::int64_t>(bytes), 1 << 20, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
    });
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

namespace {

struct Case {
  std::string name;
  double bytes;  // read once plus written once
  std::function<Tensor()> build;
  std::function<void()> by_hand = {};  // a loop written for this case alone
};

void against_copy(Report& report, const Case& c, double target, double seconds, std::size_t copy_bytes) {
  std::vector<char> from(copy_bytes, 1), to(copy_bytes, 2);
  std::vector<std::function<void()>> candidates = {
      [&] {
        parallel_for(
            static_cast<std::int64_t>(copy_bytes), 1 << 20, [&](std::int64_t begin, std::int64_t end) {
              std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
            });
      },
      [&] { c.build().eval(); }};
  if (c.by_hand) candidates.push_back(c.by_hand);
  const auto times = medians(candidates, seconds);
  const double copy = 2.0 * static_cast<double>(copy_bytes) / times[0];
  const auto add = [&](const std::string& name, double time, double aim) {
    report.add({"memory", name, c.bytes / time * 1e-9, "GB/s", c.bytes / time / copy, "copy", aim});
  };
  add(c.name, times[1], target);
  if (c.by_hand) add(c.name + ", a loop by hand", times[2], -1);
}

const float* floats(const Tensor& tensor) { return tensor.data<float>().data(); }

}  // namespace

void memory_bound(Report& report, const Options& options) {
  const double seconds = options.quick ? 0.3 : 1.0;
  const std::int64_t n = 16 << 20;
  const double size = static_cast<double>(n) * 4;
  const auto copy_bytes = static_cast<std::size_t>(n) * 4;
  report.add({"memory", "copy of 64 MiB", copy_bandwidth(copy_bytes) * 1e-9, "GB/s", -1, "", -1});

  const Tensor x = randn({n}).eval(), y = randn({n}).eval();
  std::vector<float> space(static_cast<std::size_t>(n));  // for the loops by hand
  float* out = space.data();
  // Six operations, two inputs.
  const auto chain = [&] { return maximum(abs((x * 0.5 + y) * x) - 0.25, 0.0); };
  against_copy(report,
               {"fused chain of six, 16 M f32", 3 * size, chain,
                [&] { by_hand::chain(floats(x), floats(y), out, n); }},
               0.8, seconds, copy_bytes);
  const auto fused = [&] { chain().eval(); };
  const auto unfused = [&] {
    Tensor h = (x * 0.5).eval();
    h = (h + y).eval();
    h = (h * x).eval();
    h = abs(h).eval();
    h = (h - 0.25).eval();
    maximum(h, 0.0).eval();
  };
  const auto times = medians({fused, unfused}, seconds);
  report.add({"memory", "the same chain, one step at a time", times[1] * 1e3, "ms", times[1] / times[0],
              "slower than fused", 3.0});

  const Tensor m = randn({4096, 4096}).eval();
  const Tensor w = randn({4096}).eval(), b = randn({4096}).eval();
  against_copy(report,
               {"softmax, rows of 4096", 2 * size, [&] { return softmax(m); },
                [&] { by_hand::softmax(floats(m), out, 4096, 4096); }},
               0.7, seconds, copy_bytes);
  against_copy(report,
               {"layer_norm, rows of 4096", 2 * size, [&] { return layer_norm(m, {4096}, w, b); },
                [&] { by_hand::layer_norm(floats(m), floats(w), floats(b), out, 4096, 4096); }},
               0.7, seconds, copy_bytes);
  const Tensor narrow_rows = randn({n / 256, 256}).eval();
  against_copy(report,
               {"softmax, rows of 256", 2 * size, [&] { return softmax(narrow_rows); },
                [&] { by_hand::softmax(floats(narrow_rows), out, n / 256, 256); }},
               0.7, seconds, copy_bytes);
  const Tensor w256 = randn({256}).eval(), b256 = randn({256}).eval();
  against_copy(
      report,
      {"layer_norm, rows of 256", 2 * size, [&] { return layer_norm(narrow_rows, {256}, w256, b256); },
       [&] { by_hand::layer_norm(floats(narrow_rows), floats(w256), floats(b256), out, n / 256, 256); }},
      0.7, seconds, copy_bytes);
  against_copy(report,
               {"sum over the last axis", size, [&] { return sum(m, {1}); },
                [&] { by_hand::sum_last_axis(floats(m), out, 4096, 4096); }},
               0.7, seconds, copy_bytes);
  against_copy(report,
               {"sum over the first axis", size, [&] { return sum(m, {0}); },
                [&] { by_hand::sum_first_axis(floats(m), out, 4096, 4096); }},
               0.7, seconds, copy_bytes);
  against_copy(report, {"max over the last axis", size, [&] { return max(m, {1}); }}, 0.7, seconds,
               copy_bytes);
  against_copy(report, {"max over the first axis", size, [&] { return max(m, {0}); }}, 0.7, seconds,
               copy_bytes);
  against_copy(report, {"sum of everything", size, [&] { return sum(x); }}, 0.7, seconds, copy_bytes);
  against_copy(report, {"transposed copy, 4096 x 4096", 2 * size, [&] { return copy(m.t()); }}, -1, seconds,
               copy_bytes);
}

}  // namespace hearth::bench
