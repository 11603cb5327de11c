// The fine print of NumPy and PyTorch: promotion, integer arithmetic, NaN, signed zeros, empty reductions,
// casts.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "compare.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "test_devices.h"

namespace hearth::testing {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
using D = DType;

const std::vector<DType> all_dtypes = {D::bool_, D::u8,  D::i8,   D::i16, D::i32,
                                       D::i64,   D::f16, D::bf16, D::f32, D::f64};

// Runs a test body once per device.
class Semantics : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override { here_.emplace(GetParam()); }

 private:
  std::optional<OnDevice> here_;
};
INSTANTIATE_TEST_SUITE_P(Devices, Semantics, ::testing::ValuesIn(tested_devices()),
                         [](const auto& parameter) {
                           auto name = to_string(parameter.param);
                           std::replace_if(
                               name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

template <typename T>
std::vector<T> values(const Tensor& x) {
  return x.to_vector<T>();
}
template <typename T>
std::vector<T> list(std::initializer_list<T> items) {
  return items;
}
std::vector<std::int64_t> integers(std::initializer_list<std::int64_t> items) { return items; }

void expect_floats(const Tensor& x, const std::vector<float>& want) {
  const auto got = x.to_vector<float>();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    } else {
      EXPECT_EQ(got[i], want[i]) << "element " << i;
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i])) << "sign of element " << i;
    }
  }
}

// ---- promotion
// Rows and columns in the order of all_dtypes. NumPy's table, but an integer with a floating type gives that
// type, as in PyTorch, and two different halves give f32.
// clang-format off
constexpr DType promotion[dtype_count][dtype_count] = {
  {D::bool_, D::u8,   D::i8,   D::i16,  D::i32,  D::i64,  D::f16, D::bf16, D::f32, D::f64},
  {D::u8,    D::u8,   D::i16,  D::i16,  D::i32,  D::i64,  D::f16, D::bf16, D::f32, D::f64},
  {D::i8,    D::i16,  D::i8,   D::i16,  D::i32,  D::i64,  D::f16, D::bf16, D::f32, D::f64},
  {D::i16,   D::i16,  D::i16,  D::i16,  D::i32,  D::i64,  D::f16, D::bf16, D::f32, D::f64},
  {D::i32,   D::i32,  D::i32,  D::i32,  D::i32,  D::i64,  D::f16, D::bf16, D::f32, D::f64},
  {D::i64,   D::i64,  D::i64,  D::i64,  D::i64,  D::i64,  D::f16, D::bf16, D::f32, D::f64},
  {D::f16,   D::f16,  D::f16,  D::f16,  D::f16,  D::f16,  D::f16, D::f32,  D::f32, D::f64},
  {D::bf16,  D::bf16, D::bf16, D::bf16, D::bf16, D::bf16, D::f32, D::bf16, D::f32, D::f64},
  {D::f32,   D::f32,  D::f32,  D::f32,  D::f32,  D::f32,  D::f32, D::f32,  D::f32, D::f64},
  {D::f64,   D::f64,  D::f64,  D::f64,  D::f64,  D::f64,  D::f64, D::f64,  D::f64, D::f64},
};
// clang-format on

TEST_P(Semantics, PromotionOfEveryPair) {
  for (std::size_t i = 0; i < all_dtypes.size(); ++i)
    for (std::size_t j = 0; j < all_dtypes.size(); ++j) {
      const auto where_ =
          std::string(dtype_name(all_dtypes[i])) + " with " + std::string(dtype_name(all_dtypes[j]));
      const DType want = promotion[i][j];
      EXPECT_EQ(promote(all_dtypes[i], all_dtypes[j]), want) << where_;
      const auto a = tensor({3.0, 0.0}).to(all_dtypes[i]), b = tensor({2.0, 1.0}).to(all_dtypes[j]);
      // A bool counts as 1 in arithmetic, which happens in i64.
      const auto sum_of = a + b;
      EXPECT_EQ(sum_of.dtype(), want == D::bool_ ? D::i64 : want) << where_;
      const double first = (all_dtypes[i] == D::bool_ ? 1 : 3) + (all_dtypes[j] == D::bool_ ? 1 : 2);
      EXPECT_EQ(values<double>(sum_of), list({first, 1.0})) << where_;
      EXPECT_EQ((a / b).dtype(), is_floating(want) ? want : D::f32) << where_;
      EXPECT_EQ((a < b).dtype(), D::bool_) << where_;
      EXPECT_EQ(where(a == 0, a, b).dtype(), want) << where_;
      EXPECT_EQ(concat({a, b}).dtype(), want) << where_;
    }
}

