// Random tensors. Counter-based (Philox 4x32-10): for the same seed the numbers are the same on every device
// and for every thread count.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "hearth/tensor.h"

namespace hearth {

// A stream of random numbers: a seed and how many blocks have been drawn. Safe from any thread.
class Generator {
 public:
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t offset = 0;
  };

  explicit Generator(std::uint64_t seed) : stream_(std::make_shared<Stream>(State{seed, 0})) {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  State state() const { return stream_->state(); }
  void set_state(State state) { stream_->set_state(state); }
  void seed(std::uint64_t seed) { set_state({seed, 0}); }
  // Draws `count` blocks of four 32-bit numbers; returns the state before.
  State reserve(std::uint64_t count) { return stream_->reserve(count); }

  // What a compiled function keeps of a generator, which may go away before it.
  class Stream {
   public:
    explicit Stream(State state) : state_(state) {}
    State state() const;
    void set_state(State state);
    State reserve(std::uint64_t count);

   private:
    mutable std::mutex mutex_;
    State state_;
  };
  const std::shared_ptr<Stream>& stream() const { return stream_; }

 private:
  std::shared_ptr<Stream> stream_;
};

// The generator used where none is given. Seeded with 0 at start.
Generator& default_generator();
void manual_seed(std::uint64_t seed);

Tensor rand(const Shape& shape, DType dtype = DType::f32,
            Generator& generator = default_generator());  // [0, 1)
Tensor randn(const Shape& shape, DType dtype = DType::f32,
             Generator& generator = default_generator());  // normal
Tensor uniform(const Shape& shape, double low, double high, DType dtype = DType::f32,
               Generator& generator = default_generator());
Tensor normal(const Shape& shape, double mean, double deviation, DType dtype = DType::f32,
              Generator& generator = default_generator());
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::i64,
               Generator& generator = default_generator());  // [low, high)
Tensor bernoulli(const Shape& shape, double p, DType dtype = DType::bool_,
                 Generator& generator = default_generator());
Tensor randperm(std::int64_t count, Generator& generator = default_generator());  // i64
// Normal with mean 0 cut to +-2 deviations, as initialisers use.
Tensor truncated_normal(const Shape& shape, double deviation, DType dtype = DType::f32,
                        Generator& generator = default_generator());
// Indices drawn with the given weights (last axis), with replacement: shape (..., count).
Tensor multinomial(const Tensor& weights, std::int64_t count, Generator& generator = default_generator());

}  // namespace hearth
