// Case table: matrix products and convolution.
#include "op_case_table.h"

namespace hearth::testing {

void add_contractions(Table& table) {
  const auto product = [&](const Shape& a, const Shape& b) {
    auto& entry = table.add(
        "matmul/" + to_string(a) + "@" + to_string(b), {{a}, {b}},
        [](const Tensors& in) { return matmul(in[0], in[1]); },
        [](const Arrays& in) { return reference::matmul(in[0], in[1]); });
    entry.accumulation =
        std::max(8.0, static_cast<double>(a[a.size() - 1]) / 2);  // a partial sum rounds at every term
    entry.roundings = 2;
  };
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{3, 4}, {4, 5}},
                                                                 {{4}, {4}},
                                                                 {{4}, {4, 5}},
                                                                 {{3, 4}, {4}},
                                                                 {{2, 3, 4}, {2, 4, 5}},
                                                                 {{2, 1, 3, 4}, {3, 4, 2}},
                                                                 {{3, 4}, {2, 4, 5}},
                                                                 {{2, 3, 4}, {4, 5}},
                                                                 {{2, 3, 4}, {4}},
                                                                 {{4}, {2, 4, 3}},
                                                                 {{3, 0}, {0, 4}},
                                                                 {{0, 3}, {3, 4}},
                                                                 {{2, 0, 3}, {2, 3, 4}},
                                                                 {{0}, {0}},
                                                                 {{0, 2, 3}, {0, 3, 2}},
                                                                 {{1, 1}, {1, 1}},
                                                                 {{1, 7}, {7, 1}},
                                                                 {{7, 1}, {1, 7}}})
    product(a, b);
  for (auto size : {31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    product({3, size}, {size, 5});
    product({size, 3}, {3, 4});
    product({3, 4}, {4, size});
    product({1, size}, {size, size});
  }
  product({33, 65}, {65, 31});
  product({3, 17, 33}, {3, 33, 9});
  product({2, 1025}, {1025, 3});
  const auto other = [&](const std::string& name, const std::vector<Input>& inputs, TensorFunction function,
                         ArrayFunction reference) -> OpCase& {
    auto& entry = table.add(name, inputs, std::move(function), std::move(reference));
    entry.accumulation = std::max(8.0, static_cast<double>(inputs[0].shape[inputs[0].shape.size() - 1]) / 2);
    entry.roundings = 2;
    return entry;
  };
  const auto transposed = [](const Array& x) { return reference::permute(x, {1, 0}); };
  other(
      "matmul/transposed_left", {{{5, 3}}, {{5, 4}}},
      [](const Tensors& in) { return matmul(in[0].t(), in[1]); },
      [=](const Arrays& in) { return reference::matmul(transposed(in[0]), in[1]); });
  other(
      "matmul/transposed_right", {{{3, 5}}, {{4, 5}}},
      [](const Tensors& in) { return matmul(in[0], in[1].t()); },
      [=](const Arrays& in) { return reference::matmul(in[0], transposed(in[1])); });
  other(
      "matmul/transposed_both", {{{5, 3}}, {{4, 5}}},
      [](const Tensors& in) { return matmul(in[0].t(), in[1].t()); },
      [=](const Arrays& in) { return reference::matmul(transposed(in[0]), transposed(in[1])); });
  other(
      "batch_matmul/plain", {{{2, 3, 4}}, {{2, 4, 5}}},
      [](const Tensors& in) { return batch_matmul(in[0], in[1]); },
      [](const Arrays& in) { return reference::matmul(in[0], in[1]); });
  other(
      "outer/plain", {{{3}}, {{4}}}, [](const Tensors& in) { return outer(in[0], in[1]); },
      [](const Arrays& in) {
        return generate(Shape{3, 4}, [&](const Position& p) { return in[0].at({p[0]}) * in[1].at({p[1]}); });
      });
  for (auto size : edge_sizes)
    other(
        "dot/" + std::to_string(size), {{{size}}, {{size}}},
        [](const Tensors& in) { return dot(in[0], in[1]); },
        [](const Arrays& in) { return reference::matmul(in[0], in[1]); });
  for (std::int64_t size : {1, 31, 64, 129})
    other(
        "linear/" + std::to_string(size), {{{2, 3, size}}, {{4, size}}, {{4}}},
        [](const Tensors& in) { return linear(in[0], in[1], in[2]); },
        [=](const Arrays& in) {
          return zip(reference::matmul(in[0], transposed(in[1])), in[2], std::plus<>());
        })
        .scale = 1;  // the product of halves may be rounded before the bias is added
  other(
      "einsum/attention_scores", {{{2, 3, 2, 4}}, {{2, 5, 2, 4}}},
      [](const Tensors& in) { return einsum("bqhd,bkhd->bhqk", in); },
      [](const Arrays& in) {
        return generate(Shape{2, 2, 3, 5}, [&](const Position& p) {
          double total = 0;
          for (std::int64_t d = 0; d < 4; ++d)
            total += in[0].at({p[0], p[2], p[1], d}) * in[1].at({p[0], p[3], p[1], d});
          return total;
        });
      });
  other(
      "einsum/trace", {{{4, 4}}}, [](const Tensors& in) { return einsum("ii->", in); },
      [](const Arrays& in) {
        double total = 0;
        for (std::int64_t i = 0; i < 4; ++i) total += in[0].at({i, i});
        return Array{{}, {total}};
      });
}