TEST_P(Semantics, NumbersTakeTheDtypeOfTheTensor) {
  for (auto dtype : all_dtypes) {
    const auto x = ones({2}, dtype);
    const auto name = dtype_name(dtype);
    EXPECT_EQ((x * 2).dtype(), dtype == D::bool_ ? D::i64 : dtype) << name;
    EXPECT_EQ((2 * x).dtype(), dtype == D::bool_ ? D::i64 : dtype) << name;
    EXPECT_EQ((x + true).dtype(), dtype == D::bool_ ? D::i64 : dtype) << name;
    EXPECT_EQ((x * 2.0).dtype(), is_floating(dtype) ? dtype : D::f32) << name;
    EXPECT_EQ((x / 2).dtype(), is_floating(dtype) ? dtype : D::f32) << name;
    EXPECT_EQ(values<double>(x * 2.5), list({2.5, 2.5})) << name;
    EXPECT_EQ(values<double>(1.5 - x), list({0.5, 0.5})) << name;
  }
  // A number keeps its weakness through arithmetic with numbers, a tensor of one element has none.
  EXPECT_EQ((ones({2}, D::f16) * (Tensor(2.0) + 1)).dtype(), D::f16);
  EXPECT_EQ((ones({2}, D::f16) * full({}, 2.0, D::f32)).dtype(), D::f32);
  // A number is rounded once, to the dtype of the computation, not of the half tensor first.
  EXPECT_EQ((ones({1}, D::f64) * 0.1).item<double>(), 0.1);
  EXPECT_EQ((tensor<std::int64_t>({1}) + (std::int64_t{1} << 53)).item<std::int64_t>(),
            (std::int64_t{1} << 53) + 1);
}

TEST_P(Semantics, OperatorsWithAssignment) {
  auto x = tensor({1.0f, 2.0f});
  x += 1;
  x *= tensor({2.0f, 3.0f});
  x -= 0.5;
  x /= 0.5;
  expect_floats(x, {7, 17});
}

// ---- integers
template <typename T>
class IntegerSemantics : public ::testing::Test {};
using IntegerTypes = ::testing::Types<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(IntegerSemantics, IntegerTypes);

TYPED_TEST(IntegerSemantics, WrapAround) {
  using T = TypeParam;
  using U = std::make_unsigned_t<T>;
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto x = tensor<T>({low, high, T{3}});
    const auto wrap = [](auto v) { return static_cast<T>(static_cast<U>(v)); };
    EXPECT_EQ((x + tensor<T>({T{1}})).dtype(), dtype_of<T>);
    EXPECT_EQ((x + tensor<T>({T{1}})).template to_vector<T>(), (std::vector<T>{wrap(low + U{1}), low, T{4}}));
    EXPECT_EQ((x - tensor<T>({T{1}})).template to_vector<T>(),
              (std::vector<T>{high, wrap(high - U{1}), T{2}}));
    EXPECT_EQ((x * tensor<T>({T{2}})).template to_vector<T>(),
              (std::vector<T>{T{0}, wrap(U{0} - U{2}), T{6}}));
    EXPECT_EQ((-x).template to_vector<T>(),
              (std::vector<T>{wrap(U{0} - static_cast<U>(low)), wrap(U{0} - static_cast<U>(high)),
                              wrap(U{0} - U{3})}));
    EXPECT_EQ(abs(x).template to_vector<T>(), (std::vector<T>{low, high, T{3}}));  // |lowest| wraps to itself
    EXPECT_EQ(square(tensor<T>({T{2}, T{7}})).template to_vector<T>(), (std::vector<T>{T{4}, T{49}}));
  }
}

