// Arrays of doubles and naive loops over them: the reference that operations are compared with.
//
// Nothing here uses the library but for Shape; speed does not matter, being obviously right does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "hearth/shape.h"

namespace hearth::reference {

using Position = Shape;

struct Array {
  Shape shape;
  std::vector<double> values;  // row-major

  std::int64_t size(std::int64_t axis) const {
    return shape[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis)];
  }
  std::size_t offset(const Position& position) const {
    std::size_t result = 0;
    for (std::size_t i = 0; i < shape.size(); ++i)
      result = result * static_cast<std::size_t>(shape[i]) + static_cast<std::size_t>(position[i]);
    return result;
  }
  double at(const Position& position) const { return values[offset(position)]; }
  double& at(const Position& position) { return values[offset(position)]; }
  // The element a broadcast to more or larger axes would show at `position`.
  double broadcast_at(const Position& position) const {
    Position own(shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i)
      own[i] = shape[i] == 1 ? 0 : position[i + position.size() - shape.size()];
    return at(own);
  }
};

// Calls f(position) for every position, in row-major order.
template <typename F>
void for_each_position(const Shape& shape, F f) {
  for (auto size : shape)
    if (size == 0) return;
  Position position(shape.size(), 0);
  for (;;) {
    f(position);
    std::size_t axis = shape.size();
    while (axis > 0 && ++position[axis - 1] == shape[axis - 1]) position[--axis] = 0;
    if (axis == 0) return;
  }
}

// The array whose element at `position` is f(position).
template <typename F>
Array generate(const Shape& shape, F f) {
  Array result{shape, {}};
  for_each_position(shape, [&](const Position& p) { result.values.push_back(static_cast<double>(f(p))); });
  return result;
}

template <typename F>
Array map(const Array& x, F f) {
  Array result{x.shape, {}};
  for (double v : x.values) result.values.push_back(static_cast<double>(f(v)));
  return result;
}

inline Shape broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {  // from the last axis
    const auto from_a = i < a.size() ? a[a.size() - 1 - i] : 1,
               from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    result[result.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return result;
}

template <typename F>
Array zip(const Array& a, const Array& b, F f) {
  return generate(broadcast(a.shape, b.shape),
                  [&](const Position& p) { return f(a.broadcast_at(p), b.broadcast_at(p)); });
}

inline std::size_t axis_of(const Array& x, std::int64_t axis) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(x.shape.size()) : axis);
}

// f of the list of elements along `axes` ({} = all).
template <typename F>
Array reduce(const Array& x, const Axes& axes, bool keepdims, F f) {
  std::vector<bool> reduced(x.shape.size(), axes.empty());
  for (auto axis : axes) reduced[axis_of(x, axis)] = true;
  Shape kept = x.shape, result_shape;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (reduced[i]) kept[i] = 1;
    if (!reduced[i] || keepdims) result_shape.push_back(kept[i]);
  }
  Shape inner = x.shape;
  for (std::size_t i = 0; i < inner.size(); ++i)
    if (!reduced[i]) inner[i] = 1;
  auto result = generate(kept, [&](const Position& outer) {
    std::vector<double> list;
    for_each_position(inner, [&](const Position& p) {
      Position both = p;
      for (std::size_t i = 0; i < both.size(); ++i) both[i] += outer[i];
      list.push_back(x.at(both));
    });
    return f(list);
  });
  result.shape = result_shape;
  return result;
}

// Every line along `axis` replaced by f(line), which may have another length.
template <typename F>
Array along(const Array& x, std::int64_t axis, F f) {
  const auto a = axis_of(x, axis);
  Shape outer = x.shape;
  outer[a] = 1;
  Array result{x.shape, {}};
  result.shape[a] =
      static_cast<std::int64_t>(f(std::vector<double>(static_cast<std::size_t>(x.shape[a]))).size());
  result.values.resize(static_cast<std::size_t>(element_count(result.shape)));
  for_each_position(outer, [&](const Position& p) {
    std::vector<double> line;
    Position q = p;
    for (q[a] = 0; q[a] < x.shape[a]; ++q[a]) line.push_back(x.at(q));
    const std::vector<double> changed = f(line);
    for (q[a] = 0; q[a] < result.shape[a]; ++q[a]) result.at(q) = changed[static_cast<std::size_t>(q[a])];
  });
  return result;
}

// ---- lists
// Sums are kept in more than double precision, so that f64 can be held to a few roundings.
using Wide = long double;

