// Products with quantised weights: of few rows against a plain copy, of many against the product in f32.
#include <fmt/format.h>

#include <cstring>

#include "base/thread_pool.h"
#include "bench.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "hearth/random.h"
#include "tensor/repacked.h"

namespace hearth::bench {

void quantised(Report& report, const Options& options) {
  const double seconds = options.quick ? 0.3 : 1.0;
  const std::int64_t columns = options.quick ? 4096 : 14336, depth = 4096;
  constexpr std::size_t copy_bytes = 64 << 20;
  std::vector<char> from(copy_bytes, 1), to(copy_bytes, 2);
  const auto copy = [&] {
    parallel_for(copy_bytes, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
    });
  };
  const Tensor one = randn({8, depth}).eval(), many = randn({256, depth}).eval();
  const Tensor numbers = randn({columns, depth}).eval();
  for (const DType format : {DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k}) {
    // The same few rows over and over: quantising millions takes longer than the measurement.
    const auto rows = quantise(randn({64, depth}), format).to_bytes();
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < columns / 64; ++i) bytes.insert(bytes.end(), rows.begin(), rows.end());
    const Tensor weight = from_blocks(bytes, {columns, depth}, format);
    std::vector<Tensor> forms{weight};  // as files have it, and as a language model has it
    if (const auto other = repacked({&weight, 1}, weight.shape())) forms.push_back(*other);
    for (const Tensor& form : forms)
      for (const std::int64_t count : {1, 4}) {
        const Tensor x = narrow(one, 0, 0, count);
        const auto times = medians({copy, [&] { linear(x, form).eval(); }}, seconds);
        const double speed = static_cast<double>(form.nbytes()) / times[1];
        report.add(
            {"quantised", fmt::format("{} x {} x {}, {}", count, columns, depth, dtype_name(form.dtype())),
             speed * 1e-9, "GB/s", speed / (2.0 * static_cast<double>(copy_bytes) / times[0]), "copy", -1});
      }
    const auto times =
        medians({[&] { linear(many, numbers).eval(); }, [&] { linear(many, weight).eval(); }}, seconds);
    const double operations = 2.0 * 256 * static_cast<double>(columns * depth);
    report.add({"quantised", fmt::format("256 x {} x {}, {}", columns, depth, dtype_name(format)),
                operations / times[1] * 1e-9, "GOP/s", times[0] / times[1], "f32", -1});
  }
}

}  // namespace hearth::bench
