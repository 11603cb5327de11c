// Examples for training steps, prepared ahead and copied to the device while it computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "hearth/hrm_train.h"
#include "hearth/transfer.h"
#include "hrm/training_step.h"

namespace hearth::hrm {

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
