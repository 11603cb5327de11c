// Examples for training steps, prepared ahead and copied to the device while it computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "hearth/transfer.h"
#include "hrm/training_step.h"

namespace hearth::hrm {

// Where examples come from: row `row` of the batch of step `step`, a pure function of the two. Called from
// several threads.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  virtual void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> labels, std::int32_t& puzzle) const = 0;
};

// Puzzles of a pool drawn at random, each time rearranged anew.
class SudokuSource : public ExampleSource {
 public:
  SudokuSource(std::vector<Puzzle> pool, std::uint64_t seed);
  void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels, std::int32_t& puzzle) const override;

 private:
  std::vector<Puzzle> pool_;
  std::uint64_t seed_;
};

class ExampleStream {
 public:
  // Batches of steps `first`, `first` + 1, ..., on the default device.
  ExampleStream(std::shared_ptr<const ExampleSource> source, std::int64_t batch, std::int64_t length,
                std::int64_t first);
  ~ExampleStream();
  ExampleStream(const ExampleStream&) = delete;
  ExampleStream& operator=(const ExampleStream&) = delete;

  // Waits for it. Rethrows what preparing it threw.
  Examples next();

 private:
  struct Prepared {
    Transfer tokens, labels, puzzles;
  };
  Prepared prepare(std::int64_t step) const;
  void work(std::int64_t first);

  std::shared_ptr<const ExampleSource> source_;
  std::int64_t batch_, length_;
  Device device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Prepared> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hearth::hrm
