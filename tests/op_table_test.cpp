// Runs the table of operation cases: every case, on every device there is, in every dtype it takes, with the
// variations that are generated here: layouts of the inputs, sizes, special values, and neighbours to fuse
// with.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cstring>

#include "compare.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "op_cases.h"

namespace hearth::testing {
namespace {

using reference::for_each_position;
using reference::generate;
using reference::Position;

const std::vector<DType> floating_dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16};
const std::vector<DType> integer_dtypes = {DType::bool_, DType::u8,  DType::i8,
                                           DType::i16,   DType::i32, DType::i64};

// ---- making inputs
double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f16:
      return static_cast<float>(float16(static_cast<float>(value)));
    case DType::bf16:
      return static_cast<float>(bfloat16(static_cast<float>(value)));
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f64:
      return value;
    case DType::bool_:
      return value != 0;
    default:
      return std::nearbyint(value);
  }
}

// An integer taken modulo the width of the dtype.
double wrap_to(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::bool_:
      return value != 0;
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    case DType::i8:
      return static_cast<std::int8_t>(value);
    case DType::i16:
      return static_cast<std::int16_t>(value);
    case DType::i32:
      return static_cast<std::int32_t>(value);
    default:
      return static_cast<double>(value);
  }
}

int bits_of(DType dtype) { return dtype == DType::bool_ ? 1 : static_cast<int>(dtype_size(dtype)) * 8; }

// Numbers in a fixed, irregular order, the same everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) {}
  double uniform(Range range) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return range.low + (range.high - range.low) * static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

Array random_array(const Shape& shape, Range range, DType dtype, Numbers& numbers) {
  return generate(shape, [&](const Position&) { return round_to(dtype, numbers.uniform(range)); });
}

Array random_integers(const Shape& shape, Range range, DType dtype, Numbers& numbers) {
  return generate(shape, [&](const Position&) {
    const double value = std::floor(numbers.uniform({range.low, range.high + 1}));
    return dtype == DType::u8 ? std::abs(value) : round_to(dtype, value);
  });
}

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// A dense tensor of these values, which the dtype can hold.
Tensor dense(const Array& array, DType dtype) {
  std::vector<std::byte> bytes;
  for (double v : array.values) switch (dtype) {
      case DType::bool_:
        append(bytes, static_cast<std::uint8_t>(v != 0));
        break;
      case DType::u8:
        append(bytes, static_cast<std::uint8_t>(v));
        break;
      case DType::i8:
        append(bytes, static_cast<std::int8_t>(v));
        break;
      case DType::i16:
        append(bytes, static_cast<std::int16_t>(v));
        break;
      case DType::i32:
        append(bytes, static_cast<std::int32_t>(v));
        break;
      case DType::i64:
        append(bytes, static_cast<std::int64_t>(v));
        break;
      case DType::f16:
        append(bytes, float16(static_cast<float>(v)).bits);
        break;
      case DType::bf16:
        append(bytes, bfloat16(static_cast<float>(v)).bits);
        break;
      case DType::f32:
        append(bytes, static_cast<float>(v));
        break;
      case DType::f64:
        append(bytes, v);
        break;
    }
  return from_bytes(bytes, array.shape, dtype);
}

// ---- layouts: the same values, elsewhere in memory
enum class Layout { contiguous, transposed, sliced, flipped, broadcast };
const std::vector<Layout> layouts = {Layout::contiguous, Layout::transposed, Layout::sliced, Layout::flipped,
                                     Layout::broadcast};

const char* name_of(Layout layout) {
  constexpr const char* names[] = {"contiguous", "transposed", "sliced with a step", "flipped", "broadcast"};
  return names[static_cast<int>(layout)];
}

std::optional<std::size_t> first_long_axis(const Shape& shape) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1) return i;
  return {};
}

// The values a layout can show: a broadcast axis repeats its first element.
Array adapt(const Array& array, Layout layout) {
  const auto axis = first_long_axis(array.shape);
  if (layout != Layout::broadcast || !axis) return array;
  return generate(array.shape, [&](Position p) {
    p[*axis] = 0;
    return array.at(p);
  });
}

