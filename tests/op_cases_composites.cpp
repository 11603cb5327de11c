// Case table: activations with parameters, normalisation, attention, losses.
#include "op_case_table.h"

namespace hearth::testing {

namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void add_composites(Table& table) {
  const auto composite = [&](const std::string& name, std::vector<Input> inputs, TensorFunction function,
                             ArrayFunction reference) -> OpCase& {
    auto& entry = table.add(name, std::move(inputs), std::move(function), std::move(reference));
    // A chain of a few steps, each of which may round to the dtype.
    entry.roundings = 4;
    entry.scale = 8;
    return entry;
  };
  const auto unary = [&](const std::string& name, std::function<Tensor(const Tensor&)> function,
                         std::function<double(double)> value) {
    auto& entry = composite(
        name, {{{5, 7}, {-4, 4}}}, [=](const Tensors& in) { return function(in[0]); },
        [=](const Arrays& in) { return map(in[0], value); });
    entry.scale = 2;
  };
  unary(
      "leaky_relu", [](auto& x) { return leaky_relu(x, 0.1); }, [](double x) { return x > 0 ? x : 0.1 * x; });
  unary(
      "elu", [](auto& x) { return elu(x, 0.5); }, [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); });
  unary(
      "selu", [](auto& x) { return selu(x); },
      [](double x) {
        return 1.0507009873554804934193349852946 *
               (x > 0 ? x : 1.6732632423543772848170429916717 * std::expm1(x));
      });
  unary(
      "celu", [](auto& x) { return celu(x, 2.0); },
      [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); });
  unary(
      "relu6", [](auto& x) { return relu6(x * 2); }, [](double x) { return std::clamp(2 * x, 0.0, 6.0); });
  unary(
      "hardtanh", [](auto& x) { return hardtanh(x, -2, 1); },
      [](double x) { return std::clamp(x, -2.0, 1.0); });
  unary(
      "hardsigmoid", [](auto& x) { return hardsigmoid(x); },
      [](double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  unary(
      "hardswish", [](auto& x) { return hardswish(x); },
      [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  unary(
      "softsign", [](auto& x) { return softsign(x); }, [](double x) { return x / (1 + std::abs(x)); });
  unary(
      "tanhshrink", [](auto& x) { return tanhshrink(x); }, [](double x) { return x - std::tanh(x); });
  unary(
      "softshrink", [](auto& x) { return softshrink(x, 0.75); },
      [](double x) { return x > 0.75    ? x - 0.75
                            : x < -0.75 ? x + 0.75
                                        : 0; });
  unary(
      "hardshrink", [](auto& x) { return hardshrink(x, 0.75); },
      [](double x) { return std::abs(x) > 0.75 ? x : 0; });
  composite(
      "glu/middle", {{{2, 4, 3}}}, [](const Tensors& in) { return glu(in[0], 1); },
      [](const Arrays& in) {
        return zip(pick(in[0], 1, 0, 2), pick(in[0], 1, 2, 2),
                   [](double a, double b) { return a * sigmoid_of(b); });
      });
  composite(
      "prelu/channels", {{{2, 3, 4}}, {{3}}}, [](const Tensors& in) { return prelu(in[0], in[1]); },
      [](const Arrays& in) {
        return generate(in[0].shape, [&](const Position& p) {
          const double x = in[0].at(p);
          return x > 0 ? x : x * in[1].at({p[1]});
        });
      });
  composite(
      "lerp/broadcast", {{{3, 4}}, {{4}}, {{}, {0, 1}}},
      [](const Tensors& in) { return lerp(in[0], in[1], in[2]); },
      [](const Arrays& in) {
        const double w = in[2].values[0];
        return zip(in[0], in[1], [=](double a, double b) { return a + w * (b - a); });
      });

  for (std::int64_t size : {2, 4, 33, 128, 1025}) {
    const auto name = std::to_string(size);
    composite(
        "rms_norm/" + name, {{{3, size}}, {{size}}},
        [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-2); },
        [](const Arrays& in) {
          return zip(along(in[0], -1,
                           [](std::vector<double> v) {
                             double squares = 0;
                             for (double x : v) squares += x * x;
                             for (double& x : v)
                               x /= std::sqrt(squares / static_cast<double>(v.size()) + 1e-2);
                             return v;
                           }),
                     in[1], std::multiplies<>());
        });
    composite(
        "layer_norm/" + name, {{{3, size}}, {{size}}, {{size}}},
        [=](const Tensors& in) { return layer_norm(in[0], {size}, in[1], in[2], 1e-2); },
        [](const Arrays& in) {
          return zip(zip(along(in[0], -1,
                               [](std::vector<double> v) {
                                 const double m = reference::mean(v), variance = reference::var(v, 0);
                                 for (double& x : v) x = (x - m) / std::sqrt(variance + 1e-2);
                                 return v;
                               }),
                         in[1], std::multiplies<>()),
                     in[2], std::plus<>());
        });
  }
  // The normalised values are not small when the channel is nearly constant, hence the large epsilon.
  composite(
      "batch_norm_train/plain", {{{4, 3, 2}}},
      [](const Tensors& in) { return batch_norm_train(in[0], {}, {}, 1e-1).output; },
      [](const Arrays& in) {
        const auto m = reference::reduce(in[0], {0, 2}, true, reference::mean),
                   variance =
                       reference::reduce(in[0], {0, 2}, true, [](auto&v) { return reference::var(v, 0); });
        return zip(zip(in[0], m, std::minus<>()), variance,
                   [](double x, double v) { return x / std::sqrt(v + 1e-1); });
      });

  for (const auto& [queries, keys, causal] : std::vector<std::tuple<std::int64_t, std::int64_t, bool>>{
           {3, 3, true}, {1, 5, true}, {4, 6, false}, {33, 33, true}, {5, 129, true}}) {
    composite(
        "attention/" + std::to_string(queries) + "x" + std::to_string(keys) + (causal ? "_causal" : ""),
        {{{1, 4, queries, 4}}, {{1, 2, keys, 4}}, {{1, 2, keys, 4}}},
        [causal = causal](const Tensors& in) {
          AttentionOptions options;
          options.causal = causal;
          return attention(in[0], in[1], in[2], options);
        },
        [causal = causal](const Arrays& in) {
          return generate(in[0].shape, [&](const Position& p) {
            std::vector<double> scores;
            const auto last = causal ? p[2] + in[1].size(2) - in[0].size(2) : in[1].size(2) - 1;
            for (std::int64_t j = 0; j <= last; ++j) {
              double score = 0;
              for (std::int64_t d = 0; d < 4; ++d)
                score += in[0].at({p[0], p[1], p[2], d}) * in[1].at({p[0], p[1] / 2, j, d});
              scores.push_back(score / 2);
            }
            const auto weights = reference::softmax(scores);
            double total = 0;
            for (std::int64_t j = 0; j <= last; ++j)
              total += weights[static_cast<std::size_t>(j)] * in[2].at({p[0], p[1] / 2, j, p[3]});
            return total;
          });
        });
  }
  for (bool interleaved : {false, true})
    composite(
        interleaved ? "rope/interleaved" : "rope/halves", {{{2, 3, 6}}},
        [=](const Tensors& in) { return rope(in[0], 100.0, 2, interleaved); },
        [=](const Arrays& in) {
          return generate(in[0].shape, [&](Position p) {
            const auto d = p[2];
            const auto pair = interleaved ? d / 2 : d % 3;
            const bool first = interleaved ? d % 2 == 0 : d < 3;
            const double angle =
                static_cast<double>(p[1] + 2) * std::pow(100.0, -static_cast<double>(2 * pair) / 6);
            const double own = in[0].at(p);
            p[2] = interleaved ? (first ? d + 1 : d - 1) : (first ? d + 3 : d - 3);
            const double other = in[0].at(p);
            return own * std::cos(angle) + (first ? -other : other) * std::sin(angle);
          });
        });
  composite(
      "rope/frequencies", {{{2, 3, 6}}, {{3}, {0.1, 2}, Kind::constant}},
      [=](const Tensors& in) { return rope(in[0], arange(3).to(in[0].device()) + 2, in[1]); },
      [=](const Arrays& in) {
        return generate(in[0].shape, [&](Position p) {
          const auto d = p[2];
          const double angle = static_cast<double>(p[1] + 2) * in[1].at({d % 3});
          const double own = in[0].at(p);
          p[2] = (d + 3) % 6;
          return own * std::cos(angle) + (d < 3 ? -in[0].at(p) : in[0].at(p)) * std::sin(angle);
        });
      });
  composite(
      "cross_entropy/mean", {{{4, 5}, {-4, 4}}, {{4}, {0, 5}, Kind::index}},
      [](const Tensors& in) { return cross_entropy(in[0], in[1]); },
      [](const Arrays& in) {
        double total = 0;
        for (std::int64_t i = 0; i < 4; ++i) {
          std::vector<double> row;
          for (std::int64_t c = 0; c < 5; ++c) row.push_back(in[0].at({i, c}));
          total += reference::logsumexp(row) - row[static_cast<std::size_t>(in[1].at({i}))];
        }
        return Array{{}, {total / 4}};
      });
  composite(
      "mse_loss/mean", {{{4, 5}}, {{4, 5}}}, [](const Tensors& in) { return mse_loss(in[0], in[1]); },
      [](const Arrays& in) {
        return reference::reduce(zip(in[0], in[1], [](double a, double b) { return (a - b) * (a - b); }), {},
                                 false, reference::mean);
      });
}

}  // namespace hearth::testing
