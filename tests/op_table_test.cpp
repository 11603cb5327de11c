// Runs the case table on every device there is: values for every layout and dtype, alone and fused with
// neighbours; gradients against central differences.
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
    return count > 0 && count <= 120;
  }
};

TEST_P(OpTable, ValuesForEveryLayout) {
  Failures failures(entry().name);
  for (const auto device : tested_devices()) {
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
  for (const auto device : tested_devices()) {
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
  for (const auto device : tested_devices()) {
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
  // f32 numbers, so that both dtypes see the same; the same for every layout.
  const auto in = make_inputs(DType::f32, Layout::contiguous);
  Numbers numbers(29);
  const auto seed = random_array(entry().reference(in).shape, {-1, 1}, DType::f32, numbers);
  // The sum of result * seed as a function of one element of one input.
  const auto objective = [&](std::size_t input, std::size_t element, double value) {
    auto changed = in;
    changed[input].values[element] = value;
    const auto result = entry().reference(changed);
    double total = 0;
    for (std::size_t i = 0; i < result.values.size(); ++i) total += result.values[i] * seed.values[i];
    return total;
  };
  std::vector<std::size_t> differentiated;
  std::vector<std::vector<double>> expected;
  for (std::size_t input = 0; input < in.size(); ++input) {
    if (entry().inputs[input].kind != Kind::floating) continue;
    differentiated.push_back(input);
    auto& want = expected.emplace_back();
    for (std::size_t i = 0; i < in[input].values.size(); ++i)
      want.push_back(slope([&](double x) { return objective(input, i, x); }, in[input].values[i]));
    const auto corners = std::count_if(want.begin(), want.end(), [](double v) { return std::isnan(v); });
    ASSERT_LE(static_cast<std::size_t>(corners), want.size() / 3)
        << entry().name << " has too many corners to check its gradient";
  }
  for (const auto device : tested_devices()) {
    const OnDevice here(device);
    for (const auto layout : {Layout::contiguous, Layout::transposed, Layout::sliced, Layout::flipped}) {
      const auto gradients_in = [&](DType dtype) {
        auto tensors = make_tensors(in, dtype, layout);
        std::vector<Tensor> leaves;
        for (auto input : differentiated) leaves.push_back(tensors[input].requires_grad_());
        std::vector<std::vector<double>> result;
        for (const auto& gradient : gradients(entry().function(tensors), leaves, dense(seed, dtype)))
          result.push_back(gradient.to_vector<double>());
        return result;
      };
      std::vector<std::vector<double>> exact;
      failures.check(describe(device, DType::f64, in, std::string("gradients, ") + name_of(layout)), [&] {
        exact = gradients_in(DType::f64);
        for (std::size_t k = 0; k < differentiated.size(); ++k) {
          auto got = exact.at(k);
          for (std::size_t i = 0; i < got.size(); ++i)
            if (std::isnan(expected[k][i])) got[i] = expected[k][i];  // a corner
          const auto wrong = first_difference(got, expected[k], in[differentiated[k]].shape, DType::f64,
                                              {1e-7 * (1 + largest_finite_magnitude(expected[k]))});
          if (!wrong.empty()) return fmt::format("input {} {}", differentiated[k], wrong);
        }
        return std::string();
      });
      failures.check(
          describe(device, DType::f32, in, std::string("gradients against f64, ") + name_of(layout)), [&] {
            const auto found = gradients_in(DType::f32);
            for (std::size_t k = 0; k < differentiated.size(); ++k) {
              // A chain of steps, some of which subtract.
              std::vector<double> room;
              for (double v : exact.at(k))
                room.push_back(32 * unit_roundoff(DType::f32) *
                               (std::abs(v) + largest_finite_magnitude(exact[k])));
              const auto wrong =
                  first_difference(found.at(k), exact[k], in[differentiated[k]].shape, DType::f32, room);
              if (!wrong.empty()) return fmt::format("input {} {}", differentiated[k], wrong);
            }
            return std::string();
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