Tensor lay_out(const Array& array, Layout layout, DType dtype) {
  const auto& shape = array.shape;
  switch (layout) {
    case Layout::contiguous:
      return dense(array, dtype);
    case Layout::transposed: {
      Axes order;
      for (std::size_t i = shape.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
      return permute(dense(reference::permute(array, order), dtype), order);
    }
    case Layout::sliced: {
      Shape larger = shape;
      for (auto& size : larger) size = 2 * size + 1;
      const double filler = is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : 1;
      Array base = generate(larger, [&](const Position&) { return filler; });
      for_each_position(shape, [&](const Position& p) {
        Position at = p;
        for (auto& i : at) i = 2 * i + 1;
        base.at(at) = array.at(p);
      });
      std::vector<Slice> slices;
      for (auto size : larger) slices.push_back({1, size - 1, 2});
      return slice(dense(base, dtype), slices);
    }
    case Layout::flipped: {
      const Array base = generate(shape, [&](Position p) {
        for (std::size_t i = 0; i < p.size(); ++i) p[i] = shape[i] - 1 - p[i];
        return array.at(p);
      });
      return slice(dense(base, dtype), std::vector<Slice>(shape.size(), Slice{Slice::open, Slice::open, -1}));
    }
    case Layout::broadcast: {
      const auto axis = first_long_axis(shape);
      if (!axis) return dense(array, dtype);
      return broadcast_to(dense(reference::pick(array, static_cast<std::int64_t>(*axis), 0, 1), dtype),
                          shape);
    }
  }
  return {};
}

// ---- surroundings: what stands before and after the operation, for the planner to fuse. Doubling is exact.
enum class Neighbours { none, before, after, both };
const char* name_of(Neighbours neighbours) {
  constexpr const char* names[] = {"alone", "after an addition", "before an addition", "between additions"};
  return names[static_cast<int>(neighbours)];
}

std::string shapes_of(const std::vector<Array>& arrays) {
  std::string text;
  for (const auto& array : arrays) text += (text.empty() ? "" : ", ") + to_string(array.shape);
  return text;
}

// Collects what went wrong in one test; shows the first few.
class Failures {
 public:
  explicit Failures(std::string operation) : operation_(std::move(operation)) {}
  ~Failures() {
    if (count_ > shown) ADD_FAILURE() << operation_ << ": " << count_ - shown << " more variations fail";
  }
  Failures(const Failures&) = delete;
  Failures& operator=(const Failures&) = delete;

  // Runs `check`, which returns what is wrong or nothing, and reports it with `variation`.
  template <typename F>
  void check(const std::string& variation, F check) {
    std::string wrong;
    try {
      wrong = check();
    } catch (const std::exception& error) {
      wrong = std::string("threw: ") + error.what();
    }
    if (!wrong.empty() && ++count_ <= shown)
      ADD_FAILURE() << operation_ << ", " << variation << ": " << wrong;
  }

 private:
  static constexpr int shown = 3;
  std::string operation_;
  int count_ = 0;
};

std::string describe(Device device, DType dtype, const std::vector<Array>& inputs,
                     const std::string& variation) {
  return fmt::format("{}, {}, shapes {}, {}", to_string(device), dtype_name(dtype), shapes_of(inputs),
                     variation);
}

// ---------------------------------------------------------------------------------------------- elementwise
// operations

class ElementwiseTable : public ::testing::TestWithParam<ElementwiseCase> {
 protected:
  const ElementwiseCase& row() const { return GetParam(); }
  const ElementwiseReference& reference() const { return *row().reference; }
  std::size_t arity() const { return row().binary ? 2 : 1; }
  bool has_values() const { return row().reference && reference().value; }

  void SetUp() override {
    ASSERT_NE(row().reference, nullptr)
        << row().name << " of elementwise.inc has no reference in op_cases_elementwise.cpp";
  }

  Array expected(const std::vector<Array>& in) const {
    if (!row().binary) return map(in[0], [&](double x) { return reference().value(x, 0); });
    return zip(in[0], in[1], reference().value);
  }

  DType result_dtype(DType in) const {
    switch (row().rule) {
      case Rule::compare:
      case Rule::logical:
        return DType::bool_;
      case Rule::floating:
        return is_floating(in) ? in : DType::f32;
      case Rule::numeric:
        return in == DType::bool_ ? DType::i64 : in;
      default:
        return in;
    }
  }

  // Half precision computes in f32 and rounds once: half a unit in the last place, and a little for what f32
  // lost.
  std::vector<double> allowed(const Array& values, const std::vector<Array>& in, DType dtype) const {
    const double unit = unit_roundoff(dtype);
    const bool half = dtype == DType::f16 || dtype == DType::bf16;
    const double exact_unit = half ? unit_roundoff(DType::f32) : unit;
    double operand = 0;
    for (const auto& array : in) operand = std::max(operand, largest_finite_magnitude(array.values));
    std::vector<double> result;
    for (double v : values.values) {
      const double size = std::isfinite(v) ? std::abs(v) : 0;
      result.push_back((half ? unit * size : 0) +
                       exact_unit * (reference().roundings * size + reference().cancellation * operand) +
                       underflow(dtype));
    }
    return result;
  }

  // Runs the row on these inputs; says what is wrong.
  std::string compare(const std::vector<Array>& in, const std::vector<Tensor>& tensors, DType dtype,
                      Neighbours neighbours) const {
    const bool before = neighbours == Neighbours::before || neighbours == Neighbours::both;
    const bool after = neighbours == Neighbours::after || neighbours == Neighbours::both;
    std::vector<Tensor> operands = tensors;
    if (before)
      for (auto& x : operands) x = x + x;
    auto got = row().function(operands);
    if (got.dtype() != result_dtype(dtype)) return fmt::format("result is {}", dtype_name(got.dtype()));
    auto doubled = in;
    if (before)
      for (auto& array : doubled)
        for (auto& v : array.values) v *= 2;
    auto want = expected(doubled);
    auto room = allowed(want, doubled, result_dtype(dtype));
    if (after) {
      got = got + got;
      for (auto& v : want.values) v *= 2;
      for (auto& v : room) v *= 2;
    }
    if (got.shape() != want.shape) return fmt::format("shape is {}", to_string(got.shape()));
    return first_difference(got.to_vector<double>(), want.values, want.shape, result_dtype(dtype), room);
  }

  Range range_of(std::size_t operand) const { return operand == 0 ? reference().a : reference().b; }

  std::vector<Array> random_inputs(const std::vector<Shape>& shapes, DType dtype) const {
    Numbers numbers(17);
    std::vector<Array> in;
    for (std::size_t i = 0; i < arity(); ++i)
      in.push_back(random_array(shapes[i % shapes.size()], range_of(i), dtype, numbers));
    return in;
  }
};

TEST_P(ElementwiseTable, ValuesForEverySize) {
  if (!has_values()) GTEST_SKIP() << "integers only";
  Failures failures(row().name);
  const std::vector<Shape> shapes = {{},
                                     {0},
                                     {3, 0, 2},
                                     {1},
                                     {31},
                                     {32},
                                     {33},
                                     {63},
                                     {64},
                                     {65},
                                     {127},
                                     {128},
                                     {129},
                                     {1023},
                                     {1024},
                                     {1025},
                                     {33, 65},
                                     {5, 7, 3},
                                     {2, 1, 3, 2, 2, 1, 3}};
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : floating_dtypes)
      for (const auto& shape : shapes) {
        const auto in = random_inputs({shape}, dtype);
        failures.check(describe(device, dtype, in, "contiguous"), [&] {
          std::vector<Tensor> tensors;
          for (const auto& array : in) tensors.push_back(dense(array, dtype));
          return compare(in, tensors, dtype, Neighbours::none);
        });
      }
  }
}

