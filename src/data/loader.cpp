// DataLoader: batches in a fixed order, prepared ahead by threads.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "hearth/data.h"
#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/transfer.h"

namespace hearth::data {
namespace {

// Keeps signals away from the threads started while it lives, so that handlers run in the program's own
// threads.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

// A batch, or the copies of its fields that are on their way to a device.
struct Prepared {
  Batch batch;
  std::vector<Transfer> transfers;

  Batch finish() && {
    for (Transfer& transfer : transfers) batch.push_back(transfer.get());
    return std::move(batch);
  }
};

// Threads that prepare batches first, first + 1, ... up to `end`, at most `ahead` beyond the one wanted next.
//
// Workers take batch numbers in order and put results under their number; the consumer waits for its own
// number. So which worker prepared a batch, and when, cannot be seen from outside.
class Pipeline {
 public:
  using Prepare = std::function<Prepared(std::int64_t)>;

  Pipeline(std::int64_t first, std::int64_t end, int workers, std::int64_t ahead, Prepare prepare)
      : prepare_(std::move(prepare)), wanted_(first), untaken_(first), end_(end), ahead_(ahead) {
    const BlockSignals guard;
    try {
      for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // the system has no more threads: those that did start must not outlive this
      stop();
      throw;
    }
  }

  ~Pipeline() { stop(); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The next batch in order.
  Batch take() {
    std::unique_lock lock(mutex_);
    result_ready_.wait(lock, [&] { return results_.contains(wanted_); });
    auto node = results_.extract(wanted_++);
    room_.notify_all();
    lock.unlock();
    if (node.mapped().error) std::rethrow_exception(node.mapped().error);
    return std::move(node.mapped().prepared).finish();
  }

 private:
  struct Result {
    Prepared prepared;
    std::exception_ptr error;
  };

  void work() {
    const NoGrad no_grad;
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] { return stopping_ || untaken_ >= end_ || untaken_ < wanted_ + ahead_; });
      if (stopping_ || untaken_ >= end_) return;
      const std::int64_t number = untaken_++;
      lock.unlock();
      Result result;
      try {
        result.prepared = prepare_(number);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      results_.emplace(number, std::move(result));
      result_ready_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const Prepare prepare_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable result_ready_;
  std::unordered_map<std::int64_t, Result> results_;
  std::int64_t wanted_;   // the consumer's next number
  std::int64_t untaken_;  // the workers' next number
  const std::int64_t end_, ahead_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

struct DataLoader::Impl {
  DatasetPtr dataset;
  DataLoaderOptions options;
  std::uint64_t epoch = 0;
  std::int64_t position = 0;
  std::vector<std::vector<std::int64_t>> batches;  // of this epoch; made when its first batch is asked for
  std::vector<std::int64_t> first_sample;          // position in the epoch of each batch's first sample
  bool planned = false;
  std::unique_ptr<Pipeline> pipeline;  // last: its threads use the members above

  std::int64_t size() const { return options.batch_sampler->size(); }

  void plan() {
    batches = options.batch_sampler->batches(options.seed, epoch);
    if (static_cast<std::int64_t>(batches.size()) != size())
      throw ValueError(fmt::format("[DataLoader] the batch sampler announced {} batches and made {}", size(),
                                   batches.size()));
    first_sample.clear();
    std::int64_t samples = 0;
    for (const auto& batch : batches) {
      first_sample.push_back(samples);
      samples += static_cast<std::int64_t>(batch.size());
    }
    planned = true;
  }

  void forget_plan() {
    pipeline.reset();
    planned = false;
  }

  Prepared prepare(std::int64_t number) const {
    Prepared prepared{host_batch(number), {}};
    if (!options.device) return prepared;
    for (const Tensor& field : prepared.batch) prepared.transfers.emplace_back(field, *options.device);
    prepared.batch.clear();
    return prepared;
  }

  Batch host_batch(std::int64_t number) const {
    const DeviceScope host{Device{}};
    const auto n = static_cast<std::size_t>(number);
    const std::uint64_t epoch_stream = combine_streams(options.seed, epoch);
    std::vector<Draw> draws;
    draws.reserve(batches[n].size());
    for (std::size_t i = 0; i < batches[n].size(); ++i)
      draws.emplace_back(batches[n][i],
                         combine_streams(epoch_stream, static_cast<std::uint64_t>(first_sample[n]) + i));
    if (!options.collate) return dataset->get_batch(draws);
    std::vector<Sample> samples;
    samples.reserve(draws.size());
    for (const Draw& draw : draws) samples.push_back(dataset->get(draw));
    return options.collate(samples);
  }
};

DataLoader::DataLoader(DatasetPtr dataset, DataLoaderOptions options) : impl_(std::make_unique<Impl>()) {
  if (!dataset) throw ValueError("[DataLoader] no data set");
  if (options.workers < 0 || options.workers > 1024)
    throw ValueError(fmt::format("[DataLoader] {} workers; 0 to 1024 are allowed", options.workers));
  if (options.prefetch_factor < 1)
    throw ValueError(fmt::format("[DataLoader] prefetch_factor {} is not positive", options.prefetch_factor));
  if (options.sampler && options.shuffle)
    throw ValueError("[DataLoader] both a sampler and shuffle; a sampler decides the order alone");
  if (!options.sampler) {
    if (options.shuffle)
      options.sampler = std::make_shared<RandomSampler>(dataset->size());
    else
      options.sampler = std::make_shared<SequentialSampler>(dataset->size());
  }
  if (!options.batch_sampler)
    options.batch_sampler =
        std::make_shared<BatchSampler>(options.sampler, options.batch_size, options.drop_last);
  impl_->dataset = std::move(dataset);
  impl_->options = std::move(options);
}

DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

const Dataset& DataLoader::dataset() const { return *impl_->dataset; }
std::int64_t DataLoader::size() const { return impl_->size(); }
std::uint64_t DataLoader::epoch() const { return impl_->epoch; }
std::int64_t DataLoader::position() const { return impl_->position; }

std::optional<Batch> DataLoader::next() {
  Impl& loader = *impl_;
  if (loader.position >= loader.size()) {
    loader.forget_plan();
    loader.position = 0;
    ++loader.epoch;
    return std::nullopt;
  }
  if (!loader.planned) loader.plan();
  Batch batch;
  if (loader.options.workers == 0) {
    const NoGrad no_grad;
    batch = loader.prepare(loader.position).finish();
  } else {
    if (!loader.pipeline) {
      const int workers = loader.options.workers;
      const std::int64_t ahead = static_cast<std::int64_t>(workers) * loader.options.prefetch_factor;
      loader.pipeline =
          std::make_unique<Pipeline>(loader.position, loader.size(), workers, ahead,
                                     [&loader](std::int64_t number) { return loader.prepare(number); });
    }
    try {
      batch = loader.pipeline->take();
    } catch (...) {
      loader.pipeline.reset();
      throw;
    }
  }
  ++loader.position;
  return batch;
}

void DataLoader::restart() {
  impl_->forget_plan();
  impl_->position = 0;
}

DataLoaderState DataLoader::state_dict() const {
  return {impl_->options.seed, impl_->epoch, impl_->position, impl_->size()};
}

void DataLoader::load_state_dict(const DataLoaderState& state) {
  if (state.batches != size() || state.position < 0 || state.position > size())
    throw ValueError(fmt::format("[DataLoader] the state is of a loader at batch {} of {}; this one has {}",
                                 state.position, state.batches, size()));
  impl_->forget_plan();
  impl_->options.seed = state.seed;
  impl_->epoch = state.epoch;
  impl_->position = state.position;
}

}  // namespace hearth::data