inline double sum(const std::vector<double>& v) {
  return static_cast<double>(std::accumulate(v.begin(), v.end(), Wide(0)));
}
inline double mean(const std::vector<double>& v) {
  return static_cast<double>(std::accumulate(v.begin(), v.end(), Wide(0)) / static_cast<Wide>(v.size()));
}
inline double prod(const std::vector<double>& v) {
  return static_cast<double>(std::accumulate(v.begin(), v.end(), Wide(1), std::multiplies<>()));
}
inline double max(const std::vector<double>& v) {
  double best = v[0];
  for (double x : v)
    if (std::isnan(x) || x > best) best = x;
  for (double x : v)
    if (std::isnan(x)) return x;
  return best;
}
inline double min(std::vector<double> v) {
  for (double& x : v) x = -x;
  return -max(v);
}
// NaN counts as the largest and the smallest.
inline double argmax(const std::vector<double>& v) {
  const double best = max(v);
  for (std::size_t i = 0; i < v.size(); ++i)
    if (v[i] == best || (std::isnan(best) && std::isnan(v[i]))) return static_cast<double>(i);
  return -1;
}
inline double argmin(std::vector<double> v) {
  for (double& x : v) x = -x;
  return argmax(v);
}
inline double var(const std::vector<double>& v, double correction) {
  const Wide m = std::accumulate(v.begin(), v.end(), Wide(0)) / static_cast<Wide>(v.size());
  Wide squares = 0;
  for (double x : v) squares += (x - m) * (x - m);
  return static_cast<double>(squares /
                             std::max(static_cast<Wide>(v.size()) - static_cast<Wide>(correction), Wide(0)));
}
inline double logsumexp(const std::vector<double>& v) {
  if (v.empty()) return -std::numeric_limits<double>::infinity();
  const double largest = max(v);
  if (std::isinf(largest)) return largest;
  Wide total = 0;
  for (double x : v) total += std::exp(static_cast<Wide>(x) - largest);
  return static_cast<double>(largest + std::log(total));
}
inline double norm(const std::vector<double>& v, double p) {
  Wide total = 0;
  for (double x : v) {
    if (std::isinf(p))
      total = std::max<Wide>(total, std::abs(x));
    else
      total += std::pow(static_cast<Wide>(std::abs(x)), static_cast<Wide>(p));
  }
  return static_cast<double>(std::isinf(p) ? total : std::pow(total, 1 / static_cast<Wide>(p)));
}
inline std::vector<double> softmax(std::vector<double> v) {
  const double largest = v.empty() ? 0 : max(v);
  Wide total = 0;
  for (double x : v) total += std::exp(static_cast<Wide>(x) - largest);
  for (double& x : v) x = static_cast<double>(std::exp(static_cast<Wide>(x) - largest) / total);
  return v;
}
inline std::vector<double> argsort(const std::vector<double>& v, bool descending) {
  std::vector<double> order(v.size());
  std::iota(order.begin(), order.end(), 0.0);
  std::stable_sort(order.begin(), order.end(), [&](double i, double j) {
    const double a = v[static_cast<std::size_t>(i)], b = v[static_cast<std::size_t>(j)];
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);  // NaN last
    return descending ? a > b : a < b;
  });
  return order;
}
inline std::vector<double> sort(const std::vector<double>& v, bool descending) {
  std::vector<double> sorted;
  for (double i : argsort(v, descending)) sorted.push_back(v[static_cast<std::size_t>(i)]);
  return sorted;
}

// ---- arrays
inline Array permute(const Array& x, const Axes& order) {
  Shape shape(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) shape[i] = x.size(order[i]);
  return generate(shape, [&](const Position& p) {
    Position from(p.size());
    for (std::size_t i = 0; i < order.size(); ++i) from[axis_of(x, order[i])] = p[i];
    return x.at(from);
  });
}

inline Array reshape(const Array& x, const Shape& shape) { return {shape, x.values}; }

// Elements start, start + step, ... (`count` of them) along `axis`.
inline Array pick(const Array& x, std::int64_t axis, std::int64_t start, std::int64_t count,
                  std::int64_t step = 1) {
  const auto a = axis_of(x, axis);
  Shape shape = x.shape;
  shape[a] = count;
  return generate(shape, [&](Position p) {
    p[a] = start + p[a] * step;
    return x.at(p);
  });
}

inline Array concat(const std::vector<Array>& parts, std::int64_t axis) {
  const auto a = axis_of(parts[0], axis);
  Shape shape = parts[0].shape;
  shape[a] = 0;
  for (const auto& part : parts) shape[a] += part.shape[a];
  return generate(shape, [&](Position p) {
    for (const auto& part : parts) {
      if (p[a] < part.shape[a]) return part.at(p);
      p[a] -= part.shape[a];
    }
    return 0.0;
  });
}

inline Array insert_axis(const Array& x, std::int64_t axis) {
  Shape shape = x.shape;
  shape.insert(static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) + 1 : axis),
               1);
  return {shape, x.values};
}

inline std::int64_t wrap_index(double index, std::int64_t size) {
  const auto i = static_cast<std::int64_t>(index);
  return i < 0 ? i + size : i;
}

// NumPy's matmul: 1-D operands gain an axis that the result loses; leading axes broadcast.
inline Array matmul(const Array& a, const Array& b) {
  const Array left = a.shape.size() == 1 ? Array{{1, a.shape[0]}, a.values} : a;
  const Array right = b.shape.size() == 1 ? Array{{b.shape[0], 1}, b.values} : b;
  const Shape batch = broadcast(Shape(left.shape.begin(), left.shape.end() - 2),
                                Shape(right.shape.begin(), right.shape.end() - 2));
  Shape shape = batch;
  shape.push_back(left.size(-2));
  shape.push_back(right.size(-1));
  auto result = generate(shape, [&](const Position& p) {
    Wide total = 0;
    Position l = p, r = p;
    for (std::int64_t k = 0; k < left.size(-1); ++k) {
      l[l.size() - 1] = k;
      r[r.size() - 2] = k;
      Position own_l(l.end() - static_cast<std::ptrdiff_t>(left.shape.size()), l.end());
      Position own_r(r.end() - static_cast<std::ptrdiff_t>(right.shape.size()), r.end());
      for (std::size_t i = 0; i + 2 < own_l.size(); ++i)
        if (left.shape[i] == 1) own_l[i] = 0;
      for (std::size_t i = 0; i + 2 < own_r.size(); ++i)
        if (right.shape[i] == 1) own_r[i] = 0;
      total += static_cast<Wide>(left.at(own_l)) * right.at(own_r);
    }
    return total;
  });
  if (b.shape.size() == 1) result.shape.erase(result.shape.size() - 1);
  if (a.shape.size() == 1) result.shape.erase(result.shape.size() - (b.shape.size() == 1 ? 1 : 2));
  return result;
}

}  // namespace hearth::reference