TEST_P(ElementwiseTable, ValuesForEveryLayout) {
  if (!has_values()) GTEST_SKIP() << "integers only";
  Failures failures(row().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : floating_dtypes)
      for (const auto first : layouts)
        for (const auto second : layouts) {
          if (!row().binary && second != Layout::contiguous) continue;
          auto in = random_inputs({{5, 7, 3}}, dtype);
          in[0] = adapt(in[0], first);
          if (row().binary) in[1] = adapt(in[1], second);
          const auto variation =
              std::string(name_of(first)) + (row().binary ? std::string(" and ") + name_of(second) : "");
          failures.check(describe(device, dtype, in, variation), [&] {
            std::vector<Tensor> tensors = {lay_out(in[0], first, dtype)};
            if (row().binary) tensors.push_back(lay_out(in[1], second, dtype));
            return compare(in, tensors, dtype, Neighbours::none);
          });
        }
  }
}

TEST_P(ElementwiseTable, Broadcasting) {
  if (!has_values() || !row().binary) GTEST_SKIP() << "needs two floating operands";
  Failures failures(row().name);
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{5, 1}, {1, 7}},    {{4}, {3, 4}},      {{3, 4}, {4}},    {{}, {3, 4}}, {{3, 4}, {}},
      {{2, 1, 3}, {4, 1}}, {{1, 33}, {33, 1}}, {{0, 3}, {1, 3}}, {{1}, {0}},   {{2, 3, 1, 2}, {3, 5, 1}}};
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : floating_dtypes)
      for (const auto& [a, b] : pairs) {
        const auto in = random_inputs({a, b}, dtype);
        failures.check(describe(device, dtype, in, "contiguous"), [&, &in = in] {
          return compare(in, {dense(in[0], dtype), dense(in[1], dtype)}, dtype, Neighbours::none);
        });
      }
  }
}

