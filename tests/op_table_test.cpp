// Runs the case table on every device there is: values for every layout and dtype, alone and fused with
// neighbours; gradients against central differences.
#include <numeric>

#include "test_devices.h"
#include "variations.h"

namespace hearth::testing {
namespace {

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
    const auto terms = entry().accumulation == 0 ? want
                       : entry().magnitude       ? entry().magnitude(in)
                                                 : entry().reference(magnitudes);
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
    return count <= 120;
  }

  std::vector<std::size_t> differentiated_inputs() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < entry().inputs.size(); ++i)
      if (entry().inputs[i].kind == Kind::floating) found.push_back(i);
    return found;
  }

  // A point to differentiate at, of numbers that the dtype can hold, and what the result is weighed with.
  struct Point {
    std::vector<Array> in;
    Array seed;
  };
  Point point(DType dtype) const {
    Point result{make_inputs(dtype, Layout::contiguous), {}};
    Numbers numbers(29);
    result.seed = random_array(entry().reference(result.in).shape, {-1, 1}, dtype, numbers);
    return result;
  }

  // The result there, and the gradient of the sum of result * seed for each differentiated input; in one
  // plan.
  struct Derivative {
    std::vector<double> value;
    std::vector<std::vector<double>> gradients;
  };
  Derivative derivative(const Point& at, DType dtype, Layout layout) const {
    auto tensors = make_tensors(at.in, dtype, layout);
    std::vector<Tensor> leaves;
    for (auto input : differentiated_inputs()) leaves.push_back(tensors[input].requires_grad_());
    const Tensor result = entry().function(tensors);
    std::vector<Tensor> all = gradients(result, leaves, dense(at.seed, dtype));
    all.push_back(result);
    eval(all);
    all.pop_back();
    Derivative found{values_of(result), {}};
    for (const auto& gradient : all) found.gradients.push_back(values_of(gradient));
    return found;
  }

  // The gradients by central differences of the reference; NaN where it has a corner.
  std::vector<std::vector<double>> slopes_at(const Point& at) const {
    std::vector<std::vector<double>> result;
    for (auto input : differentiated_inputs()) {
      auto& slopes = result.emplace_back();
      for (std::size_t i = 0; i < at.in[input].values.size(); ++i)
        slopes.push_back(slope(
            [&](double x) {
              auto changed = at.in;
              changed[input].values[i] = x;
              const auto values = entry().reference(changed).values;
              return std::inner_product(values.begin(), values.end(), at.seed.values.begin(), 0.0);
            },
            at.in[input].values[i]));
    }
    return result;
  }
};

TEST_P(OpTable, ValuesForEveryLayout) {
  Failures failures(entry().name);
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    for (const auto& [dtype, layout] : floating_variations(entry())) {
      const auto in = make_inputs(dtype, layout);
      failures.check(describe(device, dtype, in, name_of(layout)), [&, dtype = dtype, layout = layout] {
        const auto want = entry().reference(in);
        const auto got = entry().function(make_tensors(in, dtype, layout));
        if (got.shape() != want.shape)
          return fmt::format("shape is {}, expected {}", to_string(got.shape()), to_string(want.shape));
        return first_difference(values_of(got), want.values, want.shape, dtype,
                                allowed(want, in, got.dtype()));
      });
    }
  }
}

TEST_P(OpTable, Integers) {
  if (!entry().integers) GTEST_SKIP() << "floating only";
  Failures failures(entry().name);
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    for (const auto& [dtype, layout] : integer_variations()) {
      const auto in = make_inputs(dtype, layout);
      failures.check(describe(device, dtype, in, name_of(layout)), [&, dtype = dtype, layout = layout] {
        const auto got = entry().function(make_tensors(in, dtype, layout));
        auto want = entry().reference(in);
        if (got.shape() != want.shape)
          return fmt::format("shape is {}, expected {}", to_string(got.shape()), to_string(want.shape));
        if (is_floating(got.dtype())) return fmt::format("result is {}", dtype_name(got.dtype()));
        for (auto& v : want.values)
          if (std::abs(v) < 0x1p62) v = wrap_to(got.dtype(), static_cast<std::int64_t>(v));
        return first_difference(values_of(got), want.values, want.shape, got.dtype(), {0});
      });
    }
  }
}

TEST_P(OpTable, BetweenNeighbours) {
  Failures failures(entry().name);
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    for (const auto layout : {Layout::contiguous, Layout::transposed}) {
      if (brief() && layout != Layout::contiguous) continue;
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
            const auto wrong = first_difference(values_of(doubled), want.values, want.shape, dtype, room);
            if (!wrong.empty() || !std::isfinite(total)) return wrong;
            const auto wrong_sum = first_difference(values_of(summed), {total}, {}, dtype, {total_room});
            return wrong_sum.empty() ? wrong_sum : "sum of the result " + wrong_sum;
          });
    }
  }
}

// Gradients in f64 on the CPU are compared with central differences, all others with those.
TEST_P(OpTable, Gradient) {
  if (!entry().differentiable || !small_enough_to_differentiate()) GTEST_SKIP() << "no gradient, or large";
  Failures failures(entry().name);
  const auto inputs = differentiated_inputs();
  const auto compare = [&](const auto& got, const auto& want, DType dtype, const auto& allowed_for) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const auto& shape = entry().inputs[inputs[k]].shape;
      const auto wrong = first_difference(got.at(k), want.at(k), shape, dtype, allowed_for(want[k]));
      if (!wrong.empty()) return fmt::format("gradient of input {} {}", inputs[k], wrong);
    }
    return std::string();
  };
  const auto exact = [&](const Point& at) {
    const OnDevice here(Device{});
    return derivative(at, DType::f64, Layout::contiguous).gradients;
  };
  const Point middle = point(DType::f64);
  failures.check(describe(Device{}, DType::f64, middle.in, "against differences"), [&] {
    const auto slopes = slopes_at(middle);
    auto got = exact(middle);
    for (std::size_t k = 0; k < slopes.size(); ++k) {
      std::size_t corners = 0;
      for (std::size_t i = 0; i < slopes[k].size(); ++i)
        if (std::isnan(slopes[k][i])) got.at(k).at(i) = slopes[k][i], ++corners;
      if (corners > slopes[k].size() / 3) return std::string("has too many corners to be checked");
    }
    return compare(got, slopes, DType::f64, [](const auto& want) {
      return std::vector<double>{1e-7 * (1 + largest_finite_magnitude(want))};
    });
  });
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    for (const auto& [dtype, layout] : gradient_variations(entry())) {
      const Point at = point(dtype);
      failures.check(
          describe(device, dtype, at.in, std::string("with gradients, ") + name_of(layout)),
          [&, dtype = dtype, layout = layout] {
            const auto got = derivative(at, dtype, layout);
            const auto value = entry().reference(at.in);
            const auto wrong =
                first_difference(got.value, value.values, value.shape, dtype, allowed(value, at.in, dtype));
            if (!wrong.empty()) return wrong;
            // A chain of steps, some of which subtract. Halves are computed finer and rounded after each.
            const double units = dtype_size(dtype) == 2 ? 8 : 32;
            return compare(got.gradients, exact(at), dtype, [&](const auto& want) {
              std::vector<double> room;
              for (double v : want)
                room.push_back(units * unit_roundoff(dtype) * (std::abs(v) + largest_finite_magnitude(want)) +
                               underflow(dtype));
              return room;
            });
          });
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
