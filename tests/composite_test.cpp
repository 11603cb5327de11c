// Functions built from other functions: what the golden values cannot state. Edge cases, gradients where a
// naive formula gives NaN, error messages, and the shape of the graph.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth {
namespace {

using Values = std::vector<double>;
constexpr double infinity = std::numeric_limits<double>::infinity();

Values values(const Tensor& x) { return x.to_vector<double>(); }

Values gradient_of(const Tensor& output, const Tensor& input) {
  return values(gradients(sum(output), {input})[0]);
}

void expect_near(const Values& got, const Values& expected, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << "element " << i;
}

template <typename E, typename F>
void expect_error(const std::string& message, F&& call) {
  try {
    call();
    FAIL() << "no error: " << message;
  } catch (const E& error) {
    EXPECT_EQ(std::string(error.what()), message);
  }
}

// ---- reductions

TEST(Variance, OfOneElementIsNaNAndOfNoneIsNaN) {
  EXPECT_TRUE(std::isnan(var(tensor({3.0f})).item()));
  EXPECT_EQ(var(tensor({3.0f}), {}, 0).item(), 0);
  EXPECT_TRUE(std::isnan(var(zeros({0})).item()));
}

TEST(Variance, OfIntegersIsFloating) {
  const Tensor x = var(tensor<std::int64_t>({1, 2, 3, 4}), {}, 0);
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_FLOAT_EQ(x.item<float>(), 1.25f);
}

TEST(Variance, SecondDerivativeIsExact) {
  // d2 var / dx_i dx_j = 2 / n * (i == j) - 2 / n^2, however the gradient was simplified.
  Tensor x = tensor({1.0, 2.0, 4.0}).requires_grad_();
  const Tensor slope = gradients(var(x, {}, 0), {x}, {}, true)[0];
  const Values row = values(gradients(select(slope, 0, 0), {x})[0]);
  expect_near(row, {2.0 / 3 - 2.0 / 9, -2.0 / 9, -2.0 / 9}, 1e-12);
}

TEST(Deviation, OfConstantDataHasGradientZero) {
  Tensor x = full({4}, 2.5).requires_grad_();
  const Tensor deviation = hearth::std(x);
  EXPECT_EQ(deviation.item(), 0);
  EXPECT_EQ(gradient_of(deviation, x), Values(4, 0));
}

TEST(Norm, GradientAtZeroIsZero) {
  for (double p : {2.0, 1.0, 0.0, 0.5, 1.5, 3.0, infinity, -infinity}) {
    Tensor x = zeros({3}).requires_grad_();
    const Tensor length = norm(x, p);
    EXPECT_EQ(length.item(), 0) << p;
    EXPECT_EQ(gradient_of(length, x), Values(3, 0)) << p;
  }
}

TEST(Norm, OfEveryOrder) {
  const Tensor x = tensor({3.0, -4.0, 0.0});
  EXPECT_DOUBLE_EQ(norm(x).item(), 5);
  EXPECT_DOUBLE_EQ(norm(x, 1).item(), 7);
  EXPECT_DOUBLE_EQ(norm(x, 0).item(), 2);
  EXPECT_DOUBLE_EQ(norm(x, infinity).item(), 4);
  EXPECT_DOUBLE_EQ(norm(x, -infinity).item(), 0);
  EXPECT_DOUBLE_EQ(norm(x, 3).item(), std::cbrt(91.0));
  EXPECT_DOUBLE_EQ(norm(x, -1).item(), 0);
  expect_near(values(norm(tensor({2.0, -4.0}), -1)), {4.0 / 3});
  for (double p : {2.0, 1.0, 0.0, 3.0, infinity}) EXPECT_EQ(norm(zeros({0}), p).item(), 0) << p;
  expect_error<ValueError>("[norm] p is NaN", [&] { norm(x, std::nan("")); });
}

TEST(LogSumExp, OfInfinitiesAndOfNothing) {
  EXPECT_EQ(logsumexp(tensor({-infinity, -infinity})).item(), -infinity);
  EXPECT_EQ(logsumexp(tensor({1.0, infinity})).item(), infinity);
  EXPECT_DOUBLE_EQ(logsumexp(tensor({1000.0, -infinity})).item(), 1000);
  EXPECT_EQ(logsumexp(zeros({0})).item(), -infinity);
}

// ---- contraction

TEST(Einsum, AxesOfSizeOneBroadcast) {
  const Tensor a = tensor({1.0, 2.0, 3.0}, {1, 3}), b = tensor({1.0, 10.0}, {2, 1});
  EXPECT_EQ(values(einsum("ij,ij->ij", {a, b})), (Values{1, 2, 3, 10, 20, 30}));
  EXPECT_EQ(einsum("ij,ij->", {a, b}).item(), 66);
}

TEST(Einsum, EllipsisLeftOutOfTheResultIsSummed) {
  const Tensor a = reshape(arange(12), {2, 2, 3});
  EXPECT_EQ(values(einsum("...i->i", {a})), values(sum(a, {0, 1})));
}

TEST(Einsum, ScalarsAndIntegers) {
  const Tensor a = tensor<std::int64_t>({1, 2, 3}), two = tensor<std::int64_t>({2}, {});
  EXPECT_EQ(values(einsum(",i->i", {two, a})), (Values{2, 4, 6}));
  EXPECT_EQ(einsum("i,i->", {a, a}).item<int>(), 14);
  EXPECT_EQ(einsum("i,i->", {a, a}).dtype(), DType::i64);
  EXPECT_EQ(values(einsum("", {two})), (Values{2}));
}

TEST(Einsum, LabelTwiceAndThreeTimes) {
  const Tensor cube = reshape(arange(27), {3, 3, 3});
  EXPECT_EQ(values(einsum("iii->i", {cube})), (Values{0, 13, 26}));
  EXPECT_EQ(einsum("iii", {cube}).item(), 39);
  EXPECT_EQ(values(einsum("iji->ij", {cube})), (Values{0, 3, 6, 10, 13, 16, 20, 23, 26}));
}

TEST(Einsum, EmptyContractionIsZero) {
  EXPECT_EQ(values(einsum("ij,jk->ik", {zeros({2, 0}), zeros({0, 3})})), Values(6, 0));
  EXPECT_EQ(einsum("i,i->", {zeros({0}), zeros({0})}).item(), 0);
}

TEST(Einsum, Messages) {
  const Tensor x = ones({2, 3});
  expect_error<ValueError>("[einsum] 'ij,jk' has 2 terms, got 1 operands", [&] { einsum("ij,jk", {x}); });
  expect_error<ValueError>("[einsum] unexpected '1' in 'i1'; terms are letters and '...'",
                           [&] { einsum("i1", {x}); });
  expect_error<ValueError>("[einsum] 'k' of the result of 'ij->k' is in no operand",
                           [&] { einsum("ij->k", {x}); });
  expect_error<ValueError>("[einsum] 'i' is twice in the result of 'ij->ii'", [&] { einsum("ij->ii", {x}); });
  expect_error<ValueError>("[einsum] two ellipses in a term of '...i...'", [&] { einsum("...i...", {x}); });
  expect_error<ShapeError>("[einsum] operand 0 of 'ijk' needs 3 axes, got (2, 3)",
                           [&] { einsum("ijk", {x}); });
  expect_error<ShapeError>("[einsum] 'j' is 3 and 2 in 'ij,jk'", [&] { einsum("ij,jk", {x, x}); });
  expect_error<ShapeError>("[einsum] 'i' is 2 and 3 in one operand of 'ii'", [&] { einsum("ii", {x}); });
}

TEST(Linear, AnyNumberOfAxesAndEmptyBatch) {
  const Tensor weight = tensor({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2}), bias = tensor({10.0f, 20.0f});
  EXPECT_EQ(values(linear(tensor({1.0f, 1.0f}), weight, bias)), (Values{13, 27}));
  EXPECT_EQ(linear(ones({3, 4, 2}), weight, bias).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(linear(ones({0, 2}), weight, bias).shape(), (Shape{0, 2}));
  expect_error<ShapeError>("[linear] x (2, 3) does not fit weight (2, 2)", [&] {
    linear(ones({2, 3}), weight);
  });
}

// ---- losses

TEST(CrossEntropy, WhenAllIsIgnoredTheMeanIsNaNAndTheSumZero) {
  const Tensor x = ones({2, 3}), target = full({2}, -100, DType::i64);
  EXPECT_TRUE(std::isnan(cross_entropy(x, target).item()));
  EXPECT_EQ(cross_entropy(x, target, {.reduction = Reduction::sum}).item(), 0);
}

TEST(CrossEntropy, OneSampleWithoutABatch) {
  Tensor x = tensor({1.0, 2.0, 3.0});
  const Tensor target = tensor<std::int64_t>({2}, {});
  EXPECT_NEAR(cross_entropy(x, target).item(), std::log(1 + std::exp(-1) + std::exp(-2)), 1e-12);
}

TEST(CrossEntropy, NegativeClassIsAMistake) {
  EXPECT_THROW(cross_entropy(ones({2, 3}), tensor<std::int64_t>({0, -1})).eval(), IndexError);
  EXPECT_THROW(cross_entropy(ones({2, 3}), tensor<std::int64_t>({0, 3})).eval(), IndexError);
}

TEST(CrossEntropy, Messages) {
  expect_error<ShapeError>("[cross_entropy] target (3,) does not fit scores (4, 10)", [] {
    cross_entropy(ones({4, 10}), zeros({3}, DType::i64));
  });
  expect_error<ShapeError>("[cross_entropy] weight (3,) does not fit 10 classes", [] {
    cross_entropy(ones({4, 10}), zeros({4}, DType::i64), {.weight = ones({3})});
  });
  expect_error<ValueError>("[nll_loss] label_smoothing is for cross_entropy", [] {
    nll_loss(ones({4, 10}), zeros({4}, DType::i64), {.label_smoothing = 0.1});
  });
}

TEST(Losses, ScalarTargetsFitAndBroadcastingOnesDoNot) {
  EXPECT_EQ(mse_loss(tensor({1.0f, 3.0f}), 1).item(), 2);
  expect_error<ShapeError>("[mse_loss] target (4,) does not fit x (4, 1)", [] {
    mse_loss(ones({4, 1}), ones({4}));
  });
}

TEST(BinaryCrossEntropy, CertainAndWrongIsFiniteWithFiniteGradient) {
  Tensor x = tensor({0.0, 1.0, 0.0, 1.0}).requires_grad_();
  const Tensor loss = bce_loss(x, tensor({1.0, 0.0, 0.0, 1.0}), Reduction::none);
  EXPECT_EQ(values(loss), (Values{100, 100, 0, 0}));
  for (double slope : gradient_of(loss, x)) EXPECT_TRUE(std::isfinite(slope));
}

TEST(BinaryCrossEntropy, LargeLogits) {
  Tensor x = tensor({1000.0f, -1000.0f, 1000.0f}).requires_grad_();
  const Tensor loss = bce_with_logits_loss(x, tensor({1.0f, 0.0f, 0.0f}), Reduction::none);
  EXPECT_EQ(values(loss), (Values{0, 0, 1000}));
  EXPECT_EQ(gradient_of(loss, x), (Values{0, 0, 1}));
}

TEST(TripletLoss, EqualPointsHaveFiniteGradient) {
  Tensor x = ones({2, 3}).requires_grad_();
  for (double slope : gradient_of(triplet_margin_loss(x, x, x), x)) EXPECT_TRUE(std::isfinite(slope));
}

TEST(CosineSimilarity, OfAZeroVectorIsZero) {
  Tensor x = zeros({1, 3}).requires_grad_();
  const Tensor cosine = cosine_similarity(x, ones({1, 3}));
  EXPECT_EQ(cosine.item(), 0);
  for (double slope : gradient_of(cosine, x)) EXPECT_TRUE(std::isfinite(slope));
}

// ---- normalisation

TEST(Softmax, AnyAxisOfAnEmptyTensorAndOfIntegers) {
  EXPECT_EQ(softmax(zeros({0, 3}), 0).shape(), (Shape{0, 3}));
  EXPECT_EQ(values(softmax(zeros({2, 2}, DType::i64), 0)), Values(4, 0.5));
}

TEST(LayerNorm, BiasWithoutWeight) {
  expect_near(values(layer_norm(tensor({1.0, 3.0}), {2}, {}, tensor({5.0, 6.0}), 0)), {4, 7}, 1e-12);
  expect_error<ShapeError>("[layer_norm] x (2, 3) does not end in the normalised shape (2,)", [] {
    layer_norm(ones({2, 3}), {2});
  });
  expect_error<ShapeError>("[layer_norm] weight must have shape (3,), got (2,)", [] {
    layer_norm(ones({2, 3}), {3}, ones({2}));
  });
}

TEST(BatchNormTrain, StatisticsOfHalvesAreF32) {
  const auto result = batch_norm_train(ones({2, 3, 4}, DType::f16));
  EXPECT_EQ(result.output.dtype(), DType::f16);
  EXPECT_EQ(result.mean.dtype(), DType::f32);
  EXPECT_EQ(result.variance.dtype(), DType::f32);
  EXPECT_EQ(values(result.mean), Values(3, 1));
}

TEST(BatchNormTrain, GradientOfTheInputSumsToZero) {
  Tensor x = randn({4, 2, 3, 3}, DType::f64).requires_grad_();
  const Tensor y = batch_norm_train(x).output;
  const Tensor slope = gradients(sum(square(y) * randn({4, 2, 3, 3}, DType::f64)), {x})[0];
  expect_near(values(sum(slope, {0, 2, 3})), {0, 0}, 1e-10);
}

// ---- attention

TEST(Attention, QueryWithNothingToSeeGivesZerosAndGradientZero) {
  Tensor q = randn({1, 2, 3, 4}).requires_grad_(), k = randn({1, 1, 2, 4}), v = randn({1, 1, 2, 4});
  // Three queries, two keys: the first query stands before every key.
  const Tensor y = attention(q, k, v, {.causal = true});
  EXPECT_EQ(values(narrow(y, 2, 0, 1)), Values(8, 0));
  const Tensor slope = gradients(sum(y), {q})[0];
  EXPECT_EQ(values(narrow(slope, 2, 0, 1)), Values(8, 0));
  for (double s : values(slope)) EXPECT_TRUE(std::isfinite(s));
}

TEST(Attention, WithoutKeysGivesZeros) {
  EXPECT_EQ(values(attention(ones({1, 1, 2, 4}), zeros({1, 1, 0, 4}), zeros({1, 1, 0, 3}))), Values(6, 0));
}

TEST(Attention, GroupedHeadsEqualRepeatedKeys) {
  const Tensor q = randn({2, 6, 3, 4}), k = randn({2, 2, 5, 4}), v = randn({2, 2, 5, 4});
  const Tensor repeated =
      attention(q, repeat_interleave(k, 3, 1), repeat_interleave(v, 3, 1), {.causal = true});
  expect_near(values(attention(q, k, v, {.causal = true})), values(repeated), 1e-5);
}

TEST(Attention, WindowOfOneSeesItself) {
  const Tensor q = randn({1, 1, 4, 2}), k = randn({1, 1, 4, 2}), v = randn({1, 1, 4, 2});
  expect_near(values(attention(q, k, v, {.causal = true, .window = 1})), values(v));
}

TEST(Attention, DropoutOfEverythingGivesZeros) {
  const Tensor q = randn({1, 1, 4, 2});
  EXPECT_EQ(values(attention(q, q, q, {.dropout = 1.0})), Values(8, 0));
}

TEST(Attention, Messages) {
  const Tensor q = ones({1, 4, 2, 8});
  expect_error<ShapeError>("[attention] 4 heads do not share 3 key heads evenly", [&] {
    attention(q, ones({1, 3, 2, 8}), ones({1, 3, 2, 8}));
  });
  expect_error<ShapeError>("[attention] k (1, 4, 2, 6) does not fit q (1, 4, 2, 8)", [&] {
    attention(q, ones({1, 4, 2, 6}), ones({1, 4, 2, 6}));
  });
  expect_error<ShapeError>("[attention] mask (3, 2) does not broadcast to (1, 4, 2, 2)", [&] {
    attention(q, q, q, {.mask = ones({3, 2}, DType::bool_)});
  });
}

TEST(Rope, OffsetsAreNumbersOfOnePlan) {
  const Tensor x = randn({1, 1, 4});
  rope(x, 10000.0, 3).eval();
  const auto before = plan_cache_stats();
  rope(x, 10000.0, 4).eval();
  EXPECT_EQ(plan_cache_stats().misses, before.misses);
  expect_error<ShapeError>("[rope] positions (3,) do not fit x (1, 1, 4)", [&] {
    rope(x, tensor<std::int64_t>({0, 1, 2}));
  });
}

// ---- resizing

TEST(Interpolate, IntegersByNearestOnly) {
  const Tensor x = reshape(arange(3), {1, 1, 3});
  EXPECT_EQ(values(interpolate(x, {6}, Interpolation::nearest)), (Values{0, 0, 1, 1, 2, 2}));
  expect_error<DTypeError>("[interpolate] needs a floating tensor, got i64",
                           [&] { interpolate(x, {6}, Interpolation::linear); });
}

TEST(Interpolate, LongAndShortAxesAgree) {
  // Short axes are multiplied by a matrix, long ones picked from: a line is a line for both.
  for (std::int64_t size : {50, 200}) {
    const Tensor line = reshape(arange(0, static_cast<double>(size)), {1, 1, size});
    const Values aligned = values(interpolate(line, {2 * size - 1}, Interpolation::linear, true));
    for (std::size_t i = 0; i < aligned.size(); ++i)
      EXPECT_NEAR(aligned[i], static_cast<double>(i) / 2, 1e-4);
    const Values shifted = values(interpolate(line, {2 * size}, Interpolation::linear));
    EXPECT_EQ(shifted[0], 0);
    EXPECT_NEAR(shifted[1], 0.25, 1e-4);
    EXPECT_EQ(shifted.back(), static_cast<double>(size - 1));
  }
}

TEST(AdaptivePool, WithoutABatch) {
  const Tensor x = reshape(arange(0, 10), {1, 2, 5});
  EXPECT_EQ(values(adaptive_max_pool1d(x, 2)), (Values{2, 4, 7, 9}));
  EXPECT_EQ(values(adaptive_avg_pool1d(x, 2)), (Values{1, 3, 6, 8}));
  expect_error<ValueError>("[adaptive_avg_pool2d] needs 2 sizes, got 1",
                           [&] { adaptive_avg_pool2d(x, {1}); });
}

TEST(AdaptivePool, NaNReachesEveryWindowItIsIn) {
  const Tensor x = reshape(tensor({1.0, std::nan(""), 2.0, 3.0, 4.0}), {1, 1, 5});
  const Values y = values(adaptive_max_pool1d(x, 3));  // windows 0-1, 1-3, 3-4
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 4);
}

// ---- indexing and dropout

TEST(Embedding, PaddingRowGetsNoGradientHoweverItIsNamed) {
  for (std::int64_t padding : {2, -1}) {
    Tensor weight = ones({3, 1}).requires_grad_();
    const Tensor rows = embedding(tensor<std::int64_t>({0, 2, -1, 0}), weight, padding);
    EXPECT_EQ(gradient_of(rows, weight), (Values{2, 0, 0})) << padding;
  }
}

TEST(OneHot, RowsAndDTypes) {
  const Tensor x = one_hot(tensor<std::int32_t>({2, 0}), 3, DType::u8);
  EXPECT_EQ(x.dtype(), DType::u8);
  EXPECT_EQ(values(x), (Values{0, 0, 1, 1, 0, 0}));
}

TEST(Dropout, KeepsTheMeanAndTheDType) {
  manual_seed(7);
  const Tensor x = ones({10000}, DType::f16), y = dropout(x, 0.25);
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_NEAR(mean(y.to(DType::f32)).item(), 1, 0.03);
  for (double v : values(y)) EXPECT_TRUE(v == 0 || std::abs(v - 4.0 / 3) < 1e-3);
}

TEST(Dropout, CornerCases) {
  Tensor x = tensor({infinity, 2.0}).requires_grad_();
  EXPECT_TRUE(dropout(x, 0).is(x));
  EXPECT_TRUE(dropout(x, 0.5, false).is(x));
  EXPECT_EQ(values(dropout(x, 1)), (Values{0, 0}));
  EXPECT_EQ(gradient_of(dropout(x, 1), x), (Values{0, 0}));
  expect_error<ValueError>("[dropout] p must lie in [0, 1], got 1.5", [&] { dropout(x, 1.5); });
}

TEST(Dropout, GradientUsesTheSameMask) {
  Tensor x = ones({100}).requires_grad_();
  const Tensor y = dropout(x, 0.5);
  EXPECT_EQ(gradient_of(y, x), values(y));
}

}  // namespace
}  // namespace hearth