TYPED_TEST(IntegerSemantics, DivisionByZeroGivesZero) {
  using T = TypeParam;
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto a = tensor<T>({T{7}, T{0}, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()});
    const auto zero = tensor<T>({T{0}});
    const std::vector<T> zeros_(4, T{0});
    EXPECT_EQ(floor_divide(a, zero).template to_vector<T>(), zeros_);
    EXPECT_EQ(remainder(a, zero).template to_vector<T>(), zeros_);  // NumPy
    EXPECT_EQ(fmod(a, zero).template to_vector<T>(), zeros_);
    if constexpr (std::is_signed_v<T>) {  // traps on x86 if nobody looks
      EXPECT_EQ(floor_divide(a, tensor<T>({T{-1}})).template to_vector<T>()[2],
                std::numeric_limits<T>::min());
      EXPECT_EQ(remainder(a, tensor<T>({T{-1}})).template to_vector<T>(), zeros_);
      EXPECT_EQ(fmod(a, tensor<T>({T{-1}})).template to_vector<T>(), zeros_);
    }
    // True division is floating.
    EXPECT_EQ((tensor<T>({T{7}}) / zero).template item<double>(), std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan((zero / zero).template item<double>()));
  }
}

TYPED_TEST(IntegerSemantics, DivisionRoundsAsItsNameSays) {
  using T = TypeParam;
  if constexpr (std::is_signed_v<T>)
    for (const auto device : tested_devices()) {
      const OnDevice here(device);
      const auto a = tensor<T>({T{7}, T{-7}, T{7}, T{-7}, T{6}}),
                 b = tensor<T>({T{2}, T{2}, T{-2}, T{-2}, T{-3}});
      EXPECT_EQ(floor_divide(a, b).template to_vector<T>(),
                (std::vector<T>{T{3}, T{-4}, T{-4}, T{3}, T{-2}}));
      EXPECT_EQ(remainder(a, b).template to_vector<T>(), (std::vector<T>{T{1}, T{1}, T{-1}, T{-1}, T{0}}));
      EXPECT_EQ(fmod(a, b).template to_vector<T>(), (std::vector<T>{T{1}, T{-1}, T{1}, T{-1}, T{0}}));
    }
}

TYPED_TEST(IntegerSemantics, ShiftsOutOfRange) {
  using T = TypeParam;
  constexpr int bits = sizeof(T) * 8;
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto x = tensor<T>({T{1}, T{5}, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()});
    const auto by = [](int count) { return tensor<T>({static_cast<T>(count)}); };
    const T sign = std::is_signed_v<T> ? static_cast<T>(-1) : T{0};
    EXPECT_EQ(shift_left(x, by(bits)).template to_vector<T>(), std::vector<T>(4, T{0}));
    EXPECT_EQ(shift_left(x, by(100)).template to_vector<T>(), std::vector<T>(4, T{0}));
    EXPECT_EQ(shift_right(x, by(bits)).template to_vector<T>(), (std::vector<T>{T{0}, T{0}, T{0}, sign}));
    EXPECT_EQ(shift_right(x, by(100)).template to_vector<T>(), (std::vector<T>{T{0}, T{0}, T{0}, sign}));
    if constexpr (std::is_signed_v<T>) {
      EXPECT_EQ(shift_left(x, by(-1)).template to_vector<T>(), std::vector<T>(4, T{0}));
    }
    EXPECT_EQ(shift_left(by(1), by(bits - 1)).template item<T>(),
              static_cast<T>(std::uint64_t{1} << (bits - 1)));
    EXPECT_EQ(shift_right(x, by(1)).template to_vector<T>(),
              (std::vector<T>{T{0}, T{2}, static_cast<T>(std::numeric_limits<T>::max() >> 1),
                              static_cast<T>(std::numeric_limits<T>::min() >> 1)}));
  }
}

TYPED_TEST(IntegerSemantics, Powers) {
  using T = TypeParam;
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto power = [](int a, int b) {
      return pow(tensor<T>({static_cast<T>(a)}), tensor<T>({static_cast<T>(b)})).template item<T>();
    };
    EXPECT_EQ(power(3, 4), T{81});
    EXPECT_EQ(power(0, 0), T{1});
    EXPECT_EQ(power(2, sizeof(T) * 8), T{0});  // wraps
    if constexpr (std::is_signed_v<T>) {
      EXPECT_EQ(power(-2, 3), T{-8});
      EXPECT_EQ(power(2, -1), T{0});
      EXPECT_EQ(power(1, -3), T{1});
      EXPECT_EQ(power(-1, -3), T{-1});
      EXPECT_EQ(power(-1, -4), T{1});
    }
  }
}

