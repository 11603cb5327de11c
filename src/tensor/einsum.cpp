// Contractions built on matmul: einsum, linear and the products of vectors and batches.
//
// einsum works in four steps:
// 1. Parse the equation into one list of labels per operand and one for the result. The axes an ellipsis
// stands for get
//    labels of their own, counted from the right, so that they line up as in broadcasting.
// 2. Simplify every operand: a label twice becomes the diagonal, an axis of size 1 that broadcasts is
// dropped, a label
//    that nobody else needs is summed.
// 3. Contract the operands from left to right. A label both sides have is a batch axis if it is still needed,
// else it is
//    contracted; the others are rows (left) or columns (right) of a batched matrix product.
// 4. Bring the axes into the order of the result.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "hearth/error.h"
#include "hearth/quantise.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

using Label = int;
using Labels = std::vector<Label>;
constexpr Label ellipsis = -1;         // only while parsing
constexpr Label first_ellipsis = 256;  // + position counted from the right

bool has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string label_name(Label label) {
  return label >= first_ellipsis ? "..." : fmt::format("'{}'", static_cast<char>(label));
}

// The labels of one term; at most one ellipsis.
Labels parse_term(std::string_view term, std::string_view equation) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == ' ') continue;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else if (term.substr(i, 3) == "...") {
      if (has(labels, ellipsis))
        throw ValueError(fmt::format("[einsum] two ellipses in a term of '{}'", equation));
      labels.push_back(ellipsis);
      i += 2;
    } else {
      throw ValueError(
          fmt::format("[einsum] unexpected '{}' in '{}'; terms are letters and '...'", c, equation));
    }
  }
  return labels;
}

// The ellipsis replaced by `count` labels, the last axis having the first label.
Labels expand(const Labels& labels, std::size_t count) {
  Labels result;
  for (auto label : labels) {
    if (label != ellipsis)
      result.push_back(label);
    else
      for (auto k = count; k-- > 0;) result.push_back(first_ellipsis + static_cast<Label>(k));
  }
  return result;
}

struct Term {
  Tensor tensor;
  Labels labels;  // one per axis
};

struct Equation {
  std::vector<Labels> terms;
  Labels result;
};

Equation parse(std::string_view equation, const std::vector<Tensor>& operands) {
  const auto arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  std::vector<Labels> raw;
  for (;;) {
    const auto comma = left.find(',');
    raw.push_back(parse_term(left.substr(0, comma), equation));
    if (comma == std::string_view::npos) break;
    left = left.substr(comma + 1);
  }
  if (raw.size() != operands.size())
    throw ValueError(
        fmt::format("[einsum] '{}' has {} terms, got {} operands", equation, raw.size(), operands.size()));

  Equation parsed;
  std::size_t broadcast_axes = 0;
  std::map<Label, int> uses;  // sorted: the order of an implicit result
  for (std::size_t k = 0; k < raw.size(); ++k) {
    const Shape& shape = node_of(operands[k], "einsum")->shape;
    const bool open = has(raw[k], ellipsis);
    const auto named = raw[k].size() - (open ? 1 : 0);
    if (open ? shape.size() < named : shape.size() != named)
      throw ShapeError(fmt::format("[einsum] operand {} of '{}' needs {}{} axes, got {}", k, equation,
                                   open ? "at least " : "", named, to_string(shape)));
    const auto covered = open ? shape.size() - named : 0;
    broadcast_axes = std::max(broadcast_axes, covered);
    parsed.terms.push_back(expand(raw[k], covered));
    for (auto label : raw[k])
      if (label != ellipsis) ++uses[label];
  }

  if (arrow == std::string_view::npos) {
    parsed.result = expand({ellipsis}, broadcast_axes);
    for (const auto& [label, count] : uses)
      if (count == 1) parsed.result.push_back(label);
    return parsed;
  }
  const Labels result = parse_term(equation.substr(arrow + 2), equation);
  for (auto label : result) {
    if (label != ellipsis && !uses.contains(label))
      throw ValueError(
          fmt::format("[einsum] {} of the result of '{}' is in no operand", label_name(label), equation));
    if (std::count(result.begin(), result.end(), label) > 1)
      throw ValueError(
          fmt::format("[einsum] {} is twice in the result of '{}'", label_name(label), equation));
  }
  parsed.result = expand(result, broadcast_axes);
  return parsed;
}

