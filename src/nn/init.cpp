// Initial values of parameters.
#include "hearth/init.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "hearth/error.h"
#include "hearth/ops.h"

namespace hearth::init {

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1.0;
    case Nonlinearity::tanh:
      return 5.0 / 3.0;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2.0 / (1.0 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  throw ValueError("[gain] unknown nonlinearity");
}

double fan_size(const Shape& shape, Fan fan) {
  if (shape.size() < 2) {
    throw ShapeError("[init] fan in and fan out need at least two axes, got " + to_string(shape));
  }
  const auto kernel =
      std::accumulate(shape.begin() + 2, shape.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
  return static_cast<double>(shape[fan == Fan::in ? 1 : 0] * kernel);
}

Tensor zeros(const Shape& shape, DType dtype) { return hearth::zeros(shape, dtype); }

Tensor ones(const Shape& shape, DType dtype) { return hearth::ones(shape, dtype); }

Tensor constant(const Shape& shape, double value, DType dtype) { return full(shape, value, dtype); }

Tensor uniform(const Shape& shape, double low, double high, DType dtype, Generator& generator) {
  return hearth::uniform(shape, low, high, dtype, generator);
}

Tensor normal(const Shape& shape, double mean, double deviation, DType dtype, Generator& generator) {
  return hearth::normal(shape, mean, deviation, dtype, generator);
}

Tensor truncated_normal(const Shape& shape, double mean, double deviation, double low, double high,
                        DType dtype, Generator& generator) {
  if (!(low < high) || !(deviation > 0)) {
    throw ValueError("[truncated_normal] needs low < high and deviation > 0, got low " + std::to_string(low) +
                     ", high " + std::to_string(high) + ", deviation " + std::to_string(deviation));
  }
  // The inverse of the normal distribution function, applied to a uniform number between its values at the
  // bounds.
  const auto scaled = [&](double bound) { return std::erf((bound - mean) / (deviation * std::sqrt(2.0))); };
  const Tensor u = hearth::uniform(shape, scaled(low), scaled(high), DType::f32, generator);
  return clamp(erfinv(u) * (deviation * std::sqrt(2.0)) + mean, low, high).to(dtype);
}

namespace {
// A uniform distribution on [-bound, bound] has the variance bound^2 / 3.
Tensor uniform_of_deviation(const Shape& shape, double deviation, DType dtype, Generator& generator) {
  const double bound = std::sqrt(3.0) * deviation;
  return hearth::uniform(shape, -bound, bound, dtype, generator);
}

double xavier_deviation(const Shape& shape, double gain) {
  return gain * std::sqrt(2.0 / (fan_size(shape, Fan::in) + fan_size(shape, Fan::out)));
}

double kaiming_deviation(const Shape& shape, const KaimingOptions& options) {
  return gain(options.nonlinearity, options.slope) / std::sqrt(fan_size(shape, options.fan));
}
}  // namespace

Tensor xavier_uniform(const Shape& shape, double gain, DType dtype, Generator& generator) {
  return uniform_of_deviation(shape, xavier_deviation(shape, gain), dtype, generator);
}

Tensor xavier_normal(const Shape& shape, double gain, DType dtype, Generator& generator) {
  return hearth::normal(shape, 0.0, xavier_deviation(shape, gain), dtype, generator);
}

Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& options, DType dtype, Generator& generator) {
  return uniform_of_deviation(shape, kaiming_deviation(shape, options), dtype, generator);
}

Tensor kaiming_normal(const Shape& shape, const KaimingOptions& options, DType dtype, Generator& generator) {
  return hearth::normal(shape, 0.0, kaiming_deviation(shape, options), dtype, generator);
}

Tensor orthogonal(const Shape& shape, double gain, DType dtype, Generator& generator) {
  if (shape.size() < 2) throw ShapeError("[orthogonal] needs at least two axes, got " + to_string(shape));
  const auto rows = static_cast<std::size_t>(shape[0]);
  const auto columns = rows == 0 ? 0 : static_cast<std::size_t>(element_count(shape)) / rows;
  const std::size_t count = std::min(rows, columns), length = std::max(rows, columns);

  // QR of a normal random matrix: `count` vectors of `length`, each made orthogonal to those before it
  // (twice, which makes it so to rounding) and of length 1.
  std::vector<double> q = hearth::randn({static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)},
                                        DType::f32, generator)
                              .to_vector<double>();
  for (std::size_t i = 0; i < count; ++i) {
    double* vector = q.data() + i * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        const double* other = q.data() + j * length;
        const double projection = std::inner_product(vector, vector + length, other, 0.0);
        for (std::size_t k = 0; k < length; ++k) vector[k] -= projection * other[k];
      }
    }
    const double norm = std::sqrt(std::inner_product(vector, vector + length, vector, 0.0));
    for (std::size_t k = 0; k < length; ++k) vector[k] /= norm;
  }
  Tensor matrix = tensor(q, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(length)});
  if (rows > columns) matrix = matrix.t();
  return (matrix * gain).reshape(shape).to(dtype);
}

}  // namespace hearth::init