TYPED_TEST(IntegerSemantics, LargeValuesAreExact) {
  using T = TypeParam;
  constexpr T high = std::numeric_limits<T>::max();
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto x = tensor<T>({high, static_cast<T>(high - 1)});
    EXPECT_EQ(max(x).template item<T>(), high);
    EXPECT_EQ(min(x).template item<T>(), static_cast<T>(high - 1));
    EXPECT_EQ(argmin(x).template item<std::int64_t>(), 1);
    EXPECT_EQ((x == tensor<T>({high})).template to_vector<int>(), (std::vector<int>{1, 0}));
    EXPECT_EQ(sort(x).template to_vector<T>(), (std::vector<T>{static_cast<T>(high - 1), high}));
    EXPECT_EQ(maximum(x, flip(x, {0})).template to_vector<T>(), (std::vector<T>{high, high}));
    EXPECT_EQ(sum(x).dtype(), DType::i64);
    EXPECT_EQ(prod(x).dtype(), DType::i64);
    EXPECT_EQ(cumsum(x, 0).dtype(), DType::i64);
    EXPECT_EQ(mean(x).dtype(), DType::f32);
  }
}

TYPED_TEST(IntegerSemantics, BoundsAndNumbersOutOfRange) {
  using T = TypeParam;
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto x = tensor<T>({low, T{5}, static_cast<T>(high - 1), high});
    EXPECT_EQ(clamp(x, 2.5, 1e30).template to_vector<T>(),
              (std::vector<T>{T{3}, T{5}, static_cast<T>(high - 1), high}));
    EXPECT_EQ(clamp(x, {}, 7.5).template to_vector<T>(), (std::vector<T>{low, T{5}, T{7}, T{7}}));
    EXPECT_EQ(masked_fill(x, x == T{5}, 9).template to_vector<T>(),
              (std::vector<T>{low, T{9}, static_cast<T>(high - 1), high}));
    if constexpr (sizeof(T) < 8) {
      const std::int64_t above = std::int64_t{high} + 1, below = std::int64_t{low} - 1;
      for (const auto& [result, expected] : {std::pair{x < above, true},
                                             {x <= above, true},
                                             {x == above, false},
                                             {x != below, true},
                                             {x > below, true},
                                             {x >= above, false},
                                             {above > x, true},
                                             {below >= x, false}})
        EXPECT_EQ(all(result == expected).template item<bool>(), true);
    }
  }
}

// ---- bool
TEST_P(Semantics, Triangles) {
  EXPECT_EQ(tril(ones({2, 2}, D::bool_)).dtype(), D::bool_);
  EXPECT_EQ(values<std::int64_t>(tril(ones({2, 2}, D::bool_))), integers({1, 0, 1, 1}));
  EXPECT_EQ(triu(ones({2, 2}, D::u8)).dtype(), D::u8);
}

TEST_P(Semantics, BoolArithmetic) {
  const auto a = tensor({true, true, false}), b = tensor({true, false, false});
  EXPECT_EQ((a + b).dtype(), D::i64);
  EXPECT_EQ(values<std::int64_t>(a + b), integers({2, 1, 0}));
  EXPECT_EQ(values<std::int64_t>(a - b), integers({0, 1, 0}));
  EXPECT_EQ(values<std::int64_t>(-a), integers({-1, -1, 0}));
  EXPECT_EQ(bitwise_not(a).dtype(), D::bool_);
  EXPECT_EQ(values<std::int64_t>(bitwise_not(a)), integers({0, 0, 1}));
  EXPECT_EQ(values<std::int64_t>(bitwise_xor(a, b)), integers({0, 1, 0}));
  EXPECT_EQ(sum(a).dtype(), D::i64);
  EXPECT_EQ(sum(a).item<int>(), 2);
  EXPECT_FLOAT_EQ(mean(a).item<float>(), 2.0f / 3);
  EXPECT_EQ(max(b).item<bool>(), true);
  EXPECT_EQ(values<std::int64_t>(logical_and(tensor({0.5f, nan, 0.0f}), tensor({2, 1, 1}))),
            integers({1, 1, 0}));
  // Whatever is not zero is true, also what would be zero as an integer.
  EXPECT_EQ(values<std::int64_t>(tensor({0.25f, -0.0f, nan, infinity}).to(D::bool_)), integers({1, 0, 1, 1}));
  EXPECT_EQ(values<std::int64_t>(tensor<std::int32_t>({256, 0, -1}).to(D::bool_)), integers({1, 0, 1}));
}

