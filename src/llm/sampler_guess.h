// What samplers will probably choose, computed where the scores are, so that a device can go on with it
// before the host knows. Left out are penalties, bias, top_k, typical_p, top_p and mirostat; the rest is
// computed in f32.
#pragma once

#include <span>
#include <vector>

#include "hearth/llm.h"
#include "hearth/tensor.h"
#include "llm/sampler_random.h"

namespace hearth::llm {

// What that takes to know of a sampler.
struct Sampler::Foresight {
  double scale;  // of scores
  double least;  // of scores less the best one, scaled, that can be chosen
  bool draws;    // false: the best one is chosen
  RandomState<std::uint64_t> random;
};

class SamplerGuess {
 public:
  SamplerGuess(std::size_t rows, Device device);
  // The next guesses are for these samplers, each of which chooses `ahead` tokens before. To be called before
  // each guess.
  void follow(std::span<const Sampler* const> samplers, std::size_t ahead);
  // A token for each row of scores, whose best ones are given; -1 where there is none. It changes what the
  // next one begins with: a compiled function may call it, once.
  Tensor tokens(const Tensor& scores, const Tensor& best);
  // A guess that was to follow has not been made.
  void forget() { random_now_ = {}; }

 private:
  using Random = RandomState<std::vector<std::int64_t>>;

  Tensor settings_;  // scale, least and draws of each row
  std::vector<float> settings_now_;
  RandomState<Tensor> random_;  // (rows, 1)
  Random random_now_;
};

}  // namespace hearth::llm
