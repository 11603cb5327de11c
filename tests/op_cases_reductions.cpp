// Case table: reductions and what works along one axis.
#include "op_case_table.h"

namespace hearth::testing {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string text_of(const Axes& axes) {
  std::string text;
  for (auto axis : axes) text += (text.empty() ? "" : ",") + std::to_string(axis);
  return axes.empty() ? "all" : text;
}

// How far a running sum may be off, in roundings of the sum of the terms' magnitudes: each addition rounds a
// partial sum, which is half the total on average.
double of_terms(std::int64_t count) { return std::max(16.0, static_cast<double>(count) / 2); }

}  // namespace

// clang-format off
void add_reductions(Table& table) {
  using List = const std::vector<double>&;
  struct Reduction {
    const char* name;
    std::function<Tensor(const Tensor&, const Axes&, bool)> function;
    std::function<double(List)> reference;
    bool accumulates = true;
    bool needs_elements = false;  // there is nothing to return for an empty list
    bool differentiable = true;
    bool integers = false;
    Range range{-2, 2};
    std::function<double(List)> magnitude = nullptr;
  };
  const auto mean_square = [](List v) { const double n = reference::norm(v, 2); return n * n / static_cast<double>(std::max<std::size_t>(v.size(), 1)); };
  const std::vector<Reduction> reductions = {
    {.name = "sum", .function = [](auto& x, auto& a, bool k) { return hearth::sum(x, a, k); }, .reference = reference::sum, .integers = true},
    {.name = "mean", .function = [](auto& x, auto& a, bool k) { return hearth::mean(x, a, k); }, .reference = reference::mean},
    {.name = "prod", .function = [](auto& x, auto& a, bool k) { return hearth::prod(x, a, k); }, .reference = reference::prod, .integers = true, .range = {0.9, 1.1}},
    {.name = "max", .function = [](auto& x, auto& a, bool k) { return hearth::max(x, a, k); }, .reference = reference::max, .accumulates = false, .needs_elements = true, .integers = true},
    {.name = "min", .function = [](auto& x, auto& a, bool k) { return hearth::min(x, a, k); }, .reference = reference::min, .accumulates = false, .needs_elements = true, .integers = true},
    {.name = "all", .function = [](auto& x, auto& a, bool k) { return hearth::all(x, a, k); }, .reference = [](List v) { return std::all_of(v.begin(), v.end(), [](double e) { return e != 0; }); }, .accumulates = false, .differentiable = false, .integers = true},
    {.name = "any", .function = [](auto& x, auto& a, bool k) { return hearth::any(x, a, k); }, .reference = [](List v) { return std::any_of(v.begin(), v.end(), [](double e) { return e != 0; }); }, .accumulates = false, .differentiable = false, .integers = true},
    // The mean is off by roundings of the values, also where the values hardly differ.
    {.name = "var", .function = [](auto& x, auto& a, bool k) { return hearth::var(x, a, 0, k); }, .reference = [](List v) { return reference::var(v, 0); }, .magnitude = mean_square},
    {.name = "std", .function = [](auto& x, auto& a, bool k) { return hearth::std(x, a, 1, k); }, .reference = [](List v) { return std::sqrt(reference::var(v, 1)); }, .needs_elements = true, .magnitude = [=](List v) { return std::sqrt(mean_square(v)); }},
    {.name = "logsumexp", .function = [](auto& x, auto& a, bool k) { return hearth::logsumexp(x, a, k); }, .reference = reference::logsumexp, .needs_elements = true},
    {.name = "norm", .function = [](auto& x, auto& a, bool k) { return hearth::norm(x, 2.0, a, k); }, .reference = [](List v) { return reference::norm(v, 2); }},
    {.name = "norm_1", .function = [](auto& x, auto& a, bool k) { return hearth::norm(x, 1.0, a, k); }, .reference = [](List v) { return reference::norm(v, 1); }},
    {.name = "norm_inf", .function = [](auto& x, auto& a, bool k) { return hearth::norm(x, infinity, a, k); }, .reference = [](List v) { return reference::norm(v, infinity); }, .accumulates = false, .needs_elements = true},
  };
  // clang-format on
  for (const auto& r : reductions) {
    const auto add = [&](const Shape& shape, const Axes& axes, bool keepdims) {
      auto& entry = table.add(
          std::string(r.name) + "/" + to_string(shape) + "_over_" + text_of(axes) + (keepdims ? "_kept" : ""),
          {{shape, r.range}}, [=](const Tensors& in) { return r.function(in[0], axes, keepdims); },
          [=](const Arrays& in) { return reference::reduce(in[0], axes, keepdims, r.reference); });
      entry.differentiable = r.differentiable;
      entry.integers = r.integers;
      entry.accumulation = r.accumulates ? of_terms(element_count(shape)) : 0;
      if (r.magnitude)
        entry.magnitude = [=](const Arrays& in) {
          return reference::reduce(in[0], axes, keepdims, r.magnitude);
        };
      entry.roundings = 2;
      // How loops are nested and shared out does not depend on what is reduced.
      entry.repeats = std::string(r.name) != "sum" && !(shape.size() == 3 && axes.size() <= 1);
    };
    for (const Axes& axes : std::vector<Axes>{{}, {0}, {1}, {-1}, {0, 2}, {1, 2}, {-3, -2, -1}})
      for (bool keepdims : {false, true}) add({3, 4, 5}, axes, keepdims);
    if (std::string(r.name) != "std") {  // of one element it is NaN
      add({}, {}, false);
      add({1, 1}, {}, false);
    }
    for (auto size : edge_sizes) {
      if (size == 1) continue;
      add({3, size}, {1}, false);
      add({size, 3}, {0}, false);
      add({size}, {}, false);
    }
    add({2, 3, 2, 2, 3, 2}, {1, 3, 5}, false);
    add({3, 0}, {0}, false);  // no results
    if (!r.needs_elements) {
      add({3, 0}, {1}, false);
      add({0}, {}, false);
    }
  }
  const auto arg = [&](const char* name, auto function, auto reference, const Shape& shape,
                       std::optional<std::int64_t> axis) {
    auto& entry = table.add(
        std::string(name) + "/" + to_string(shape) + "_axis_" + (axis ? std::to_string(*axis) : "none"),
        {{shape}}, [=](const Tensors& in) { return function(in[0], axis); },
        [=](const Arrays& in) {
          return reference::reduce(in[0], axis ? Axes{*axis} : Axes{}, false, reference);
        });
    entry.differentiable = false;
    entry.integers = true;
  };
  for (auto size : edge_sizes)
    for (auto& [shape, axis] : std::vector<std::pair<Shape, std::optional<std::int64_t>>>{
             {{size}, {}}, {{3, size}, 1}, {{size, 3}, 0}}) {
      arg(
          "argmax", [](const Tensor& x, auto a) { return argmax(x, a); },
          [](auto& v) { return reference::argmax(v); }, shape, axis);
      arg(
          "argmin", [](const Tensor& x, auto a) { return argmin(x, a); },
          [](auto& v) { return reference::argmin(v); }, shape, axis);
    }
}