// ---- NaN
TEST_P(Semantics, NanInExtremes) {
  const auto x = tensor({1.0f, nan, 3.0f, -infinity});
  expect_floats(max(x), {nan});
  expect_floats(min(x), {nan});
  EXPECT_EQ(argmax(x).item<int>(), 1);
  EXPECT_EQ(argmin(x).item<int>(), 1);
  expect_floats(maximum(x, 2), {2, nan, 3, 2});
  expect_floats(minimum(2, x), {1, nan, 2, -infinity});
  expect_floats(clamp(x, 0, 2), {1, nan, 2, 0});
  expect_floats(relu(x), {1, nan, 3, 0});
  expect_floats(sign(x), {1, nan, 1, -1});
  // Far from the front, in either half of a vector, and alone.
  for (std::int64_t at : {0, 7, 8, 31, 100, 1000, 1024}) {
    std::vector<float> many(1025, 1.0f);
    many[static_cast<std::size_t>(at)] = nan;
    expect_floats(max(tensor(many)), {nan});
    expect_floats(min(tensor(many)), {nan});
    EXPECT_EQ(argmax(tensor(many)).item<std::int64_t>(), at);
    EXPECT_EQ(argmin(tensor(many)).item<std::int64_t>(), at);
  }
  expect_floats(max(tensor({1.0f, nan, 2.0f, 3.0f}, {2, 2}), {0}), {2, nan});
  expect_floats(max(tensor({nan, nan})), {nan});
  expect_floats(max(tensor({-infinity, -infinity})), {-infinity});
  EXPECT_EQ(argmax(tensor({-infinity, -infinity})).item<int>(), 0);
}

TEST_P(Semantics, NanSortsAsTheLargest) {
  const auto x = tensor({nan, 2.0f, -infinity, nan, 1.0f, infinity});
  expect_floats(sort(x), {-infinity, 1, 2, infinity, nan, nan});
  expect_floats(sort(x, -1, true), {nan, nan, infinity, 2, 1, -infinity});
  EXPECT_EQ(values<int>(argsort(x)), list({2, 4, 1, 5, 0, 3}));
  EXPECT_EQ(values<int>(argsort(x, -1, true)), list({0, 3, 5, 1, 4, 2}));
}

TEST_P(Semantics, NanCompares) {
  const auto x = tensor({nan, 1.0f});
  EXPECT_EQ(values<int>(x == x), list({0, 1}));
  EXPECT_EQ(values<int>(x != x), list({1, 0}));
  EXPECT_EQ(values<int>(x < 2), list({0, 1}));
  EXPECT_EQ(values<int>(x >= 1), list({0, 1}));
  EXPECT_EQ(values<int>(isnan(x)), list({1, 0}));
  EXPECT_EQ(values<int>(isfinite(x / 0)), list({0, 0}));
  expect_floats(nan_to_num(tensor({nan, infinity, -infinity, 1.0f}), 7),
                {7, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(), 1});
}

TEST_P(Semantics, NanAndInfinityInReductions) {
  expect_floats(sum(tensor({1.0f, nan})), {nan});
  expect_floats(sum(tensor({infinity, -infinity})), {nan});
  expect_floats(prod(tensor({0.0f, infinity})), {nan});
  expect_floats(logsumexp(tensor({-infinity, -infinity})), {-infinity});
  expect_floats(logsumexp(tensor({infinity, 1.0f})), {infinity});
  expect_floats(softmax(tensor({-infinity, 0.0f})), {0, 1});
  expect_floats(softmax(tensor({-infinity, -infinity})), {nan, nan});
  EXPECT_TRUE(any(tensor({nan})).item<bool>());
  // A zero weight does not hide what it is multiplied with.
  expect_floats(matmul(tensor({0.0f, 1.0f}, {1, 2}), tensor({nan, 2.0f}, {2, 1})), {nan});
  expect_floats(matmul(tensor({0.0f, 1.0f}, {1, 2}), tensor({infinity, 2.0f}, {2, 1})), {nan});
}

