#include "llm/sampler_guess.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hearth/ops.h"

namespace hearth::llm {
namespace {

constexpr std::int64_t settings_of_row = 3;
constexpr float never = std::numeric_limits<float>::lowest();  // a number: strict validation takes no others

template <class T>
Tensor on_device(const std::vector<T>& values, const Shape& shape, DType dtype, Device device) {
  return from_host(std::as_bytes(std::span(values)), shape, dtype, device);
}

}  // namespace

Sampler::Foresight Sampler::foresight() const {
  const SamplingOptions& o = options_;
  if (o.temperature == 0) return {1, 0, false, random_};
  constexpr double most_scale = 1e30;  // that does not overflow
  const double least = o.mirostat == 0 && o.min_p > 0 ? std::log(o.min_p) : never;
  return {std::min(1 / o.temperature, most_scale), least, true, random_};
}

SamplerGuess::SamplerGuess(std::size_t rows, Device device) : settings_now_(rows * settings_of_row) {
  const auto count = static_cast<std::int64_t>(rows);
  settings_ = on_device(settings_now_, {count, settings_of_row}, DType::f32, device);
  for (std::size_t i = 0; i < random_.size(); ++i) {
    random_now_[i].assign(rows, 0);
    random_[i] = on_device(random_now_[i], {count, 1}, DType::i64, device);
  }
}

void SamplerGuess::follow(std::span<const Sampler* const> samplers, std::size_t ahead) {
  std::vector<float> settings;
  Random random, after;
  for (const Sampler* sampler : samplers) {
    Sampler::Foresight foresight = sampler->foresight();
    settings.push_back(static_cast<float>(foresight.scale));
    settings.push_back(static_cast<float>(foresight.least));
    settings.push_back(foresight.draws ? 1.0f : 0.0f);
    const auto put = [&](Random& into) {
      for (std::size_t i = 0; i < into.size(); ++i)
        into[i].push_back(static_cast<std::int64_t>(foresight.random[i]));
    };
    for (std::size_t i = 0; i < ahead; ++i) next_random(foresight.random);
    put(random);
    next_random(foresight.random);
    put(after);
  }
  if (settings != settings_now_) {
    overwrite(settings_, std::as_bytes(std::span(settings)));
    settings_now_ = std::move(settings);
  }
  if (random != random_now_)
    for (std::size_t i = 0; i < random.size(); ++i)
      overwrite(random_[i], std::as_bytes(std::span(random[i])));
  random_now_ = std::move(after);
}

// As Sampler::choose() does it: the best sum of a score and of noise of Gumbel's distribution.
Tensor SamplerGuess::tokens(const Tensor& scores, const Tensor& best) {
  const auto setting = [&](std::int64_t which) { return narrow(settings_, 1, which, 1); };
  const Tensor scale = setting(0), least = setting(1), draws = setting(2);
  RandomState<Tensor> random = random_;
  const Tensor draw = next_random(random);
  for (std::size_t i = 0; i < random.size(); ++i) random_[i].assign(random[i]);

  // 1 - u of 53 bits, which in f32 is exact where the noise is large.
  const Tensor token = unsqueeze(arange(scores.size(1)), 0);
  const Tensor bits = shifted_right(bits_of_token(draw, token), 11);
  const Tensor beyond =
      (bits_of<Tensor>((std::uint64_t{1} << 53) - 1) - bits).to(DType::f32) * 0x1p-53 + 0x1p-54;
  const Tensor noise = -log(-log1p(-minimum(beyond, full({}, 1 - 0x1p-24))));
  const Tensor top = take_along(scores, unsqueeze(best, 1), 1);
  const Tensor relative = (scores - top) * scale;
  const Tensor noisy = where(relative >= least, relative + noise * draws, full({}, never));
  return where(squeeze(top, {1}) > never, argmax(noisy, 1), full({}, -1, DType::i64));
}

}  // namespace hearth::llm
