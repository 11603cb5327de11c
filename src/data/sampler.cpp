// Random streams and the order of samples.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "hearth/data.h"
#include "hearth/error.h"

namespace hearth::data {
namespace {

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void check_count(std::int64_t count, const char* sampler) {
  if (count < 0) throw ValueError(fmt::format("[{}] count {} is negative", sampler, count));
}

// The random numbers that order an epoch; apart from those of its samples.
SampleRandom order_random(std::uint64_t seed, std::uint64_t epoch) {
  return SampleRandom(combine_streams(combine_streams(seed, epoch), 0x6f72646572u));
}

}  // namespace

std::uint64_t combine_streams(std::uint64_t a, std::uint64_t b) {
  return mix(mix(a + golden) ^ (b + golden));
}

std::uint64_t SampleRandom::bits() { return mix(state_ += golden); }

double SampleRandom::uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

double SampleRandom::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::int64_t SampleRandom::below(std::int64_t count) {
  if (count < 1) throw ValueError(fmt::format("[SampleRandom] below({})", count));
  // Rejects the numbers of the last, incomplete run of `count`.
  const auto range = static_cast<std::uint64_t>(count);
  const std::uint64_t limit = (0 - range) % range;
  std::uint64_t drawn = bits();
  while (drawn < limit) drawn = bits();
  return static_cast<std::int64_t>(drawn % range);
}

SequentialSampler::SequentialSampler(std::int64_t count) : count_(count) {
  check_count(count, "SequentialSampler");
}

std::vector<std::int64_t> SequentialSampler::order(std::uint64_t, std::uint64_t) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count_));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

RandomSampler::RandomSampler(std::int64_t count) : count_(count), samples_(count), replacement_(false) {
  check_count(count, "RandomSampler");
}

RandomSampler::RandomSampler(std::int64_t count, std::int64_t samples)
    : count_(count), samples_(samples), replacement_(true) {
  check_count(samples, "RandomSampler");
  if (count < 1) throw ValueError("[RandomSampler] cannot draw from an empty data set");
}

std::vector<std::int64_t> RandomSampler::order(std::uint64_t seed, std::uint64_t epoch) const {
  SampleRandom random = order_random(seed, epoch);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(samples_));
  if (replacement_) {
    for (std::int64_t& index : indices) index = random.below(count_);
    return indices;
  }
  std::iota(indices.begin(), indices.end(), 0);
  for (std::size_t i = indices.size(); i > 1; --i)
    std::swap(indices[i - 1], indices[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  return indices;
}

WeightedSampler::WeightedSampler(std::vector<double> weights, std::int64_t samples, bool replacement)
    : weights_(std::move(weights)), samples_(samples), replacement_(replacement) {
  check_count(samples, "WeightedSampler");
  double sum = 0;
  std::int64_t positive = 0;
  for (const double weight : weights_) {
    if (!(weight >= 0) || std::isinf(weight))
      throw ValueError(fmt::format("[WeightedSampler] weight {} is not a number >= 0", weight));
    sum += weight;
    positive += weight > 0;
  }
  if (!(sum > 0)) throw ValueError("[WeightedSampler] the weights add up to zero");
  if (!replacement && positive < samples)
    throw ValueError(fmt::format("[WeightedSampler] {} samples without replacement from {} positive weights",
                                 samples, positive));
}

std::vector<std::int64_t> WeightedSampler::order(std::uint64_t seed, std::uint64_t epoch) const {
  SampleRandom random = order_random(seed, epoch);
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(samples_));
  if (replacement_) {
    std::vector<double> cumulative(weights_.size());
    std::partial_sum(weights_.begin(), weights_.end(), cumulative.begin());
    for (std::int64_t i = 0; i < samples_; ++i) {
      const double at = random.uniform() * cumulative.back();
      auto found = std::upper_bound(cumulative.begin(), cumulative.end(), at);
      // Rounding can put `at` on the very end: take the last index that has a weight.
      if (found == cumulative.end())
        found = std::lower_bound(cumulative.begin(), cumulative.end(), cumulative.back());
      indices.push_back(found - cumulative.begin());
    }
    return indices;
  }
  // Efraimidis and Spirakis: the largest log(u) / weight are a weighted draw without replacement, in order.
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double u = 1.0 - random.uniform();
    if (weights_[i] > 0) keys.emplace_back(-std::log(u) / weights_[i], static_cast<std::int64_t>(i));
  }
  std::sort(keys.begin(), keys.end());
  for (std::int64_t i = 0; i < samples_; ++i) indices.push_back(keys[static_cast<std::size_t>(i)].second);
  return indices;
}

ShardSampler::ShardSampler(SamplerPtr sampler, std::int64_t rank, std::int64_t count)
    : sampler_(std::move(sampler)), rank_(rank), count_(count) {
  if (count < 1 || rank < 0 || rank >= count)
    throw ValueError(fmt::format("[ShardSampler] rank {} of {}", rank, count));
}

std::int64_t ShardSampler::size() const { return (sampler_->size() + count_ - 1) / count_; }

std::vector<std::int64_t> ShardSampler::order(std::uint64_t seed, std::uint64_t epoch) const {
  const std::vector<std::int64_t> whole = sampler_->order(seed, epoch);
  std::vector<std::int64_t> share;
  for (std::int64_t i = 0; i < size(); ++i)
    share.push_back(whole[static_cast<std::size_t>(i * count_ + rank_) % whole.size()]);
  return share;
}

BatchSampler::BatchSampler(SamplerPtr sampler, std::int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  if (batch_size < 1)
    throw ValueError(fmt::format("[BatchSampler] batch size {} is not positive", batch_size));
}

std::int64_t BatchSampler::size() const {
  const std::int64_t samples = sampler_->size();
  return samples / batch_size_ + (!drop_last_ && samples % batch_size_ != 0 ? 1 : 0);
}

std::vector<std::vector<std::int64_t>> BatchSampler::batches(std::uint64_t seed, std::uint64_t epoch) const {
  const std::vector<std::int64_t> order = sampler_->order(seed, epoch);
  std::vector<std::vector<std::int64_t>> result;
  const auto total = static_cast<std::int64_t>(order.size());
  for (std::int64_t first = 0, last = 0; first < total; first = last) {
    last = first + std::min(batch_size_, total - first);
    if (drop_last_ && last - first < batch_size_) break;
    result.emplace_back(order.begin() + first, order.begin() + last);
  }
  return result;
}

}  // namespace hearth::data
