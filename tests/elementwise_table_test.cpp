// Runs the rows of elementwise.inc on every device there is: values for every size, layout, dtype and special
// number, alone and fused with neighbours; gradients against central differences.
#include <map>

#include "test_devices.h"
#include "variations.h"

namespace hearth::testing {
namespace {

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
    const auto magnitude =
        row().binary
            ? zip(in[0], in[1], [](double a, double b) { return std::max(std::abs(a), std::abs(b)); })
            : map(in[0], [](double x) { return std::abs(x); });
    std::vector<double> result;
    for (std::size_t i = 0; i < values.values.size(); ++i) {
      const double v = values.values[i], operand = magnitude.values[i];
      const double size = std::isfinite(v) ? std::abs(v) : 0;
      const double cancelled =
          reference().cancellation != 0 && std::isfinite(operand) ? reference().cancellation * operand : 0;
      result.push_back((half ? unit * size : 0) + exact_unit * (reference().roundings * size + cancelled) +
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

  std::vector<double> special_values(DType dtype) const {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                     infinity = std::numeric_limits<double>::infinity();
    const double limit = largest(dtype);
    std::vector<double> values = {nan,  infinity, -infinity, 0.0,    -0.0,    1,        -1,   0.5,
                                  -0.5, 1.5,      2.5,       -2.5,   2,       3,        10,   -10,
                                  20,   -20,      80,        -80,    89,      -89,      110,  -110,
                                  1000, -1000,    limit,     -limit, 0x1p-14, -0x1p-14, 1e-3, 65000};
    if (dtype != DType::f16)
      values.insert(values.end(), {1e10, -1e10, 1e-10, -1e-10, 1e20, 1e-20, 0x1p-126, 1e-30});
    for (auto& v : values) v = round_to(dtype, v);
    std::erase_if(values,
                  [&](double v) { return std::isfinite(v) && std::abs(v) > reference().special_limit; });
    return values;
  }

  // Of integer operands, in the dtype of the result.
  Array expected_of_integers(const std::vector<Array>& in, DType out) const {
    if (reference().integer) {
      const auto value = [&](double a, double b) {
        return wrap_to(out, reference().integer(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b),
                                                bits_of(out)));
      };
      return row().binary ? zip(in[0], in[1], value) : map(in[0], [&](double a) { return value(a, 0); });
    }
    auto want = expected(in);
    if (!is_floating(out) && out != DType::bool_)
      for (auto& v : want.values) v = wrap_to(out, static_cast<std::int64_t>(v));
    return want;
  }

  // Shifting truth values means nothing.
  bool takes(DType dtype) const { return dtype != DType::bool_ || !row().name.starts_with("shift"); }
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
  for (const auto device : tested_devices()) {
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
  for (const auto device : tested_devices()) {
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
  for (const auto device : tested_devices()) {
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
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    for (const auto dtype : floating_dtypes) {
      const auto values = special_values(dtype);
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
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    for (const auto dtype : integer_dtypes) {
      if (!takes(dtype)) continue;
      for (const Shape& shape : {Shape{0}, Shape{1}, Shape{33}, Shape{1025}, Shape{5, 7}}) {
        for (const auto layout : {Layout::contiguous, Layout::sliced}) {
          Numbers numbers(5);
          std::vector<Array> in;
          for (std::size_t i = 0; i < arity(); ++i)
            in.push_back(random_integers(shape, i == 0 ? reference().integer_a : reference().integer_b, dtype,
                                         numbers));
          const auto out = result_dtype(dtype);
          failures.check(describe(device, dtype, in, name_of(layout)), [&] {
            const Array want = expected_of_integers(in, out);
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
  for (const auto device : tested_devices()) {
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
  for (const auto device : tested_devices()) {
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

TEST_P(ElementwiseTable, Gradient) {
  if (!row().has_gradient_a && !row().has_gradient_b) GTEST_SKIP() << "no gradient";
  Failures failures(row().name);
  for (const auto device : tested_devices()) {
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
            room.push_back(32 * unit_roundoff(DType::f32) * (std::abs(v) + largest_finite_magnitude(exact)));
          return first_difference(gradients_in(DType::f32)[operand], exact, seed.shape, DType::f32, room);
        });
      }
    }
  }
}

// All dtypes in one plan: they are cast from one value, so that the planner makes one kernel, or a few, of
// it. That is what runs on emulated chips, where each kernel costs a compilation.
class ElementwiseInOnePlan : public ElementwiseTable {
 protected:
  // What casting these numbers gives.
  static std::vector<Array> cast_to(DType dtype, std::vector<Array> in) {
    for (auto& array : in)
      for (auto& v : array.values)
        v = is_floating(dtype) ? round_to(dtype, v) : wrap_to(dtype, static_cast<std::int64_t>(v));
    return in;
  }
  static std::vector<Tensor> cast_to(DType dtype, std::vector<Tensor> tensors) {
    for (auto& tensor : tensors) tensor = tensor.to(dtype);
    return tensors;
  }
  // The same numbers, computed: what reads a leaf need not be one kernel. (Not multiplied by 1: LLVM 19 makes
  // +0 of a product of -0 that is rounded to f16 on gfx1100.)
  static std::vector<Tensor> computed(std::vector<Tensor> tensors) {
    for (auto& tensor : tensors) tensor = tensor - 0;
    return tensors;
  }
  static std::vector<Tensor> leaves(const std::vector<Array>& in, DType dtype) {
    std::vector<Tensor> result;
    for (const auto& array : in) result.push_back(dense(array, dtype));
    return result;
  }

  // Numbers of the row's range, then every special number (with every other, if there are two operands).
  std::vector<Array> floating_inputs() const {
    auto in = random_inputs({{64}}, DType::f32);
    if (reference().special) {
      const auto special = special_values(DType::f32);
      for (double a : special)
        for (double b : row().binary ? special : std::vector<double>{0}) {
          in[0].values.push_back(a);
          if (row().binary) in[1].values.push_back(b);
        }
    }
    for (auto& array : in) array.shape = {static_cast<std::int64_t>(array.values.size())};
    return in;
  }

  static constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16};
};

TEST_P(ElementwiseInOnePlan, Values) {
  if (!has_values()) GTEST_SKIP() << "integers only";
  Failures failures(row().name);
  const auto in = floating_inputs();
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto tensors = computed(leaves(in, DType::f32));
    std::vector<Tensor> results;
    for (const auto dtype : dtypes) results.push_back(row().function(cast_to(dtype, tensors)));
    eval(results);
    for (std::size_t i = 0; i < results.size(); ++i)
      failures.check(describe(device, dtypes[i], in, "in one plan"), [&] {
        const auto rounded = cast_to(dtypes[i], in);
        const auto want = expected(rounded);
        const auto out = result_dtype(dtypes[i]);
        if (results[i].dtype() != out) return fmt::format("result is {}", dtype_name(results[i].dtype()));
        return first_difference(values_of(results[i]), want.values, want.shape, out,
                                allowed(want, rounded, out));
      });
  }
}

TEST_P(ElementwiseInOnePlan, Integers) {
  if (row().rule == Rule::floating) GTEST_SKIP() << "computed in f32";
  Failures failures(row().name);
  Numbers numbers(5);
  std::vector<Array> in;
  for (std::size_t i = 0; i < arity(); ++i)
    in.push_back(
        random_integers({129}, i == 0 ? reference().integer_a : reference().integer_b, DType::i64, numbers));
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    const auto tensors = computed(leaves(in, DType::i64));
    std::map<DType, Tensor> results;
    for (const auto dtype : integer_dtypes)
      if (takes(dtype)) results[dtype] = row().function(cast_to(dtype, tensors));
    std::vector<Tensor> all;
    for (const auto& [dtype, result] : results) all.push_back(result);
    eval(all);
    for (const auto& [dtype, result] : results)
      failures.check(describe(device, dtype, in, "in one plan"), [&, dtype = dtype, &result = result] {
        const auto operands = cast_to(dtype, in);
        const auto out = result_dtype(dtype);
        if (result.dtype() != out) return fmt::format("result is {}", dtype_name(result.dtype()));
        const auto want = expected_of_integers(operands, out);
        const auto room = is_floating(out) ? allowed(want, operands, out) : std::vector<double>{0};
        return first_difference(values_of(result), want.values, want.shape, out, room);
      });
  }
}

TEST_P(ElementwiseInOnePlan, Gradient) {
  if (!row().has_gradient_a && !row().has_gradient_b) GTEST_SKIP() << "no gradient";
  Failures failures(row().name);
  const auto in = random_inputs({{6, 11}}, DType::f32);
  Numbers numbers(3);
  const auto seed = random_array({6, 11}, {-1, 1}, DType::f32, numbers);
  // At what the dtype makes of the numbers, in f64 on the CPU: Gradient above compares that with differences.
  const auto exact = [&](DType dtype) {
    const OnDevice here(Device{});
    auto at = leaves(cast_to(dtype, in), DType::f64);
    for (auto& leaf : at) leaf.requires_grad_();
    std::vector<std::vector<double>> result;
    for (const auto& gradient :
         gradients(row().function(at), at, dense(cast_to(dtype, {seed})[0], DType::f64)))
      result.push_back(values_of(gradient));
    return result;
  };
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    auto at = leaves(in, DType::f32);
    for (auto& leaf : at) leaf.requires_grad_();
    const auto operands = computed(at);
    std::vector<Tensor> found;  // for each dtype one per operand
    for (const auto dtype : dtypes)
      for (auto& gradient :
           gradients(row().function(cast_to(dtype, operands)), at, dense(seed, DType::f32).to(dtype)))
        found.push_back(gradient);
    eval(found);
    for (std::size_t i = 0; i < std::size(dtypes); ++i)
      for (std::size_t operand = 0; operand < arity(); ++operand) {
        if (!(operand == 0 ? row().has_gradient_a : row().has_gradient_b)) continue;
        failures.check(describe(device, dtypes[i], in, fmt::format("gradient of operand {}", operand)), [&] {
          const auto want = exact(dtypes[i])[operand];
          // A few steps, as above. Halves are computed finer and rounded after each.
          const double units = dtype_size(dtypes[i]) == 2 ? 8 : 32;
          std::vector<double> room;
          for (double v : want)
            room.push_back(units * unit_roundoff(dtypes[i]) * (std::abs(v) + largest_finite_magnitude(want)) +
                           underflow(dtypes[i]));
          return first_difference(values_of(found[i * arity() + operand]), want, seed.shape, dtypes[i], room);
        });
      }
  }
}

const auto name_of_row = [](const auto& parameter) { return parameter.param.name; };
INSTANTIATE_TEST_SUITE_P(All, ElementwiseTable, ::testing::ValuesIn(elementwise_cases()), name_of_row);
INSTANTIATE_TEST_SUITE_P(All, ElementwiseInOnePlan, ::testing::ValuesIn(elementwise_cases()), name_of_row);

}  // namespace
}  // namespace hearth::testing
