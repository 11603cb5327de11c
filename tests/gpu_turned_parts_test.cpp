// Heads that go through rope on their way into a concat.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpu_plans.h"
#include "hearth/hearth.h"

namespace hearth {
namespace {

class GpuTurnedParts : public GpuPlans {
 protected:
  // (sequences, time, heads, size) through rope, as attention has it, and back.
  static Tensor turned(const Tensor& x, const Tensor& positions, bool interleaved = false,
                       double base = 100) {
    return rope(x.transpose(1, 2), positions, base, interleaved).transpose(1, 2);
  }
  static Tensor positions(const Tensor& x) { return (arange(x.size(1)) * 3 + 1).to(x.device()); }
};

constexpr const char* fused = "rope concat";

TEST_F(GpuTurnedParts, OfQueriesKeysAndValues) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const bool interleaved : {false, true})
      for (const std::int64_t size : {64, 6, 2}) {
        const std::vector<Tensor> inputs = {numbers({2, 11, 4, size}, dtype),
                                            numbers({2, 11, 2, size}, dtype),
                                            numbers({2, 11, 3, size}, dtype)};
        const auto joined = [&](const auto& in) {
          const Tensor at = positions(in[0]);
          return concat({turned(in[0], at, interleaved), turned(in[1], at, interleaved), in[2]}, 2);
        };
        check("dense", fused, 1, inputs, [&](const auto& in) { return joined(in) * 2; });
        check("all of them", fused, 1, inputs, [&](const auto& in) {
          const Tensor at = positions(in[0]);
          return concat({turned(in[0], at, interleaved), turned(in[1], at, interleaved)}, 2) * 2;
        });
      }
}

TEST_F(GpuTurnedParts, FromAnywhere) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<Tensor> inputs = {numbers({3, 7, 9, 16}, dtype), numbers({8}, DType::f64)};
    check("heads of one tensor", fused, 1, inputs, [](const auto& in) {
      const Tensor at = positions(in[0]);
      return concat({turned(narrow(in[0], 2, 4, 5), at), narrow(in[0], 2, 0, 4), narrow(in[0], 2, 1, 1)}, 2) *
             2;
    });
    check("features that begin in the middle", fused, 1, inputs, [](const auto& in) {
      const Tensor at = positions(in[0]);
      return concat({turned(narrow(in[0], 3, 3, 8), at), narrow(in[0], 3, 5, 8)}, 2) * 2;
    });
    check("frequencies", fused, 1, inputs, [](const auto& in) {
      const Tensor x = in[0].transpose(1, 2);
      return concat({rope(x, positions(in[0]), in[1]).transpose(1, 2), in[0]}, 2) * 2;
    });
    check("one time, one sequence", fused, 1, {numbers({1, 1, 2, 8}, dtype)}, [](const auto& in) {
      return concat({turned(in[0], positions(in[0])), in[0]}, 2) * 2;
    });
  }
}

// What is only copied stays as it is, whatever lies beside it.
TEST_F(GpuTurnedParts, PartsThatDoNotTurnAreCopied) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Device device : gpus()) {
    const Tensor x = ones({1, 3, 1, 8}).to(device), odd = (ones({1, 3, 1, 8}) * infinity).to(device);
    const Tensor halves = concat({x, odd}, 3),
                 both = concat({turned(concat({x, x}, 3), positions(x)), halves}, 2);
    const auto values = narrow(both, 2, 1, 1).to(Device{}).to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], i % 16 < 8 ? 1.0f : std::numeric_limits<float>::infinity());
  }
}

TEST_F(GpuTurnedParts, StayStepsOfTheirOwn) {
  const std::vector<Tensor> inputs = {numbers({2, 11, 4, 16}, DType::f32),
                                      numbers({2, 11, 2, 16}, DType::f32)};
  check("read by another", fused, 0, inputs, [](const auto& in) {
    const Tensor first = turned(in[0], positions(in[0]));
    return concat({first, in[1]}, 2) * first.sum();
  });
  check("behind others", fused, 0, inputs, [](const auto& in) {
    return concat({in[1], turned(in[0], positions(in[0]))}, 2) * 2;
  });
  check("along another axis", fused, 0, {inputs[0], inputs[0]}, [](const auto& in) {
    return concat({turned(in[0], positions(in[0])), in[1]}, 1) * 2;
  });
  check("other angles: the first alone", fused, 1, inputs, [](const auto& in) {
    const Tensor at = positions(in[0]);
    return concat({turned(in[0], at), turned(in[1], at, false, 50)}, 2) * 2;
  });
  check("along the heads of the rope", fused, 0, {inputs[0]}, [](const auto& in) {
    const Tensor x = rope(in[0], arange(in[0].size(2)).to(in[0].device()), 100.0);
    return concat({x, in[0]}, 2) * 2;
  });
}

TEST_F(GpuTurnedParts, OfGradients) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto graph = [](const std::vector<Tensor>& in) {
      Tensor x = in[0].detach(), weight = in[1].detach();
      x.requires_grad_();
      weight.requires_grad_();
      const Tensor all = linear(x, weight).reshape({3, 11, 8, 16}), at = positions(all);
      const auto heads = [&](std::int64_t first, std::int64_t count) {
        return narrow(all, 2, first, count).transpose(1, 2);
      };
      const Tensor y = attention(rope(heads(0, 4), at, 100.0), rope(heads(4, 2), at, 100.0), heads(6, 2));
      sum(y * y).backward();
      return std::vector<Tensor>{y, x.grad(), weight.grad()};
    };
    const std::vector<Tensor> inputs = {numbers({3, 11, 40}, dtype), numbers({8 * 16, 40}, dtype)};
    compare_all("gradients", inputs, dtype == DType::f32 ? 1e-4 : 3e-2, graph);
    for (const Device device : gpus()) {
      const std::vector<Tensor> results = graph({inputs[0].to(device), inputs[1].to(device)});
      EXPECT_EQ(found(fused, results), 1u) << explain(results);
    }
  }
}

}  // namespace
}  // namespace hearth