// ---- empty and single
TEST_P(Semantics, ReductionsOfNothing) {
  const auto nothing = zeros({0});
  expect_floats(sum(nothing), {0});
  expect_floats(prod(nothing), {1});
  expect_floats(mean(nothing), {nan});
  EXPECT_TRUE(all(nothing).item<bool>());
  EXPECT_FALSE(any(nothing).item<bool>());
  EXPECT_THROW(max(nothing), ValueError);
  EXPECT_THROW(min(nothing), ValueError);
  EXPECT_THROW(argmax(nothing), ValueError);
  expect_floats(sum(zeros({2, 0}), {1}), {0, 0});
  expect_floats(prod(zeros({2, 0}), {1}), {1, 1});
  EXPECT_EQ(sum(zeros({2, 0}), {0}).shape(), Shape{0});
  EXPECT_EQ(max(zeros({2, 0}), {0}).shape(), Shape{0});  // no result needs an element
  expect_floats(norm(nothing), {0});
  expect_floats(matmul(zeros({2, 0}), zeros({0, 2})), {0, 0, 0, 0});
  EXPECT_EQ(sum(zeros({0}, D::i32)).dtype(), D::i64);
  expect_floats(concat({nothing, tensor({1.0f}), nothing}), {1});
  expect_floats(var(tensor({3.0f})), {nan});
  expect_floats(var(tensor({3.0f}), {}, 0), {0});
  EXPECT_EQ(values<float>(softmax(zeros({0, 3}))).size(), 0u);
  EXPECT_EQ(cumsum(zeros({2, 0}), 1).shape(), (Shape{2, 0}));
}

TEST_P(Semantics, GradientsThroughNothing) {
  auto x = zeros({0, 3}).requires_grad_();
  const auto found = gradients(sum(x * 2), {x});
  EXPECT_EQ(found[0].shape(), (Shape{0, 3}));
  auto y = ones({2}).requires_grad_(), unused = ones({3}).requires_grad_();
  expect_floats(gradients(sum(y * y), {unused})[0], {0, 0, 0});
}

TEST_P(Semantics, SqueezeLeavesLongAxes) {  // PyTorch; NumPy would refuse
  EXPECT_EQ(squeeze(ones({2, 1}), {0}).shape(), (Shape{2, 1}));
  EXPECT_EQ(squeeze(ones({2, 1}), {0, 1}).shape(), (Shape{2}));
}

TEST_P(Semantics, LongSumsDoNotStall) {
  // One running f32 sum of ones stops growing at 2^24.
  const std::int64_t count = (std::int64_t{1} << 24) + 4096;
  expect_floats(sum(ones({count})), {static_cast<float>(count)});
  expect_floats(sum(ones({count, 2}), {0}), {static_cast<float>(count), static_cast<float>(count)});
  expect_floats(mean(ones({count})), {1});
}

// ---- signed zero
TEST_P(Semantics, SignedZero) {
  const auto zero = tensor({0.0f, -0.0f});
  expect_floats(-zero, {-0.0f, 0});
  expect_floats(abs(zero), {0, 0});
  expect_floats(1 / zero, {infinity, -infinity});
  expect_floats(sqrt(zero), {0, -0.0f});
  expect_floats(round(tensor({-0.25f, 0.25f, -0.5f})), {-0.0f, 0, -0.0f});
  expect_floats(ceil(tensor({-0.5f})), {-0.0f});
  expect_floats(trunc(tensor({-0.5f})), {-0.0f});
  expect_floats(zero * -1, {-0.0f, 0});
  expect_floats(zero + zero, {0, -0.0f});
  expect_floats(zero - zero, {0, 0});
  expect_floats(copy(zero), {0, -0.0f});
  expect_floats(where(tensor({true, true}), zero, ones({2})), {0, -0.0f});
  EXPECT_EQ(values<int>(zero == flip(zero, {0})), list({1, 1}));
  expect_floats(atan2(tensor({0.0f, -0.0f}), tensor({-1.0f, -1.0f})),
                {static_cast<float>(M_PI), static_cast<float>(-M_PI)});
}

