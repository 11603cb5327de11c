// A thread that keeps a few batches ahead.
#include "hrm/example_stream.h"

#include "base/thread_pool.h"

namespace hearth::hrm {
namespace {
constexpr std::size_t batches_ahead = 3;
}

ExampleStream::ExampleStream(std::shared_ptr<const ExampleSource> source, std::int64_t batch,
                             std::int64_t length, std::int64_t first)
    : source_(std::move(source)), batch_(batch), length_(length), device_(default_device()) {
  thread_ = std::thread([this, first] { work(first); });
}

ExampleStream::~ExampleStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

ExampleStream::Prepared ExampleStream::prepare(std::int64_t step) const {
  const auto length = static_cast<std::size_t>(length_);
  const auto rows = static_cast<std::size_t>(batch_);
  std::vector<std::int32_t> tokens(rows * length), labels(rows * length), puzzles(rows);
  // Worth threads of their own only where rows are many.
  parallel_for(batch_, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto at = static_cast<std::size_t>(row);
      source_->fill(step, row, std::span(tokens).subspan(at * length, length),
                    std::span(labels).subspan(at * length, length), puzzles[at]);
    }
  });
  const DeviceScope on_host{Device{}};
  return {Transfer(tensor(tokens, {batch_, length_}), device_),
          Transfer(tensor(labels, {batch_, length_}), device_), Transfer(tensor(puzzles), device_)};
}

void ExampleStream::work(std::int64_t first) {
  try {
    for (std::int64_t step = first;; ++step) {
      Prepared prepared = prepare(step);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || ready_.size() < batches_ahead; });
      if (stop_) return;
      ready_.push_back(std::move(prepared));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

Examples ExampleStream::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || !ready_.empty(); });
  if (ready_.empty()) std::rethrow_exception(error_);
  Prepared prepared = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  lock.unlock();
  return {prepared.tokens.get(), prepared.labels.get(), prepared.puzzles.get()};
}

}  // namespace hearth::hrm