TEST_P(ElementwiseTable, SpecialValues) {
  if (!has_values() || !reference().special) GTEST_SKIP() << "not defined at special values";
  Failures failures(row().name);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : floating_dtypes) {
      const double limit = largest(dtype);
      std::vector<double> values = {nan,  infinity, -infinity, 0.0,    -0.0,    1,        -1,   0.5,
                                    -0.5, 1.5,      2.5,       -2.5,   2,       3,        10,   -10,
                                    20,   -20,      80,        -80,    89,      -89,      110,  -110,
                                    1000, -1000,    limit,     -limit, 0x1p-14, -0x1p-14, 1e-3, 65000};
      if (dtype != DType::f16)
        values.insert(values.end(), {1e10, -1e10, 1e-10, -1e-10, 1e20, 1e-20, 0x1p-126, 1e-30});
      for (auto& v : values) v = round_to(dtype, v);
      const auto count = static_cast<std::int64_t>(values.size());
      std::vector<Array> in = {{{count}, values}};
      if (row().binary) in = {{{count, 1}, values}, {{count}, values}};  // all pairs
      failures.check(describe(device, dtype, in, "special values"), [&] {
        std::vector<Tensor> tensors;
        for (const auto& array : in) tensors.push_back(dense(array, dtype));
        const auto got = row().function(tensors).to_vector<double>();
        const auto want = expected(in);
        const auto room = allowed(want, in, result_dtype(dtype));
        for (std::size_t i = 0; i < got.size(); ++i)
          if (!within(got[i], want.values[i], room[i], largest(result_dtype(dtype)))) {
            const auto a = in[0].values[row().binary ? i / values.size() : i];
            const auto second = row().binary ? fmt::format(", {}", in[1].values[i % values.size()]) : "";
            return fmt::format("{}({}{}) is {}, expected {}, allowed difference {}", row().name, a, second,
                               got[i], want.values[i], room[i]);
          }
        return std::string();
      });
    }
  }
}