void add_scans(Table& table) {
  const auto scan = [&](const std::string& name, const Shape& shape, std::int64_t axis, Range range,
                        auto function, auto line) -> OpCase& {
    return table.add(
        name + "/" + to_string(shape) + "_axis_" + std::to_string(axis), {{shape, range}},
        [=](const Tensors& in) { return function(in[0], axis); },
        [=](const Arrays& in) { return along(in[0], axis, line); });
  };
  std::vector<std::pair<Shape, std::int64_t>> places = {
      {{3, 4, 5}, 0}, {{3, 4, 5}, 1}, {{3, 4, 5}, -1}, {{0, 3}, 1}, {{3, 0}, 1}};
  for (auto size : edge_sizes) {
    places.push_back({{2, size}, 1});
    places.push_back({{size, 2}, 0});
  }
  for (const auto& [shape, axis] : places) {
    auto& running_sum = scan(
        "cumsum", shape, axis, {-2, 2}, [](auto& x, auto a) { return cumsum(x, a); },
        [](std::vector<double> v) {
          for (std::size_t i = 1; i < v.size(); ++i) v[i] += v[i - 1];
          return v;
        });
    running_sum.accumulation = of_terms(element_count(shape));
    running_sum.integers = true;
    // One more rounding per factor.
    scan(
        "cumprod", shape, axis, {0.9, 1.1}, [](auto& x, auto a) { return cumprod(x, a); },
        [](std::vector<double> v) {
          for (std::size_t i = 1; i < v.size(); ++i) v[i] *= v[i - 1];
          return v;
        })
        .accumulation = 2 * of_terms(element_count(shape));
    for (bool descending : {false, true}) {
      auto& sorted = scan(
          descending ? "sort_descending" : "sort", shape, axis, {-2, 2},
          [=](auto& x, auto a) { return hearth::sort(x, a, descending); },
          [=](const std::vector<double>& v) { return reference::sort(v, descending); });
      sorted.roundings = 0;
      sorted.integers = true;
      auto& order = scan(
          descending ? "argsort_descending" : "argsort", shape, axis, {-2, 2},
          [=](auto& x, auto a) { return hearth::argsort(x, a, descending); },
          [=](const std::vector<double>& v) { return reference::argsort(v, descending); });
      order.differentiable = false;
      order.integers = true;
    }
    // The exponents round to half precision too where they are not fused.
    scan(
        "softmax", shape, axis, {-4, 4}, [](auto& x, auto a) { return hearth::softmax(x, a); },
        reference::softmax)
        .scale = 8;
    scan(
        "log_softmax", shape, axis, {-4, 4}, [](auto& x, auto a) { return hearth::log_softmax(x, a); },
        [](std::vector<double> v) {
          const double total = reference::logsumexp(v);
          for (double& x : v) x -= total;
          return v;
        })
        .scale = 8;
  }
  for (const auto& [shape, axis, k] :
       std::vector<std::tuple<Shape, std::int64_t, std::int64_t>>{{{3, 4, 5}, 0, 2},
                                                                  {{3, 4, 5}, 1, 4},
                                                                  {{3, 4, 5}, -1, 1},
                                                                  {{2, 129}, 1, 7},
                                                                  {{2, 1025}, 1, 33},
                                                                  {{3, 5}, 1, 0}})
    for (bool largest : {true, false}) {
      const std::string name = (largest ? "largest" : "smallest") + std::to_string(k);
      auto& values = scan(
          "topk_" + name, shape, axis, {-2, 2},
          [=, k = k](auto& x, auto a) { return topk(x, k, a, largest).first; },
          [=, k = k](const std::vector<double>& v) {
            auto sorted = reference::sort(v, largest);
            sorted.resize(static_cast<std::size_t>(k));
            return sorted;
          });
      values.roundings = 0;
      values.integers = true;
      scan(
          "topk_indices_" + name, shape, axis, {-2, 2},
          [=, k = k](auto& x, auto a) { return topk(x, k, a, largest).second; },
          [=, k = k](const std::vector<double>& v) {
            auto order = reference::argsort(v, largest);
            order.resize(static_cast<std::size_t>(k));
            return order;
          })
          .differentiable = false;
    }
}

}  // namespace hearth::testing
