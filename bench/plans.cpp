// What planning and replaying cost, per node.
#include <fmt/format.h>

#include "bench.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"

namespace hearth::bench {
namespace {

// A graph of `count` nodes of every-day shape: chains that meet, small tensors, so that the work itself costs
// little.
Tensor graph_of(const Tensor& x, std::int64_t count) {
  Tensor a = x, b = x;
  for (std::int64_t i = 0; i < count; i += 4) {
    a = a * b;
    b = neg(b);
    a = relu(a);
    if (i % 64 == 0) a = matmul(a, x);
  }
  return a;
}

}  // namespace

void plans(Report& report, const Options& options) {
  const Tensor x = ones({2, 2}).eval();
  const std::int64_t largest = options.quick ? 100000 : 1000000;
  double first_cost = 0;
  for (std::int64_t count = 1000; count <= largest; count *= 10) {
    clear_plan_cache();
    Tensor y = graph_of(x, count);
    auto start = Clock::now();
    y.eval();
    const double planned = seconds_since(start);
    const auto nodes = static_cast<double>(last_plan_stats().nodes);
    if (count == 1000) first_cost = planned / nodes;
    report.add({"plans", fmt::format("plan and run {} nodes, per node", count), planned / nodes * 1e6, "us",
                planned / nodes / first_cost, "1000 nodes", -1});

    y = graph_of(x, count);
    start = Clock::now();
    y.eval();
    const double cached = seconds_since(start);
    report.add({"plans", fmt::format("cached plan of {} nodes, per node", count), cached / nodes * 1e6, "us",
                -1, "", 1.0, true});
  }
  Compiled f =
      compile([](const std::vector<Tensor>& a) { return std::vector<Tensor>{graph_of(a[0], 1000)}; });
  f({x});
  const auto nodes = static_cast<double>(last_plan_stats().nodes);
  report.add({"plans", "compiled replay of 1000 nodes, per node", median_of([&] { f({x}); }) / nodes * 1e6,
              "us", -1, "", 1.0, true});
  report.add({"plans", "smallest call: x + 1 of 4 elements", median_of([&] { (x + 1).eval(); }) * 1e6, "us",
              -1, "", -1});
}

}  // namespace hearth::bench