TEST_P(ElementwiseTable, Integers) {
  Failures failures(row().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : integer_dtypes) {
      if (dtype == DType::bool_ && row().name.starts_with("shift"))
        continue;  // shifting truth values means nothing
      for (const Shape& shape : {Shape{0}, Shape{1}, Shape{33}, Shape{1025}, Shape{5, 7}}) {
        for (const auto layout : {Layout::contiguous, Layout::sliced}) {
          Numbers numbers(5);
          std::vector<Array> in;
          for (std::size_t i = 0; i < arity(); ++i)
            in.push_back(random_integers(shape, i == 0 ? reference().integer_a : reference().integer_b, dtype,
                                         numbers));
          const auto out = result_dtype(dtype);
          failures.check(describe(device, dtype, in, name_of(layout)), [&] {
            Array want;
            if (reference().integer) {
              const int bits = bits_of(out);
              const auto value = [&](double a, double b) {
                return wrap_to(out, reference().integer(static_cast<std::int64_t>(a),
                                                        static_cast<std::int64_t>(b), bits));
              };
              want =
                  row().binary ? zip(in[0], in[1], value) : map(in[0], [&](double a) { return value(a, 0); });
            } else {
              want = expected(in);
              if (!is_floating(out) && out != DType::bool_)
                for (auto& v : want.values) v = wrap_to(out, static_cast<std::int64_t>(v));
            }
            std::vector<Tensor> tensors;
            for (const auto& array : in) tensors.push_back(lay_out(array, layout, dtype));
            const auto got = row().function(tensors);
            if (got.dtype() != out)
              return fmt::format("result is {}, expected {}", dtype_name(got.dtype()), dtype_name(out));
            const auto room = is_floating(out) ? allowed(want, in, out) : std::vector<double>{0};
            return first_difference(got.to_vector<double>(), want.values, want.shape, out, room);
          });
        }
      }
    }
  }
}

TEST_P(ElementwiseTable, BetweenNeighbours) {
  if (!has_values() || row().rule == Rule::compare || row().rule == Rule::logical)
    GTEST_SKIP() << "no floating result";
  Failures failures(row().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : floating_dtypes)
      for (const auto neighbours : {Neighbours::before, Neighbours::after, Neighbours::both})
        for (const auto layout : layouts) {
          auto in = random_inputs({{33, 5}}, dtype);
          for (auto& array : in) {
            for (auto& v : array.values)
              v = neighbours == Neighbours::after ? v : v / 2;  // exact, and undone
            array = adapt(array, layout);
          }
          failures.check(
              describe(device, dtype, in, std::string(name_of(layout)) + ", " + name_of(neighbours)), [&] {
                std::vector<Tensor> tensors;
                for (const auto& array : in) tensors.push_back(lay_out(array, layout, dtype));
                return compare(in, tensors, dtype, neighbours);
              });
        }
  }
}

TEST_P(ElementwiseTable, BeforeAReduction) {
  if (!has_values() || row().rule == Rule::compare || row().rule == Rule::logical)
    GTEST_SKIP() << "no floating result";
  Failures failures(row().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : {DType::f32, DType::f64})
      for (const auto layout : layouts)
        for (std::int64_t axis : {0, 1}) {
          auto in = random_inputs({{33, 65}}, dtype);
          for (auto& array : in) array = adapt(array, layout);
          failures.check(
              describe(device, dtype, in, fmt::format("{}, summed over axis {}", name_of(layout), axis)),
              [&] {
                std::vector<Tensor> tensors;
                for (const auto& array : in) tensors.push_back(lay_out(array, layout, dtype));
                const auto values = expected(in);
                const auto want = reference::reduce(values, {axis}, false, reference::sum);
                // Up to 65 terms: each may be off by what one value may, and every addition rounds.
                Array room{values.shape, allowed(values, in, dtype)};
                for (std::size_t i = 0; i < room.values.size(); ++i)
                  room.values[i] += 16 * unit_roundoff(dtype) * std::abs(values.values[i]);
                const auto total_room = reference::reduce(room, {axis}, false, reference::sum);
                return first_difference(sum(row().function(tensors), {axis}).to_vector<double>(), want.values,
                                        want.shape, dtype, total_room.values);
              });
        }
  }
}

// d value / d operand at one point by central differences of fourth order, with two steps; NaN where they
// disagree because the function has a corner or a jump there.
double slope(const std::function<double(double)>& f, double x) {
  const auto difference = [&](double h) {
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h);
  };
  const double coarse = difference(2e-3), fine = difference(1e-3);
  return std::abs(coarse - fine) <= 1e-7 * (1 + std::abs(fine)) ? fine
                                                                : std::numeric_limits<double>::quiet_NaN();
}

