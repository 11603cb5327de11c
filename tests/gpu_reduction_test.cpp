// Reductions, argmax and argmin on GPUs against the CPU: sizes around those of waves, packets, blocks and
// slices.
#include "gpu_compare.h"

namespace hearth {
namespace {

class GpuReduction : public GpuComparison {};

using Reduce = Tensor (*)(const Tensor&, const Axes&, bool);
using Inputs = std::vector<Tensor>;

TEST_F(GpuReduction, RowsOfEveryLength) {
  for (const std::int64_t length : {1, 3, 4, 8, 31, 32, 33, 63, 64, 100, 127, 128, 260, 1000, 1024, 4100})
    for (const std::int64_t rows : {1, 7, 70})
      compare("rows " + to_string(Shape{rows, length}), {randn({rows, length}) + 1.0}, 1e-5,
              [](const Inputs& in) { return sum(in[0], {1}, false); });
}

TEST_F(GpuReduction, FewLongRowsAreSliced) {
  for (const Shape& shape : {Shape{1, 40000}, Shape{3, 20004}, Shape{2, 17001}})
    compare("long rows " + to_string(shape), {randn(shape) + 1.0}, 1e-5,
            [](const Inputs& in) { return sum(in[0], {1}, false); });
  compare("scalar", {randn({50, 1000}) + 1.0}, 1e-5, [](const Inputs& in) { return sum(in[0], {}, false); });
}

TEST_F(GpuReduction, ColumnsOfEveryWidth) {
  for (const std::int64_t width : {2, 3, 4, 8, 31, 64, 129, 256, 1100})
    for (const std::int64_t rows : {2, 9, 65, 1000})
      compare("columns " + to_string(Shape{rows, width}), {randn({rows, width}) + 1.0}, 1e-5,
              [](const Inputs& in) { return sum(in[0], {0}, false); });
  compare("many slices", {randn({30000, 2}) + 1.0}, 1e-5,
          [](const Inputs& in) { return sum(in[0], {0}, false); });
}

// Of more slices than a wave has lanes, for more totals than a block.
TEST_F(GpuReduction, ManySlicesOfManyColumns) {
  for (const Shape& shape : {Shape{20000, 128}, Shape{40000, 128}, Shape{27101, 53}, Shape{100000, 20}}) {
    const Inputs x = {randint(0, 4, shape).to(DType::f32)};
    compare("sum " + to_string(shape), x, 0, [](const Inputs& in) { return sum(in[0], {0}, false); });
    compare("argmax " + to_string(shape), x, 0, [](const Inputs& in) { return argmax(in[0], 0); });
  }
}

TEST_F(GpuReduction, AxesInTheMiddleAndOnBothSides) {
  const Inputs x = {randn({5, 6, 20, 12}) + 1.0};
  for (const Axes& axes : {Axes{1}, Axes{2}, Axes{0, 2}, Axes{1, 3}, Axes{0, 2, 3}, Axes{0, 1}, Axes{0, 3}}) {
    compare("dense", x, 1e-5, [&](const Inputs& in) { return sum(in[0], axes, true); });
    compare("permuted", x, 1e-5, [&](const Inputs& in) {
      return max(in[0].permute({2, 0, 3, 1}), axes, true);
    });
    compare("flipped", x, 1e-5, [&](const Inputs& in) { return min(flip(in[0], {1, 3}), axes, true); });
  }
}

TEST_F(GpuReduction, EveryOperationAndDType) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::u8, DType::i16,
                            DType::i32, DType::i64, DType::bool_}) {
    const Inputs x = {randint(0, 5, {24, 72}).to(dtype)};
    const std::string name(dtype_name(dtype));
    for (const Reduce reduce :
         {Reduce(sum), Reduce(prod), Reduce(max), Reduce(min), Reduce(all), Reduce(any)})
      for (const std::int64_t axis : {0, 1})
        compare(name, x,
                dtype == DType::bf16  ? 1e-2
                : dtype == DType::f16 ? 1e-3
                                      : 1e-6,
                [&](const Inputs& in) { return reduce(in[0], {axis}, false); });
    compare(name, x, 0, [&](const Inputs& in) { return argmax(in[0], 0); });
    compare(name, x, 0, [&](const Inputs& in) { return argmin(in[0], 1); });
  }
}

