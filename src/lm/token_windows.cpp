// Windows of tokens.
#include "lm/token_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/host_array.h"
#include "hearth/error.h"

namespace hearth::lm {
namespace {

// A window of length + 1 tokens of a list.
struct Window {
  const Tensor* tokens;
  std::int64_t start;
};

class Windows : public data::Dataset {
 public:
  Windows(std::int64_t length, std::int64_t count) : length_(length), count_(count) {}
  std::int64_t size() const override { return count_; }

  data::Sample get(data::Draw draw) const override {
    data::Batch batch = get_batch(std::span(&draw, 1));
    for (Tensor& field : batch) field = field.reshape({length_}).eval();
    return batch;
  }

  data::Batch get_batch(std::span<const data::Draw> draws) const override {
    const Shape shape{static_cast<std::int64_t>(draws.size()), length_};
    std::vector<std::int64_t> inputs, targets;
    inputs.reserve(static_cast<std::size_t>(element_count(shape)));
    targets.reserve(inputs.capacity());
    for (const data::Draw& draw : draws) {
      if (draw.index < 0 || draw.index >= count_)
        throw IndexError(fmt::format("[windows] {} of {}", draw.index, count_));
      const Window window = find(draw);
      data::with_element_type(window.tokens->dtype(), [&]<typename T>(T) {
        if constexpr (std::is_integral_v<T>) {
          const auto all = window.tokens->data<T>();
          const auto from = all.begin() + window.start;
          inputs.insert(inputs.end(), from, from + length_);
          targets.insert(targets.end(), from + 1, from + length_ + 1);
        }
      });
    }
    const DeviceScope host{Device{}};
    return {tensor(inputs, shape), tensor(targets, shape)};
  }

 protected:
  virtual Window find(const data::Draw& draw) const = 0;
  std::int64_t length_, count_;
};

class RandomWindows : public Windows {
 public:
  RandomWindows(const CorpusTokens& tokens, std::int64_t length, std::int64_t count)
      : Windows(length, count), sources_(tokens.sources) {
    double sum = 0;
    for (const auto& source : sources_) {
      if (source.training.numel() <= length)
        throw ValueError(fmt::format("[windows] {} has {} tokens to train on; sequences of {} need more",
                                     source.name, source.training.numel(), length));
      ends_.push_back(sum += source.weight * static_cast<double>(source.training.numel()));
    }
  }

 private:
  Window find(const data::Draw& draw) const override {
    data::SampleRandom random(draw.stream);
    const double place = random.uniform() * ends_.back();
    const auto found = std::upper_bound(ends_.begin(), ends_.end() - 1, place) - ends_.begin();
    const Tensor& tokens = sources_[static_cast<std::size_t>(found)].training;
    return {&tokens, random.below(tokens.numel() - length_)};
  }

  std::vector<SourceTokens> sources_;
  std::vector<double> ends_;  // of the sources, in tokens times weight
};

class ConsecutiveWindows : public Windows {
 public:
  ConsecutiveWindows(const SourceTokens& source, std::int64_t length)
      : Windows(length, std::max<std::int64_t>(0, (source.validation.numel() - 1) / length)),
        tokens_(source.validation) {}

 private:
  Window find(const data::Draw& draw) const override { return {&tokens_, draw.index * length_}; }
  Tensor tokens_;
};

}  // namespace

data::DatasetPtr random_windows(const CorpusTokens& tokens, std::int64_t length, std::int64_t count) {
  return std::make_shared<RandomWindows>(tokens, length, count);
}

data::DatasetPtr validation_windows(const SourceTokens& source, std::int64_t length) {
  auto windows = std::make_shared<ConsecutiveWindows>(source, length);
  return windows->size() > 0 ? windows : nullptr;
}

data::DatasetPtr validation_windows(const CorpusTokens& tokens, std::int64_t length) {
  std::vector<data::DatasetPtr> parts;
  for (const auto& source : tokens.sources)
    if (auto windows = validation_windows(source, length)) parts.push_back(std::move(windows));
  return parts.empty() ? nullptr : std::make_shared<data::Concat>(std::move(parts));
}

}  // namespace hearth::lm