TEST_P(ElementwiseTable, Gradient) {
  if (!row().has_gradient_a && !row().has_gradient_b) GTEST_SKIP() << "no gradient";
  Failures failures(row().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto layout : {Layout::contiguous, Layout::transposed, Layout::sliced, Layout::flipped}) {
      // The numbers are f32 so that both dtypes see the same.
      const auto in = random_inputs({{6, 11}}, DType::f32);
      Numbers numbers(3);
      const auto seed = random_array({6, 11}, {-1, 1}, DType::f32, numbers);
      const auto gradients_in = [&](DType dtype) {
        std::vector<Tensor> leaves;
        for (const auto& array : in) leaves.push_back(lay_out(array, layout, dtype).requires_grad_());
        std::vector<std::vector<double>> result;
        for (const auto& gradient : gradients(row().function(leaves), leaves, dense(seed, dtype)))
          result.push_back(gradient.to_vector<double>());
        return result;
      };
      for (std::size_t operand = 0; operand < arity(); ++operand) {
        if (!(operand == 0 ? row().has_gradient_a : row().has_gradient_b)) continue;
        const auto variation = fmt::format("gradient of operand {}, {}", operand, name_of(layout));
        std::vector<double> want;
        std::size_t corners = 0;
        for (std::size_t i = 0; i < seed.values.size(); ++i) {
          const double other = row().binary ? in[1 - operand].values[i] : 0;
          const double at_point = slope(
              [&](double x) {
                return operand == 0 ? reference().value(x, other) : reference().value(other, x);
              },
              in[operand].values[i]);
          corners += std::isnan(at_point);
          want.push_back(at_point * seed.values[i]);
        }
        ASSERT_LT(corners, want.size() / 3) << row().name << " has too many corners to check its gradient";
        failures.check(describe(device, DType::f64, in, variation), [&] {
          auto got = gradients_in(DType::f64)[operand];
          for (std::size_t i = 0; i < got.size(); ++i)
            if (std::isnan(want[i])) got[i] = want[i];  // a corner
          return first_difference(got, want, seed.shape, DType::f64,
                                  {1e-7 * (1 + largest_finite_magnitude(want))});
        });
        failures.check(describe(device, DType::f32, in, variation + " against f64"), [&] {
          const auto exact = gradients_in(DType::f64)[operand];
          // The rules are formulas of a few steps, some of which subtract (1 - y * y).
          std::vector<double> room;
          for (double v : exact)
            room.push_back(16 * unit_roundoff(DType::f32) * (std::abs(v) + largest_finite_magnitude(exact)));
          return first_difference(gradients_in(DType::f32)[operand], exact, seed.shape, DType::f32, room);
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ElementwiseTable, ::testing::ValuesIn(elementwise_cases()),
                         [](const auto& parameter) { return parameter.param.name; });

// ------------------------------------------------------------------------------------------------ all other
// operations

class OpTable : public ::testing::TestWithParam<OpCase> {
 protected:
  const OpCase& entry() const { return GetParam(); }

  static bool is_data(const Input& input) {
    return input.kind == Kind::floating || input.kind == Kind::constant;
  }

  static DType dtype_of_input(const Input& input, DType dtype) {
    return input.kind == Kind::index ? DType::i64 : input.kind == Kind::condition ? DType::bool_ : dtype;
  }

  std::vector<Array> make_inputs(DType dtype, Layout layout) const {
    Numbers numbers(23);
    std::vector<Array> in;
    for (const auto& input : entry().inputs) {
      if (input.kind == Kind::index)
        in.push_back(
            random_integers(input.shape, {input.range.low, input.range.high - 1}, DType::i64, numbers));
      else if (input.kind == Kind::condition)
        in.push_back(random_integers(input.shape, {0, 1}, DType::bool_, numbers));
      else if (is_floating(dtype))
        in.push_back(random_array(input.shape, input.range, dtype, numbers));
      else
        in.push_back(random_integers(input.shape, {-3, 3}, dtype, numbers));
      in.back() = adapt(in.back(), layout);
    }
    return in;
  }

  std::vector<Tensor> make_tensors(const std::vector<Array>& in, DType dtype, Layout layout) const {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < in.size(); ++i)
      tensors.push_back(lay_out(in[i], layout, dtype_of_input(entry().inputs[i], dtype)));
    return tensors;
  }

  std::vector<double> allowed(const Array& want, const std::vector<Array>& in, DType dtype) const {
    std::vector<double> room(want.values.size(), 0.0);
    if (!is_floating(dtype)) return room;
    const auto accumulator = dtype == DType::f64 ? DType::f64 : DType::f32;
    auto magnitudes = in;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (is_data(entry().inputs[i]))
        for (auto& v : magnitudes[i].values) v = std::abs(v);
    const auto terms = entry().accumulation != 0 ? entry().reference(magnitudes) : want;
    const double scale = largest_finite_magnitude(want.values);
    for (std::size_t i = 0; i < room.size(); ++i) {
      room[i] =
          unit_roundoff(dtype) * (entry().roundings * std::abs(want.values[i]) + entry().scale * scale) +
          unit_roundoff(accumulator) * entry().accumulation * std::abs(terms.values[i]);
      if (entry().roundings != 0) room[i] += underflow(dtype);
      if (!std::isfinite(room[i])) room[i] = 0;
    }
    return room;
  }

  bool small_enough_to_differentiate() const {
    std::int64_t count = 0;
    for (const auto& input : entry().inputs) count += element_count(input.shape);
    return count > 0 && count <= 200;
  }
};

TEST_P(OpTable, ValuesForEveryLayout) {
  Failures failures(entry().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : floating_dtypes)
      for (const auto layout : layouts) {
        const auto in = make_inputs(dtype, layout);
        failures.check(describe(device, dtype, in, name_of(layout)), [&] {
          const auto want = entry().reference(in);
          const auto got = entry().function(make_tensors(in, dtype, layout));
          if (got.shape() != want.shape)
            return fmt::format("shape is {}, expected {}", to_string(got.shape()), to_string(want.shape));
          return first_difference(got.to_vector<double>(), want.values, want.shape, dtype,
                                  allowed(want, in, got.dtype()));
        });
      }
  }
}

TEST_P(OpTable, Integers) {
  if (!entry().integers) GTEST_SKIP() << "floating only";
  Failures failures(entry().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto dtype : integer_dtypes)
      for (const auto layout : {Layout::contiguous, Layout::sliced}) {
        const auto in = make_inputs(dtype, layout);
        failures.check(describe(device, dtype, in, name_of(layout)), [&] {
          const auto got = entry().function(make_tensors(in, dtype, layout));
          auto want = entry().reference(in);
          if (got.shape() != want.shape)
            return fmt::format("shape is {}, expected {}", to_string(got.shape()), to_string(want.shape));
          if (is_floating(got.dtype())) return fmt::format("result is {}", dtype_name(got.dtype()));
          for (auto& v : want.values)
            if (std::abs(v) < 0x1p62) v = wrap_to(got.dtype(), static_cast<std::int64_t>(v));
          return first_difference(got.to_vector<double>(), want.values, want.shape, got.dtype(), {0});
        });
      }
  }
}

TEST_P(OpTable, BetweenNeighbours) {
  Failures failures(entry().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto layout : {Layout::contiguous, Layout::transposed}) {
      const auto dtype = DType::f32;
      const auto in = make_inputs(dtype, layout);
      failures.check(
          describe(device, dtype, in, std::string(name_of(layout)) + ", between additions and summed"), [&] {
            auto halves = in;
            for (std::size_t i = 0; i < in.size(); ++i)
              if (is_data(entry().inputs[i]))
                for (auto& v : halves[i].values) v /= 2;
            auto tensors = make_tensors(halves, dtype, layout);
            for (std::size_t i = 0; i < in.size(); ++i)
              if (is_data(entry().inputs[i])) tensors[i] = tensors[i] + tensors[i];
            const auto result = entry().function(tensors);
            const auto doubled = result + result;
            auto want = entry().reference(in);
            auto room = allowed(want, in, result.dtype());
            const double total = reference::sum(want.values);
            double total_room = 0;
            for (std::size_t i = 0; i < room.size(); ++i)
              total_room += room[i] + 32 * unit_roundoff(DType::f32) * std::abs(want.values[i]);
            for (std::size_t i = 0; i < room.size(); ++i) want.values[i] *= 2, room[i] *= 2;
            // In one plan, so that the result has three readers.
            const auto summed = sum(result);
            eval({doubled, summed});
            const auto wrong =
                first_difference(doubled.to_vector<double>(), want.values, want.shape, dtype, room);
            if (!wrong.empty() || !std::isfinite(total)) return wrong;
            const auto wrong_sum =
                first_difference(summed.to_vector<double>(), {total}, {}, dtype, {total_room});
            return wrong_sum.empty() ? wrong_sum : "sum of the result " + wrong_sum;
          });
    }
  }
}