// The size of every label over all operands, where 1 gives way to any other.
std::map<Label, std::int64_t> label_sizes(const std::vector<Term>& terms, std::string_view equation) {
  std::map<Label, std::int64_t> sizes;
  for (const auto& term : terms) {
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const auto size = term.tensor.shape()[i];
      auto& known = sizes.try_emplace(term.labels[i], size).first->second;
      if (known != size && known != 1 && size != 1)
        throw ShapeError(fmt::format("[einsum] {} is {} and {} in '{}'", label_name(term.labels[i]), known,
                                     size, equation));
      if (known == 1) known = size;
    }
  }
  return sizes;
}

// Every label once: the axes of a repeated one become their diagonal.
void take_diagonals(Term& term, std::string_view equation) {
  for (std::size_t i = 0; i < term.labels.size();) {
    const auto again = std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, term.labels.end(),
                                 term.labels[i]) -
                       term.labels.begin();
    const auto j = static_cast<std::size_t>(again);
    if (j == term.labels.size()) {
      ++i;
      continue;
    }
    if (term.tensor.shape()[i] != term.tensor.shape()[j])
      throw ShapeError(fmt::format("[einsum] {} is {} and {} in one operand of '{}'",
                                   label_name(term.labels[i]), term.tensor.shape()[i], term.tensor.shape()[j],
                                   equation));
    Axes order;
    Labels labels;
    for (std::size_t axis = 0; axis < term.labels.size(); ++axis) {
      if (axis == i || axis == j) continue;
      order.push_back(static_cast<std::int64_t>(axis));
      labels.push_back(term.labels[axis]);
    }
    order.push_back(static_cast<std::int64_t>(i));
    order.push_back(static_cast<std::int64_t>(j));
    labels.push_back(term.labels[i]);
    term.tensor = diagonal(permute(term.tensor, order));
    term.labels = std::move(labels);
    i = 0;
  }
}

void drop_broadcast_axes(Term& term, const std::map<Label, std::int64_t>& sizes) {
  Axes dropped;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (term.tensor.shape()[i] != sizes.at(term.labels[i]))
      dropped.push_back(static_cast<std::int64_t>(i));
    else
      kept.push_back(term.labels[i]);
  }
  if (dropped.empty()) return;
  term.tensor = squeeze(term.tensor, dropped);
  term.labels = std::move(kept);
}

void sum_unneeded(Term& term, const Labels& needed) {
  Axes summed;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (has(needed, term.labels[i]))
      kept.push_back(term.labels[i]);
    else
      summed.push_back(static_cast<std::int64_t>(i));
  }
  if (summed.empty()) return;
  const DType dtype = term.tensor.dtype();
  term.tensor = as(sum(term.tensor, summed), dtype);
  term.labels = std::move(kept);
}

// The labels of the result and of the terms from `first` on, `skip` left out.
Labels needed_labels(const std::vector<Term>& terms, const Labels& result, std::size_t first,
                     std::size_t skip) {
  Labels needed = result;
  for (std::size_t k = first; k < terms.size(); ++k)
    if (k != skip) needed.insert(needed.end(), terms[k].labels.begin(), terms[k].labels.end());
  return needed;
}

Tensor in_order(const Term& term, const Labels& order) {
  Axes axes;
  for (auto label : order)
    axes.push_back(std::find(term.labels.begin(), term.labels.end(), label) - term.labels.begin());
  return permute(term.tensor, axes);
}