TEST_P(Semantics, RoundingGoesToEven) {
  expect_floats(round(tensor({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 3.5f, 0.49999997f, 8388609.0f, 1e30f})),
                {0, 2, 2, -0.0f, -2, 4, 0, 8388609.0f, 1e30f});
  expect_floats(floor(tensor({-1.5f, 1.5f, 1e30f, infinity})), {-2, 1, 1e30f, infinity});
}

// ---- casts
TEST_P(Semantics, FloatToIntegerSaturates) {
  const auto x = tensor({1.9f, -1.9f, 300.0f, -300.0f, nan, infinity, -infinity, 1e30f});
  EXPECT_EQ(values<std::int64_t>(x.to(D::u8)), integers({1, 0, 255, 0, 0, 255, 0, 255}));
  EXPECT_EQ(values<std::int64_t>(x.to(D::i8)), integers({1, -1, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(values<std::int64_t>(x.to(D::i16)), integers({1, -1, 300, -300, 0, 32767, -32768, 32767}));
  constexpr std::int64_t high32 = std::numeric_limits<std::int32_t>::max(),
                         low32 = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(values<std::int64_t>(x.to(D::i32)), integers({1, -1, 300, -300, 0, high32, low32, high32}));
  constexpr auto high64 = std::numeric_limits<std::int64_t>::max(),
                 low64 = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(values<std::int64_t>(x.to(D::i64)), integers({1, -1, 300, -300, 0, high64, low64, high64}));
  EXPECT_EQ(values<std::int64_t>(x.to(D::f64).to(D::i32)),
            integers({1, -1, 300, -300, 0, high32, low32, high32}));
  EXPECT_EQ(values<std::int64_t>(x.to(D::f16).to(D::i8)), integers({1, -1, 127, -128, 0, 127, -128, 127}));
}

TEST_P(Semantics, IntegerToIntegerWraps) {
  const auto x = tensor<std::int32_t>({256, 300, -1, 65536 + 7});
  EXPECT_EQ(values<std::int64_t>(x.to(D::u8)), integers({0, 44, 255, 7}));
  EXPECT_EQ(values<std::int64_t>(x.to(D::i8)), integers({0, 44, -1, 7}));
  EXPECT_EQ(values<std::int64_t>(x.to(D::i64)), integers({256, 300, -1, 65543}));
  EXPECT_EQ(values<std::int64_t>(tensor<std::uint8_t>({200}).to(D::i32)), integers({200}));
}

TEST_P(Semantics, LargeIntegersSurvive) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // no double has this value
  const auto x = tensor<std::int64_t>({large, -large});
  EXPECT_EQ(values<std::int64_t>(x), integers({large, -large}));
  EXPECT_EQ(x[0].item<std::int64_t>(), large);
  EXPECT_EQ(values<std::int64_t>(x + 1), integers({large + 1, -large + 1}));
  EXPECT_EQ(sum(concat({x, tensor<std::int64_t>({5})})).item<std::int64_t>(), 5);
  EXPECT_EQ(max(x).item<std::int64_t>(), large);
  EXPECT_EQ(values<std::int64_t>(cumsum(x, 0)), integers({large, 0}));
  // One more than i32 can hold.
  EXPECT_EQ(sum(full({3}, 2e9, D::i32)).item<std::int64_t>(), 6000000000);
}

TEST_P(Semantics, HalfOverflowsToInfinity) {
  expect_floats(tensor({65504.0f, 65519.0f, 65520.0f, -1e6f}).to(D::f16).to(D::f32),
                {65504, 65504, infinity, -infinity});
  expect_floats((full({1}, 60000, D::f16) * 2).to(D::f32), {infinity});
  expect_floats((full({1}, 60000, D::f16) + full({1}, 60000, D::f16)).to(D::f32), {infinity});
  expect_floats(exp(full({1}, 12, D::f16)).to(D::f32), {infinity});
  expect_floats(tensor({3.4e38f}).to(D::bf16).to(D::f32), {infinity});
  expect_floats(tensor({1e39}).to(D::f32), {infinity});
  // The sum is computed in f32 and only then rounded.
  expect_floats(mean(full({4096}, 100, D::f16)).to(D::f32), {100});
  expect_floats(sum(ones({4096}, D::f16)).to(D::f32), {4096});
  expect_floats(sum(ones({512}, D::bf16)).to(D::f32), {512});
  expect_floats(sum(full({4096}, 100, D::f16)).to(D::f32), {infinity});
}

TEST_P(Semantics, HalfRoundsToNearestEven) {
  // Between 1 and 1 + 2^-10 lies a tie; above it, up.
  expect_floats(tensor({1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 1.0f + 0x1.8p-11f}).to(D::f16).to(D::f32),
                {1, 1.0f + 0x1p-9f, 1.0f + 0x1p-10f});
  expect_floats(tensor({1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f}).to(D::bf16).to(D::f32), {1, 1.0f + 0x1p-6f});
  // From f64 in one step: by way of f32 this would round twice, down to the tie and then to even.
  expect_floats(tensor({1.0 + 0x1p-11 + 0x1p-40}).to(D::f16).to(D::f32), {1.0f + 0x1p-10f});
  expect_floats(tensor({1.0 + 0x1p-8 + 0x1p-40}).to(D::bf16).to(D::f32), {1.0f + 0x1p-7f});
}

TEST_P(Semantics, HalfDenormals) {
  expect_floats(tensor({0x1p-24f, 0x1p-15f, 0x1p-25f, 0x1.8p-25f, -0x1p-24f}).to(D::f16).to(D::f32),
                {0x1p-24f, 0x1p-15f, 0, 0x1p-24f, -0x1p-24f});
  expect_floats((full({1}, 0x1p-14, D::f16) / 4).to(D::f32), {0x1p-16f});
}

TEST_P(Semantics, DenormalsAreKept) {
  if (GetParam().kind != DeviceKind::cpu) GTEST_SKIP() << "a GPU may flush f32 denormals in fast arithmetic";
  const float smallest = std::numeric_limits<float>::denorm_min(), normal = std::numeric_limits<float>::min();
  expect_floats(tensor({smallest, normal}) * 1, {smallest, normal});
  expect_floats(tensor({normal}) / 2, {normal / 2});
  expect_floats(tensor({normal}) - tensor({normal * 0.75f}), {normal * 0.25f});
  expect_floats(sum(tensor({smallest, smallest})), {2 * smallest});
  EXPECT_EQ(values<int>(tensor({smallest}) > 0), list({1}));
  EXPECT_EQ(values<int>(tensor({smallest}).to(D::bool_)), list({1}));
}

TEST_P(Semantics, EveryCastOfSmallIntegersIsExact) {
  for (auto from : all_dtypes)
    for (auto to : all_dtypes) {
      const auto got = values<double>(tensor({0.0, 1.0, 2.0, 100.0}).to(from).to(to));
      const bool truth = from == D::bool_ || to == D::bool_;
      EXPECT_EQ(got, truth ? list({0.0, 1.0, 1.0, 1.0}) : list({0.0, 1.0, 2.0, 100.0}))
          << dtype_name(from) << " to " << dtype_name(to);
    }
}

// ---- factories
TEST_P(Semantics, Factories) {
  expect_floats(arange(0, 1, 0.25), {0, 0.25f, 0.5f, 0.75f});
  expect_floats(arange(3, 0, -1), {3, 2, 1});
  EXPECT_EQ(arange(0, 0).numel(), 0);
  EXPECT_EQ(arange(2, 1).numel(), 0);
  EXPECT_EQ(arange(4).dtype(), D::i64);
  EXPECT_EQ(values<int>(arange(4)), list({0, 1, 2, 3}));
  expect_floats(linspace(0, 1, 5), {0, 0.25f, 0.5f, 0.75f, 1});
  expect_floats(linspace(2, 3, 1), {2});
  EXPECT_EQ(linspace(0, 1, 0).numel(), 0);
  expect_floats(eye(2, 3), {1, 0, 0, 0, 1, 0});
  EXPECT_EQ(full({2}, 2.7, D::i32).to_vector<int>(), list({2, 2}));
  EXPECT_EQ(linspace(0, 1, 101, D::f64).to_vector<double>()[100], 1.0);
}

}  // namespace
}  // namespace hearth::testing