TEST_P(OpTable, Gradient) {
  if (!entry().differentiable || !small_enough_to_differentiate()) GTEST_SKIP() << "no gradient, or large";
  Failures failures(entry().name);
  for (const auto device : devices()) {
    const OnDevice here(device);
    for (const auto layout : {Layout::contiguous, Layout::transposed, Layout::sliced, Layout::flipped}) {
      const auto in = make_inputs(DType::f32, layout);
      Numbers numbers(29);
      const auto result_shape = entry().reference(in).shape;
      const auto seed = random_array(result_shape, {-1, 1}, DType::f32, numbers);
      const auto gradients_in = [&](DType dtype) {
        auto tensors = make_tensors(in, dtype, layout);
        std::vector<Tensor> leaves;
        for (std::size_t i = 0; i < in.size(); ++i)
          if (entry().inputs[i].kind == Kind::floating) leaves.push_back(tensors[i].requires_grad_());
        std::vector<std::vector<double>> result;
        for (const auto& gradient : gradients(entry().function(tensors), leaves, dense(seed, dtype)))
          result.push_back(gradient.to_vector<double>());
        return result;
      };
      // The sum of result * seed as a function of one element of one input.
      const auto objective = [&](std::size_t input, std::size_t element, double value) {
        auto changed = in;
        changed[input].values[element] = value;
        const auto result = entry().reference(changed);
        double total = 0;
        for (std::size_t i = 0; i < result.values.size(); ++i) total += result.values[i] * seed.values[i];
        return total;
      };
      std::size_t leaf = 0;
      for (std::size_t input = 0; input < in.size(); ++input) {
        if (entry().inputs[input].kind != Kind::floating) continue;
        const auto variation = fmt::format("gradient of input {}, {}", input, name_of(layout));
        std::vector<double> want;
        std::size_t corners = 0;
        for (std::size_t i = 0; i < in[input].values.size(); ++i) {
          want.push_back(slope([&](double x) { return objective(input, i, x); }, in[input].values[i]));
          corners += std::isnan(want.back());
        }
        ASSERT_LE(corners, want.size() / 3) << entry().name << " has too many corners to check its gradient";
        failures.check(describe(device, DType::f64, in, variation), [&] {
          auto got = gradients_in(DType::f64).at(leaf);
          for (std::size_t i = 0; i < got.size(); ++i)
            if (std::isnan(want[i])) got[i] = want[i];
          return first_difference(got, want, in[input].shape, DType::f64,
                                  {1e-7 * (1 + largest_finite_magnitude(want))});
        });
        failures.check(describe(device, DType::f32, in, variation + " against f64"), [&] {
          const auto exact = gradients_in(DType::f64).at(leaf);
          std::vector<double> room;
          for (double v : exact)
            room.push_back(32 * unit_roundoff(DType::f32) * (std::abs(v) + largest_finite_magnitude(exact)));
          return first_difference(gradients_in(DType::f32).at(leaf), exact, in[input].shape, DType::f32,
                                  room);
        });
        ++leaf;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpTable, ::testing::ValuesIn(op_cases()), [](const auto& parameter) {
  std::string name = std::to_string(10000 + parameter.index).substr(1) + "_";
  for (char c : parameter.param.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace hearth::testing
