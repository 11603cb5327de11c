// Initial values of parameters. Every function returns a new tensor; to initialise again:
// p.assign(init::...(p.shape())).
#pragma once

#include "hearth/random.h"
#include "hearth/tensor.h"

namespace hearth::init {

// "fan in" of a weight (out, in, kernel...) is in * kernel size, "fan out" is out * kernel size.
enum class Fan { in, out };
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };

// The factor by which a layer followed by this nonlinearity should be scaled. `slope` is leaky_relu's.
double gain(Nonlinearity nonlinearity, double slope = 0.01);

Tensor zeros(const Shape& shape, DType dtype = DType::f32);
Tensor ones(const Shape& shape, DType dtype = DType::f32);
Tensor constant(const Shape& shape, double value, DType dtype = DType::f32);
Tensor uniform(const Shape& shape, double low = 0.0, double high = 1.0, DType dtype = DType::f32,
               Generator& generator = default_generator());
Tensor normal(const Shape& shape, double mean = 0.0, double deviation = 1.0, DType dtype = DType::f32,
              Generator& generator = default_generator());
// The normal distribution given that the value lies in [low, high].
Tensor truncated_normal(const Shape& shape, double mean = 0.0, double deviation = 1.0, double low = -2.0,
                        double high = 2.0, DType dtype = DType::f32,
                        Generator& generator = default_generator());

// Glorot: variance gain^2 * 2 / (fan in + fan out).
Tensor xavier_uniform(const Shape& shape, double gain = 1.0, DType dtype = DType::f32,
                      Generator& generator = default_generator());
Tensor xavier_normal(const Shape& shape, double gain = 1.0, DType dtype = DType::f32,
                     Generator& generator = default_generator());

// He: variance gain^2 / fan.
struct KaimingOptions {
  double slope = 0.0;  // of leaky_relu
  Fan fan = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& options = {}, DType dtype = DType::f32,
                       Generator& generator = default_generator());
Tensor kaiming_normal(const Shape& shape, const KaimingOptions& options = {}, DType dtype = DType::f32,
                      Generator& generator = default_generator());

// gain * a matrix (size of axis 0, product of the others) with orthonormal rows or columns, whichever are
// fewer.
Tensor orthogonal(const Shape& shape, double gain = 1.0, DType dtype = DType::f32,
                  Generator& generator = default_generator());

// Number of inputs or outputs of one unit of a weight (out, in, kernel...). Throws ShapeError below two axes.
double fan_size(const Shape& shape, Fan fan);

}  // namespace hearth::init