TEST_F(GpuReduction, ArgumentsOfLongRowsAndColumns) {
  for (const Shape& shape : {Shape{1, 30000}, Shape{3, 9000}, Shape{3000, 5}, Shape{400, 40}})
    for (const std::int64_t axis : {0, 1}) {
      const Inputs x = {randint(0, 1000, shape).to(DType::f32)};  // with ties
      compare("argmax", x, 0, [&](const Inputs& in) { return argmax(in[0], axis); });
      compare("argmin", x, 0, [&](const Inputs& in) { return argmin(in[0], axis); });
    }
}

TEST_F(GpuReduction, NotANumberWins) {
  std::vector<float> values(600, 1.0f);
  values[37] = values[311] = NAN;
  values[402] = INFINITY;
  values[590] = -INFINITY;
  for (const Shape& shape : {Shape{600}, Shape{2, 300}, Shape{300, 2}}) {
    const Inputs x = {tensor(values).reshape(shape)};
    for (const Reduce reduce : {Reduce(sum), Reduce(max), Reduce(min)})
      compare("values", x, 0, [&](const Inputs& in) { return reduce(in[0], {0}, false); });
    compare("argmax", x, 0, [&](const Inputs& in) { return argmax(in[0], 0); });
    compare("argmin", x, 0, [&](const Inputs& in) { return argmin(in[0], 0); });
  }
  const Inputs lowest = {full({3, 70}, -INFINITY)};
  compare("only -inf", lowest, 0, [](const Inputs& in) { return argmax(in[0], 1); });
}

TEST_F(GpuReduction, IntegersWrap) {
  const Inputs x = {full({40}, 4e18).to(DType::i64)};
  compare("sum", x, 0, [](const Inputs& in) { return sum(in[0], {}, false); });
  compare("prod", x, 0, [](const Inputs& in) { return prod(in[0] + 1, {}, false); });
}

TEST_F(GpuReduction, Nothing) {
  for (const Reduce reduce : {Reduce(sum), Reduce(prod), Reduce(all), Reduce(any)}) {
    compare("no rows", {zeros({0, 5})}, 0, [&](const Inputs& in) { return reduce(in[0], {1}, false); });
    compare("empty rows", {zeros({5, 0})}, 0, [&](const Inputs& in) { return reduce(in[0], {1}, false); });
    compare("scalar", {full({}, 2.0)}, 0, [&](const Inputs& in) { return reduce(in[0], {}, false); });
  }
}

TEST_F(GpuReduction, AnExpressionIsReducedAndStored) {
  for (const Shape& shape : {Shape{64, 128}, Shape{3, 12000}, Shape{65, 33}})
    for (const std::int64_t axis : {0, 1})
      compare_all(to_string(shape), {randn(shape), randn({shape[1]}), randn({shape[0], 1})}, 1e-5,
                  [&](const Inputs& in) {
                    const Tensor product = in[0] * in[1] + in[2];
                    const Tensor positive = product > 0.0;
                    return Inputs{sum(where(positive, product * product, in[1] * 3.0), {axis}, false),
                                  product, positive};
                  });
}

TEST_F(GpuReduction, MemoryThatIsNotAligned) {
  compare("rows", {randn({9, 260}) + 1.0}, 1e-5, [](const Inputs& in) {
    return sum(in[0].slice({{0, 9}, {1, 257}}), {1}, false);
  });
  compare("all", {randn({2000}) + 1.0}, 1e-5, [](const Inputs& in) {
    return sum(in[0].slice({{3, 1999}}), {}, false);
  });
  compare("columns", {(randn({90, 260}) + 1.0).to(DType::f16)}, 2e-3, [](const Inputs& in) {
    return sum(in[0].slice({{0, 90}, {1, 257}}), {0}, false);
  });
}

TEST_F(GpuReduction, TheSameBitsAgain) {
  for (const Device device : gpus()) {
    const Tensor x = randn({3, 30000}).to(device);
    const auto total = [&] { return (sum(x * 1.0, {1}, false)).to(Device{}).to_vector<float>(); };
    EXPECT_EQ(total(), total());
  }
}

}  // namespace
}  // namespace hearth
