#include "llm/score_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "hearth/grad.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth::llm {

ScoreRows::ScoreRows(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::size_t ScoreRows::size() const { return state_ ? state_->rows() : 0; }

std::span<const float> ScoreRows::operator[](std::size_t row) const {
  state_->bring({&row, 1}, {});
  return state_->brought(row);
}

ScoreRows::State::State(std::shared_ptr<float> values, std::size_t rows, std::size_t width)
    : values_(std::move(values)), rows_(rows), width_(width) {}

ScoreRows::State::State(const Tensor& scores)
    : rows_(static_cast<std::size_t>(scores.size(0))), width_(static_cast<std::size_t>(scores.size(1))) {
  const auto elements = std::make_shared<const HostElements>(scores);
  values_ = {elements, const_cast<float*>(elements->as<float>())};  // which nobody brings anything to
}

ScoreRows::State::State(std::shared_ptr<float> values, Tensor scores, const Tensor& best,
                        Compiled::Function pick)
    : values_(std::move(values)),
      rows_(static_cast<std::size_t>(scores.size(0))),
      width_(static_cast<std::size_t>(scores.size(1))),
      blocks_(static_cast<std::size_t>(best.size(1))),
      scores_(std::move(scores)),
      pick_(std::move(pick)),
      has_rows_(rows_, false) {
  read_elements(best, std::as_writable_bytes(std::span(values_.get() + rows_ * width_, rows_ * blocks_)));
}

void ScoreRows::State::bring(std::span<const std::size_t> rows, std::span<const Place> places) {
  if (blocks_ == 0) return;
  const std::lock_guard lock(mutex_);
  const NoGrad no_gradients;
  const DeviceScope here(scores_.device());
  std::vector<std::size_t> missing;
  for (const std::size_t row : rows)
    if (!has_rows_[row]) missing.push_back(row);
  if (2 * missing.size() > rows_) {
    read_elements(scores_, std::as_writable_bytes(std::span(values_.get(), rows_ * width_)));
    has_rows_.assign(rows_, true);
  } else {
    for (const std::size_t row : missing) {
      read_elements(narrow(scores_, 0, static_cast<std::int64_t>(row), 1),
                    std::as_writable_bytes(std::span(values_.get() + row * width_, width_)));
      has_rows_[row] = true;
    }
  }
  std::vector<Place> left;
  for (const Place& place : places)
    if (!has_rows_[place.row]) left.push_back(place);
  if (!left.empty()) bring_blocks(left);
}

void ScoreRows::State::bring_blocks(std::span<const Place> places) {
  // A power of two of them: plans are for one size.
  std::vector<std::int64_t> numbers(std::bit_ceil(places.size()), 0);
  for (std::size_t i = 0; i < places.size(); ++i)
    numbers[i] = static_cast<std::int64_t>(places[i].row * blocks_ + places[i].block);
  const Tensor indices = from_host(std::as_bytes(std::span(numbers)),
                                   {static_cast<std::int64_t>(numbers.size())}, DType::i64, scores_.device());
  const std::vector<float> picked = pick_({scores_, indices})[0].to_vector<float>();
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(values_.get() + places[i].row * width_ + places[i].block * block_size(),
                picked.data() + i * block_size(), block_size() * sizeof(float));
}

std::int64_t score_block(std::int64_t width) {
  for (const std::int64_t size : {128, 64, 32})
    if (width % size == 0) return size;
  return 0;
}

Tensor best_of_blocks(const Tensor& scores, std::int64_t size) {
  return max(reshape(scores, {scores.size(0), -1, size}), {2});
}

Compiled::Function pick_blocks() {
  Compiled pick = compile([](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{take(reshape(in[0], {-1, score_block(in[0].size(1))}), in[1])};
  });
  return [pick, mutex = std::make_shared<std::mutex>()](const std::vector<Tensor>& in) mutable {
    const std::lock_guard lock(*mutex);
    return pick(in);
  };
}

}  // namespace hearth::llm