void add_convolutions(Table& table) {
  // x (N, C, H, W), weight (O, C / groups, KH, KW)
  const auto conv = [](const Array& x, const Array& w, std::int64_t stride, std::int64_t padding,
                       std::int64_t dilation, std::int64_t groups) {
    const auto extent = [&](std::int64_t size, std::int64_t kernel) {
      return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    };
    const auto per_group = w.size(0) / groups;
    return generate(
        Shape{x.size(0), w.size(0), extent(x.size(2), w.size(2)), extent(x.size(3), w.size(3))},
        [&](const Position& p) {
          double total = 0;
          for (std::int64_t c = 0; c < w.size(1); ++c)
            for (std::int64_t i = 0; i < w.size(2); ++i)
              for (std::int64_t j = 0; j < w.size(3); ++j) {
                const auto row = p[2] * stride - padding + i * dilation,
                           column = p[3] * stride - padding + j * dilation;
                if (row < 0 || column < 0 || row >= x.size(2) || column >= x.size(3)) continue;
                total += x.at({p[0], p[1] / per_group * w.size(1) + c, row, column}) * w.at({p[1], c, i, j});
              }
          return total;
        });
  };
  struct Geometry {
    const char* name;
    Shape x, weight;
    std::int64_t stride, padding, dilation, groups;
  };
  for (const auto& g : std::vector<Geometry>{{"plain", {2, 3, 5, 6}, {4, 3, 3, 2}, 1, 0, 1, 1},
                                             {"strided_padded", {1, 2, 7, 6}, {3, 2, 3, 3}, 2, 1, 1, 1},
                                             {"dilated", {1, 2, 8, 8}, {2, 2, 3, 3}, 1, 2, 2, 1},
                                             {"grouped", {1, 4, 5, 5}, {6, 2, 3, 3}, 1, 1, 1, 2},
                                             {"depthwise", {1, 5, 6, 5}, {5, 1, 3, 3}, 1, 1, 1, 5},
                                             {"one_by_one", {2, 7, 3, 3}, {5, 7, 1, 1}, 1, 0, 1, 1},
                                             {"many_channels", {1, 33, 9, 9}, {17, 33, 3, 3}, 1, 1, 1, 1},
                                             {"wide", {1, 3, 33, 35}, {8, 3, 5, 5}, 2, 2, 1, 1},
                                             {"no_batch", {0, 2, 4, 4}, {3, 2, 3, 3}, 1, 1, 1, 1}}) {
    auto& entry = table.add(
        std::string("conv2d/") + g.name, {{g.x}, {g.weight}, {{g.weight[0]}}},
        [=](const Tensors& in) {
          return conv2d(
              in[0], in[1], in[2],
              {.stride = {g.stride}, .padding = {g.padding}, .dilation = {g.dilation}, .groups = g.groups});
        },
        [=](const Arrays& in) {
          return zip(conv(in[0], in[1], g.stride, g.padding, g.dilation, g.groups),
                     reference::reshape(in[2], {g.weight[0], 1, 1}), std::plus<>());
        });
    entry.accumulation = 8;
    entry.roundings = 2;
    entry.scale = 2;  // the bias may be added to a rounded result
  }
  auto& up = table.add(
      "conv_transpose2d/strided", {{{1, 2, 3, 4}}, {{2, 3, 3, 2}}},
      [](const Tensors& in) { return conv_transpose2d(in[0], in[1], {}, {.stride = {2}, .padding = {1}}); },
      [](const Arrays& in) {
        const Shape shape{1, 3, (3 - 1) * 2 - 2 + 3, (4 - 1) * 2 - 2 + 2};
        Array result{shape, std::vector<double>(static_cast<std::size_t>(element_count(shape)))};
        for_each_position(in[0].shape, [&](const Position& p) {
          for_each_position(Shape{3, 3, 2}, [&](const Position& q) {
            const auto row = p[2] * 2 - 1 + q[1], column = p[3] * 2 - 1 + q[2];
            if (row >= 0 && column >= 0 && row < shape[2] && column < shape[3])
              result.at({0, q[0], row, column}) += in[0].at(p) * in[1].at({p[1], q[0], q[1], q[2]});
          });
        });
        return result;
      });
  up.accumulation = 8;
  up.roundings = 2;
  const auto pooled = [](const Array& x, std::int64_t kernel, std::int64_t stride, auto f) {
    return generate(
        Shape{x.size(0), x.size(1), (x.size(2) - kernel) / stride + 1, (x.size(3) - kernel) / stride + 1},
        [&](const Position& p) {
          std::vector<double> window;
          for (std::int64_t i = 0; i < kernel; ++i)
            for (std::int64_t j = 0; j < kernel; ++j)
              window.push_back(x.at({p[0], p[1], p[2] * stride + i, p[3] * stride + j}));
          return f(window);
        });
  };
  table
      .add(
          "max_pool2d/overlapping", {{{2, 2, 6, 5}}},
          [](const Tensors& in) { return max_pool2d(in[0], {.kernel = {3}, .stride = {2}}); },
          [=](const Arrays& in) { return pooled(in[0], 3, 2, reference::max); })
      .roundings = 0;
  auto& average = table.add(
      "avg_pool2d/overlapping", {{{2, 2, 6, 5}}},
      [](const Tensors& in) { return avg_pool2d(in[0], {.kernel = {3}, .stride = {1}}); },
      [=](const Arrays& in) { return pooled(in[0], 3, 1, reference::mean); });
  average.accumulation = 8;
  average.roundings = 2;
}

}  // namespace hearth::testing