Labels joined(std::initializer_list<Labels> parts) {
  Labels all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Term contract(const Term& a, const Term& b, const Labels& needed,
              const std::map<Label, std::int64_t>& sizes) {
  Labels batch, contracted, rows, columns;
  for (auto label : a.labels) {
    if (!has(b.labels, label))
      rows.push_back(label);
    else if (has(needed, label))
      batch.push_back(label);
    else
      contracted.push_back(label);
  }
  for (auto label : b.labels)
    if (!has(a.labels, label)) columns.push_back(label);

  const auto shape_of = [&](const Labels& labels) {
    Shape shape;
    for (auto label : labels) shape.push_back(sizes.at(label));
    return shape;
  };
  const auto count_of = [&](const Labels& labels) { return element_count(shape_of(labels)); };

  Term result;
  result.labels = joined({batch, rows, columns});
  // Without a matrix to speak of: a product of elements, and its sum. Both fuse.
  if (contracted.empty()) {
    Shape left_shape = shape_of(joined({batch, rows})), right_shape = shape_of(batch);
    left_shape.resize(left_shape.size() + columns.size(), 1);
    right_shape.resize(right_shape.size() + rows.size(), 1);
    for (auto label : columns) right_shape.push_back(sizes.at(label));
    result.tensor = reshape(in_order(a, joined({batch, rows})), left_shape) *
                    reshape(in_order(b, joined({batch, columns})), right_shape);
    return result;
  }
  if (rows.empty() && columns.empty()) {
    const DType dtype = a.tensor.dtype(), sum_dtype = is_floating(dtype) ? wide_dtype(a.tensor) : dtype;
    const Tensor left = as(in_order(a, joined({batch, contracted})), sum_dtype);
    const Tensor right = as(in_order(b, joined({batch, contracted})), sum_dtype);
    Axes last;
    for (auto i = batch.size(); i < left.ndim(); ++i) last.push_back(static_cast<std::int64_t>(i));
    result.tensor = as(sum(left * right, last), dtype);
    return result;
  }

  // Batch axes stay as they are, so that transposed operands need no copy.
  Shape left_shape = shape_of(batch), right_shape = left_shape;
  left_shape.push_back(count_of(rows));
  left_shape.push_back(count_of(contracted));
  right_shape.push_back(count_of(contracted));
  right_shape.push_back(count_of(columns));
  const Tensor left = reshape(in_order(a, joined({batch, rows, contracted})), left_shape);
  const Tensor right = reshape(in_order(b, joined({batch, contracted, columns})), right_shape);
  result.tensor = reshape(matmul(left, right), shape_of(result.labels));
  return result;
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  if (operands.empty()) throw ValueError(fmt::format("[einsum] '{}' got no operands", equation));
  const Equation parsed = parse(equation, operands);
  DType dtype = operands[0].dtype();
  for (const auto& operand : operands) dtype = promote(dtype, operand.dtype());

  std::vector<Term> terms;
  for (std::size_t k = 0; k < operands.size(); ++k)
    terms.push_back({as(operands[k], dtype), parsed.terms[k]});
  for (auto& term : terms) take_diagonals(term, equation);
  const auto sizes = label_sizes(terms, equation);
  for (auto& term : terms) drop_broadcast_axes(term, sizes);
  for (std::size_t k = 0; k < terms.size(); ++k)
    sum_unneeded(terms[k], needed_labels(terms, parsed.result, 0, k));

  Term result = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k)
    result = contract(result, terms[k], needed_labels(terms, parsed.result, k + 1, terms.size()), sizes);
  return as(in_order(result, parsed.result), dtype);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Shape &input = node_of(x, "linear")->shape, &matrix = node_of(weight, "linear")->shape;
  if (matrix.size() != 2)
    throw ShapeError(fmt::format("[linear] weight must be (out, in), got {}", to_string(matrix)));
  if (input.empty() || input.back() != matrix[1])
    throw ShapeError(
        fmt::format("[linear] x {} does not fit weight {}", to_string(input), to_string(matrix)));
  if (bias.defined() && !(bias.shape() == Shape{matrix[0]}))
    throw ShapeError(
        fmt::format("[linear] bias {} does not fit weight {}", to_string(bias.shape()), to_string(matrix)));
  Shape result_shape(input.begin(), input.end() - 1);
  const auto rows = element_count(result_shape);
  result_shape.push_back(matrix[0]);
  // One matrix, so that one product is done however many axes x has.
  const Tensor stacked = reshape(x, {rows, matrix[1]});
  Tensor result = is_quantised(weight.dtype()) ? quantised_matmul(stacked, weight)
                                               : matmul(stacked, transpose(weight, 0, 1));
  if (bias.defined()) result = result + bias;
  return reshape(result, result_shape);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  const Shape &left = node_of(a, "outer")->shape, &right = node_of(b, "outer")->shape;
  if (left.size() != 1 || right.size() != 1)
    throw ShapeError(
        fmt::format("[outer] needs two vectors, got {} and {}", to_string(left), to_string(right)));
  return unsqueeze(a, 1) * b;
}

Tensor dot(const Tensor& a, const Tensor& b) {
  const Shape &left = node_of(a, "dot")->shape, &right = node_of(b, "dot")->shape;
  if (left.size() != 1 || !(left == right))
    throw ShapeError(
        fmt::format("[dot] needs two vectors of one size, got {} and {}", to_string(left), to_string(right)));
  return matmul(a, b);
}

Tensor batch_matmul(const Tensor& a, const Tensor& b) {
  const Shape &left = node_of(a, "batch_matmul")->shape, &right = node_of(b, "batch_matmul")->shape;
  if (left.size() != 3 || right.size() != 3 || left[0] != right[0] || left[2] != right[1])
    throw ShapeError(fmt::format("[batch_matmul] needs (B, M, K) and (B, K, N), got {} and {}",
                                 to_string(left), to_string(right)));
  return matmul(a, b);
}

}  // namespace hearth
